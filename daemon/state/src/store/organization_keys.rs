//! The data keys of organizations, the deletion of an organization's data, and the count of starts.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteRow};
use sqlx::{ConnectOptions as _, Connection as _, FromRow, Row as _};
use toolgate_api::name::Name;
use toolgate_macros::boxed;

use super::{Store, StoreError, StoreTransaction, name, natural, parse_column, to_sql};

/// The data key of an organization, encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrganizationKeyRow {
    pub organization: Name,
    /// Its id, which every text names that it encrypts.
    pub id: String,
    /// The key, encrypted under the daemon's key for data, as Base64.
    pub wrapped: String,
    pub created_ms: u64,
}

impl FromRow<'_, SqliteRow> for OrganizationKeyRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            organization: parse_column(row, "organization", name)?,
            id: row.try_get("id")?,
            wrapped: row.try_get("wrapped")?,
            created_ms: natural(row, "created_ms")?,
        })
    }
}

const ALL: &str = "SELECT * FROM organization_keys ORDER BY organization";

/// Reads the data keys of all organizations from the store at `path`, which may be of another version. Nothing is migrated.
#[boxed]
pub async fn read_organization_keys(path: &Path) -> Result<Vec<OrganizationKeyRow>, StoreError> {
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await?;
    let rows = sqlx::query_as(ALL).fetch_all(&mut connection).await?;
    connection.close().await?;
    Ok(rows)
}

#[boxed]
impl Store {
    /// Returns the data keys of all organizations.
    pub async fn organization_keys(&self) -> Result<Vec<OrganizationKeyRow>, StoreError> {
        let query = sqlx::query_as(ALL);
        Ok(query.fetch_all(&self.readers).await?)
    }

    /// Stores the data key of an organization that has none. Returns false if it has one, which stays.
    pub async fn add_organization_key(&self, row: &OrganizationKeyRow) -> Result<bool, StoreError> {
        let mut change = self.begin().await?;
        let is_added = add_key(&mut change, row).await?;
        change.commit().await?;
        Ok(is_added)
    }

    /// Deletes an organization's approvals, messages and data key, and ends its open sessions, in one transaction. `next` is the
    /// key of what follows. Returns the ids of the sessions that were open.
    pub async fn erase_organization_data(
        &self,
        organization: &Name,
        next: Option<&OrganizationKeyRow>,
        now_ms: u64,
    ) -> Result<Vec<String>, StoreError> {
        let mut change = self.begin().await?;
        let sessions = super::sessions::end_of(&mut change, organization, None, now_ms).await?;
        for sql in [
            "DELETE FROM webhook_tokens WHERE delivery IN \
             (SELECT id FROM webhook_deliveries WHERE organization = $1)",
            "DELETE FROM webhook_deliveries WHERE organization = $1",
            "DELETE FROM approvals WHERE organization = $1",
            "DELETE FROM messages WHERE organization = $1",
            "DELETE FROM organization_keys WHERE organization = $1",
            "UPDATE sessions SET user_name = NULL, conversation = NULL WHERE organization = $1",
        ] {
            sqlx::query(sql).bind(organization.as_str()).execute(&mut *change).await?;
        }
        if let Some(row) = next {
            add_key(&mut change, row).await?;
        }
        change.commit().await?;
        // The deletion is in force: an error here would keep the caller from using the new key.
        if let Err(error) = self.purge_log().await {
            tracing::warn!(%error, "the write-ahead log of the store still has deleted rows");
        }
        Ok(sessions)
    }

    /// Empties the write-ahead log, in which older versions of deleted rows stand.
    async fn purge_log(&self) -> Result<(), StoreError> {
        let busy: i64 = sqlx::query_scalar("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(&self.writer).await?;
        if busy != 0 {
            tracing::warn!("the write-ahead log of the store still has deleted rows: a reader was busy");
        }
        Ok(())
    }

    /// Counts a start of the daemon, and returns its number, from 1.
    pub async fn count_start(&self) -> Result<u64, StoreError> {
        let query = "UPDATE counters SET value = value + 1 WHERE name = 'starts' RETURNING value";
        let starts: i64 = sqlx::query_scalar(query).fetch_one(&self.writer).await?;
        Ok(super::from_sql(starts))
    }
}

async fn add_key(change: &mut StoreTransaction, row: &OrganizationKeyRow) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "INSERT INTO organization_keys (organization, id, wrapped, created_ms) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (organization) DO NOTHING",
    )
    .bind(row.organization.as_str())
    .bind(&row.id)
    .bind(&row.wrapped)
    .bind(to_sql(row.created_ms))
    .execute(&mut **change)
    .await?;
    Ok(done.rows_affected() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::documents::{DocumentKey, Precondition};
    use crate::store::testing::{empty_store, store_with_acme};

    fn row(id: &str) -> OrganizationKeyRow {
        let organization = Name::parse("acme").expect("a name");
        OrganizationKeyRow { organization, id: id.to_owned(), wrapped: format!("of {id}"), created_ms: 1 }
    }

    #[tokio::test]
    async fn an_erased_key_is_in_no_file_of_the_store() {
        let (folder, store) = store_with_acme().await;
        let canary = "canary-0ld-k3y";
        assert!(store.add_organization_key(&row(canary)).await.expect("stored"));
        assert!(!store.add_organization_key(&row("another")).await.expect("kept"));
        assert_eq!(store.organization_keys().await.expect("keys"), [row(canary)]);
        let next = row("next");
        store.erase_organization_data(&next.organization, Some(&next), 2).await.expect("erased");
        assert_eq!(store.organization_keys().await.expect("keys"), [next]);
        for entry in std::fs::read_dir(folder.path()).expect("a folder") {
            let bytes = std::fs::read(entry.expect("a file").path()).expect("readable");
            assert!(!bytes.windows(canary.len()).any(|found| found == canary.as_bytes()));
        }
    }

    #[tokio::test]
    async fn a_key_goes_with_its_organization_in_one_transaction() {
        let (_folder, store) = store_with_acme().await;
        assert!(store.add_organization_key(&row("one")).await.expect("stored"));
        let acme = DocumentKey::Organization(row("one").organization);
        store.delete_document(&acme, &Precondition::Present, 2).await.expect("deleted");
        assert_eq!(store.organization_keys().await.expect("keys"), []);
    }

    #[tokio::test]
    async fn starts_are_counted() {
        let (_folder, store) = empty_store().await;
        assert_eq!((store.count_start().await.ok(), store.count_start().await.ok()), (Some(1), Some(2)));
    }
}
