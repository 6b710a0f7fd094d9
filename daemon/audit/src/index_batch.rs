//! One transaction of the index: folds records into rows, intent and outcome into one.
//!
//! Most calls begin and end within one batch and become one insert. Calls that are running at its end are inserted as `running`
//! and kept in [`RunningIntents`] with their [`RowKeys`], which effects copy, so that neither effects nor outcomes repeat them in
//! the log. Rows of one batch share equal strings, since copying every name would be most of the cost.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;
use sqlx::{AssertSqlSafe, QueryBuilder, Sqlite, SqliteConnection};

use super::format::{LogPosition, RecordHeader, RecordKind};
use super::rates::RateBatch;
use super::record::{Executed, Kind, Status};
use super::row_keys::RowKeys;
use super::sql_number::integer;
use super::usage::{RecordedUse, UsageSums};

/// Rows of one transaction: more hardly lower the cost of a row, and a search waits for the batch before its own.
pub(crate) const BATCH_ROWS: usize = 2000;
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

/// Keys of the indexed intents without outcome, by sequence.
pub(crate) type RunningIntents = HashMap<u64, RowKeys>;

#[derive(Default)]
pub(crate) struct IndexBatch {
    rows: Vec<NewRow>,
    /// Indexes in `rows` of the intents, by sequence.
    open_rows: HashMap<u64, usize>,
    /// Outcomes of intents whose rows are in the file already.
    closes: Vec<Close>,
    usage: UsageSums,
    rates: RateBatch,
    /// Position of the last record.
    pub last: LogPosition,
}

struct NewRow {
    sequence: u64,
    at_ms: u64,
    kind: Kind,
    keys: RowKeys,
    /// Sequence of the call of an effect.
    of: Option<u64>,
    status: Option<Status>,
    error_type: Option<Arc<str>>,
    position: LogPosition,
    close_position: Option<LogPosition>,
    /// Number of damaged records.
    records: Option<u64>,
}

struct Close {
    of: u64,
    status: Status,
    error_type: Option<Arc<str>>,
    /// `None` if the outcome is lost.
    position: Option<LogPosition>,
}

/// A call that began or ended in a batch.
pub(crate) struct IndexedCall<'a> {
    pub sequence: u64,
    pub keys: &'a RowKeys,
    pub status: Status,
    pub error_type: Option<&'a str>,
    /// Whether it began in an earlier batch.
    pub began_before: bool,
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
    #[serde(default)]
    repeated: Option<u64>,
}

#[derive(Deserialize)]
struct OutcomeKeys<'a> {
    status: Status,
    #[serde(borrow, default)]
    error_type: Option<Cow<'a, str>>,
    #[serde(default)]
    usage: RecordedUse,
    #[serde(default)]
    executed: Option<Executed>,
    #[serde(default)]
    duration_us: u64,
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

impl IndexBatch {
    /// A batch that ends with damaged records takes one more: the next start identifies the log by the last record.
    pub(crate) fn is_full(&self) -> bool {
        let ends_damaged = self.rows.last().is_some_and(|row| row.kind == Kind::Damaged);
        !ends_damaged && (self.rows.len() >= BATCH_ROWS || self.closes.len() >= BATCH_ROWS)
    }

    /// Adds a row for `records` unreadable records from `sequence` on, recorded before `before_ms`.
    pub(crate) fn add_damaged(&mut self, sequence: u64, records: u64, before_ms: u64, position: LogPosition) {
        let row = NewRow::new(sequence, before_ms, Kind::Damaged, RowKeys::default(), position);
        self.rows.push(NewRow { records: Some(records), ..row });
    }

    /// Begins a segment whose header lists `open_intents`. The outcome of any other running call was in a damaged record.
    pub(crate) fn begin_segment(&mut self, running: &RunningIntents, open_intents: &[u64]) {
        let has_ended = |sequence: &u64| open_intents.binary_search(sequence).is_err();
        let running_here = self.rows.iter_mut().filter(|row| row.status == Some(Status::Running));
        for row in running_here.filter(|row| has_ended(&row.sequence)) {
            (row.status, row.error_type) = (Some(Status::Unknown), Some("UNKNOWN".into()));
        }
        let closed: HashSet<u64> = self.closes.iter().map(|close| close.of).collect();
        for of in running.keys().copied().filter(has_ended).filter(|of| !closed.contains(of)) {
            let error_type = Some("UNKNOWN".into());
            self.closes.push(Close { of, status: Status::Unknown, error_type, position: None });
        }
    }

