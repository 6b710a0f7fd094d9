//! Use by organization, agent, user, tool and day: summed by the indexer in the transaction that indexes the outcomes, so that
//! the totals are those of the log, and are summed again when the index is rebuilt.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row as _, Sqlite, SqliteConnection, SqlitePool};
use toolgate_api::usage::{USAGE_ROWS, UsageBy, UsageRow};

use super::AuditError;
use super::row_keys::RowKeys;
use super::sql_number::{integer, natural};

pub(super) const TABLE: &str = "
CREATE TABLE usage (day INTEGER NOT NULL, organization TEXT NOT NULL, agent TEXT NOT NULL, user TEXT NOT NULL, tool TEXT NOT NULL,
  calls INTEGER NOT NULL, failed INTEGER NOT NULL, fuel INTEGER NOT NULL, cpu_us INTEGER NOT NULL, duration_us INTEGER NOT NULL,
  egress_bytes INTEGER NOT NULL, cost INTEGER NOT NULL,
  PRIMARY KEY (organization, day, agent, user, tool)) WITHOUT ROWID;
";

const DAY_MS: u64 = 86_400_000;

/// The sums of a batch.
#[derive(Default)]
pub(super) struct UsageSums(HashMap<Key, Sums>);

#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    day: u64,
    organization: Arc<str>,
    agent: Arc<str>,
    user: Option<Arc<str>>,
    tool: Arc<str>,
}

#[derive(Default)]
struct Sums {
    calls: u64,
    failed: u64,
    used: RecordedUse,
}

/// The part of an outcome that is summed.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(super) struct RecordedUse {
    pub fuel: u64,
    pub memory_bytes: u64,
    pub cpu_us: u64,
    pub duration_us: u64,
    pub egress_bytes: u64,
    pub cost: u64,
}

/// Filters and properties of a report.
#[derive(Clone, Debug, Default)]
pub struct UsageQuery {
    /// Only of this organization.
    pub organization: Option<String>,
    /// Only of this agent.
    pub agent: Option<String>,
    /// Only of this user.
    pub user: Option<String>,
    /// Only of this tool.
    pub tool: Option<String>,
    /// From the day of this time on.
    pub since_ms: Option<u64>,
    /// Up to the day of this time.
    pub until_ms: Option<u64>,
    /// The properties of a row.
    pub by: Vec<UsageBy>,
}

impl UsageSums {
    /// Adds the outcome of a call that ran. The record of the client's part of a call has no usage.
    pub(crate) fn add(&mut self, keys: &RowKeys, ended_ms: u64, used: RecordedUse, is_ok: bool) {
        let Some((organization, agent, tool)) = keys.of_call().filter(|_| used.duration_us > 0) else {
            return;
        };
        let user = keys.user().cloned();
        let sums = self.0.entry(Key { day: ended_ms / DAY_MS, organization, agent, user, tool }).or_default();
        sums.calls += 1;
        sums.failed += u64::from(!is_ok);
        let RecordedUse { fuel, cpu_us, duration_us, egress_bytes, cost, .. } = used;
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut sums.used.fuel, fuel);
        add(&mut sums.used.cpu_us, cpu_us);
        add(&mut sums.used.duration_us, duration_us);
        add(&mut sums.used.egress_bytes, egress_bytes);
        add(&mut sums.used.cost, cost);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) async fn store(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        for (key, Sums { calls, failed, used }) in &self.0 {
            sqlx::query(
                "INSERT INTO usage VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) ON CONFLICT DO UPDATE SET \
                 calls = calls + $6, failed = failed + $7, fuel = fuel + $8, cpu_us = cpu_us + $9, \
                 duration_us = duration_us + $10, egress_bytes = egress_bytes + $11, cost = cost + $12",
            )
            .bind(integer(key.day))
            .bind(&key.organization)
            .bind(&key.agent)
            .bind(key.user.as_deref().unwrap_or_default())
            .bind(&key.tool)
            .bind(integer(*calls))
            .bind(integer(*failed))
            .bind(integer(used.fuel))
            .bind(integer(used.cpu_us))
            .bind(integer(used.duration_us))
            .bind(integer(used.egress_bytes))
            .bind(integer(used.cost))
            .execute(&mut *connection)
            .await?;
        }
        Ok(())
    }
}

