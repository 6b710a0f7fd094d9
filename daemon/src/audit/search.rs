//! Questions to the log: a page of rows by filter, or one call by its id.
//!
//! A search sees everything that was appended before it began: it has the log synced, waits for the index to
//! catch up, finds the rows there and reads their content from the segments. Scope is the caller's business:
//! whoever may see one organization only passes it as a filter. Pages follow the order of the log, not the
//! clock, so that none is skipped or shown twice while new ones come.
//!
//! The index only says where to look: what stands there is shown if it is the record that the row was made of, with
//! the same organization and whatever else a search filters by. Anything else is a damaged place, and said to be one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _, Sqlite, SqlitePool};
use utoipa::ToSchema;

use super::error::AuditError;
use super::fold::{Keys, kind_code, kind_of, status_code, status_of};
use super::folder::Folder;
use super::format::{RecordHeader, RecordKind};
use super::index::{integer, natural};
use super::place::Place;
use super::reader::read_from;
use super::record::{AdminRecord, CallIntent, CallOutcome, EffectRecord, Kind, Recovery, Status};

/// Rows of a page where none is asked for.
pub const PAGE_ROWS: u32 = 50;
/// Rows of the largest page: each may carry its arguments.
pub const PAGE_ROWS_MAX: u32 = 500;

/// What to look for; everything that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Query {
    pub organization: Option<String>,
    pub agent: Option<String>,
    pub session: Option<String>,
    pub call: Option<String>,
    /// `namespace/tool`.
    pub tool: Option<String>,
    /// Whom a session acts for.
    pub user: Option<String>,
    /// The id of the token that asked or acted.
    pub principal: Option<String>,
    /// What an administrative act did.
    pub action: Option<String>,
    pub status: Option<Status>,
    pub error_type: Option<String>,
    pub kind: Option<Kind>,
    /// Not before this time.
    pub since_ms: Option<u64>,
    /// Before this time.
    pub until_ms: Option<u64>,
    /// [`Page::next`] of the page before.
    pub cursor: Option<String>,
    /// [`PAGE_ROWS`] where it is not set, at most [`PAGE_ROWS_MAX`].
    pub limit: Option<u32>,
    pub order: Order,
}

/// Newest first unless asked otherwise; oldest first is for following the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// For looking back.
    #[default]
    NewestFirst,
    /// For following the log.
    OldestFirst,
}

/// Rows, and where the next page begins; with oldest first there is always a `next`, to ask again later.
#[derive(Clone, Debug, Serialize)]
pub struct Page {
    pub rows: Vec<Row>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// One call with what became of it, one effect, one act, one recovery, or records that can no longer be read;
/// `kind` says which of the last members are there.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = AuditRecord)]
pub struct Row {
    /// Place in the order of the log; never given twice.
    pub sequence: u64,
    /// What it is about.
    pub kind: Kind,
    /// When it was recorded, in milliseconds since 1970.
    pub at_ms: u64,
    /// How the call ended, or `running`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Status, required = false)]
    pub status: Option<Status>,
    /// The call, where it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallIntent<'static>, required = false)]
    pub call: Option<CallIntent<'static>>,
    /// When it ended, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub closed_at_ms: Option<u64>,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallOutcome<'static>, required = false)]
    pub outcome: Option<CallOutcome<'static>>,
    /// Effects of the call that found no room in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub effects_lost: Option<u64>,
    /// The sequence of the call that an effect belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub of: Option<u64>,
    /// The effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = EffectRecord<'static>, required = false)]
    pub effect: Option<EffectRecord<'static>>,
    /// The act.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = AdminRecord<'static>, required = false)]
    pub admin: Option<AdminRecord<'static>>,
    /// What a start after a crash found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Recovery, required = false)]
    pub recovery: Option<Recovery>,
    /// What of it can no longer be read; with the kind `damaged`, records between the row before and the next, and whose
    /// they were is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Damaged, required = false)]
    pub damaged: Option<Damaged>,
}

/// A place of the log that does not have what was recorded there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = AuditDamaged)]
pub struct Damaged {
    /// How many records cannot be read, whosever they were.
    pub records: u64,
    /// The number of the segment; not shown to tenants, nor of an outcome that was lost with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub segment: Option<u64>,
    /// Where in it, in bytes; shown with the segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    pub offset: Option<u64>,
    /// What is there instead.
    pub what: &'static str,
}

#[derive(Deserialize)]
struct Loss {
    effects_lost: Option<u64>,
}

/// A row of the index: where its records are, and what they have to say to be shown.
struct Hit {
    sequence: u64,
    at_ms: u64,
    kind: Kind,
    keys: Keys,
    of: Option<u64>,
    status: Option<Status>,
    error_type: Option<String>,
    opened: Place,
    closed: Option<Place>,
    /// How many records a damaged place had.
    records: Option<u64>,
}

/// What a damaged place has, whose records are known by their number alone.
pub(super) const UNREADABLE: &str = "records that could not be read when the index was made";

/// Why a record is not shown.
enum Unread {
    Damaged(&'static str),
    Disk(io::Error),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Damaged("its file is missing"),
            io::ErrorKind::InvalidData => Self::Damaged("no whole record is there"),
            _ => Self::Disk(error),
        }
    }
}