    /// Adds a record; fails if the payload does not match the kind.
    pub(crate) fn add(
        &mut self,
        running: &RunningIntents,
        header: &RecordHeader,
        payload: &[u8],
        position: LogPosition,
    ) -> Result<(), serde_json::Error> {
        self.last = position;
        match header.kind {
            RecordKind::CallOpen => self.open(header, &serde_json::from_slice(payload)?, position),
            RecordKind::Close => self.close(running, header, &serde_json::from_slice(payload)?, position),
            RecordKind::Admin | RecordKind::AdminOpen => {
                self.admin(header, &serde_json::from_slice(payload)?, position);
            }
            RecordKind::Effect => self.effect(running, header, position),
            RecordKind::Recovery => {
                self.rows.push(NewRow::of(header, Kind::Recovery, RowKeys::default(), position));
            }
        }
        Ok(())
    }

    fn open(&mut self, header: &RecordHeader, intent: &IntentKeys<'_>, position: LogPosition) {
        let previous = self.rows.last().map(|row| &row.keys);
        let keys = RowKeys {
            organization: share(previous, |keys| &keys.organization, &intent.organization),
            agent: share(previous, |keys| &keys.agent, &intent.agent),
            session: share(previous, |keys| &keys.session, &intent.session),
            call: Some(Arc::from(&*intent.call)),
            tool: share(previous, |keys| &keys.tool, &intent.tool),
            user: intent.user.as_deref().and_then(|user| share(previous, |keys| &keys.user, user)),
            principal: share(previous, |keys| &keys.principal, &intent.principal),
            action: None,
        };
        if let Some(more) = intent.repeated.and_then(|repeated| repeated.checked_sub(1)) {
            self.rates.add_refusals(&keys, header.at_ms, more);
        }
        self.open_rows.insert(header.sequence, self.rows.len());
        let row = NewRow::of(header, Kind::Call, keys, position);
        self.rows.push(NewRow { status: Some(Status::Running), ..row });
    }

    fn close(
        &mut self,
        running: &RunningIntents,
        header: &RecordHeader,
        outcome: &OutcomeKeys<'_>,
        position: LogPosition,
    ) {
        let (of, status, error_type) =
            (header.of, outcome.status, outcome.error_type.as_deref().map(Arc::from));
        let row = self.open_rows.get(&of).and_then(|index| self.rows.get_mut(*index));
        if let Some(keys) = row.as_ref().map(|row| &row.keys).or_else(|| running.get(&of)) {
            let is_ok = matches!(status, Status::Ok | Status::ClientRequired | Status::ApprovalRequired);
            let ran = outcome.executed == Some(Executed::Yes);
            if ran {
                self.usage.add(keys, header.at_ms, outcome.usage, is_ok);
            }
            let error_type = outcome.error_type.as_deref();
            // The record of the client's part of a call has no usage.
            let ran = ran && outcome.usage.duration_us > 0;
            // The name may be that of another organization by now.
            let of_platform =
                self.rates.is_deleted_since(keys.organization.as_ref(), of).then(|| keys.of_platform());
            let rate_keys = of_platform.as_ref().unwrap_or(keys);
            self.rates.add(rate_keys, header.at_ms, error_type, ran, outcome.duration_us, &outcome.usage);
            if let Some(organization) = keys.deleted_organization().filter(|_| status == Status::Ok) {
                self.rates.delete(organization, header.sequence);
            }
        }
        match row {
            Some(row) => {
                (row.status, row.error_type, row.close_position) = (Some(status), error_type, Some(position));
            }
            None => self.closes.push(Close { of, status, error_type, position: Some(position) }),
        }
    }

    fn effect(&mut self, running: &RunningIntents, header: &RecordHeader, position: LogPosition) {
        let here =
            self.open_rows.get(&header.of).and_then(|index| self.rows.get(*index)).map(|row| &row.keys);
        let keys = here.or_else(|| running.get(&header.of)).cloned().unwrap_or_default();
        let row = NewRow::of(header, Kind::Effect, keys, position);
        self.rows.push(NewRow { of: Some(header.of), ..row });
    }

    fn admin(&mut self, header: &RecordHeader, act: &AdminKeys<'_>, position: LogPosition) {
        let previous = self.rows.last().map(|row| &row.keys);
        let keys = RowKeys {
            organization: act.organization.as_deref().map(Arc::from),
            principal: share(previous, |keys| &keys.principal, &act.principal),
            action: share(previous, |keys| &keys.action, &act.action),
            ..RowKeys::default()
        };
        let (status, error_type) = match &*act.outcome {
            _ if header.kind == RecordKind::AdminOpen => (Status::Running, None),
            "ok" => (Status::Ok, None),
            error => (Status::Error, Some(Arc::from(error))),
        };
        self.open_rows.insert(header.sequence, self.rows.len());
        let row = NewRow::of(header, Kind::Admin, keys, position);
        self.rows.push(NewRow { status: Some(status), error_type, ..row });
    }

