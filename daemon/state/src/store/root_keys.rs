//! Root keys: their ids, and each root key wrapped under the other during a rotation. The keys themselves are not stored.

use toolgate_macros::boxed;

use super::{Store, StoreError, from_sql, to_sql};

/// A root key in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootKeyRow {
    pub id: String,
    /// Seals new secrets; the other key is being replaced.
    pub serving: bool,
    pub created_ms: u64,
}

/// A root key wrapped under another one, base64-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootKeyWrap {
    pub id: String,
    pub under: String,
    pub wrapped: String,
}

#[boxed]
impl Store {
    /// Returns the root keys in use: none before the first start, two during a rotation.
    pub async fn root_keys(&self) -> Result<Vec<RootKeyRow>, StoreError> {
        let rows: Vec<(String, i16, i64)> =
            sqlx::query_as("SELECT id, serving, created_ms FROM root_keys ORDER BY serving DESC, created_ms")
                .fetch_all(&self.readers)
                .await?;
        let row = |(id, serving, created_ms)| RootKeyRow {
            id,
            serving: serving != 0,
            created_ms: from_sql(created_ms),
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Returns the wrapped root keys.
    pub async fn root_key_wraps(&self) -> Result<Vec<RootKeyWrap>, StoreError> {
        let rows: Vec<(String, String, String)> =
            sqlx::query_as("SELECT id, under, wrapped FROM root_key_wraps").fetch_all(&self.readers).await?;
        Ok(rows.into_iter().map(|(id, under, wrapped)| RootKeyWrap { id, under, wrapped }).collect())
    }

    /// Puts a root key in service, with its wraps. The previous key still opens secrets.
    pub async fn serve_root_key(
        &self,
        id: &str,
        wraps: &[RootKeyWrap],
        now_ms: u64,
    ) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        sqlx::query("UPDATE root_keys SET serving = 0").execute(&mut *change).await?;
        sqlx::query("INSERT INTO root_keys (id, serving, created_ms) VALUES ($1, 1, $2)")
            .bind(id)
            .bind(to_sql(now_ms))
            .execute(&mut *change)
            .await?;
        for wrap in wraps {
            sqlx::query("INSERT INTO root_key_wraps (id, under, wrapped) VALUES ($1, $2, $3)")
                .bind(&wrap.id)
                .bind(&wrap.under)
                .bind(&wrap.wrapped)
                .execute(&mut *change)
                .await?;
        }
        change.commit().await?;
        Ok(())
    }

    /// Deletes a root key that is out of service and seals no credential or webhook, with its wraps.
    pub async fn forget_root_key(&self, id: &str) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let done = sqlx::query(
            "DELETE FROM root_keys WHERE id = $1 AND serving = 0 \
             AND NOT EXISTS (SELECT 1 FROM credentials WHERE root_key = $1) \
             AND NOT EXISTS (SELECT 1 FROM webhooks WHERE root_key = $1)",
        )
        .bind(id)
        .execute(&mut *change)
        .await?;
        if done.rows_affected() == 0 {
            return Err(StoreError::corrupt("a root key that is still in use was to be forgotten"));
        }
        sqlx::query("DELETE FROM root_key_wraps WHERE id = $1 OR under = $1")
            .bind(id)
            .execute(&mut *change)
            .await?;
        change.commit().await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::empty_store;
    use super::*;

    #[tokio::test]
    async fn a_rotation_has_two_root_keys_and_then_one() {
        let (_folder, store) = empty_store().await;
        assert_eq!(store.root_keys().await.expect("rows"), []);
        store.serve_root_key("one", &[], 1).await.expect("the first");
        let wraps = [("one", "two"), ("two", "one")].map(|(id, under)| RootKeyWrap {
            id: id.into(),
            under: under.into(),
            wrapped: "w".into(),
        });
        store.serve_root_key("two", &wraps, 2).await.expect("the second");
        let ids =
            |rows: Vec<RootKeyRow>| rows.into_iter().map(|row| (row.id, row.serving)).collect::<Vec<_>>();
        assert_eq!(
            ids(store.root_keys().await.expect("rows")),
            [("two".into(), true), ("one".into(), false)]
        );
        assert_eq!(store.root_key_wraps().await.expect("rows").len(), 2);
        store.forget_root_key("two").await.expect_err("it serves");
        store.forget_root_key("one").await.expect("forgotten");
        assert_eq!(ids(store.root_keys().await.expect("rows")), [("two".into(), true)]);
        assert_eq!(store.root_key_wraps().await.expect("rows"), []);
    }
}
