//! Calls by minute, hour and day: of the platform, of each organization, and of the tools of each.
//!
//! The indexer adds the outcomes of a batch in the transaction that indexes them, so the numbers are those of the log and survive a
//! restart. Old rows are removed, and a minute, an hour and a day name a limited number of tools, so that the table stays small.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};

use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, QueryBuilder, Row as _, Sqlite, SqliteConnection, SqlitePool};
use toolgate_api::error::{ErrorType, Fault};
use toolgate_state::clock::now_ms;

use super::AuditError;
use super::histogram::{HISTOGRAM_BUCKETS, bucket_of, percentile};
use super::row_keys::{ALL, RowKeys};
use super::sql_number::{integer, natural};
use super::usage::RecordedUse;

/// Columns of numbers before the histograms.
const SUMS: [&str; 7] = ["calls", "refused", "failed", "fuel", "memory_bytes", "cpu_us", "egress_bytes"];
const MEMORY: &str = "memory_bytes";
const MINUTE_MS: u64 = 60_000;

/// The length of a row's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateSpan {
    Minute = 0,
    Hour = 1,
    Day = 2,
}

impl RateSpan {
    const ALL: [Self; 3] = [Self::Minute, Self::Hour, Self::Day];

    /// Its length in milliseconds.
    pub fn length_ms(self) -> u64 {
        match self {
            Self::Minute => MINUTE_MS,
            Self::Hour => 60 * MINUTE_MS,
            Self::Day => 24 * 60 * MINUTE_MS,
        }
    }

    /// Rows that are kept, in spans.
    fn kept_spans(self) -> u64 {
        match self {
            Self::Minute => 120,
            Self::Hour => 72,
            Self::Day => 62,
        }
    }

    /// Tools that are told apart in one span.
    fn tools_max(self) -> usize {
        match self {
            Self::Minute => 250,
            Self::Hour | Self::Day => 1_000,
        }
    }
}

/// A part of the duration of calls that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RatePhase {
    /// Waits, decision and records.
    Outside = 0,
    /// The sandbox, with the requests of the tool.
    Sandbox = 1,
    Whole = 2,
}

impl RatePhase {
    pub const ALL: [Self; 3] = [Self::Outside, Self::Sandbox, Self::Whole];
}

/// Sums of calls that ended in a time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RateSums {
    pub calls: u64,
    /// Calls that a rule of the gate refused.
    pub refused: u64,
    /// Calls that failed otherwise.
    pub failed: u64,
    pub fuel: u64,
    /// The most memory of one call.
    pub memory_bytes: u64,
    pub cpu_us: u64,
    pub egress_bytes: u64,
    /// Histograms of [`RatePhase::ALL`].
    pub durations: [[u64; HISTOGRAM_BUCKETS]; 3],
}

impl RateSums {
    /// A bound of this percentage of the durations, in microseconds; none without durations, and above all bounds.
    pub fn percentile_us(&self, phase: RatePhase, percent: u64) -> Option<u64> {
        percentile(&self.durations[phase as usize], percent)
    }

    /// Adds the sums of another time.
    pub fn add(&mut self, other: &Self) {
        let memory_bytes = self.memory_bytes.max(other.memory_bytes);
        let mut more = other.numbers();
        self.visit(|number| *number = number.saturating_add(more.next().unwrap_or(0)));
        self.memory_bytes = memory_bytes;
    }

    fn add_outcome(&mut self, error: Option<ErrorType>, ran: bool, duration_us: u64, used: &RecordedUse) {
        self.calls += 1;
        match error.map(ErrorType::fault) {
            Some(Fault::Gate) => self.refused += 1,
            Some(_) => self.failed += 1,
            None => {}
        }
        if !ran {
            return;
        }
        self.fuel = self.fuel.saturating_add(used.fuel);
        self.memory_bytes = self.memory_bytes.max(used.memory_bytes);
        self.cpu_us = self.cpu_us.saturating_add(used.cpu_us);
        self.egress_bytes = self.egress_bytes.saturating_add(used.egress_bytes);
        let inside = used.duration_us.min(duration_us);
        for (histogram, us) in self.durations.iter_mut().zip([duration_us - inside, inside, duration_us]) {
            if let Some(count) = histogram.get_mut(bucket_of(us)) {
                *count += 1;
            }
        }
    }