    /// Writes the rows, in the caller's transaction, which also stores the position.
    pub(crate) async fn store(
        &mut self,
        connection: &mut SqliteConnection,
        inserts: &InsertStatements,
    ) -> Result<(), sqlx::Error> {
        self.insert_rows(connection, inserts).await?;
        self.update_rows(connection).await?;
        self.usage.store(connection).await?;
        self.rates.store(connection).await?;
        self.insert_span(connection).await
    }

    async fn insert_rows(
        &self,
        connection: &mut SqliteConnection,
        InsertStatements(statements): &InsertStatements,
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
                .push_bind(close.status as i64)
                .push_bind(close.error_type.clone())
                .push_bind(close.position.map(LogPosition::pack));
        });
        query.push(") WHERE sequence = column1");
        query.build().persistent(false).execute(connection).await.map(drop)
    }

    /// Inserts one row per batch in place of an index on times: it bounds the sequences of a time range.
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

    /// The calls that began or ended in the batch: those of earlier batches, then its own.
    pub(crate) fn calls<'a>(
        &'a self,
        running: &'a RunningIntents,
    ) -> impl DoubleEndedIterator<Item = IndexedCall<'a>> {
        let ended = self.closes.iter().filter_map(move |close| {
            // Administrative acts run, too.
            let keys = running.get(&close.of).filter(|keys| keys.action.is_none())?;
            let Close { of: sequence, status, ref error_type, .. } = *close;
            let error_type = error_type.as_deref();
            Some(IndexedCall { sequence, keys, status, error_type, began_before: true })
        });
        let begun = self.rows.iter().filter(|row| row.kind == Kind::Call).filter_map(|row| {
            let error_type = row.error_type.as_deref();
            let NewRow { sequence, ref keys, status, .. } = *row;
            Some(IndexedCall { sequence, keys, status: status?, error_type, began_before: false })
        });
        ended.chain(begun)
    }

    /// Updates the running calls after the commit.
    pub(crate) fn update_running(&mut self, running: &mut RunningIntents) {
        for close in &self.closes {
            running.remove(&close.of);
        }
        let still = self.rows.drain(..).filter(|row| row.status == Some(Status::Running));
        running.extend(still.map(|row| (row.sequence, row.keys)));
        self.rates.forget_deletions(running.keys());
    }

    /// Clears the batch and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.open_rows.clear();
        self.closes.clear();
        self.usage.clear();
        self.rates.clear();
    }
}

/// The statements that insert rows, largest first: few, so that each is prepared once and cached, and none so large that
/// its values need freshly mapped memory each time. `OR FAIL` spares SQLite a statement journal: a failed statement rolls
/// back the whole transaction anyway.
pub(crate) struct InsertStatements([(usize, Arc<str>); 3]);

impl Default for InsertStatements {
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
            .bind(row.kind as i64)
            .bind(row.keys.organization.clone())
            .bind(row.keys.agent.clone())
            .bind(row.keys.session.clone())
            .bind(row.keys.call.clone())
            .bind(row.keys.tool.clone())
            .bind(row.keys.user.clone())
            .bind(row.keys.principal.clone())
            .bind(row.keys.action.clone())
            .bind(row.of.map(integer))
            .bind(row.status.map(|status| status as i64))
            .bind(row.error_type.clone())
            .bind(row.position.pack())
            .bind(row.close_position.map(LogPosition::pack))
            .bind(row.records.map(integer));
    }
    query.execute(connection).await.map(drop)
}

/// Clones the text of the previous row if it is equal, and allocates otherwise.
fn share(
    previous: Option<&RowKeys>,
    column: fn(&RowKeys) -> &Option<Arc<str>>,
    text: &str,
) -> Option<Arc<str>> {
    let previous = previous.and_then(|keys| column(keys).as_ref());
    Some(previous.filter(|previous| &***previous == text).cloned().unwrap_or_else(|| text.into()))
}

impl NewRow {
    fn new(sequence: u64, at_ms: u64, kind: Kind, keys: RowKeys, position: LogPosition) -> Self {
        let (of, status, error_type, close_position, records) = (None, None, None, None, None);
        Self { sequence, at_ms, kind, keys, of, status, error_type, position, close_position, records }
    }

    fn of(header: &RecordHeader, kind: Kind, keys: RowKeys, position: LogPosition) -> Self {
        Self::new(header.sequence, header.at_ms, kind, keys, position)
    }
}