impl From<serde_json::Error> for Unread {
    fn from(_: serde_json::Error) -> Self {
        Self::Damaged("what is recorded there is not of its kind")
    }
}

/// What stands there must be what the index was made of, and so what was asked for.
fn same(is: bool) -> Result<(), Unread> {
    if is { Ok(()) } else { Err(Unread::Damaged("another record is there")) }
}

pub async fn search(reading: &SqlitePool, folder: &Folder, query: &Query) -> Result<Page, AuditError> {
    let limit = query.limit.unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS_MAX);
    let mut sql = select(query, cursor(query)?, limit);
    let found = sql.build().fetch_all(reading).await?;
    let hits: Vec<Hit> = found.iter().filter_map(Hit::from_row).collect();
    let last = hits.last().map(|hit| hit.sequence.to_string());
    let next = match query.order {
        Order::NewestFirst => last.filter(|_| hits.len() as u64 == u64::from(limit)),
        Order::OldestFirst => last.or_else(|| query.cursor.clone()).or_else(|| Some("0".to_owned())),
    };
    Ok(Page { rows: read_rows(folder, hits).await?, next })
}

/// The newest call of this id in this session; where there is none, a damaged place that may have had it, since it
/// is of the time after the session began.
pub async fn lookup(
    reading: &SqlitePool,
    folder: &Folder,
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
    if let Some(row) = search(reading, folder, &query).await?.rows.pop() {
        return Ok(Some(row));
    }
    let sql = format!("{SELECT} WHERE kind = 4 AND at_ms >= $1 LIMIT 1");
    let found = sqlx::query(AssertSqlSafe(sql)).bind(integer(begun_ms)).fetch_all(reading).await;
    let hits = found?.iter().filter_map(Hit::from_row).collect();
    Ok(read_rows(folder, hits).await?.pop())
}

/// The ids of calls that a session had.
pub struct EarlierCalls {
    /// None where a damaged place may have had any.
    ids: Option<HashSet<Box<str>>>,
}

impl EarlierCalls {
    /// Whether the session may have had a call of this id.
    pub fn may_have(&self, id: &str) -> bool {
        self.ids.as_ref().is_none_or(|ids| ids.contains(id))
    }
}

pub async fn earlier_calls(
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
    let ids = ids.bind(session).bind(kind_code(Kind::Call)).fetch_all(reading).await?;
    Ok(EarlierCalls { ids: Some(ids.into_iter().map(Box::from).collect()) })
}

const SELECT: &str = "SELECT sequence, at_ms, kind, organization, agent, session, call, tool, user, principal, \
                      action, of_call, status, error_type, place, close_place, records FROM rows";

fn cursor(query: &Query) -> Result<Option<u64>, AuditError> {
    let Some(cursor) = &query.cursor else { return Ok(None) };
    cursor.parse().map(Some).map_err(|_| AuditError::BadCursor { cursor: cursor.clone() })
}

/// What is asked for, and the damaged places that may have had some of it. Each comes in the order of the log by an
/// index of its own, and SQLite merges the two only as far as the page goes.
fn select(query: &Query, cursor: Option<u64>, limit: u32) -> QueryBuilder<Sqlite> {
    let (comparison, direction) = match query.order {
        Order::NewestFirst => ("<", "DESC"),
        Order::OldestFirst => (">", "ASC"),
    };
    let mut sql = QueryBuilder::new("");
    let onward = |sql: &mut QueryBuilder<Sqlite>| {
        if let Some(cursor) = cursor {
            sql.push(format_args!(" AND sequence {comparison} ")).push_bind(integer(cursor));
        }
    };
    if query.kind != Some(Kind::Damaged) {
        select_known(&mut sql, query);
        onward(&mut sql);
    }
    if query.kind.is_none() {
        sql.push(" UNION ALL ");
    }
    if matches!(query.kind, None | Some(Kind::Damaged)) {
        select_damaged(&mut sql, query);
        onward(&mut sql);
    }
    sql.push(format_args!(" ORDER BY sequence {direction} LIMIT {limit}"));
    sql
}

fn select_known(sql: &mut QueryBuilder<Sqlite>, query: &Query) {
    sql.push(SELECT).push(" WHERE kind <> 4");
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
            sql.push(format_args!(" AND {column} = ")).push_bind(text.to_owned());
        }
    }
    for (column, code) in [("status", query.status.map(status_code)), ("kind", query.kind.map(kind_code))] {
        if let Some(code) = code {
            sql.push(format_args!(" AND {column} = ")).push_bind(code);
        }
    }
    // The clock may have been set back, so times do not follow sequences; a span bounds which sequences can
    // have them.
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

