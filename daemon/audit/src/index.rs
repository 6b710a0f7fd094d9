//! The search index: `audit-index.db`, an SQLite file that lags behind the log and can be deleted.
//!
//! One row is one call (intent and outcome), effect, administrative act or recovery. It has the columns that searches filter
//! by and the positions of its records in the segments. The content stays in the log: a search returns what the hash chain
//! protects, and the index stays small. The indexer thread reads synced records and writes batches of up to [`BATCH_ROWS`] rows
//! in one transaction together with the reached position, so that it resumes there after a crash. An index whose position does
//! not match the log is rebuilt. No call waits for a sync of the index.
//!
//! The indexer skips damaged records with [`resync`], logs them once and keeps a row for them. An index that knows more
//! than the log reveals a folder that was emptied or replaced by an older copy ([`last_indexed`]).

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, Row as _, SqliteConnection, SqlitePool};
use tokio::sync::watch;

use super::error::{AuditError, StartError};
use super::folder::{Folder, create_private, remove_if_there};
use super::format::LogPosition;
use super::index_batch::{IndexBatch, InsertStatements, RunningIntents};
use super::index_tables;
use super::reader::{ChainLink, Reader, Step, read_one, resync};
use super::record::Anchor;
use super::record::Sha256;
use super::row_keys::RowKeys;
use super::sql_number::{integer, natural};
use super::watch::WatchList;

/// Pages of the write-ahead log between two checkpoints, each of which syncs twice on the disk that calls wait for.
const CHECKPOINT_PAGES: &str = "8000";
/// Longest time that the indexer waits for a full batch while no search waits.
const BATCH_DELAY: Duration = Duration::from_millis(250);
/// Number of records that ends the wait.
const BATCH_RECORDS: u64 = 4000;

/// The running index.
pub(crate) struct Index {
    pub reading: SqlitePool,
    progress: Arc<IndexProgress>,
    reached: watch::Receiver<Reached>,
    pub watches: Arc<WatchList>,
    thread: Option<JoinHandle<()>>,
}

/// Progress of the indexer, as its waiters see it.
#[derive(Debug, Default)]
struct Reached {
    sequence: u64,
    failures: u64,
    last_error: Option<AuditError>,
}

impl Index {
    /// Opens or creates the file and spawns the indexer thread.
    pub(crate) async fn start(
        path: &Path,
        folder: Folder,
        progress: Arc<IndexProgress>,
        cut: Option<Anchor>,
    ) -> Result<Self, StartError> {
        let connection = open(path, &folder).await.map_err(|error| StartError::Index(error.to_string()))?;
        // Without an idle timeout the pool has no background task.
        let pool = SqlitePoolOptions::new().max_connections(4).idle_timeout(None).max_lifetime(None);
        let reading = pool.connect_lazy_with(options(path).read_only(true));
        let (sender, reached) = watch::channel(Reached::default());
        let watches = Arc::<WatchList>::default();
        let mut indexer = Indexer {
            path: path.to_owned(),
            connection: Some(connection),
            folder,
            begin: cut.unwrap_or(Anchor::empty(0)),
            own_from: progress.durable().sequence,
            progress: progress.clone(),
            inserts: InsertStatements::default(),
            batch: IndexBatch::default(),
            skipped: Vec::new(),
            watches: Arc::clone(&watches),
            state: None,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let thread = std::thread::Builder::new()
            .name("audit-index".into())
            .spawn(move || runtime.block_on(indexer.run(&sender)))
            .map_err(StartError::Thread)?;
        Ok(Self { reading, progress, reached, watches, thread: Some(thread) })
    }

    /// Waits until every record up to `sequence` is indexed; these must be durable.
    pub(crate) async fn catch_up(&self, sequence: u64) -> Result<(), AuditError> {
        if self.reached.borrow().sequence >= sequence {
            return Ok(());
        }
        let mut reached = self.reached.clone();
        let failures = reached.borrow_and_update().failures;
        self.progress.request(sequence);
        let waited =
            reached.wait_for(|reached| reached.sequence >= sequence || reached.failures > failures).await;
        match waited {
            Ok(reached) if reached.sequence >= sequence => Ok(()),
            Ok(reached) => Err(reached.last_error.clone().unwrap_or(AuditError::Closed)),
            Err(_) => Err(AuditError::Closed),
        }
    }

    /// Waits until a record after `sequence` is indexed, without asking for it, and returns the last one.
    pub(crate) async fn wait_beyond(&self, sequence: u64) -> Result<u64, AuditError> {
        let mut reached = self.reached.clone();
        let waited = reached.wait_for(|reached| reached.sequence > sequence).await;
        waited.map(|reached| reached.sequence).map_err(|_| AuditError::Closed)
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        self.progress.close();
        if let Some(thread) = self.thread.take() {
            // The panic hook reported a panic.
            let _ = thread.join();
        }
    }
}

/// The last durable and the last indexed record, with a condition variable between writer and indexer.
///
/// Not every group wakes the indexer, since large batches cost a fraction of small ones: it is woken if it is idle, if a batch
/// is full, or if a search waits. Without work it sleeps without a timer.
pub(crate) struct IndexProgress {
    state: Mutex<ProgressState>,
    indexer_wake: Condvar,
    /// Tells followers of the last durable record.
    changes: watch::Sender<u64>,
}

struct ProgressState {
    durable: Anchor,
    indexed_sequence: u64,
    requested_sequence: u64,
    indexer: IndexerState,
    /// The index failed; the next search retries.
    paused: bool,
    closing: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum IndexerState {
    Busy,
    BatchDelay,
    Idle,
}

impl IndexProgress {
    pub(crate) fn new(durable: Anchor) -> Self {
        let state = ProgressState {
            durable,
            indexed_sequence: 0,
            requested_sequence: 0,
            indexer: IndexerState::Busy,
            paused: false,
            closing: false,
        };
        let changes = watch::Sender::new(durable.sequence);
        Self { state: Mutex::new(state), indexer_wake: Condvar::new(), changes }
    }

