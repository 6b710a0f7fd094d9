//! Credentials, with sealed secrets that this module cannot open.
//!
//! A write by a user checks a precondition and gets a new revision, like a document. A write by the daemon (refreshed
//! tokens, another root key) keeps the revision and names the version that it replaces, so that it cannot overwrite a
//! user's write in between.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row as _};
use toolgate_api::name::Name;
use toolgate_macros::boxed;

use super::documents::{next_revision, require_organization};
use super::{
    Store, StoreError, StoreTransaction, WriteResult, from_sql, name, natural, optional_natural,
    parse_column, to_sql,
};
use crate::documents::{Precondition, PreconditionResult, Revision};

/// A stored credential. The secret is ciphertext.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialRow {
    pub organization: Name,
    pub name: Name,
    /// Unique, also among credentials that had the same name before.
    pub id: String,
    pub revision: u64,
    /// Number of the secret, raised with each new one.
    pub version: u64,
    /// Purpose and allowed destinations, as JSON.
    pub document: String,
    pub state: String,
    pub sealed: SealedText,
    /// Expiry of the secret.
    pub expires_ms: Option<u64>,
    /// Time of the next refresh.
    pub refresh_ms: Option<u64>,
    pub created_ms: u64,
    pub changed_ms: u64,
    pub last_used_ms: Option<u64>,
}

/// Ciphertexts, base64-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedText {
    pub root_key: String,
    pub wrapped_key: String,
    pub secret: String,
}

/// Time of the last use of a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialUse {
    pub id: String,
    pub last_used_ms: u64,
}

impl FromRow<'_, SqliteRow> for CredentialRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            organization: parse_column(row, "organization", name)?,
            name: parse_column(row, "name", name)?,
            id: row.try_get("id")?,
            revision: natural(row, "revision")?,
            version: natural(row, "version")?,
            document: row.try_get("document")?,
            state: row.try_get("state")?,
            sealed: SealedText {
                root_key: row.try_get("root_key")?,
                wrapped_key: row.try_get("wrapped_key")?,
                secret: row.try_get("sealed_secret")?,
            },
            expires_ms: optional_natural(row, "expires_ms")?,
            refresh_ms: optional_natural(row, "refresh_ms")?,
            created_ms: natural(row, "created_ms")?,
            changed_ms: natural(row, "changed_ms")?,
            last_used_ms: optional_natural(row, "last_used_ms")?,
        })
    }
}

#[boxed]
impl Store {
    /// Returns every credential, ordered by organization and name; called once, at the start.
    pub async fn credentials(&self) -> Result<Vec<CredentialRow>, StoreError> {
        let query = sqlx::query_as("SELECT * FROM credentials ORDER BY organization, name");
        Ok(query.fetch_all(&self.readers).await?)
    }

    /// Creates or replaces a credential by name. Its organization must exist.
    pub async fn put_credential(
        &self,
        row: &CredentialRow,
        precondition: &Precondition,
    ) -> Result<WriteResult, StoreError> {
        let mut change = self.begin().await?;
        require_organization(&mut change, &row.organization).await?;
        let current = check_precondition(&mut change, &row.organization, &row.name, precondition).await?;
        let revision = next_revision(&mut change).await?;
        insert(&mut change, row, revision).await?;
        change.commit().await?;
        Ok(WriteResult { revision, created: current.is_none() })
    }