    /// The numbers in the order of the columns.
    fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        let Self { calls, refused, failed, fuel, memory_bytes, cpu_us, egress_bytes, durations } = self;
        let sums = [calls, refused, failed, fuel, memory_bytes, cpu_us, egress_bytes];
        sums.into_iter().chain(durations.iter().flatten()).copied()
    }

    /// Visits the numbers in the order of the columns.
    fn visit(&mut self, visit: impl FnMut(&mut u64)) {
        let Self { calls, refused, failed, fuel, memory_bytes, cpu_us, egress_bytes, durations } = self;
        let sums = [calls, refused, failed, fuel, memory_bytes, cpu_us, egress_bytes];
        sums.into_iter().chain(durations.iter_mut().flatten()).for_each(visit);
    }

    fn from_row(row: &SqliteRow) -> Self {
        let mut sums = Self::default();
        let mut columns = COLUMNS.iter();
        // Without rows the sums are null.
        sums.visit(|number| {
            let column = columns.next().map_or("calls", String::as_str);
            *number = row.get::<Option<i64>, _>(column).map_or(0, natural);
        });
        sums
    }
}

static COLUMNS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let histograms = (0..RatePhase::ALL.len())
        .flat_map(|phase| (0..HISTOGRAM_BUCKETS).map(move |at| format!("d{phase}_{at}")));
    SUMS.into_iter().map(str::to_owned).chain(histograms).collect()
});

/// Inserts a row, or adds to the one that is there.
static UPSERT: LazyLock<Arc<str>> = LazyLock::new(|| {
    let values = vec!["?"; COLUMNS.len()].join(", ");
    let add = |column: &String| match column.as_str() {
        MEMORY => format!("{MEMORY} = max({MEMORY}, excluded.{MEMORY})"),
        column => format!("{column} = {column} + excluded.{column}"),
    };
    let add: Vec<String> = COLUMNS.iter().map(add).collect();
    format!("INSERT INTO rates VALUES (?, ?, ?, ?, {values}) ON CONFLICT DO UPDATE SET {}", add.join(", "))
        .into()
});

static SUM_COLUMNS: LazyLock<String> = LazyLock::new(|| {
    let sum = |column: &String| match column.as_str() {
        MEMORY => format!("MAX({MEMORY}) AS {MEMORY}"),
        column => format!("SUM({column}) AS {column}"),
    };
    COLUMNS.iter().map(sum).collect::<Vec<_>>().join(", ")
});

/// The statement that creates the table.
pub(super) fn table() -> String {
    let mut columns = String::new();
    for column in COLUMNS.iter() {
        // A String takes all that is written.
        let _ = write!(columns, "{column} INTEGER NOT NULL, ");
    }
    format!(
        "CREATE TABLE rates (span INTEGER NOT NULL, organization TEXT NOT NULL, start INTEGER NOT NULL, tool TEXT NOT NULL, \
         {columns}PRIMARY KEY (span, organization, start, tool)) WITHOUT ROWID;"
    )
}

/// The sums of a batch, and the tools that are told apart.
#[derive(Default)]
pub(super) struct RateBatch {
    /// By the minute in which the calls ended.
    sums: HashMap<Key, ToolSums>,
    /// Organizations that were deleted: a new one of the name begins anew.
    deleted: Vec<Arc<str>>,
    /// The sequences of the deletions after which calls that began earlier may still end.
    deleted_at: HashMap<Arc<str>, u64>,
    listed: [ListedTools; 3],
    /// The minute up to which old rows were removed.
    pruned: u64,
}

/// The calls of a tool in a minute.
#[derive(Default)]
struct ToolSums {
    sums: RateSums,
    /// Whether one of the calls found the tool. Others have the name that the caller made up.
    exists: bool,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    start: u64,
    organization: Arc<str>,
    tool: Arc<str>,
}

