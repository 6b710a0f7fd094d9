//! Folds the log into rows that can be searched: `audit-index.db`, a SQLite file that may lag and may be
//! deleted.
//!
//! One row is one call (intent and outcome), effect, administrative act or recovery. A row has what searches
//! filter by, and the places of its records in the segments; content stays in the log alone, so that a search
//! answers from what the chain protects, and the index stays small. Its own thread reads what is synced and
//! writes batches of up to [`BATCH_ROWS`] in one transaction together with the position reached, so it goes
//! on after a crash where it was; a position that the log does not confirm starts it anew. The index is never
//! synced for the sake of a call.
//!
//! A damaged place does not stop it: it goes on where `onward.rs` finds the next good record, says so in the log once,
//! and keeps a row for what is missing. An index that knows more than the log is how a folder that was emptied or put
//! back to an older copy is told ([`known`]); without an index beside it, an empty folder is a new log.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row as _, SqliteConnection, SqlitePool};
use tokio::sync::watch;

use super::error::{AuditError, StartError};
use super::fold::{Batch, Inserts, Keys, Running};
use super::folder::{Folder, create_private, remove_if_there};
use super::head::Head;
use super::onward;
use super::place::Place;
use super::progress::Progress;
use super::reader::{Link, Reader, Step, read_one};
use super::record::Sha256;

/// Rows of one transaction: beyond this the cost of a row hardly falls, and a search waits longer for the
/// batch before its own.
pub const BATCH_ROWS: usize = 2000;
/// Pages of the write-ahead log between two checkpoints: each syncs twice, on the disk that calls wait for.
const CHECKPOINT_PAGES: &str = "8000";
/// Raised with every change of the tables; an index of another version is made anew.
const VERSION: i64 = 3;

