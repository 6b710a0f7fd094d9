//! Search: a page of rows by filter, or one call by its id.
//!
//! A search sees every record appended before it began: the log is synced, the index catches up, and the content of the rows
//! is read from the segments. The caller restricts the scope: a token of one organization passes it as a filter. Pages are
//! ordered by sequence, not by time, so that new records cause no row to be skipped or repeated.
//!
//! A record is returned only if it is the one that the row was made from, with the same organization and other search columns.
//! Any other content at its position is reported as damaged.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _, Sqlite, SqlitePool};
use toolgate_api::audit::PAGE_ROWS_MAX;
use toolgate_api::error::{ErrorType, Fault};

use super::data_keys::{DataKeys, OpenedPart, act_aad, call_aad, effect_aad, open_part};
use super::error::AuditError;
use super::folder::Folder;
use super::format::{LogPosition, RecordHeader, RecordKind};
use super::inner_calls::inner_ids;
use super::query::{PAGE_ROWS, Query};
use super::reader::read_from;
use super::record::{ActOutcome, AdminRecord, CallIntent, CallOutcome, EffectRecord, Kind, Status};
use super::record::{DamagedRange, Order, Row};
use super::row_keys::RowKeys;
use super::sql_number::{integer, natural};

/// Rows that a page looks through where no index has those that match. They take tens of milliseconds, however large the log is.
const SEARCHED_ROWS: u64 = 250_000;

/// A page of rows and the cursor of the next one. With oldest first there always is a cursor, to poll for later records. A page
/// that does not look through the whole log has a cursor, too, and may be empty.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    pub rows: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct LostEffects {
    effects_lost: Option<u64>,
}

/// A row of the index: the positions of its records and the values that they must match.
pub(super) struct Hit {
    sequence: u64,
    at_ms: u64,
    kind: Kind,
    keys: RowKeys,
    of: Option<u64>,
    status: Option<Status>,
    error_type: Option<String>,
    open_position: LogPosition,
    close_position: Option<LogPosition>,
    /// Number of damaged records.
    records: Option<u64>,
}

/// Bytes of the records after which a page ends, since the arguments of one call can have megabytes.
const PAGE_BYTES: u64 = 8 * 1024 * 1024;

/// Reason in a row of records that are known by their sequences alone.
pub(super) const UNREADABLE: &str = "records that could not be read when the index was made";

/// The segments, and the keys of the data in them.
#[derive(Clone)]
pub(crate) struct LogContent {
    pub folder: Folder,
    pub keys: Option<DataKeys>,
}

/// A record that could not be read.
enum ReadError {
    Damaged(&'static str),
    Disk(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Damaged("its file is missing"),
            io::ErrorKind::InvalidData => Self::Damaged("no complete record is there"),
            _ => Self::Disk(error),
        }
    }
}

impl From<serde_json::Error> for ReadError {
    fn from(_: serde_json::Error) -> Self {
        Self::Damaged("the record there has another kind of content")
    }
}

/// Checks that the record is the one that the row was made from.
fn require(matches: bool) -> Result<(), ReadError> {
    if matches { Ok(()) } else { Err(ReadError::Damaged("another record is there")) }
}

pub(crate) async fn search(
    reading: &SqlitePool,
    content: &LogContent,
    query: &Query,
) -> Result<Page, AuditError> {
    search_within(reading, content, query, SEARCHED_ROWS).await
}

/// Searches as [`search`] does, through at most this many rows where no index has those that match.
pub(super) async fn search_within(
    reading: &SqlitePool,
    content: &LogContent,
    query: &Query,
    most_rows: u64,
) -> Result<Page, AuditError> {
    let floor = if has_index(query) { None } else { floor(reading, query, most_rows).await? };
    let hits = hits(reading, query, floor).await?;
    let asked = hits.len();
    let rows = read_within(content, hits, PAGE_BYTES).await?;
    let has_more = rows.len() < asked || asked as u64 == u64::from(page_rows(query));
    let last = rows.last().map(|row| row.sequence.to_string());
    let next = match query.order {
        Order::NewestFirst => last.filter(|_| has_more).or_else(|| Some((floor? + 1).to_string())),
        Order::OldestFirst => last.or_else(|| query.cursor.clone()).or_else(|| Some("0".to_owned())),
    };
    Ok(Page { rows, next })
}