    pub(crate) fn durable(&self) -> Anchor {
        self.state.lock().durable
    }

    /// Receives the sequence of the last durable record.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Called by the writer when a group is on disk.
    pub(crate) fn advance(&self, durable: Anchor) {
        let mut state = self.state.lock();
        state.durable = durable;
        let is_full = durable.sequence.saturating_sub(state.indexed_sequence) >= BATCH_RECORDS;
        self.wake(state, is_full);
        self.changes.send_replace(durable.sequence);
    }

    /// Requests indexing up to `sequence` without delay.
    fn request(&self, sequence: u64) {
        let mut state = self.state.lock();
        state.requested_sequence = state.requested_sequence.max(sequence);
        state.paused = false;
        self.wake(state, true);
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.closing = true;
        self.wake(state, true);
    }

    /// Stops the attempts until the next search.
    fn pause(&self) {
        let mut state = self.state.lock();
        state.paused = true;
        state.requested_sequence = 0;
    }

    fn wake(&self, mut state: MutexGuard<'_, ProgressState>, now: bool) {
        let must_wake = match state.indexer {
            IndexerState::Busy => false,
            IndexerState::BatchDelay => now,
            IndexerState::Idle => true,
        };
        if must_wake {
            state.indexer = IndexerState::Busy;
            drop(state);
            self.indexer_wake.notify_one();
        }
    }

