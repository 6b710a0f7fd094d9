//! One batch of the index: records in, rows out, intent and outcome folded into one.
//!
//! Most calls begin and end within one batch and become one insert. Those that were running at its end are
//! inserted as `running` and remembered in [`Keys`], which also gives effects the keys of their call, so that
//! neither effects nor outcomes repeat them in the log. Rows of one batch share what they have in common,
//! since a copy of every name would be most of the cost.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _, Sqlite, SqliteConnection};

use super::format::{RecordHeader, RecordKind};
use super::index::{BATCH_ROWS, integer};
use super::place::Place;
use super::record::{AdminRecord, CallIntent, Kind, Status};

const COLUMNS: [&str; 17] = [
    "sequence",
    "at_ms",
    "kind",
    "organization",
    "agent",
    "session",
    "call",
    "tool",
    "user",
    "principal",
    "action",
    "of_call",
    "status",
    "error_type",
    "place",
    "close_place",
    "records",
];

/// What calls and acts are found by, and what an effect or an outcome needs to know of its call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keys {
    organization: Option<Arc<str>>,
    agent: Option<Arc<str>>,
    session: Option<Arc<str>>,
    call: Option<Arc<str>>,
    tool: Option<Arc<str>>,
    user: Option<Arc<str>>,
    principal: Option<Arc<str>>,
    action: Option<Arc<str>>,
}

impl From<&CallIntent<'_>> for Keys {
    fn from(intent: &CallIntent<'_>) -> Self {
        let text = |text: &str| Some(Arc::from(text));
        Self {
            organization: text(&intent.organization),
            agent: text(&intent.agent),
            session: text(&intent.session),
            call: text(&intent.call),
            tool: text(&intent.tool),
            user: intent.user.as_deref().and_then(text),
            principal: text(&intent.principal),
            action: None,
        }
    }
}

impl From<&AdminRecord<'_>> for Keys {
    fn from(act: &AdminRecord<'_>) -> Self {
        Self {
            organization: act.organization.as_deref().map(Arc::from),
            principal: Some(Arc::from(&*act.principal)),
            action: Some(Arc::from(&*act.action)),
            ..Self::default()
        }
    }
}

impl Keys {
    pub fn from_row(row: &SqliteRow) -> Self {
        let text = |column: &str| row.get::<Option<&str>, _>(column).map(Arc::from);
        Self {
            organization: text("organization"),
            agent: text("agent"),
            session: text("session"),
            call: text("call"),
            tool: text("tool"),
            user: text("user"),
            principal: text("principal"),
            action: text("action"),
        }
    }
}

/// Indexed intents without an outcome, by sequence.
pub type Running = HashMap<u64, Keys>;

#[derive(Default)]
pub struct Batch {
    rows: Vec<NewRow>,
    /// Index in `rows` by sequence.
    calls: HashMap<u64, usize>,
    /// Outcomes of calls that are in the file already.
    closes: Vec<Close>,
    /// Where the last record is.
    pub last: Place,
}

struct NewRow {
    sequence: u64,
    at_ms: u64,
    kind: Kind,
    keys: Keys,
    /// The call of an effect.
    of: Option<u64>,
    status: Option<Status>,
    error_type: Option<Arc<str>>,
    place: Place,
    closed: Option<Place>,
    /// How many records a damaged place had.
    records: Option<u64>,
}

struct Close {
    of: u64,
    status: Status,
    error_type: Option<Arc<str>>,
    /// None of an outcome that is lost.
    place: Option<Place>,
}

#[derive(Deserialize)]
struct IntentKeys<'a> {
    #[serde(borrow)]
    organization: Cow<'a, str>,
    #[serde(borrow)]
    agent: Cow<'a, str>,
    #[serde(borrow)]
    session: Cow<'a, str>,
    #[serde(borrow)]
    call: Cow<'a, str>,
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow, default)]
    user: Option<Cow<'a, str>>,
    #[serde(borrow)]
    principal: Cow<'a, str>,
}