/// Whether an index has the rows that match, or most rows match. A search from the oldest on, which follows the log, and one of a
/// time are not bounded either.
fn has_index(query: &Query) -> bool {
    let Query { agent, call, parent, tool, user, principal, error_type, .. } = query;
    let others = [agent, call, parent, tool, user, principal, error_type];
    query.order == Order::OldestFirst
        || query.session.is_some()
        || query.action.is_some()
        || query.since_ms.is_some()
        || query.refused
        || query.status.is_some_and(|status| status != Status::Ok)
        || match query.kind {
            Some(Kind::Admin | Kind::Recovery | Kind::Damaged) => true,
            Some(Kind::Effect) => false,
            Some(Kind::Call) | None => others.iter().all(|filter| filter.is_none()),
        }
}

/// The sequence down to which a page looks, none if it looks through the rest of the log. An organization's rows are counted in its
/// index; of all rows, there are at most as many as sequences.
async fn floor(reading: &SqlitePool, query: &Query, most_rows: u64) -> Result<Option<u64>, AuditError> {
    let before = integer(cursor(query)?.unwrap_or(u64::MAX));
    if let Some(organization) = &query.organization {
        let sql = "SELECT sequence FROM rows WHERE organization = $1 AND sequence < $2 \
                   ORDER BY sequence DESC LIMIT 1 OFFSET $3";
        let floor = sqlx::query_scalar(sql).bind(organization).bind(before).bind(integer(most_rows));
        return Ok(floor.fetch_optional(reading).await?.map(natural));
    }
    let sql = "SELECT MIN($1, (SELECT max(sequence) FROM rows) + 1) - $2 AS floor \
               WHERE floor >= (SELECT min(sequence) FROM rows)";
    let floor = sqlx::query_scalar(sql).bind(before).bind(integer(most_rows)).fetch_optional(reading);
    Ok(floor.await?.map(natural))
}

/// The rows of the index on the page of a query, after the sequence `floor`.
pub(super) async fn hits(
    reading: &SqlitePool,
    query: &Query,
    floor: Option<u64>,
) -> Result<Vec<Hit>, AuditError> {
    let mut sql = select(query, floor, page_rows(query))?;
    let found = sql.build().fetch_all(reading).await?;
    Ok(found.iter().filter_map(Hit::from_row).collect())
}

fn page_rows(query: &Query) -> u32 {
    query.limit.unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS_MAX)
}

/// Returns the newest call of this id in this session; else a damaged range recorded since the session began, which may have
/// contained it.
pub(crate) async fn lookup(
    reading: &SqlitePool,
    content: &LogContent,
    session: &str,
    begun_ms: u64,
    call: &str,
) -> Result<Option<Row>, AuditError> {
    let query = Query {
        session: Some(session.to_owned()),
        call: Some(call.to_owned()),
        kind: Some(Kind::Call),
        limit: Some(1),
        ..Query::default()
    };
    if let Some(row) = search(reading, content, &query).await?.rows.pop() {
        return Ok(Some(row));
    }
    let sql = format!("{SELECT} WHERE kind = 4 AND at_ms >= $1 LIMIT 1");
    let found = sqlx::query(AssertSqlSafe(sql)).bind(integer(begun_ms)).fetch_all(reading).await;
    let hits = found?.iter().filter_map(Hit::from_row).collect();
    Ok(read_rows(content, hits).await?.pop())
}

/// Ids of the earlier calls of a session.
pub struct EarlierCalls {
    /// `None` if a damaged range may have contained any id.
    ids: Option<HashSet<Box<str>>>,
}

impl EarlierCalls {
    /// Returns whether the session may have had a call with this id.
    pub fn may_have(&self, id: &str) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(id))
    }

    /// Returns whether the session had a call with this id, whose record may have been cut since.
    pub fn has(&self, id: &str) -> bool {
        self.ids.as_ref().is_some_and(|ids| ids.contains(id))
    }
}

pub(crate) async fn earlier_calls(
    reading: &SqlitePool,
    session: &str,
    begun_ms: u64,
) -> Result<EarlierCalls, AuditError> {
    let damaged = sqlx::query("SELECT 1 FROM rows WHERE kind = 4 AND at_ms >= $1 LIMIT 1");
    if damaged.bind(integer(begun_ms)).fetch_optional(reading).await?.is_some() {
        return Ok(EarlierCalls { ids: None });
    }
    let ids = sqlx::query_scalar::<_, String>(
        "SELECT call FROM rows WHERE session = $1 AND kind = $2 AND call IS NOT NULL",
    );
    let ids = ids.bind(session).bind(Kind::Call as i64).fetch_all(reading).await?;
    Ok(EarlierCalls { ids: Some(ids.into_iter().map(Box::from).collect()) })
}