const TABLES: &str = "
CREATE TABLE position (one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, place INTEGER NOT NULL,
  last_place INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE rows (sequence INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind INTEGER NOT NULL, organization TEXT, agent TEXT,
  session TEXT, call TEXT, tool TEXT, user TEXT, principal TEXT, action TEXT, of_call INTEGER, status INTEGER, error_type TEXT, place INTEGER NOT NULL,
  close_place INTEGER, records INTEGER);
CREATE INDEX rows_by_organization ON rows (organization);
CREATE INDEX rows_by_session ON rows (session);
CREATE INDEX rows_running ON rows (sequence) WHERE status = 0;
CREATE INDEX rows_damaged ON rows (sequence) WHERE kind = 4;
CREATE TABLE spans (first_sequence INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, least_ms INTEGER NOT NULL, greatest_ms INTEGER NOT NULL);
";

/// The running index.
pub struct Index {
    pub reading: SqlitePool,
    progress: Arc<Progress>,
    reached: watch::Receiver<Reached>,
    thread: Option<JoinHandle<()>>,
}

/// How far the indexer is, and how often it failed to get further.
#[derive(Debug, Default)]
struct Reached {
    sequence: u64,
    failures: u64,
    failed: Option<AuditError>,
}

impl Index {
    /// Opens or makes the file and starts the thread.
    pub async fn start(path: &Path, folder: Folder, progress: Arc<Progress>) -> Result<Self, StartError> {
        let connection = open(path, &folder).await.map_err(|error| StartError::Index(error.to_string()))?;
        let reading = options(path).read_only(true);
        // Without idle time-outs the pool has no task that wakes up by itself.
        let pool = SqlitePoolOptions::new().max_connections(4).idle_timeout(None).max_lifetime(None);
        let (sender, reached) = watch::channel(Reached::default());
        let own_from = progress.durable().sequence;
        let mut indexer = Indexer {
            path: path.to_owned(),
            connection: Some(connection),
            folder,
            progress: progress.clone(),
            own_from,
            inserts: Inserts::default(),
            batch: Batch::default(),
            skipped: Vec::new(),
            state: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(|error| StartError::Index(error.to_string()))?;
        let thread = std::thread::Builder::new()
            .name("audit-index".into())
            .spawn(move || runtime.block_on(indexer.run(&sender)))
            .map_err(|error| StartError::Index(error.to_string()))?;
        Ok(Self { reading: pool.connect_lazy_with(reading), progress, reached, thread: Some(thread) })
    }

    /// Returns when everything up to `sequence`, which must be on disk, can be found.
    pub async fn caught_up(&self, sequence: u64) -> Result<(), AuditError> {
        if self.reached.borrow().sequence >= sequence {
            return Ok(());
        }
        let mut reached = self.reached.clone();
        let failures = reached.borrow_and_update().failures;
        self.progress.want(sequence);
        let waited =
            reached.wait_for(|reached| reached.sequence >= sequence || reached.failures > failures).await;
        match waited {
            Ok(reached) if reached.sequence >= sequence => Ok(()),
            Ok(reached) => Err(reached.failed.clone().unwrap_or(AuditError::Closed)),
            Err(_) => Err(AuditError::Closed),
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.progress.close();
        if let Some(thread) = self.thread.take() {
            // Its panic was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .disable_statement_logging()
}

/// The last record that the index knows, of whatever version and log it is. It was on disk when it was indexed.
pub async fn known(path: &Path) -> Option<Head> {
    let mut connection = options(path).connect().await.ok()?;
    let loaded = Position::load(&mut connection).await;
    let _ = connection.close().await;
    loaded.ok()?.map(|(position, _)| position)
}

/// Opens the index; one that cannot be read, or is not of this log or version, is made anew.
async fn open(path: &Path, folder: &Folder) -> Result<SqliteConnection, sqlx::Error> {
    match try_open(path, folder).await {
        Err(error) if is_unreadable(&error) => {
            tracing::warn!(event = "audit_index_rebuilt", %error, "the audit index is damaged and made anew");
            for end in ["", "-wal", "-shm"] {
                let mut name = path.as_os_str().to_owned();
                name.push(end);
                remove_if_there(&PathBuf::from(name)).map_err(sqlx::Error::Io)?;
            }
            try_open(path, folder).await
        }
        opened => opened,
    }
}

/// Damaged, not a database, or without the tables that its version should have; not one that is busy or on a
/// failing disk.
fn is_unreadable(error: &sqlx::Error) -> bool {
    const ERROR: i64 = 1;
    const CORRUPT: i64 = 11;
    const NOT_A_DATABASE: i64 = 26;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i64>().ok());
    // The low byte is the code, the others say more about it.
    code.is_some_and(|code| [ERROR, CORRUPT, NOT_A_DATABASE].contains(&(code & 0xff)))
}

async fn try_open(path: &Path, folder: &Folder) -> Result<SqliteConnection, sqlx::Error> {
    // SQLite would make it as open as the umask has it, and gives its other files the mode of this one.
    create_private(path, false).map_err(sqlx::Error::Io)?;
    let mut connection = options(path).create_if_missing(true).connect().await?;
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut connection).await?;
    if version != VERSION {
        make_tables(&mut connection).await?;
    } else if !is_of_this_log(&mut connection, folder).await? {
        tracing::warn!(
            event = "audit_index_rebuilt",
            "the audit index is not of this audit log and made anew"
        );
        make_tables(&mut connection).await?;
    }
    Ok(connection)
}

async fn make_tables(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    for table in ["position", "rows", "spans"] {
        let drop = sqlx::AssertSqlSafe(format!("DROP TABLE IF EXISTS {table}"));
        sqlx::raw_sql(drop).execute(&mut *transaction).await?;
    }
    sqlx::raw_sql(TABLES).execute(&mut *transaction).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("PRAGMA user_version = {VERSION}")))
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}

/// Whether the last record that was indexed is still the one at its place.
async fn is_of_this_log(connection: &mut SqliteConnection, folder: &Folder) -> Result<bool, sqlx::Error> {
    let Some((position, last)) = Position::load(connection).await? else { return Ok(true) };
    let found = read_one(folder, last);
    Ok(found.is_ok_and(|(header, _)| header.sequence == position.sequence && header.hash == position.hash.0))
}

/// The place behind the last record that was indexed.
type Position = Head;

impl Position {
    async fn load(connection: &mut SqliteConnection) -> Result<Option<(Self, Place)>, sqlx::Error> {
        let query = sqlx::query("SELECT sequence, place, last_place, hash FROM position");
        let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
        let (next, last) = (Place::unpacked(row.get("place")), Place::unpacked(row.get("last_place")));
        let hash = Sha256::parse(row.get("hash")).unwrap_or(Sha256([0; 32]));
        let position =
            Head { sequence: natural(row.get("sequence")), segment: next.segment, offset: next.offset, hash };
        Ok(Some((position, last)))
    }

    async fn store(&self, connection: &mut SqliteConnection, last: Place) -> Result<(), sqlx::Error> {
        let next = Place { segment: self.segment, offset: self.offset };
        sqlx::query("INSERT OR REPLACE INTO position VALUES (1, $1, $2, $3, $4)")
            .bind(integer(self.sequence))
            .bind(next.packed())
            .bind(last.packed())
            .bind(self.hash.to_string())
            .execute(connection)
            .await
            .map(drop)
    }
}

struct Indexer {
    path: PathBuf,
    /// None after a failure. SQLite undoes a transaction by itself when its disk is full; the driver then takes the
    /// connection for one still inside and nests what follows, so that it is committed to nobody but itself.
    connection: Option<SqliteConnection>,
    folder: Folder,
    progress: Arc<Progress>,
    /// Records after this one were written by this process, and are not judged again.
    own_from: u64,
    inserts: Inserts,
    batch: Batch,
    /// Damaged places of the batch, told when it is in the file.
    skipped: Vec<Skipped>,
    /// What the file says; read again after a failure.
    state: Option<Loaded>,
}

struct Loaded {
    position: Position,
    running: Running,
}

struct Skipped {
    place: Place,
    what: String,
    records: u64,
}

/// How far one segment could be read.
enum Stop {
    /// To its end, or until the batch was full.
    Good(Position),
    /// To here, and what is wrong with what comes next.
    Bad(Position, String),
}

impl Indexer {
    async fn run(&mut self, sender: &watch::Sender<Reached>) {
        while let Some(durable) = self.progress.wait(self.sequence()) {
            if let Err(error) = self.catch_up(durable, sender).await {
                tracing::error!(event = "audit_index_failed", %error, "the audit index does not get on; a search tries again");
                self.start_over().await;
                self.progress.pause();
                sender.send_modify(|reached| {
                    reached.failures += 1;
                    reached.failed = Some(error.into());
                });
            }
        }
    }

    /// The next attempt asks the file anew how far it is, through a connection of its own.
    async fn start_over(&mut self) {
        self.state = None;
        if let Some(connection) = self.connection.take() {
            let _ = connection.close().await;
        }
    }

    fn sequence(&self) -> u64 {
        self.state.as_ref().map_or(0, |state| state.position.sequence)
    }

    async fn catch_up(&mut self, durable: Head, sender: &watch::Sender<Reached>) -> Result<(), IndexError> {
        let mut state = match self.state.take() {
            Some(state) => state,
            None => load(connected(&mut self.connection, &self.path).await?).await?,
        };
        loop {
            sender.send_modify(|reached| reached.sequence = state.position.sequence);
            if state.position.sequence >= durable.sequence {
                self.state = Some(state);
                return Ok(());
            }
            self.index_batch(&mut state, durable).await?;
        }
    }

    async fn index_batch(&mut self, state: &mut Loaded, durable: Head) -> Result<(), IndexError> {
        let position = self.read_batch(state, durable)?;
        let mut transaction = connected(&mut self.connection, &self.path).await?.begin().await?;
        self.batch.store(&mut transaction, &self.inserts).await?;
        position.store(&mut transaction, self.batch.last).await?;
        transaction.commit().await?;
        self.batch.settle(&mut state.running);
        state.position = position;
        for Skipped { place: Place { segment, offset }, what, records } in self.skipped.drain(..) {
            tracing::error!(
                event = "audit_damaged",
                segment,
                offset,
                what,
                records,
                "the audit log is damaged; searches go on without these records. Restore the file from a backup, then delete the audit index while the daemon is stopped: it is rebuilt",
            );
        }
        Ok(())
    }

    /// Fills the batch; answers where it ends.
    fn read_batch(&mut self, state: &Loaded, durable: Head) -> Result<Position, IndexError> {
        self.batch.empty();
        self.skipped.clear();
        let mut position = state.position;
        while position.sequence < durable.sequence && !self.batch.is_full() {
            position = match self.read_segment(&state.running, position, durable)? {
                Stop::Good(position) => position,
                Stop::Bad(position, what) => self.skip(&state.running, position, what, durable)?,
            };
        }
        Ok(position)
    }

    /// Goes on behind a damaged place.
    fn skip(
        &mut self,
        running: &Running,
        bad: Position,
        what: String,
        durable: Head,
    ) -> Result<Position, IndexError> {
        let onward = onward::find(&self.folder, bad, durable)?;
        let place = Place { segment: bad.segment.max(1), offset: bad.offset };
        let records = onward.from.sequence.saturating_sub(bad.sequence);
        if records > 0 {
            self.batch.damaged(bad.sequence + 1, records, onward.before_ms, place);
        }
        if let Some(open_calls) = onward.open_calls {
            self.batch.segment(running, &open_calls);
        }
        self.skipped.push(Skipped { place, what, records });
        Ok(onward.from)
    }

    /// Reads on in one segment until it ends or the batch is full.
    fn read_segment(&mut self, running: &Running, from: Position, durable: Head) -> Result<Stop, IndexError> {
        if from.segment == 0 {
            return self.next_segment(running, from);
        }
        let mut reader = match Reader::open(&self.folder, from.segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Stop::Bad(from, "the file is missing".into()));
            }
            opened => opened?.at(from.offset),
        };
        if from.segment == durable.segment {
            reader = reader.limited(durable.offset);
        }
        if from.sequence >= self.own_from {
            reader = reader.unjudged();
        }
        let (mut link, mut position) = (Link { hash: from.hash.0, sequence: from.sequence + 1 }, from);
        while !self.batch.is_full() {
            match reader.next(&mut link)? {
                Step::Record { offset, header, payload } => {
                    let place = Place { segment: from.segment, offset };
                    if let Err(error) = self.batch.add(running, &header, payload, place) {
                        self.batch.damaged(header.sequence, 1, header.at_ms, place);
                        self.skipped.push(Skipped { place, what: error.to_string(), records: 1 });
                    }
                }
                Step::Bad(what) => return Ok(Stop::Bad(position, what)),
                // The next start knows the index by the record before its position.
                Step::End if position.sequence == durable.sequence => break,
                Step::End if from.segment < durable.segment => return self.next_segment(running, position),
                Step::End => {
                    let what = format!("it ends before record {}, which was on disk", durable.sequence);
                    return Ok(Stop::Bad(position, what));
                }
            }
            position = Position {
                sequence: link.sequence - 1,
                offset: reader.offset(),
                hash: Sha256(link.hash),
                ..position
            };
        }
        Ok(Stop::Good(position))
    }

    /// Where the first record stands of the segment that should follow here.
    fn next_segment(&mut self, running: &Running, end: Position) -> Result<Stop, IndexError> {
        let segment = end.segment + 1;
        let bad = |what: &str| Ok(Stop::Bad(end, format!("segment {segment} should follow: {what}")));
        let mut reader = match Reader::open(&self.folder, segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return bad("the file is missing"),
            opened => opened?,
        };
        let Ok((header, hash)) = reader.header()? else { return bad("its header is damaged") };
        if (header.segment, header.first_sequence, header.previous_hash)
            != (segment, end.sequence + 1, end.hash.0)
        {
            return bad("it does not");
        }
        self.batch.segment(running, &header.open_calls);
        Ok(Stop::Good(Position { segment, offset: reader.offset(), hash: Sha256(hash), ..end }))
    }
}