#[derive(Deserialize)]
struct OutcomeKeys<'a> {
    status: Status,
    #[serde(borrow, default)]
    error_type: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct AdminKeys<'a> {
    #[serde(borrow, default)]
    organization: Option<Cow<'a, str>>,
    #[serde(borrow)]
    principal: Cow<'a, str>,
    #[serde(borrow)]
    action: Cow<'a, str>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
}

impl Batch {
    /// One that ends with a damaged place has room for the record behind it, which the next start knows the index
    /// by.
    pub fn is_full(&self) -> bool {
        let ends_well = self.rows.last().is_none_or(|row| row.kind != Kind::Damaged);
        ends_well && (self.rows.len() >= BATCH_ROWS || self.closes.len() >= BATCH_ROWS)
    }

    /// So many records from this one on cannot be read; what they were was recorded before this time.
    pub fn damaged(&mut self, sequence: u64, records: u64, before_ms: u64, place: Place) {
        self.rows.push(NewRow {
            sequence,
            at_ms: before_ms,
            kind: Kind::Damaged,
            keys: Keys::default(),
            of: None,
            status: None,
            error_type: None,
            place,
            closed: None,
            records: Some(records),
        });
    }

    /// A segment begins, and these calls are open. What else is still running here has ended, and its outcome was in a
    /// damaged place.
    pub fn segment(&mut self, running: &Running, open_calls: &[u64]) {
        let has_ended = |sequence: &u64| open_calls.binary_search(sequence).is_err();
        let unknown = || (Status::Unknown, Some(Arc::from("UNKNOWN")));
        let running_here = self.rows.iter_mut().filter(|row| row.status == Some(Status::Running));
        for row in running_here.filter(|row| has_ended(&row.sequence)) {
            let (status, error_type) = unknown();
            (row.status, row.error_type) = (Some(status), error_type);
        }
        let closed: HashSet<u64> = self.closes.iter().map(|close| close.of).collect();
        for of in running.keys().copied().filter(has_ended).filter(|of| !closed.contains(of)) {
            let (status, error_type) = unknown();
            self.closes.push(Close { of, status, error_type, place: None });
        }
    }

    /// Fails on content that is not what its kind has.
    pub fn add(
        &mut self,
        running: &Running,
        header: &RecordHeader,
        payload: &[u8],
        place: Place,
    ) -> Result<(), serde_json::Error> {
        self.last = place;
        match header.kind {
            RecordKind::CallOpen => {
                serde_json::from_slice(payload).map(|keys| self.open(header, &keys, place))
            }
            RecordKind::CallClose => {
                serde_json::from_slice(payload).map(|outcome| self.close(header, &outcome, place))
            }
            RecordKind::Admin => serde_json::from_slice(payload).map(|act| self.admin(header, &act, place)),
            RecordKind::Effect => {
                self.effect(running, header, place);
                Ok(())
            }
            RecordKind::Recovery => {
                self.rows.push(NewRow::new(header, Kind::Recovery, Keys::default(), place));
                Ok(())
            }
        }
    }

    fn open(&mut self, header: &RecordHeader, keys: &IntentKeys<'_>, place: Place) {
        let before = self.rows.last().map(|row| &row.keys);
        let keys = Keys {
            organization: shared(before.and_then(|keys| keys.organization.as_ref()), &keys.organization),
            agent: shared(before.and_then(|keys| keys.agent.as_ref()), &keys.agent),
            session: shared(before.and_then(|keys| keys.session.as_ref()), &keys.session),
            call: shared(None, &keys.call),
            tool: shared(before.and_then(|keys| keys.tool.as_ref()), &keys.tool),
            user: keys
                .user
                .as_deref()
                .and_then(|user| shared(before.and_then(|keys| keys.user.as_ref()), user)),
            principal: shared(before.and_then(|keys| keys.principal.as_ref()), &keys.principal),
            action: None,
        };
        self.calls.insert(header.sequence, self.rows.len());
        self.rows
            .push(NewRow { status: Some(Status::Running), ..NewRow::new(header, Kind::Call, keys, place) });
    }