/// The tools that have rows in the newest span.
#[derive(Default)]
struct ListedTools {
    start: u64,
    tools: HashSet<(Arc<str>, Arc<str>)>,
}

impl ListedTools {
    /// Begins anew where the clock was set back, since no tool of an earlier span would have a row until then.
    fn follow_clock(&mut self, newest: u64) {
        if self.start > newest {
            *self = Self::default();
        }
    }

    /// Whether the tool has a row of its own. Names of no tool have none, or one caller could take the rows of all. Late calls
    /// of an earlier span are in its sums alone.
    fn lists(&mut self, span: RateSpan, key: &Key, exists: bool) -> bool {
        if key.start < self.start {
            return false;
        }
        if key.start > self.start {
            *self = Self { start: key.start, tools: HashSet::new() };
        }
        let tool = (Arc::clone(&key.organization), Arc::clone(&key.tool));
        let has_row = exists && self.tools.len() < span.tools_max();
        self.tools.contains(&tool) || (has_row && self.tools.insert(tool))
    }
}

impl RateBatch {
    /// Adds the outcome of a call.
    pub(crate) fn add(
        &mut self,
        keys: &RowKeys,
        ended_ms: u64,
        error_type: Option<&str>,
        ran: bool,
        duration_us: u64,
        used: &RecordedUse,
    ) {
        let error = error_type.map(|code| code.parse().unwrap_or(ErrorType::Internal));
        if let Some(of_tool) = self.sums_of(keys, ended_ms) {
            of_tool.exists |= error != Some(ErrorType::ToolNotFound);
            of_tool.sums.add_outcome(error, ran, duration_us, used);
        }
    }

    /// Adds refusals that one record stands for, beside the one of its outcome.
    pub(crate) fn add_refusals(&mut self, keys: &RowKeys, at_ms: u64, more: u64) {
        if let Some(ToolSums { sums, .. }) = self.sums_of(keys, at_ms) {
            sums.calls = sums.calls.saturating_add(more);
            sums.refused = sums.refused.saturating_add(more);
        }
    }

    /// Forgets the rows of an organization that was deleted by the record `sequence`. Its calls stay in the sums of the platform.
    pub(crate) fn delete(&mut self, organization: &Arc<str>, sequence: u64) {
        let all = Arc::<str>::from(ALL);
        let of_it: Vec<_> = self.sums.extract_if(|key, _| key.organization == *organization).collect();
        for (key, ToolSums { sums, .. }) in of_it {
            let of_platform = Key { organization: Arc::clone(&all), tool: Arc::clone(&all), ..key };
            self.sums.entry(of_platform).or_default().sums.add(&sums);
        }
        self.deleted.push(Arc::clone(organization));
        self.deleted_at.insert(Arc::clone(organization), sequence);
    }

    /// Whether the organization was deleted since the record `sequence`.
    pub(crate) fn is_deleted_since(&self, organization: Option<&Arc<str>>, sequence: u64) -> bool {
        organization
            .and_then(|organization| self.deleted_at.get(organization))
            .is_some_and(|at| sequence < *at)
    }