/// The connection there is, or a new one to a file that is there.
async fn connected<'slot>(
    slot: &'slot mut Option<SqliteConnection>,
    path: &Path,
) -> Result<&'slot mut SqliteConnection, sqlx::Error> {
    let connection = match slot.take() {
        Some(connection) => connection,
        None => options(path).connect().await?,
    };
    Ok(slot.insert(connection))
}

async fn load(connection: &mut SqliteConnection) -> Result<Loaded, IndexError> {
    let position = match Position::load(connection).await? {
        Some((position, _)) => position,
        // Before the first segment.
        None => Position { sequence: 0, segment: 0, offset: 0, hash: Sha256([0; 32]) },
    };
    let query = "SELECT sequence, organization, agent, session, call, tool, user, principal, action FROM rows WHERE status = 0";
    let rows = sqlx::query(query).fetch_all(connection).await?;
    let running = rows.iter().map(|row| (natural(row.get("sequence")), Keys::from_row(row))).collect();
    Ok(Loaded { position, running })
}

#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    #[error(transparent)]
    Database(#[from] sqlx::Error),
    #[error("could not read a segment: {0}")]
    Io(#[from] std::io::Error),
}

impl From<IndexError> for AuditError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Database(error) => error.into(),
            unread @ IndexError::Io(_) => Self::index(unread),
        }
    }
}

/// SQLite has no unsigned numbers; nothing here comes near the end of the signed ones.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