    fn close(&mut self, header: &RecordHeader, outcome: &OutcomeKeys<'_>, place: Place) {
        let (of, status, error_type) =
            (header.of, outcome.status, outcome.error_type.as_deref().map(Arc::from));
        match self.calls.get(&of).and_then(|index| self.rows.get_mut(*index)) {
            Some(row) => (row.status, row.error_type, row.closed) = (Some(status), error_type, Some(place)),
            None => self.closes.push(Close { of, status, error_type, place: Some(place) }),
        }
    }

    fn effect(&mut self, running: &Running, header: &RecordHeader, place: Place) {
        let here = self.calls.get(&header.of).and_then(|index| self.rows.get(*index)).map(|row| &row.keys);
        let keys = here.or_else(|| running.get(&header.of)).cloned().unwrap_or_default();
        self.rows.push(NewRow { of: Some(header.of), ..NewRow::new(header, Kind::Effect, keys, place) });
    }

    fn admin(&mut self, header: &RecordHeader, act: &AdminKeys<'_>, place: Place) {
        let before = self.rows.last().map(|row| &row.keys);
        let keys = Keys {
            organization: act.organization.as_deref().map(Arc::from),
            principal: shared(before.and_then(|keys| keys.principal.as_ref()), &act.principal),
            action: shared(before.and_then(|keys| keys.action.as_ref()), &act.action),
            ..Keys::default()
        };
        let (status, error_type) = match &*act.outcome {
            "ok" => (Status::Ok, None),
            error => (Status::Error, Some(Arc::from(error))),
        };
        self.rows.push(NewRow {
            status: Some(status),
            error_type,
            ..NewRow::new(header, Kind::Admin, keys, place)
        });
    }

    /// Writes the rows; the caller's transaction holds them together with the position.
    pub async fn store(
        &self,
        connection: &mut SqliteConnection,
        inserts: &Inserts,
    ) -> Result<(), sqlx::Error> {
        self.insert_rows(connection, inserts).await?;
        self.update_rows(connection).await?;
        self.insert_span(connection).await
    }

    async fn insert_rows(
        &self,
        connection: &mut SqliteConnection,
        Inserts(statements): &Inserts,
    ) -> Result<(), sqlx::Error> {
        let mut left = &self.rows[..];
        for (size, sql) in statements {
            let (now, later) = left.split_at(left.len() / size * size);
            for rows in now.chunks_exact(*size) {
                insert(connection, sql, rows).await?;
            }
            left = later;
        }
        Ok(())
    }

    async fn update_rows(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        if self.closes.is_empty() {
            return Ok(());
        }
        let mut query = QueryBuilder::<Sqlite>::new(
            "UPDATE rows SET status = column2, error_type = column3, close_place = column4 FROM (",
        );
        query.push_values(&self.closes, |mut values, close| {
            values
                .push_bind(integer(close.of))
                .push_bind(status_code(close.status))
                .push_bind(close.error_type.clone())
                .push_bind(close.place.map(Place::packed));
        });
        query.push(") WHERE sequence = column1");
        query.build().persistent(false).execute(connection).await.map(drop)
    }

    /// One small row a batch is what stands in for an index over times: it bounds the sequences that a time
    /// range can have.
    async fn insert_span(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let (Some(first), Some(last)) = (self.rows.first(), self.rows.last()) else { return Ok(()) };
        let times = || self.rows.iter().map(|row| row.at_ms);
        sqlx::query("INSERT INTO spans VALUES ($1, $2, $3, $4)")
            .bind(integer(first.sequence))
            .bind(integer(last.sequence))
            .bind(integer(times().min().unwrap_or(0)))
            .bind(integer(times().max().unwrap_or(0)))
            .execute(connection)
            .await
            .map(drop)
    }

    /// After the commit: who is running now.
    pub fn settle(&mut self, running: &mut Running) {
        for close in &self.closes {
            running.remove(&close.of);
        }
        let still = self.rows.drain(..).filter(|row| row.status == Some(Status::Running));
        running.extend(still.map(|row| (row.sequence, row.keys)));
    }