    /// Replaces `version` by a refreshed secret. Returns false if another version is stored.
    pub async fn renew_credential(&self, row: &CredentialRow, version: u64) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE credentials SET version = $3, state = $4, root_key = $5, wrapped_key = $6, \
             sealed_secret = $7, expires_ms = $8, refresh_ms = $9 WHERE id = $1 AND version = $2",
        )
        .bind(&row.id)
        .bind(to_sql(version))
        .bind(to_sql(row.version))
        .bind(&row.state)
        .bind(&row.sealed.root_key)
        .bind(&row.sealed.wrapped_key)
        .bind(&row.sealed.secret)
        .bind(row.expires_ms.map(to_sql))
        .bind(row.refresh_ms.map(to_sql))
        .execute(&self.writer)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Stores data keys that were wrapped under another root key, all or none.
    pub async fn rewrap_credentials(&self, rows: &[CredentialRow]) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        for row in rows {
            sqlx::query(
                "UPDATE credentials SET root_key = $3, wrapped_key = $4 WHERE id = $1 AND version = $2",
            )
            .bind(&row.id)
            .bind(to_sql(row.version))
            .bind(&row.sealed.root_key)
            .bind(&row.sealed.wrapped_key)
            .execute(&mut *change)
            .await?;
        }
        change.commit().await?;
        Ok(())
    }

    pub async fn delete_credential(
        &self,
        organization: &Name,
        name: &Name,
        precondition: &Precondition,
    ) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        if check_precondition(&mut change, organization, name, precondition).await?.is_none() {
            return Err(StoreError::not_found(what(organization, name)));
        }
        sqlx::query("DELETE FROM credentials WHERE organization = $1 AND name = $2")
            .bind(organization.as_str())
            .bind(name.as_str())
            .execute(&mut *change)
            .await?;
        change.commit().await?;
        Ok(())
    }

    /// Stores the times of last use.
    pub async fn note_credential_use(&self, uses: &[CredentialUse]) -> Result<(), StoreError> {
        if uses.is_empty() {
            return Ok(());
        }
        let mut change = self.begin().await?;
        for used in uses {
            sqlx::query("UPDATE credentials SET last_used_ms = $2 WHERE id = $1")
                .bind(&used.id)
                .bind(to_sql(used.last_used_ms))
                .execute(&mut *change)
                .await?;
        }
        change.commit().await?;
        Ok(())
    }
}

/// Returns the current revision if the precondition holds. A missing precondition is accepted: a secret is replaced as a whole.
async fn check_precondition(
    change: &mut StoreTransaction,
    organization: &Name,
    name: &Name,
    precondition: &Precondition,
) -> Result<Option<Revision>, StoreError> {
    let row: Option<i64> =
        sqlx::query_scalar("SELECT revision FROM credentials WHERE organization = $1 AND name = $2")
            .bind(organization.as_str())
            .bind(name.as_str())
            .fetch_optional(&mut **change)
            .await?;
    let current = row.map(|revision| Revision(from_sql(revision)));
    match precondition.check(current) {
        PreconditionResult::Holds | PreconditionResult::Required => Ok(current),
        PreconditionResult::Fails(failure) => {
            Err(StoreError::PreconditionFailed { what: what(organization, name), failure })
        }
    }
}

async fn insert(
    change: &mut StoreTransaction,
    row: &CredentialRow,
    revision: Revision,
) -> Result<(), StoreError> {
    sqlx::query(
        "INSERT INTO credentials (organization, name, id, revision, version, document, state, root_key, \
         wrapped_key, sealed_secret, expires_ms, refresh_ms, created_ms, changed_ms, last_used_ms) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) \
         ON CONFLICT (organization, name) DO UPDATE SET id = excluded.id, revision = excluded.revision, \
         version = excluded.version, document = excluded.document, state = excluded.state, \
         root_key = excluded.root_key, wrapped_key = excluded.wrapped_key, \
         sealed_secret = excluded.sealed_secret, expires_ms = excluded.expires_ms, \
         refresh_ms = excluded.refresh_ms, created_ms = excluded.created_ms, \
         changed_ms = excluded.changed_ms, last_used_ms = excluded.last_used_ms",
    )
    .bind(row.organization.as_str())
    .bind(row.name.as_str())
    .bind(&row.id)
    .bind(to_sql(revision.0))
    .bind(to_sql(row.version))
    .bind(&row.document)
    .bind(&row.state)
    .bind(&row.sealed.root_key)
    .bind(&row.sealed.wrapped_key)
    .bind(&row.sealed.secret)
    .bind(row.expires_ms.map(to_sql))
    .bind(row.refresh_ms.map(to_sql))
    .bind(to_sql(row.created_ms))
    .bind(to_sql(row.changed_ms))
    .bind(row.last_used_ms.map(to_sql))
    .execute(&mut **change)
    .await?;
    Ok(())
}