pub(super) const SELECT: &str = "SELECT sequence, at_ms, kind, organization, agent, session, call, tool, user, principal, \
                      action, of_call, status, error_type, place, close_place, records FROM rows";

fn cursor(query: &Query) -> Result<Option<u64>, AuditError> {
    let Some(cursor) = &query.cursor else { return Ok(None) };
    cursor.parse().map(Some).map_err(|_| AuditError::BadCursor { cursor: cursor.clone() })
}

/// Selects the matching rows and the damaged ranges that may have contained matching records. Each part uses an index ordered by
/// sequence, and SQLite merges the two up to the page size.
pub(super) fn select(
    query: &Query,
    floor: Option<u64>,
    limit: u32,
) -> Result<QueryBuilder<Sqlite>, AuditError> {
    let cursor = cursor(query)?;
    let (comparison, direction) = match query.order {
        Order::NewestFirst => ("<", "DESC"),
        Order::OldestFirst => (">", "ASC"),
    };
    let mut sql = QueryBuilder::new("");
    let push_bounds = |sql: &mut QueryBuilder<Sqlite>| {
        if let Some(cursor) = cursor {
            sql.push(format_args!(" AND sequence {comparison} ")).push_bind(integer(cursor));
        }
        if let Some(floor) = floor {
            sql.push(" AND sequence > ").push_bind(integer(floor));
        }
    };
    if query.kind != Some(Kind::Damaged) {
        select_known(&mut sql, query);
        push_bounds(&mut sql);
    }
    if query.kind.is_none() {
        sql.push(" UNION ALL ");
    }
    if matches!(query.kind, None | Some(Kind::Damaged)) {
        select_damaged(&mut sql, query);
        push_bounds(&mut sql);
    }
    sql.push(format_args!(" ORDER BY sequence {direction} LIMIT {limit}"));
    Ok(sql)
}

fn select_known(sql: &mut QueryBuilder<Sqlite>, query: &Query) {
    let is_act = query.action.is_some() || matches!(query.kind, Some(Kind::Admin | Kind::Recovery));
    let are_few = is_act || query.status == Some(Status::Running);
    sql.push(SELECT).push(" WHERE kind <> 4");
    // Few rows have an index of their own, which SQLite takes if it may not take that of a whole organization.
    push_filters(sql, query, if are_few && query.session.is_none() { "+" } else { "" });
    if let Some(kind) = query.kind {
        sql.push(format_args!(" AND kind = {}", kind as i64));
    }
    if is_act {
        sql.push(" AND kind > 1");
    }
    // The clock may have been set back, so times are not ordered by sequence; the spans bound the sequences.
    if let Some(since_ms) = query.since_ms {
        sql.push(" AND at_ms >= ").push_bind(integer(since_ms));
        sql.push(" AND sequence >= (SELECT min(first_sequence) FROM spans WHERE greatest_ms >= ");
        sql.push_bind(integer(since_ms)).push(")");
    }
    if let Some(until_ms) = query.until_ms {
        sql.push(" AND at_ms < ").push_bind(integer(until_ms));
        sql.push(" AND sequence <= (SELECT max(last_sequence) FROM spans WHERE least_ms < ");
        sql.push_bind(integer(until_ms)).push(")");
    }
}