    /// Forgets what is in it, and keeps the memory for the next.
    pub fn empty(&mut self) {
        self.rows.clear();
        self.calls.clear();
        self.closes.clear();
    }
}

/// The statements that insert rows, the largest first: few, so that each is prepared once and kept, and none so large
/// that its values need memory which the kernel has to clear each time. `OR FAIL`: one that fails takes the whole
/// transaction with it, so SQLite need not keep a journal to take back the statement alone.
pub struct Inserts([(usize, Arc<str>); 3]);

impl Default for Inserts {
    fn default() -> Self {
        let of = |rows: usize| {
            let values = format!("({})", ["?"; COLUMNS.len()].join(", "));
            let values = vec![values; rows].join(", ");
            (rows, format!("INSERT OR FAIL INTO rows ({}) VALUES {values}", COLUMNS.join(", ")).into())
        };
        Self([128, 16, 1].map(of))
    }
}

async fn insert(
    connection: &mut SqliteConnection,
    sql: &Arc<str>,
    rows: &[NewRow],
) -> Result<(), sqlx::Error> {
    let mut query = sqlx::query::<Sqlite>(AssertSqlSafe(Arc::clone(sql)));
    for row in rows {
        query = query
            .bind(integer(row.sequence))
            .bind(integer(row.at_ms))
            .bind(kind_code(row.kind))
            .bind(row.keys.organization.clone())
            .bind(row.keys.agent.clone())
            .bind(row.keys.session.clone())
            .bind(row.keys.call.clone())
            .bind(row.keys.tool.clone())
            .bind(row.keys.user.clone())
            .bind(row.keys.principal.clone())
            .bind(row.keys.action.clone())
            .bind(row.of.map(integer))
            .bind(row.status.map(status_code))
            .bind(row.error_type.clone())
            .bind(row.place.packed())
            .bind(row.closed.map(Place::packed))
            .bind(row.records.map(integer));
    }
    query.execute(connection).await.map(drop)
}

/// The same text as the row before has, or a copy.
fn shared(before: Option<&Arc<str>>, text: &str) -> Option<Arc<str>> {
    Some(before.filter(|before| &***before == text).cloned().unwrap_or_else(|| text.into()))
}

impl NewRow {
    fn new(header: &RecordHeader, kind: Kind, keys: Keys, place: Place) -> Self {
        let RecordHeader { sequence, at_ms, .. } = *header;
        Self {
            sequence,
            at_ms,
            kind,
            keys,
            of: None,
            status: None,
            error_type: None,
            place,
            closed: None,
            records: None,
        }
    }
}

/// As it is stored; never change one, only add. The partial index over damaged places counts on their 4.
pub fn kind_code(kind: Kind) -> i64 {
    match kind {
        Kind::Call => 0,
        Kind::Effect => 1,
        Kind::Admin => 2,
        Kind::Recovery => 3,
        Kind::Damaged => 4,
    }
}

pub fn kind_of(code: i64) -> Option<Kind> {
    [Kind::Call, Kind::Effect, Kind::Admin, Kind::Recovery, Kind::Damaged]
        .into_iter()
        .find(|kind| kind_code(*kind) == code)
}

/// As it is stored; the partial index over running calls counts on their 0.
pub fn status_code(status: Status) -> i64 {
    match status {
        Status::Running => 0,
        Status::Ok => 1,
        Status::Error => 2,
        Status::ClientRequired => 3,
        Status::ApprovalRequired => 4,
        Status::Cancelled => 5,
        Status::Crashed => 6,
        Status::Unknown => 7,
    }
}

pub fn status_of(code: i64) -> Option<Status> {
    [
        Status::Running,
        Status::Ok,
        Status::Error,
        Status::ClientRequired,
        Status::ApprovalRequired,
        Status::Cancelled,
        Status::Crashed,
        Status::Unknown,
    ]
    .into_iter()
    .find(|status| status_code(*status) == code)
}