/// What was there may have been of anybody and of any kind, so only its time leaves it out: it was recorded after the
/// row before it.
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
    /// None of a kind that this version does not know; the index has a version of its own, so that there is none.
    fn from_row(row: &SqliteRow) -> Option<Self> {
        let number = |column: &str| row.get::<Option<i64>, _>(column);
        Some(Self {
            sequence: natural(row.get("sequence")),
            at_ms: natural(row.get("at_ms")),
            kind: kind_of(row.get("kind"))?,
            keys: Keys::from_row(row),
            of: number("of_call").map(natural),
            status: number("status").and_then(status_of),
            error_type: row.get("error_type"),
            opened: Place::unpacked(row.get("place")),
            closed: number("close_place").map(Place::unpacked),
            records: number("records").map(natural),
        })
    }
}

async fn read_rows(folder: &Folder, hits: Vec<Hit>) -> Result<Vec<Row>, AuditError> {
    let mut content = Content { folder: folder.clone(), files: HashMap::new() };
    let read = tokio::task::spawn_blocking(move || {
        hits.iter().map(|hit| content.row(hit)).collect::<io::Result<Vec<Row>>>()
    });
    read.await.map_err(AuditError::index)?.map_err(AuditError::index)
}

/// Reads records by their place; a page lies in few segments.
struct Content {
    folder: Folder,
    files: HashMap<u64, File>,
}

impl Content {
    /// The record at this place, if it is of this kind and belongs to this call.
    fn record(
        &mut self,
        Place { segment, offset }: Place,
        kind: RecordKind,
        of: u64,
    ) -> Result<(RecordHeader, Vec<u8>), Unread> {
        let file = match self.files.entry(segment) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(File::open(self.folder.segment(segment))?),
        };
        let (header, payload) = read_from(file, offset)?;
        same((header.kind, header.of) == (kind, of))?;
        Ok((header, payload))
    }

    fn row(&mut self, hit: &Hit) -> io::Result<Row> {
        let mut row = Row::unread(hit);
        let read = self.open(hit, &mut row).map_err(|unread| (hit.opened, unread)).and_then(|()| {
            let Some(place) = hit.closed else { return Ok(()) };
            self.close(hit, place, &mut row).map_err(|unread| (place, unread))
        });
        let records = hit.records.unwrap_or(1);
        match read {
            Ok(()) if hit.status == Some(Status::Unknown) && hit.closed.is_none() => {
                let what = "its outcome was in a place that cannot be read";
                row.damaged = Some(Damaged { records, segment: None, offset: None, what });
            }
            Ok(()) => {}
            Err((_, Unread::Disk(error))) => return Err(error),
            Err((Place { segment, offset }, Unread::Damaged(what))) => {
                let (segment, offset) = (Some(segment), Some(offset));
                row.damaged = Some(Damaged { records, segment, offset, what });
            }
        }
        Ok(row)
    }

    fn open(&mut self, hit: &Hit, row: &mut Row) -> Result<(), Unread> {
        let kind = match hit.kind {
            Kind::Call => RecordKind::CallOpen,
            Kind::Effect => RecordKind::Effect,
            Kind::Admin => RecordKind::Admin,
            Kind::Recovery => RecordKind::Recovery,
            Kind::Damaged => {
                return Err(Unread::Damaged(UNREADABLE));
            }
        };
        let (header, payload) = self.record(hit.opened, kind, hit.of.unwrap_or(0))?;
        same((header.sequence, header.at_ms) == (hit.sequence, hit.at_ms))?;
        match hit.kind {
            Kind::Call => {
                let intent: CallIntent<'static> = serde_json::from_slice(&payload)?;
                same(Keys::from(&intent) == hit.keys)?;
                row.call = Some(intent);
            }
            Kind::Admin => {
                let act: AdminRecord<'static> = serde_json::from_slice(&payload)?;
                same(Keys::from(&act) == hit.keys)?;
                row.admin = Some(act);
            }
            // It has no organization of its own: that of its call is known by the call's sequence.
            Kind::Effect => row.effect = Some(serde_json::from_slice(&payload)?),
            Kind::Recovery => row.recovery = Some(serde_json::from_slice(&payload)?),
            Kind::Damaged => {}
        }
        Ok(())
    }

    fn close(&mut self, hit: &Hit, place: Place, row: &mut Row) -> Result<(), Unread> {
        let (header, payload) = self.record(place, RecordKind::CallClose, hit.sequence)?;
        let outcome: CallOutcome<'static> = serde_json::from_slice(&payload)?;
        same(
            (Some(outcome.status), outcome.error_type.as_deref()) == (hit.status, hit.error_type.as_deref()),
        )?;
        row.effects_lost = serde_json::from_slice::<Loss>(&payload)?.effects_lost;
        (row.closed_at_ms, row.outcome) = (Some(header.at_ms), Some(outcome));
        Ok(())
    }
}

impl Row {
    /// What the index knows by itself.
    fn unread(hit: &Hit) -> Self {
        Self {
            sequence: hit.sequence,
            kind: hit.kind,
            at_ms: hit.at_ms,
            status: hit.status.filter(|_| hit.kind == Kind::Call),
            call: None,
            closed_at_ms: None,
            outcome: None,
            effects_lost: None,
            of: hit.of,
            effect: None,
            admin: None,
            recovery: None,
            damaged: None,
        }
    }
}