    /// Forgets the deletions before which no call of `running`, by its sequence, began.
    pub(crate) fn forget_deletions<'a>(&mut self, running: impl Iterator<Item = &'a u64>) {
        if self.deleted_at.is_empty() {
            return;
        }
        let oldest = running.min().copied().unwrap_or(u64::MAX);
        self.deleted_at.retain(|_, at| oldest < *at);
    }

    fn sums_of(&mut self, keys: &RowKeys, at_ms: u64) -> Option<&mut ToolSums> {
        let (organization, _, tool) = keys.of_call()?;
        Some(self.sums.entry(Key { start: at_ms / MINUTE_MS, organization, tool }).or_default())
    }

    pub(crate) fn clear(&mut self) {
        self.sums.clear();
        self.deleted.clear();
    }

    /// Writes the sums of each span, in the caller's transaction.
    pub(crate) async fn store(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let now = now_ms();
        for organization in &self.deleted {
            sqlx::query("DELETE FROM rates WHERE organization = $1")
                .bind(Arc::clone(organization))
                .execute(&mut *connection)
                .await?;
        }
        for span in RateSpan::ALL {
            let (all, listed) = (Arc::<str>::from(ALL), &mut self.listed[span as usize]);
            let newest = now / span.length_ms();
            let oldest = newest.saturating_sub(span.kept_spans());
            listed.follow_clock(newest);
            let mut rows: HashMap<Key, RateSums> = HashMap::new();
            let mut minutes: Vec<_> = self.sums.iter().collect();
            // Tools are told apart in the newest span alone.
            minutes.sort_unstable_by_key(|(key, _)| key.start);
            for (key, ToolSums { sums, exists }) in minutes {
                let start = key.start * MINUTE_MS / span.length_ms();
                // The rebuild of an index writes no rows that would be removed.
                if start < oldest {
                    continue;
                }
                let own = Key { start, ..key.clone() };
                let of_organization = Key { tool: Arc::clone(&all), ..own.clone() };
                let of_platform = Key { organization: Arc::clone(&all), ..of_organization.clone() };
                let is_known = *key.organization != *ALL;
                let is_listed = is_known && listed.lists(span, &own, *exists);
                let own = Some(own).filter(|_| is_listed);
                let of_organization = Some(of_organization).filter(|_| is_known);
                for key in [own, of_organization, Some(of_platform)] {
                    key.into_iter().for_each(|key| rows.entry(key).or_default().add(sums));
                }
            }
            for (key, sums) in &rows {
                upsert(connection, span, key, sums).await?;
            }
        }
        self.remove_old(connection, now).await
    }

    /// Removes old rows once a minute.
    async fn remove_old(&mut self, connection: &mut SqliteConnection, now: u64) -> Result<(), sqlx::Error> {
        if now / MINUTE_MS == self.pruned {
            return Ok(());
        }
        self.pruned = now / MINUTE_MS;
        for span in RateSpan::ALL {
            let oldest = (now / span.length_ms()).saturating_sub(span.kept_spans());
            sqlx::query("DELETE FROM rates WHERE span = $1 AND start < $2")
                .bind(span as i64)
                .bind(integer(oldest))
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }
}

async fn upsert(
    connection: &mut SqliteConnection,
    span: RateSpan,
    key: &Key,
    sums: &RateSums,
) -> Result<(), sqlx::Error> {
    let mut query = sqlx::query::<Sqlite>(AssertSqlSafe(UPSERT.clone()))
        .bind(span as i64)
        .bind(Arc::clone(&key.organization))
        .bind(integer(key.start))
        .bind(Arc::clone(&key.tool));
    for number in sums.numbers() {
        query = query.bind(integer(number));
    }
    query.execute(connection).await.map(drop)
}

/// The calls of a report.
#[derive(Clone, Debug)]
pub struct RateQuery {
    pub span: RateSpan,
    /// From the span of this time on.
    pub since_ms: u64,
    /// The organization to count; all of them without it.
    pub organization: Option<String>,
    /// The tool to count; all of them without it.
    pub tool: Option<String>,
}

/// The property that tells the rows of a report apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateBy {
    Organization,
    Tool,
}

/// Sums by span, the oldest first: the start of each in milliseconds since 1970.
pub(super) async fn series(
    reading: &SqlitePool,
    query: &RateQuery,
) -> Result<Vec<(u64, RateSums)>, AuditError> {
    let mut sql = select("start", query);
    match (&query.organization, &query.tool) {
        (None, Some(tool)) => sql.push(" AND tool = ").push_bind(tool.clone()),
        (organization, tool) => {
            sql.push(" AND organization = ").push_bind(organization.clone().unwrap_or_default());
            sql.push(" AND tool = ").push_bind(tool.clone().unwrap_or_default())
        }
    };
    let rows = sql.push(" GROUP BY start ORDER BY start").build().fetch_all(reading).await?;
    let length_ms = query.span.length_ms();
    Ok(rows.iter().map(|row| (natural(row.get("start")) * length_ms, RateSums::from_row(row))).collect())
}