    /// Waits until there is something to index after `indexed_sequence` and returns the last durable record; `None` when the
    /// log is closed.
    fn wait(&self, indexed_sequence: u64) -> Option<Anchor> {
        let mut state = self.state.lock();
        state.indexed_sequence = indexed_sequence;
        let mut delay_is_over = false;
        while !state.closing {
            if state.is_due(delay_is_over) {
                return Some(state.durable);
            }
            if state.paused || state.durable.sequence <= indexed_sequence {
                state.indexer = IndexerState::Idle;
                self.indexer_wake.wait(&mut state);
            } else {
                state.indexer = IndexerState::BatchDelay;
                delay_is_over = self.indexer_wake.wait_for(&mut state, BATCH_DELAY).timed_out();
            }
            state.indexer = IndexerState::Busy;
        }
        None
    }
}

impl ProgressState {
    fn is_due(&self, delay_is_over: bool) -> bool {
        let waiting = self.durable.sequence.saturating_sub(self.indexed_sequence);
        waiting > 0
            && !self.paused
            && (delay_is_over || waiting >= BATCH_RECORDS || self.requested_sequence > self.indexed_sequence)
    }
}

pub(crate) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .pragma("wal_autocheckpoint", CHECKPOINT_PAGES)
        .disable_statement_logging()
}

/// Returns the last record that the index knows, of any version and log. It was durable when it was indexed.
pub(crate) async fn last_indexed(path: &Path) -> Option<Anchor> {
    let mut connection = options(path).connect().await.ok()?;
    let loaded = load_position(&mut connection).await;
    let _ = connection.close().await;
    loaded.ok()?.map(|(position, _)| position)
}

/// Opens the index; rebuilds one that is damaged or belongs to another log or version.
async fn open(path: &Path, folder: &Folder) -> Result<SqliteConnection, sqlx::Error> {
    match try_open(path, folder).await {
        Err(error) if is_unreadable(&error) => {
            tracing::warn!(event = "audit_index_rebuilt", %error, "the audit index is damaged and is rebuilt");
            for suffix in ["", "-wal", "-shm"] {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                remove_if_there(&PathBuf::from(name)).map_err(sqlx::Error::Io)?;
            }
            try_open(path, folder).await
        }
        opened => opened,
    }
}

/// Damaged, not a database, or without the tables of its version; not one that is locked or on a failing disk.
fn is_unreadable(error: &sqlx::Error) -> bool {
    const ERROR: i64 = 1;
    const CORRUPT: i64 = 11;
    const NOT_A_DATABASE: i64 = 26;
    let code = error.as_database_error().and_then(|error| error.code()?.parse::<i64>().ok());
    // The low byte of an extended result code is the primary one.
    code.is_some_and(|code| [ERROR, CORRUPT, NOT_A_DATABASE].contains(&(code & 0xff)))
}

async fn try_open(path: &Path, folder: &Folder) -> Result<SqliteConnection, sqlx::Error> {
    // SQLite would use the umask, and gives its other files the mode of this one.
    create_private(path, false).map_err(sqlx::Error::Io)?;
    let mut connection = options(path).create_if_missing(true).connect().await?;
    if !index_tables::bring_up_to_date(&mut connection).await? {
        index_tables::create(&mut connection).await?;
    } else if !is_of_this_log(&mut connection, folder).await? {
        tracing::warn!(
            event = "audit_index_rebuilt",
            "the audit index belongs to another audit log and is rebuilt"
        );
        index_tables::create(&mut connection).await?;
    }
    Ok(connection)
}

/// Compares the last indexed record with the log.
async fn is_of_this_log(connection: &mut SqliteConnection, folder: &Folder) -> Result<bool, sqlx::Error> {
    let Some((position, last)) = load_position(connection).await? else { return Ok(true) };
    let record = read_one(folder, last);
    Ok(record.is_ok_and(|(header, _)| header.sequence == position.sequence && header.hash == position.hash.0))
}

/// Returns the end of the indexed part of the log, and the position of its last record.
async fn load_position(
    connection: &mut SqliteConnection,
) -> Result<Option<(Anchor, LogPosition)>, sqlx::Error> {
    let query = sqlx::query("SELECT sequence, place, last_place, hash FROM position");
    let Some(row) = query.fetch_optional(connection).await? else { return Ok(None) };
    let LogPosition { segment, offset } = LogPosition::unpack(row.get("place"));
    let hash = Sha256::parse(row.get("hash")).unwrap_or(Sha256([0; 32]));
    let end = Anchor { sequence: natural(row.get("sequence")), segment, offset, hash };
    Ok(Some((end, LogPosition::unpack(row.get("last_place")))))
}

async fn store_position(
    end: &Anchor,
    last: LogPosition,
    connection: &mut SqliteConnection,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT OR REPLACE INTO position VALUES (1, $1, $2, $3, $4)")
        .bind(integer(end.sequence))
        .bind(LogPosition { segment: end.segment, offset: end.offset }.pack())
        .bind(last.pack())
        .bind(end.hash.to_string())
        .execute(connection)
        .await
        .map(drop)
}

struct Indexer {
    path: PathBuf,
    /// `None` after a failure: when the disk is full, SQLite rolls back by itself, and the driver then takes the connection for
    /// one still inside a transaction and nests the next one, which is never committed.
    connection: Option<SqliteConnection>,
    folder: Folder,
    progress: Arc<IndexProgress>,
    /// Position before the first record: the start of the log, or the last cut before this start.
    begin: Anchor,
    /// Later records were written by this process and need no checks.
    own_from: u64,
    inserts: InsertStatements,
    batch: IndexBatch,
    /// Damaged records of the batch, logged after its commit.
    skipped: Vec<SkippedRecords>,
    watches: Arc<WatchList>,
    /// State of the file; loaded again after a failure.
    state: Option<IndexState>,
}

struct IndexState {
    end: Anchor,
    running: RunningIntents,
}

struct SkippedRecords {
    position: LogPosition,
    what: String,
    records: u64,
}

/// The point up to which a segment was read.
enum ReadEnd {
    /// The end of the segment, or of a full batch.
    Valid(Anchor),
    /// A damaged record, and the reason.
    Damaged(Anchor, String),
}

impl Indexer {
    async fn run(&mut self, sender: &watch::Sender<Reached>) {
        while let Some(durable) =
            self.progress.wait(self.state.as_ref().map_or(0, |state| state.end.sequence))
        {
            if let Err(error) = self.catch_up(durable, sender).await {
                tracing::error!(event = "audit_index_failed", %error, "the audit index cannot be updated; the next search retries");
                self.state = None;
                if let Some(connection) = self.connection.take() {
                    let _ = connection.close().await;
                }
                self.progress.pause();
                sender.send_modify(|reached| {
                    reached.failures += 1;
                    reached.last_error = Some(error);
                });
            }
        }
    }