/// Adds the filters by column, each column of text with a mark before it: `+` keeps SQLite from using its index.
pub(super) fn push_filters(sql: &mut QueryBuilder<Sqlite>, query: &Query, mark: &str) {
    let texts = [
        ("organization", query.organization.as_deref()),
        ("agent", query.agent.as_deref()),
        ("session", query.session.as_deref()),
        ("call", query.call.as_deref()),
        ("tool", query.tool.as_deref()),
        ("user", query.user.as_deref()),
        ("principal", query.principal.as_deref()),
        ("action", query.action.as_deref()),
        ("error_type", query.error_type.as_deref()),
    ];
    for (column, text) in texts {
        if let Some(text) = text {
            sql.push(format_args!(" AND {mark}{column} = ")).push_bind(text.to_owned());
        }
    }
    if let Some(parent) = &query.parent {
        let (first, after) = inner_ids(parent);
        sql.push(format_args!(" AND {mark}call >= ")).push_bind(first);
        sql.push(format_args!(" AND {mark}call < ")).push_bind(after);
    }
    if query.refused {
        let refusals = ErrorType::ALL.iter().filter(|code| code.fault() == Fault::Gate);
        let codes: Vec<_> = refusals.map(|code| format!("'{code}'")).collect();
        // The status of each of them, by the condition of the index of such rows.
        let (status, codes) = (Status::Error as i64, codes.join(", "));
        sql.push(format_args!(" AND status = {status} AND status > 1 AND {mark}error_type IN ({codes})"));
    }
    if let Some(status) = query.status {
        // A number, since a bound one does not show that the row is in an index of some rows.
        sql.push(format_args!(" AND status = {}", status as i64));
        if status as i64 > Status::Ok as i64 {
            // The condition of the index of such rows, which are few.
            sql.push(" AND status > 1");
        }
    }
}

/// Filters by time alone, since the damaged records may have had any organization and kind. They were recorded after the
/// previous row.
fn select_damaged(sql: &mut QueryBuilder<Sqlite>, query: &Query) {
    sql.push(SELECT).push(" WHERE kind = 4");
    if let Some(since_ms) = query.since_ms {
        sql.push(" AND at_ms >= ").push_bind(integer(since_ms));
    }
    if let Some(until_ms) = query.until_ms {
        sql.push(
            " AND coalesce((SELECT before.at_ms FROM rows AS before WHERE before.sequence < rows.sequence",
        );
        sql.push(" ORDER BY before.sequence DESC LIMIT 1), 0) < ").push_bind(integer(until_ms));
    }
}

impl Hit {
    /// The positions of its records.
    pub(super) fn positions(&self) -> impl Iterator<Item = LogPosition> + use<> {
        [Some(self.open_position), self.close_position].into_iter().flatten()
    }

    /// Returns `None` for an unknown kind; the version of the index rules that out.
    pub(super) fn from_row(row: &SqliteRow) -> Option<Self> {
        let number = |column: &str| row.get::<Option<i64>, _>(column);
        Some(Self {
            sequence: natural(row.get("sequence")),
            at_ms: natural(row.get("at_ms")),
            kind: Kind::from_code(row.get("kind"))?,
            keys: RowKeys::from_row(row),
            of: number("of_call").map(natural),
            status: number("status").and_then(Status::from_code),
            error_type: row.get("error_type"),
            open_position: LogPosition::unpack(row.get("place")),
            close_position: number("close_place").map(LogPosition::unpack),
            records: number("records").map(natural),
        })
    }
}

pub(super) async fn read_rows(content: &LogContent, hits: Vec<Hit>) -> Result<Vec<Row>, AuditError> {
    read_within(content, hits, u64::MAX).await
}

/// Reads rows until their records have more than `most_bytes`.
async fn read_within(content: &LogContent, hits: Vec<Hit>, most_bytes: u64) -> Result<Vec<Row>, AuditError> {
    let mut records = RecordReader { content: content.clone(), files: HashMap::new(), bytes: 0 };
    let read = tokio::task::spawn_blocking(move || {
        let mut rows = Vec::with_capacity(hits.len());
        for hit in &hits {
            if records.bytes > most_bytes {
                break;
            }
            rows.push(records.row(hit)?);
        }
        Ok::<_, io::Error>(rows)
    });
    read.await.map_err(AuditError::index)?.map_err(AuditError::index)
}

/// Reads records by position; caches the open segment files, since a page spans few of them.
struct RecordReader {
    content: LogContent,
    files: HashMap<u64, File>,
    /// Bytes of the records that were read.
    bytes: u64,
}