/// Sums what the index has. Fails where the report would have more than [`USAGE_ROWS`] rows.
pub(super) async fn report(
    reading: &SqlitePool,
    query: &UsageQuery,
) -> Result<Option<Vec<UsageRow>>, AuditError> {
    let rows = select(query).build().fetch_all(reading).await?;
    let fits = rows.len() <= USAGE_ROWS as usize;
    Ok(fits.then(|| rows.iter().map(|row| row_of(row, &query.by)).collect()))
}

/// Sums the calls of each plugin from the day of `since_ms` on, of one organization or of all.
pub(super) async fn calls_by_plugin(
    reading: &SqlitePool,
    organization: Option<&str>,
    since_ms: u64,
) -> Result<HashMap<String, u64>, AuditError> {
    let mut sql = QueryBuilder::<Sqlite>::new(
        "SELECT substr(tool, 1, instr(tool, '/') - 1) AS plugin, SUM(calls) AS calls FROM usage WHERE day >= ",
    );
    sql.push_bind(integer(since_ms / DAY_MS));
    if let Some(organization) = organization {
        sql.push(" AND organization = ").push_bind(organization.to_owned());
    }
    let rows = sql.push(" GROUP BY plugin").build().fetch_all(reading).await?;
    Ok(rows.iter().map(|row| (row.get("plugin"), natural(row.get("calls")))).collect())
}

fn select(query: &UsageQuery) -> QueryBuilder<Sqlite> {
    let columns = |form: fn(UsageBy) -> &'static str| {
        query.by.iter().map(|by| form(*by)).collect::<Vec<_>>().join(", ")
    };
    let mut sql = QueryBuilder::new("SELECT ");
    if !query.by.is_empty() {
        sql.push(columns(|by| {
            if by == UsageBy::Day { "date(day * 86400, 'unixepoch') AS day" } else { by.as_str() }
        }));
        sql.push(", ");
    }
    sql.push(
        "SUM(calls) AS calls, SUM(failed) AS failed, SUM(fuel) AS fuel, SUM(cpu_us) AS cpu_us, \
         SUM(duration_us) AS duration_us, SUM(egress_bytes) AS egress_bytes, SUM(cost) AS cost FROM usage WHERE 1 = 1",
    );
    let names = [
        (" AND organization = ", &query.organization),
        (" AND agent = ", &query.agent),
        (" AND user = ", &query.user),
        (" AND tool = ", &query.tool),
    ];
    for (condition, name) in names {
        if let Some(name) = name {
            sql.push(condition).push_bind(name.clone());
        }
    }
    for (condition, time_ms) in [(" AND day >= ", query.since_ms), (" AND day <= ", query.until_ms)] {
        if let Some(time_ms) = time_ms {
            sql.push(condition).push_bind(integer(time_ms / DAY_MS));
        }
    }
    if !query.by.is_empty() {
        let names = columns(|by| if by == UsageBy::Day { "usage.day" } else { by.as_str() });
        sql.push(format!(" GROUP BY {names} ORDER BY {names}"));
    }
    sql.push(format!(" LIMIT {}", USAGE_ROWS + 1));
    sql
}

fn row_of(row: &SqliteRow, by: &[UsageBy]) -> UsageRow {
    let property = |wanted: UsageBy| by.contains(&wanted).then(|| row.get(wanted.as_str()));
    // Without rows the sums are null.
    let sum = |column: &str| row.get::<Option<i64>, _>(column).map_or(0, natural);
    UsageRow {
        organization: property(UsageBy::Organization),
        agent: property(UsageBy::Agent),
        user: property(UsageBy::User),
        tool: property(UsageBy::Tool),
        day: property(UsageBy::Day),
        calls: sum("calls"),
        failed: sum("failed"),
        fuel: sum("fuel"),
        cpu_us: sum("cpu_us"),
        duration_us: sum("duration_us"),
        egress_bytes: sum("egress_bytes"),
        cost: sum("cost"),
    }
}