    async fn catch_up(&mut self, durable: Anchor, sender: &watch::Sender<Reached>) -> Result<(), AuditError> {
        let mut state = match self.state.take() {
            Some(state) => state,
            None => {
                let connection = connect(&mut self.connection, &self.path).await?;
                let state = load_state(connection, self.begin).await?;
                self.watches.begin(state.end.sequence);
                state
            }
        };
        loop {
            sender.send_modify(|reached| reached.sequence = state.end.sequence);
            if state.end.sequence >= durable.sequence {
                self.state = Some(state);
                return Ok(());
            }
            self.index_batch(&mut state, durable).await?;
        }
    }

    async fn index_batch(&mut self, state: &mut IndexState, durable: Anchor) -> Result<(), AuditError> {
        let end = self
            .read_batch(state, durable)
            .map_err(|error| AuditError::index(format!("could not read a segment: {error}")))?;
        let mut transaction = connect(&mut self.connection, &self.path).await?.begin().await?;
        self.batch.store(&mut transaction, &self.inserts).await?;
        store_position(&end, self.batch.last, &mut transaction).await?;
        transaction.commit().await?;
        self.watches.note(&self.batch, &state.running, end.sequence);
        self.batch.update_running(&mut state.running);
        state.end = end;
        for SkippedRecords { position: LogPosition { segment, offset }, what, records } in
            self.skipped.drain(..)
        {
            tracing::error!(
                event = "audit_damaged",
                segment,
                offset,
                what,
                records,
                "the audit log is damaged; searches continue without these records. Restore the file from a backup, then delete the audit index while the daemon is stopped: it is rebuilt",
            );
        }
        Ok(())
    }

    /// Fills the batch and returns its end.
    fn read_batch(&mut self, state: &IndexState, durable: Anchor) -> io::Result<Anchor> {
        self.batch.clear();
        self.skipped.clear();
        let mut end = state.end;
        while end.sequence < durable.sequence && !self.batch.is_full() {
            end = match self.read_segment(&state.running, end, durable)? {
                ReadEnd::Valid(end) => end,
                ReadEnd::Damaged(end, what) => self.skip(&state.running, end, what, durable)?,
            };
        }
        Ok(end)
    }