fn what(organization: &Name, name: &Name) -> String {
    format!("credential `{organization}/{name}`")
}

#[cfg(test)]
mod tests {
    use super::super::testing::store_with_acme;
    use super::*;
    use crate::documents::DocumentKey;

    fn name(text: &str) -> Name {
        Name::parse(text).expect("a name")
    }

    fn row(version: u64) -> CredentialRow {
        CredentialRow {
            organization: name("acme"),
            name: name("stripe"),
            id: "c_1".into(),
            revision: 0,
            version,
            document: "{}".into(),
            state: "connected".into(),
            sealed: SealedText { root_key: "k".into(), wrapped_key: "w".into(), secret: "s".into() },
            expires_ms: Some(9),
            refresh_ms: None,
            created_ms: 1,
            changed_ms: 2,
            last_used_ms: None,
        }
    }

    #[tokio::test]
    async fn a_credential_comes_back_as_it_was_stored() {
        let (_folder, store) = store_with_acme().await;
        let written = store.put_credential(&row(1), &Precondition::Missing).await.expect("stored");
        assert!(written.created);
        let expected = CredentialRow { revision: written.revision.0, ..row(1) };
        assert_eq!(store.credentials().await.expect("rows"), [expected]);
    }

    #[tokio::test]
    async fn a_credential_needs_its_organization_and_is_deleted_with_it() {
        let (_folder, store) = store_with_acme().await;
        let stray = CredentialRow { organization: name("ghost"), ..row(1) };
        let refused =
            store.put_credential(&stray, &Precondition::Missing).await.expect_err("no such organization");
        assert_eq!(refused.to_string(), "no organization `ghost`");
        store.put_credential(&row(1), &Precondition::Missing).await.expect("stored");
        let key = DocumentKey::Organization(name("acme"));
        store.delete_document(&key, &Precondition::Present, 3).await.expect("deleted");
        assert_eq!(store.credentials().await.expect("rows"), []);
    }

    #[tokio::test]
    async fn a_write_that_names_another_revision_is_refused() {
        let (_folder, store) = store_with_acme().await;
        let first = store.put_credential(&row(1), &Precondition::Absent).await.expect("stored");
        let late = Precondition::OneOf(vec![Revision(first.revision.0 + 9)]);
        assert!(store.put_credential(&row(2), &late).await.is_err());
        assert!(store.delete_credential(&name("acme"), &name("stripe"), &late).await.is_err());
        let right = Precondition::OneOf(vec![first.revision]);
        assert!(!store.put_credential(&row(2), &right).await.expect("replaced").created);
    }

    #[tokio::test]
    async fn a_refresh_does_not_overwrite_a_write_in_between() {
        let (_folder, store) = store_with_acme().await;
        store.put_credential(&row(1), &Precondition::Missing).await.expect("stored");
        assert!(store.renew_credential(&row(2), 1).await.expect("an answer"));
        assert!(!store.renew_credential(&row(2), 1).await.expect("an answer"));
        assert_eq!(store.credentials().await.expect("rows")[0].version, 2);
    }

    #[tokio::test]
    async fn a_use_and_another_root_key_are_noted_and_nothing_else_changes() {
        let (_folder, store) = store_with_acme().await;
        let written = store.put_credential(&row(1), &Precondition::Missing).await.expect("stored");
        let uses = [CredentialUse { id: "c_1".into(), last_used_ms: 77 }];
        store.note_credential_use(&uses).await.expect("noted");
        let mut other = row(1);
        other.sealed.root_key = "k2".into();
        other.sealed.wrapped_key = "w2".into();
        store.rewrap_credentials(std::slice::from_ref(&other)).await.expect("rewrapped");
        let expected = CredentialRow { revision: written.revision.0, last_used_ms: Some(77), ..other };
        assert_eq!(store.credentials().await.expect("rows"), [expected]);
    }
}