impl RecordReader {
    /// Reads the record at this position, which must have this kind and call.
    fn record(
        &mut self,
        LogPosition { segment, offset }: LogPosition,
        kind: RecordKind,
        of: u64,
    ) -> Result<(RecordHeader, Vec<u8>), ReadError> {
        let file = match self.files.entry(segment) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::open(self.content.folder.segment(segment))?),
        };
        let (header, payload) = read_from(file, offset)?;
        self.bytes = self.bytes.saturating_add(payload.len() as u64);
        require((header.kind, header.of) == (kind, of))?;
        Ok((header, payload))
    }

    fn row(&mut self, hit: &Hit) -> io::Result<Row> {
        let mut row = row_of(hit);
        let read =
            self.read_content(hit, &mut row).map_err(|error| (hit.open_position, error)).and_then(|()| {
                let Some(position) = hit.close_position else { return Ok(()) };
                self.read_outcome(hit, position, &mut row).map_err(|error| (position, error))
            });
        let records = hit.records.unwrap_or(1);
        match read {
            Ok(()) if hit.status == Some(Status::Unknown) && hit.close_position.is_none() => {
                let what = "its outcome was in a damaged range".into();
                row.damaged = Some(DamagedRange { records, segment: None, offset: None, what });
            }
            Ok(()) => {}
            Err((_, ReadError::Disk(error))) => return Err(error),
            Err((LogPosition { segment, offset }, ReadError::Damaged(what))) => {
                let (segment, offset) = (Some(segment), Some(offset));
                row.damaged = Some(DamagedRange { records, segment, offset, what: what.into() });
            }
        }
        Ok(row)
    }

    fn read_content(&mut self, hit: &Hit, row: &mut Row) -> Result<(), ReadError> {
        let kind = match hit.kind {
            Kind::Call => RecordKind::CallOpen,
            Kind::Effect => RecordKind::Effect,
            Kind::Admin => match (hit.status, hit.close_position) {
                (Some(Status::Ok | Status::Error), None) => RecordKind::Admin,
                _ => RecordKind::AdminOpen,
            },
            Kind::Recovery => RecordKind::Recovery,
            Kind::Damaged => return Err(ReadError::Damaged(UNREADABLE)),
        };
        let (header, payload) = self.record(hit.open_position, kind, hit.of.unwrap_or(0))?;
        require((header.sequence, header.at_ms) == (hit.sequence, hit.at_ms))?;
        let keys = self.content.keys.as_ref();
        match hit.kind {
            Kind::Call => {
                let mut intent: CallIntent<'static> = serde_json::from_slice(&payload)?;
                require(RowKeys::from(&intent) == hit.keys)?;
                let opened = open_part(keys, &payload, &call_aad(&intent))?;
                row.arguments_deleted = opened.put_json(&mut intent.arguments)?;
                row.call = Some(intent);
            }
            Kind::Admin => {
                let mut act: AdminRecord<'static> = serde_json::from_slice(&payload)?;
                require(RowKeys::from(&act) == hit.keys)?;
                let opened = open_part(keys, &payload, &act_aad(&act))?;
                row.arguments_deleted = opened.put_json(&mut act.details)?;
                row.admin = Some(act);
            }
            // An effect has no organization of its own; its call has, found by sequence.
            Kind::Effect => {
                let mut effect: EffectRecord<'static> = serde_json::from_slice(&payload)?;
                match open_part(keys, &payload, &effect_aad(header.of))? {
                    OpenedPart::Plain => {}
                    OpenedPart::Text(detail) => effect.detail = detail.into(),
                    OpenedPart::Deleted => row.arguments_deleted = true,
                }
                row.effect = Some(effect);
            }
            Kind::Recovery => row.recovery = Some(serde_json::from_slice(&payload)?),
            Kind::Damaged => {}
        }
        Ok(())
    }

    fn read_outcome(&mut self, hit: &Hit, position: LogPosition, row: &mut Row) -> Result<(), ReadError> {
        let (header, payload) = self.record(position, RecordKind::Close, hit.sequence)?;
        let ActOutcome { status, error_type, revision } = serde_json::from_slice(&payload)?;
        require((Some(status), error_type.as_deref()) == (hit.status, hit.error_type.as_deref()))?;
        row.closed_at_ms = Some(header.at_ms);
        if let Some(act) = &mut row.admin {
            act.outcome = error_type.unwrap_or("ok".into());
            act.revision = revision.or(act.revision);
            return Ok(());
        }
        let outcome: CallOutcome<'static> = serde_json::from_slice(&payload)?;
        row.effects_lost = serde_json::from_slice::<LostEffects>(&payload)?.effects_lost;
        row.outcome = Some(outcome);
        Ok(())
    }
}

/// A row with the columns of the index alone.
fn row_of(hit: &Hit) -> Row {
    Row {
        // The outcome of an act is in its record; a status marks an act that still runs.
        status: hit.status.filter(|status| hit.kind == Kind::Call || *status == Status::Running),
        of: hit.of,
        ..Row::new(hit.sequence, hit.at_ms, hit.kind)
    }
}
