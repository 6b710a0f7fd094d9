//! The use of quotas in their present period.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row as _};
use toolgate_admission::SavedCounter;
use toolgate_api::name::Name;
use toolgate_macros::boxed;

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

#[boxed]
impl Store {
    /// Returns what was used in the periods of that time. The clock may have been wrong when others were stored.
    pub async fn quota_use(&self, now_ms: u64) -> Result<Vec<SavedCounter>, StoreError> {
        let query = sqlx::query_as::<_, CounterRow>(
            "SELECT * FROM quota_use WHERE (period + 1) * length > $1 AND period * length <= $1",
        );
        let rows = query.bind(to_sql(now_ms / 1_000)).fetch_all(&self.readers).await?;
        Ok(rows.into_iter().map(|CounterRow(counter)| counter).collect())
    }

    /// Returns what was used in the present periods, the greatest numbers first and at most `most`; of an organization, without
    /// the quotas that the platform sets for it.
    pub async fn greatest_quota_use(
        &self,
        organization: Option<&Name>,
        now_ms: u64,
        most: u32,
    ) -> Result<Vec<SavedCounter>, StoreError> {
        let query = sqlx::query_as::<_, CounterRow>(
            "SELECT * FROM quota_use WHERE (period + 1) * length > $1 AND period * length <= $1 \
             AND ($2 = '' OR (organization = $2 AND key NOT LIKE '8:platform%')) ORDER BY used DESC, key LIMIT $3",
        );
        let query = query.bind(to_sql(now_ms / 1_000)).bind(organization.map_or("", Name::as_str));
        let rows = query.bind(i64::from(most)).fetch_all(&self.readers).await?;
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

#[cfg(test)]
mod tests {
    use super::super::testing::empty_store;
    use super::*;

    #[tokio::test]
    async fn the_greatest_use_of_an_organization_is_read_without_that_of_others() {
        let (_folder, store) = empty_store().await;
        let counter = |key: &str, organization: &str, used| SavedCounter {
            key: key.to_owned(),
            organization: organization.to_owned(),
            seconds: 60,
            period: 1,
            used,
        };
        let counters = [
            counter("12:organization4:acme1:a5:calls", "acme", 1),
            counter("12:organization4:acme1:b5:calls", "acme", 3),
            counter("12:organization4:acme1:c5:calls", "acme", 2),
            counter("8:platform1:a5:calls4:acme", "acme", 9),
            counter("12:organization6:globex1:a5:calls", "globex", 8),
        ];
        store.store_quota_use(&counters, 60_000).await.expect("stored");
        let used = async |organization: Option<&str>, now_ms, most| -> Vec<u64> {
            let organization = organization.map(|name| Name::parse(name).expect("a name"));
            let found =
                store.greatest_quota_use(organization.as_ref(), now_ms, most).await.expect("counters");
            found.into_iter().map(|counter| counter.used).collect()
        };
        assert_eq!(used(Some("acme"), 60_000, 2).await, [3, 2]);
        assert_eq!(used(Some("acme"), 60_000, 9).await, [3, 2, 1]);
        assert_eq!(used(None, 60_000, 9).await, [9, 8, 3, 2, 1]);
        assert!(used(None, 120_000, 9).await.is_empty(), "the period has ended");
    }
}
