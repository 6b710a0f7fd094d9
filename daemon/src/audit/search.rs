//! Questions to the log: a page of rows by filter, or one call by its id.
//!
//! A search sees everything that was appended before it began: it has the log synced, waits for the index to
//! catch up, finds the rows there and reads their content from the segments. Scope is the caller's business:
//! whoever may see one organization only passes it as a filter. Pages follow the order of the log, not the
//! clock, so that none is skipped or shown twice while new ones come.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row as _, Sqlite, SqlitePool};
use utoipa::ToSchema;

use super::error::AuditError;
use super::fold::{kind_code, status_code};
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
    pub status: Option<Status>,
    pub error_type: Option<String>,
    pub kind: Option<Kind>,
    /// Not before this time.
    pub since_ms: Option<u64>,
    /// Before this time.
    pub until_ms: Option<u64>,
    /// `next` of the page before.
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

/// One call with what became of it, one effect, one act, or one recovery; `kind` says which of the last
/// members are there.
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
}

#[derive(Deserialize)]
struct Loss {
    effects_lost: Option<u64>,
}

/// A row of the index: where its records are.
struct Hit {
    sequence: u64,
    opened: Place,
    closed: Option<Place>,
}

pub async fn search(reading: &SqlitePool, folder: &Folder, query: &Query) -> Result<Page, AuditError> {
    let limit = query.limit.unwrap_or(PAGE_ROWS).clamp(1, PAGE_ROWS_MAX);
    let mut sql = select(query, cursor(query)?, limit);
    let found = sql.build().fetch_all(reading).await.map_err(AuditError::index)?;
    let hits: Vec<Hit> = found.iter().map(Hit::from_row).collect();
    let last = hits.last().map(|hit| hit.sequence.to_string());
    let next = match query.order {
        Order::NewestFirst => last.filter(|_| hits.len() as u64 == u64::from(limit)),
        Order::OldestFirst => last.or_else(|| query.cursor.clone()).or_else(|| Some("0".to_owned())),
    };
    Ok(Page { rows: read_rows(folder, hits).await?, next })
}

/// The newest call of this id in this session.
pub async fn lookup(
    reading: &SqlitePool,
    folder: &Folder,
    session: &str,
    call: &str,
) -> Result<Option<Row>, AuditError> {
    let query = Query {
        session: Some(session.to_owned()),
        call: Some(call.to_owned()),
        kind: Some(Kind::Call),
        limit: Some(1),
        ..Query::default()
    };
    Ok(search(reading, folder, &query).await?.rows.pop())
}

fn cursor(query: &Query) -> Result<Option<u64>, AuditError> {
    let Some(cursor) = &query.cursor else { return Ok(None) };
    cursor.parse().map(Some).map_err(|_| AuditError::BadCursor { cursor: cursor.clone() })
}

fn select(query: &Query, cursor: Option<u64>, limit: u32) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new("SELECT sequence, place, close_place FROM rows WHERE 1 = 1");
    let texts = [
        ("organization", query.organization.as_deref()),
        ("agent", query.agent.as_deref()),
        ("session", query.session.as_deref()),
        ("call", query.call.as_deref()),
        ("tool", query.tool.as_deref()),
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
    let (comparison, direction) = match query.order {
        Order::NewestFirst => ("<", "DESC"),
        Order::OldestFirst => (">", "ASC"),
    };
    if let Some(cursor) = cursor {
        sql.push(format_args!(" AND sequence {comparison} ")).push_bind(integer(cursor));
    }
    sql.push(format_args!(" ORDER BY sequence {direction} LIMIT {limit}"));
    sql
}

impl Hit {
    fn from_row(row: &SqliteRow) -> Self {
        let closed: Option<i64> = row.get("close_place");
        Self {
            sequence: natural(row.get("sequence")),
            opened: Place::unpacked(row.get("place")),
            closed: closed.map(Place::unpacked),
        }
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
    fn record(&mut self, Place { segment, offset }: Place) -> io::Result<(RecordHeader, Vec<u8>)> {
        let file = match self.files.entry(segment) {
            std::collections::hash_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::hash_map::Entry::Vacant(entry) => {
                entry.insert(File::open(self.folder.segment(segment))?)
            }
        };
        read_from(file, offset)
    }

    fn row(&mut self, hit: &Hit) -> io::Result<Row> {
        let (header, payload) = self.record(hit.opened)?;
        let mut row = Row::empty(&header);
        match header.kind {
            RecordKind::CallOpen => row.call = Some(serde_json::from_slice(&payload)?),
            RecordKind::Effect => row.effect = Some(serde_json::from_slice(&payload)?),
            RecordKind::Admin => row.admin = Some(serde_json::from_slice(&payload)?),
            RecordKind::Recovery => row.recovery = Some(serde_json::from_slice(&payload)?),
            RecordKind::CallClose => {}
        }
        if let Some(place) = hit.closed {
            let (header, payload) = self.record(place)?;
            let outcome: CallOutcome<'static> = serde_json::from_slice(&payload)?;
            (row.closed_at_ms, row.status) = (Some(header.at_ms), Some(outcome.status));
            row.outcome = Some(outcome);
            row.effects_lost = serde_json::from_slice::<Loss>(&payload)?.effects_lost;
        }
        Ok(row)
    }
}

impl Row {
    fn empty(header: &RecordHeader) -> Self {
        let (kind, status) = match header.kind {
            RecordKind::CallOpen | RecordKind::CallClose => (Kind::Call, Some(Status::Running)),
            RecordKind::Effect => (Kind::Effect, None),
            RecordKind::Admin => (Kind::Admin, None),
            RecordKind::Recovery => (Kind::Recovery, None),
        };
        Self {
            sequence: header.sequence,
            kind,
            at_ms: header.at_ms,
            status,
            call: None,
            closed_at_ms: None,
            outcome: None,
            effects_lost: None,
            of: (header.of > 0).then_some(header.of),
            effect: None,
            admin: None,
            recovery: None,
        }
    }
}