/// Sums by organization or tool, those with the most calls first, at most `limit`.
pub(super) async fn ranking(
    reading: &SqlitePool,
    query: &RateQuery,
    by: RateBy,
    limit: u32,
) -> Result<Vec<(String, RateSums)>, AuditError> {
    let column = match by {
        RateBy::Organization => "organization",
        RateBy::Tool => "tool",
    };
    let mut sql = select(column, query);
    push_scope(&mut sql, query, by);
    // Every number is summed for the few that are listed alone.
    sql.push(format_args!(" AND {column} IN (SELECT {column} FROM rates"));
    push_span(&mut sql, query);
    push_scope(&mut sql, query, by);
    sql.push(format_args!(" GROUP BY {column} ORDER BY SUM(calls) DESC, {column} LIMIT {limit})"));
    sql.push(format_args!(" GROUP BY {column} ORDER BY calls DESC, {column}"));
    let rows = sql.build().fetch_all(reading).await?;
    Ok(rows.iter().map(|row| (row.get(column), RateSums::from_row(row))).collect())
}

/// Adds the condition of the rows that a ranking sums.
fn push_scope(sql: &mut QueryBuilder<Sqlite>, query: &RateQuery, by: RateBy) {
    match &query.organization {
        Some(organization) => sql.push(" AND organization = ").push_bind(organization.clone()),
        None => sql.push(" AND organization <> ''"),
    };
    match (by, &query.tool) {
        (_, Some(tool)) => sql.push(" AND tool = ").push_bind(tool.clone()),
        (RateBy::Organization, None) => sql.push(" AND tool = ''"),
        (RateBy::Tool, None) => sql.push(" AND tool <> ''"),
    };
}

fn push_span(sql: &mut QueryBuilder<Sqlite>, query: &RateQuery) {
    sql.push(" WHERE span = ").push_bind(query.span as i64).push(" AND start >= ");
    sql.push_bind(integer(query.since_ms / query.span.length_ms()));
}

fn select(column: &str, query: &RateQuery) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new(format!("SELECT {column}, {} FROM rates", *SUM_COLUMNS));
    push_span(&mut sql, query);
    sql
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_the_columns_are_the_numbers_of_sums() {
        let mut sums = RateSums::default();
        let mut number = 0;
        sums.visit(|place| {
            number += 1;
            *place = number;
        });
        assert_eq!(number, COLUMNS.len() as u64);
        assert_eq!(sums.numbers().collect::<Vec<_>>(), (1..=number).collect::<Vec<_>>());
        assert_eq!((sums.calls, sums.memory_bytes), (1, 5));
        assert_eq!((COLUMNS[0].as_str(), COLUMNS[4].as_str()), ("calls", MEMORY));
        sums.add(&sums.clone());
        assert_eq!(
            (sums.calls, sums.memory_bytes, sums.cpu_us),
            (2, 5, 12),
            "memory is the most of one call"
        );
    }

    #[test]
    fn o6_a_span_tells_a_limited_number_of_tools_apart() {
        let mut listed = ListedTools::default();
        let key =
            |start, tool: usize| Key { start, organization: "acme".into(), tool: tool.to_string().into() };
        let most = RateSpan::Minute.tools_max();
        assert!(!listed.lists(RateSpan::Minute, &key(7, most), false), "a name of no tool");
        assert!((0..most).all(|tool| listed.lists(RateSpan::Minute, &key(7, tool), true)));
        assert!(!listed.lists(RateSpan::Minute, &key(7, most), true));
        assert!(listed.lists(RateSpan::Minute, &key(7, 0), false), "a tool that has a row");
        assert!(!listed.lists(RateSpan::Minute, &key(6, 0), true), "an earlier span");
        assert!(listed.lists(RateSpan::Minute, &key(8, most), true), "a new span");
        listed.follow_clock(8);
        assert!(!listed.lists(RateSpan::Minute, &key(7, 0), true), "still an earlier span");
        listed.follow_clock(7);
        assert!(listed.lists(RateSpan::Minute, &key(7, 0), true), "the clock was set back");
    }
}
