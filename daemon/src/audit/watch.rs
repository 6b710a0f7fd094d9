//! New calls for those who watch: calls that began or ended since a position of the index.
//!
//! A look reads what the indexer has committed. It waits for no sync and asks for no batch, so watching costs calls nothing.

use sqlx::{QueryBuilder, Row as _, Sqlite, SqliteConnection, SqlitePool};

use super::error::AuditError;
use super::index::{integer, natural};
use super::record::{Kind, Row, Status};
use super::search::{Hit, LogContent, Query, SELECT, push_filters, read_rows};

/// Records that a look goes back at most, so that one after a long break is as cheap as any.
const RECORDS_MAX: u64 = 100_000;
/// Running calls whose end is looked for, the newest ones.
const RUNNING_MAX: usize = 500;
/// Calls that a look counts at most.
pub const WATCHED_CALLS_MAX: u64 = 10_000;

/// A position of the index, and the calls that ran there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchPosition {
    /// Sequence of the last record that was indexed.
    pub sequence: u64,
    /// Sequences of calls without an outcome.
    running: Vec<u64>,
}

impl WatchPosition {
    /// A position without running calls, from which calls that began later are seen.
    pub fn after(sequence: u64) -> Self {
        Self { sequence, running: Vec::new() }
    }
}

/// The calls that began or ended since a position.
#[derive(Debug)]
pub struct NewCalls {
    /// The newest of them, the newest first.
    pub rows: Vec<Row>,
    /// The number of all, up to [`WATCHED_CALLS_MAX`].
    pub matching: u64,
    /// The position that they reach to.
    pub position: WatchPosition,
}

/// Returns the present position of a watch with these filters.
pub async fn position(reading: &SqlitePool, query: &Query) -> Result<WatchPosition, AuditError> {
    let mut snapshot = reading.begin().await?;
    present(&mut snapshot, query).await
}

/// Returns the calls that match and began or ended after `since`, at most `limit` of them.
pub async fn new_calls(
    reading: &SqlitePool,
    content: &LogContent,
    query: &Query,
    since: &WatchPosition,
    limit: u32,
) -> Result<NewCalls, AuditError> {
    // One transaction, so that no call ends between its queries.
    let mut snapshot = reading.begin().await?;
    let position = present(&mut snapshot, query).await?;
    let mut sql = select(SELECT, query, since, &position);
    sql.push(format_args!(" ORDER BY sequence DESC LIMIT {limit}"));
    let found = sql.build().persistent(false).fetch_all(&mut *snapshot).await?;
    let matching = match found.len() as u64 {
        known if known < u64::from(limit) => known,
        _ => {
            let mut sql = QueryBuilder::<Sqlite>::new("SELECT COUNT(*) FROM (");
            select_into(&mut sql, "SELECT sequence FROM rows", query, since, &position);
            sql.push(format_args!(" LIMIT {WATCHED_CALLS_MAX})"));
            natural(sql.build_query_scalar().persistent(false).fetch_one(&mut *snapshot).await?)
        }
    };
    drop(snapshot);
    let hits = found.iter().filter_map(Hit::from_row).collect();
    Ok(NewCalls { rows: read_rows(content, hits).await?, matching, position })
}

/// The position of a snapshot, with the calls that run there.
async fn present(snapshot: &mut SqliteConnection, query: &Query) -> Result<WatchPosition, AuditError> {
    let reached = sqlx::query_scalar("SELECT sequence FROM position").fetch_optional(&mut *snapshot).await?;
    // A call may match by its outcome later.
    let any_outcome = Query { status: None, error_type: None, ..query.clone() };
    let mut sql = QueryBuilder::<Sqlite>::new("SELECT sequence FROM rows WHERE status = 0 AND kind = 0");
    push_filters(&mut sql, &any_outcome, "+");
    sql.push(format_args!(" ORDER BY sequence DESC LIMIT {RUNNING_MAX}"));
    let rows = sql.build().fetch_all(snapshot).await?;
    let running = rows.iter().map(|row| natural(row.get("sequence"))).collect();
    Ok(WatchPosition { sequence: reached.map_or(0, natural), running })
}

fn select(
    columns: &str,
    query: &Query,
    since: &WatchPosition,
    position: &WatchPosition,
) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new("");
    select_into(&mut sql, columns, query, since, position);
    sql
}

/// Selects calls that began, and those that ran at `since` and have ended. The filters are marked with `+`, so that SQLite
/// walks the few new sequences and no index of a whole organization.
fn select_into(
    sql: &mut QueryBuilder<Sqlite>,
    columns: &str,
    query: &Query,
    since: &WatchPosition,
    position: &WatchPosition,
) {
    let first = since.sequence.max(position.sequence.saturating_sub(RECORDS_MAX));
    sql.push(format_args!("{columns} WHERE kind = {}", Kind::Call as i64));
    push_filters(sql, query, "+");
    sql.push(" AND sequence > ").push_bind(integer(first));
    sql.push(" AND sequence <= ").push_bind(integer(position.sequence));
    if since.running.is_empty() {
        return;
    }
    let running: Vec<String> = since.running.iter().map(u64::to_string).collect();
    sql.push(format_args!(" UNION ALL {columns} WHERE kind = {}", Kind::Call as i64));
    push_filters(sql, query, "+");
    sql.push(format_args!(
        " AND status <> {} AND sequence IN ({})",
        Status::Running as i64,
        running.join(", ")
    ));
}
