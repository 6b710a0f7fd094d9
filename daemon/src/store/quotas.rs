//! The use of quotas in their present period.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row as _};
use toolgate_admission::SavedCounter;

use super::{Store, StoreError, natural, to_sql};

struct CounterRow(SavedCounter);

impl FromRow<'_, SqliteRow> for CounterRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self(SavedCounter {
            key: row.try_get("key")?,
            organization: row.try_get("organization")?,
            seconds: row.try_get("length")?,
            period: natural(row, "period")?,
            used: natural(row, "used")?,
        }))
    }
}

impl Store {
    /// Returns what was used in the periods of that time. The clock may have been wrong when others were stored.
    pub async fn quota_use(&self, now_ms: u64) -> Result<Vec<SavedCounter>, StoreError> {
        let query = sqlx::query_as::<_, CounterRow>(
            "SELECT * FROM quota_use WHERE (period + 1) * length > $1 AND period * length <= $1",
        );
        let rows = query.bind(to_sql(now_ms / 1_000)).fetch_all(&self.readers).await?;
        Ok(rows.into_iter().map(|CounterRow(counter)| counter).collect())
    }

    /// Stores these counters, and deletes those of ended periods.
    pub async fn store_quota_use(&self, counters: &[SavedCounter], now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        for SavedCounter { key, organization, seconds, period, used } in counters {
            sqlx::query(
                "INSERT INTO quota_use (key, organization, length, period, used) VALUES ($1, $2, $3, $4, $5) \
                 ON CONFLICT (key) DO UPDATE SET period = $4, used = $5",
            )
            .bind(key)
            .bind(organization)
            .bind(seconds)
            .bind(to_sql(*period))
            .bind(to_sql(*used))
            .execute(&mut *change)
            .await?;
        }
        let query = sqlx::query("DELETE FROM quota_use WHERE (period + 1) * length <= $1");
        query.bind(to_sql(now_ms / 1_000)).execute(&mut *change).await?;
        change.commit().await?;
        Ok(())
    }
}
