//! New calls for those who watch: calls that began or ended since the last look.
//!
//! The indexer notes the calls of each batch for the watches that they match, so that a look reads the few rows that it shows and
//! searches nothing. A look waits for no sync and asks for no batch, so watching costs calls nothing.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use sqlx::{AssertSqlSafe, QueryBuilder, Sqlite, SqlitePool};
use tokio::sync::Notify;

use super::error::AuditError;
use super::index_batch::{IndexBatch, IndexedCall, RunningIntents};
use super::query::Query;
use super::record::{Kind, Row, Status};
use super::search::{Hit, LogContent, SELECT, push_filters, read_rows};
use super::sql_number::{integer, natural};

/// Records that a count goes back at most, so that one after a long break is as cheap as any.
const COUNTED_RECORDS_MAX: u64 = 100_000;
/// Calls that are counted after a break at most.
const COUNTED_CALLS_MAX: u64 = 10_000;

/// The watches that the indexer notes calls for.
#[derive(Default)]
pub(crate) struct WatchList(Mutex<ListedWatches>);

#[derive(Default)]
struct ListedWatches {
    /// Sequence of the last record whose calls were noted.
    reached: u64,
    watches: Vec<Weak<WatchedCalls>>,
}

/// Notes calls while it is there.
pub struct CallWatch(Arc<WatchedCalls>);

struct WatchedCalls {
    query: Query,
    /// Calls that a look returns at most.
    limit: usize,
    noted: Mutex<NotedCalls>,
    wake: Notify,
}

/// The calls that match and began or ended since the last look.
#[derive(Default)]
struct NotedCalls {
    /// Sequence of the last record at the last look.
    since: u64,
    /// Sequence of the last record.
    reached: u64,
    /// Sequences of the newest of them.
    newest: BTreeSet<u64>,
    /// The number of all.
    matching: u64,
}

/// The calls that began or ended since the last look.
#[derive(Debug)]
pub struct NewCalls {
    /// The newest of them, the newest first.
    pub rows: Vec<Row>,
    /// The number of all.
    pub matching: u64,
    /// Sequence of the last record that they reach to.
    pub sequence: u64,
}

impl WatchList {
    /// Watches the calls that match by organization, agent, tool and the like, from the last indexed record on.
    pub(crate) fn watch(&self, query: &Query, limit: usize) -> CallWatch {
        let mut list = self.0.lock();
        let noted = NotedCalls { since: list.reached, reached: list.reached, ..NotedCalls::default() };
        let (query, wake) = (query.clone(), Notify::new());
        let watched = Arc::new(WatchedCalls { query, limit, noted: Mutex::new(noted), wake });
        list.watches.retain(|watch| watch.strong_count() > 0);
        list.watches.push(Arc::downgrade(&watched));
        CallWatch(watched)
    }

    /// Begins after the records that were indexed before.
    pub(crate) fn begin(&self, reached: u64) {
        self.0.lock().reached = reached;
    }

    /// Notes the calls of a batch that was committed, up to the record `reached`.
    pub(crate) fn note(&self, batch: &IndexBatch, running: &RunningIntents, reached: u64) {
        let mut list = self.0.lock();
        list.reached = reached;
        for watch in list.watches.iter().filter_map(Weak::upgrade) {
            watch.note(batch.calls(running), reached);
        }
    }
}

impl WatchedCalls {
    fn note<'a>(&self, calls: impl DoubleEndedIterator<Item = IndexedCall<'a>>, reached: u64) {
        let mut noted = self.noted.lock();
        noted.reached = reached;
        // The newest first, so that most others are only counted.
        for call in calls.rev().filter(|call| self.matches(call)) {
            let is_counted = call.began_before && call.sequence > noted.since && self.takes_running();
            noted.matching += u64::from(!is_counted);
            if noted.newest.len() < self.limit || noted.newest.first() < Some(&call.sequence) {
                noted.newest.insert(call.sequence);
            }
            if noted.newest.len() > self.limit {
                noted.newest.pop_first();
            }
        }
        if !noted.newest.is_empty() {
            self.wake.notify_one();
        }
    }

    fn matches(&self, call: &IndexedCall<'_>) -> bool {
        let Query { status, error_type, .. } = &self.query;
        call.keys.fit(&self.query)
            && status.is_none_or(|status| status == call.status)
            && error_type.as_deref().is_none_or(|error_type| call.error_type == Some(error_type))
    }

    /// Whether calls match before they have ended.
    fn takes_running(&self) -> bool {
        self.query.error_type.is_none() && self.query.status.is_none_or(|status| status == Status::Running)
    }
}

impl CallWatch {
    /// Waits until calls are noted.
    pub async fn wait(&self) {
        self.0.wake.notified().await;
    }

    /// Sequence of the last record that was noted.
    pub fn last_noted(&self) -> u64 {
        self.0.noted.lock().reached
    }

    fn take(&self) -> NotedCalls {
        let mut noted = self.0.noted.lock();
        let rest = NotedCalls { since: noted.reached, reached: noted.reached, ..NotedCalls::default() };
        std::mem::replace(&mut *noted, rest)
    }
}

/// Returns the calls that were noted, and forgets them.
pub(crate) async fn new_calls(
    reading: &SqlitePool,
    content: &LogContent,
    watch: &CallWatch,
) -> Result<NewCalls, AuditError> {
    let NotedCalls { newest, matching, reached, .. } = watch.take();
    if newest.is_empty() {
        return Ok(NewCalls { rows: Vec::new(), matching, sequence: reached });
    }
    let sequences: Vec<String> = newest.iter().map(u64::to_string).collect();
    let sql = format!("{SELECT} WHERE sequence IN (SELECT value FROM json_each($1)) ORDER BY sequence DESC");
    let found = sqlx::query(AssertSqlSafe(sql)).bind(format!("[{}]", sequences.join(", ")));
    let found = found.fetch_all(reading).await?;
    let hits = found.iter().filter_map(Hit::from_row).collect();
    Ok(NewCalls { rows: read_rows(content, hits).await?, matching, sequence: reached })
}

/// Counts the calls that match and began after a record, up to [`COUNTED_CALLS_MAX`].
pub(crate) async fn count_after(
    reading: &SqlitePool,
    query: &Query,
    sequence: u64,
) -> Result<u64, AuditError> {
    let reached = sqlx::query_scalar("SELECT sequence FROM position").fetch_optional(reading).await?;
    let first = sequence.max(reached.map_or(0, natural).saturating_sub(COUNTED_RECORDS_MAX));
    let mut sql = QueryBuilder::<Sqlite>::new("SELECT COUNT(*) FROM (SELECT sequence FROM rows");
    sql.push(format_args!(" WHERE kind = {}", Kind::Call as i64));
    // The mark keeps SQLite at the few new sequences, away from the index of a whole organization.
    push_filters(&mut sql, query, "+");
    sql.push(" AND sequence > ").push_bind(integer(first));
    sql.push(format_args!(" LIMIT {COUNTED_CALLS_MAX})"));
    Ok(natural(sql.build_query_scalar().fetch_one(reading).await?))
}
