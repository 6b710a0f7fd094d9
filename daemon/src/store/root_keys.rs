//! Which root keys something is wrapped under, and how each opens the other while keys are rotated. The keys themselves
//! are elsewhere.

use super::{Store, StoreError, from_sql, to_sql};

/// A root key, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootKeyRow {
    pub id: String,
    /// Whether new secrets are sealed under it; the other one goes.
    pub serving: bool,
    pub created_ms: u64,
}

/// A root key under another one: base64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootKeyWrap {
    pub id: String,
    pub under: String,
    pub wrapped: String,
}

impl Store {
    /// The root keys in use: none before the first start, two while keys are rotated.
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

    /// How the root keys open each other.
    pub async fn root_key_wraps(&self) -> Result<Vec<RootKeyWrap>, StoreError> {
        let rows: Vec<(String, String, String)> =
            sqlx::query_as("SELECT id, under, wrapped FROM root_key_wraps").fetch_all(&self.readers).await?;
        Ok(rows.into_iter().map(|(id, under, wrapped)| RootKeyWrap { id, under, wrapped }).collect())
    }

    /// Lets a root key serve, with what opens it and what it opens. The one that served before goes on opening.
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

    /// Forgets a root key that serves no longer, and with it what it opened.
    pub async fn forget_root_key(&self, id: &str) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let done = sqlx::query(
            "DELETE FROM root_keys WHERE id = $1 AND serving = 0 \
             AND NOT EXISTS (SELECT 1 FROM credentials WHERE root_key = $1)",
        )
        .bind(id)
        .execute(&mut *change)
        .await?;
        if done.rows_affected() == 0 {
            return Err(StoreError::damaged("a root key that is still in use was to be forgotten"));
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
    async fn while_keys_are_rotated_there_are_two_and_then_one() {
        let (_folder, store) = empty_store().await;
        assert_eq!(store.root_keys().await.expect("rows"), []);
        store.serve_root_key("one", &[], 1).await.expect("the first");
        let wraps = [("one", "two"), ("two", "one")].map(|(id, under)| RootKeyWrap {
            id: id.into(),
            under: under.into(),
            wrapped: "w".into(),
        });
        store.serve_root_key("two", &wraps, 2).await.expect("the second");
        let told =
            |rows: Vec<RootKeyRow>| rows.into_iter().map(|row| (row.id, row.serving)).collect::<Vec<_>>();
        assert_eq!(
            told(store.root_keys().await.expect("rows")),
            [("two".into(), true), ("one".into(), false)]
        );
        assert_eq!(store.root_key_wraps().await.expect("rows").len(), 2);
        store.forget_root_key("two").await.expect_err("it serves");
        store.forget_root_key("one").await.expect("forgotten");
        assert_eq!(told(store.root_keys().await.expect("rows")), [("two".into(), true)]);
        assert_eq!(store.root_key_wraps().await.expect("rows"), []);
    }
}