    /// Skips damaged records.
    fn skip(
        &mut self,
        running: &RunningIntents,
        bad: Anchor,
        what: String,
        durable: Anchor,
    ) -> io::Result<Anchor> {
        let point = resync(&self.folder, bad, durable)?;
        let position = LogPosition { segment: bad.segment.max(1), offset: bad.offset };
        let records = point.from.sequence.saturating_sub(bad.sequence);
        if records > 0 {
            self.batch.add_damaged(bad.sequence + 1, records, point.before_ms, position);
        }
        if let Some(open_intents) = point.open_intents {
            self.batch.begin_segment(running, &open_intents);
        }
        self.skipped.push(SkippedRecords { position, what, records });
        Ok(point.from)
    }

    /// Reads one segment to its end or until the batch is full.
    fn read_segment(
        &mut self,
        running: &RunningIntents,
        from: Anchor,
        durable: Anchor,
    ) -> io::Result<ReadEnd> {
        if from == self.begin {
            return self.next_segment(running, from);
        }
        let mut reader = match Reader::open(&self.folder, from.segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(ReadEnd::Damaged(from, "the file is missing".into()));
            }
            opened => opened?.at(from.offset),
        };
        if from.segment == durable.segment {
            reader = reader.with_limit(durable.offset);
        }
        if from.sequence >= self.own_from {
            reader = reader.without_checks();
        }
        let (mut link, mut end) = (ChainLink { hash: from.hash.0, sequence: from.sequence + 1 }, from);
        while !self.batch.is_full() {
            match reader.next(&mut link)? {
                Step::Record { offset, header, payload } => {
                    let position = LogPosition { segment: from.segment, offset };
                    if let Err(error) = self.batch.add(running, &header, payload, position) {
                        self.batch.add_damaged(header.sequence, 1, header.at_ms, position);
                        self.skipped.push(SkippedRecords { position, what: error.to_string(), records: 1 });
                    }
                }
                Step::Bad(what) => return Ok(ReadEnd::Damaged(end, what)),
                // No move to the next segment: the next start identifies the log by the record before the position.
                Step::End if end.sequence == durable.sequence => break,
                Step::End if from.segment < durable.segment => return self.next_segment(running, end),
                Step::End => {
                    let what = format!("it ends before record {}, which was durable", durable.sequence);
                    return Ok(ReadEnd::Damaged(end, what));
                }
            }
            (end.sequence, end.offset, end.hash) = (link.sequence - 1, reader.offset(), Sha256(link.hash));
        }
        Ok(ReadEnd::Valid(end))
    }

    /// Moves to the first record of the segment that follows `end`.
    fn next_segment(&mut self, running: &RunningIntents, end: Anchor) -> io::Result<ReadEnd> {
        let segment = end.segment + 1;
        let damaged =
            |what: &str| Ok(ReadEnd::Damaged(end, format!("segment {segment} should follow: {what}")));
        let mut reader = match Reader::open(&self.folder, segment) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return damaged("the file is missing"),
            opened => opened?,
        };
        let Ok((header, hash)) = reader.header()? else { return damaged("its header is damaged") };
        if (header.segment, header.first_sequence, header.previous_hash)
            != (segment, end.sequence + 1, end.hash.0)
        {
            return damaged("its header does not match");
        }
        self.batch.begin_segment(running, &header.open_intents);
        Ok(ReadEnd::Valid(Anchor { segment, offset: reader.offset(), hash: Sha256(hash), ..end }))
    }
}

/// Returns the open connection, or opens one to the existing file.
async fn connect<'slot>(
    slot: &'slot mut Option<SqliteConnection>,
    path: &Path,
) -> Result<&'slot mut SqliteConnection, sqlx::Error> {
    let connection = match slot.take() {
        Some(connection) => connection,
        None => options(path).connect().await?,
    };
    Ok(slot.insert(connection))
}

async fn load_state(connection: &mut SqliteConnection, begin: Anchor) -> Result<IndexState, AuditError> {
    let end = load_position(connection).await?.map_or(begin, |(end, _)| end);
    let query = "SELECT sequence, organization, agent, session, call, tool, user, principal, action FROM rows WHERE status = 0";
    let rows = sqlx::query(query).fetch_all(connection).await?;
    let running = rows.iter().map(|row| (natural(row.get("sequence")), RowKeys::from_row(row))).collect();
    Ok(IndexState { end, running })
}
