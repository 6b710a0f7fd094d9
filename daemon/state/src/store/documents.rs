//! Documents: a write checks its precondition, takes the next revision, stores the body and records the change, in one
//! transaction.

use toolgate_api::name::{Name, Namespace};
use toolgate_macros::boxed;

use super::history::{self, Stamp};
use super::{Store, StoreError, StoreTransaction, fitting_rows, from_sql, to_sql};
use crate::documents::{Document, DocumentKey, DocumentKind, Precondition, PreconditionResult, Revision};

/// Documents of one organization. Each has a parsed form in memory.
const PER_ORGANIZATION: i64 = 10_000;

/// Bytes of the texts of these documents.
const BYTES_PER_ORGANIZATION: i64 = 256 << 20;

/// Length of texts that the number of documents bounds well enough: they are not added up with each write.
const SHORT_BYTES: usize = 16 << 10;

/// Result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteResult {
    pub revision: Revision,
    /// The document did not exist before.
    pub created: bool,
}

/// Everything deleted or ended with a document, so that callers can update their state in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Names of the agents of a deleted organization.
    pub agents: Vec<String>,
    /// Ids of the ended sessions.
    pub sessions: Vec<String>,
    /// Ids of the revoked tokens.
    pub tokens: Vec<String>,
}

/// `kind, scope, name, body, revision, updated_ms`
type Row = (String, String, String, String, i64, i64);

#[boxed]
impl Store {
    /// Returns the document, or `NotFound`.
    pub async fn document(&self, key: &DocumentKey) -> Result<Document, StoreError> {
        self.find_document(key).await?.ok_or_else(|| StoreError::no_document(key))
    }

    /// Returns the document; `None` where there is none.
    pub async fn find_document(&self, key: &DocumentKey) -> Result<Option<Document>, StoreError> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT kind, scope, name, body, revision, updated_ms FROM docs \
             WHERE kind = $1 AND scope = $2 AND name = $3",
        )
        .bind(key.kind().as_str())
        .bind(key.scope())
        .bind(key.name())
        .fetch_optional(&self.readers)
        .await?;
        row.map(read).transpose()
    }

    /// Lists at most `limit` documents of a kind and `scope` (empty for the platform), ordered by name, after the name `after`.
    pub async fn documents(
        &self,
        kind: DocumentKind,
        scope: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT kind, scope, name, body, revision, updated_ms FROM docs \
             WHERE kind = $1 AND scope = $2 AND name > $3 ORDER BY name LIMIT $4",
        )
        .bind(kind.as_str())
        .bind(scope)
        .bind(after.unwrap_or(""))
        .bind(i64::from(limit))
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter().map(read).collect()
    }

    /// Lists as [`Store::documents`] does, but texts of at most `most_bytes`, and at least one. Returns whether there are more.
    pub async fn documents_within(
        &self,
        kind: DocumentKind,
        scope: &str,
        after: Option<&str>,
        limit: u32,
        most_bytes: u64,
    ) -> Result<(Vec<Document>, bool), StoreError> {
        // SQLite reads the length alone of a long text.
        let sizes: Vec<i64> = sqlx::query_scalar(
            "SELECT OCTET_LENGTH(body) FROM docs WHERE kind = $1 AND scope = $2 AND name > $3 ORDER BY name LIMIT $4",
        )
        .bind(kind.as_str())
        .bind(scope)
        .bind(after.unwrap_or(""))
        .bind(i64::from(limit.saturating_add(1)))
        .fetch_all(&self.readers)
        .await?;
        let fitting = fitting_rows(&sizes, limit, most_bytes);
        Ok((self.documents(kind, scope, after, fitting).await?, sizes.len() > fitting as usize))
    }

    /// Lists at most `limit` documents of a kind and `scope` without their texts, ordered by name.
    pub async fn documents_without_text(
        &self,
        kind: DocumentKind,
        scope: &str,
        limit: u32,
    ) -> Result<Vec<Document>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT kind, scope, name, '' AS body, revision, updated_ms FROM docs \
             WHERE kind = $1 AND scope = $2 ORDER BY name LIMIT $3",
        )
        .bind(kind.as_str())
        .bind(scope)
        .bind(i64::from(limit))
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter().map(read).collect()
    }

    /// Returns every document, organizations first, policies last; called once, at the start.
    pub async fn all_documents(&self) -> Result<Vec<Document>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT kind, scope, name, body, revision, updated_ms FROM docs \
             ORDER BY CASE kind WHEN 'organization' THEN 0 WHEN 'agent' THEN 1 ELSE 2 END, scope, name",
        )
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter().map(read).collect()
    }

    /// Creates or replaces the document. The organization of a policy, agent or tool must exist.
    pub async fn put_document(
        &self,
        key: &DocumentKey,
        body: &str,
        precondition: &Precondition,
        stamp: impl Into<Stamp<'_>>,
    ) -> Result<WriteResult, StoreError> {
        self.put_documents((key, body), None, precondition, stamp).await
    }

    /// Checks what [`put_document`](Self::put_document) checks before it writes, and writes nothing.
    pub async fn check_put(&self, key: &DocumentKey, precondition: &Precondition) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        check_write(&mut change, key, precondition).await.map(drop)
    }

    /// Like [`put_document`](Self::put_document), and also writes a second document without a precondition.
    pub async fn put_documents(
        &self,
        (key, body): (&DocumentKey, &str),
        beside: Option<(&DocumentKey, &str)>,
        precondition: &Precondition,
        stamp: impl Into<Stamp<'_>>,
    ) -> Result<WriteResult, StoreError> {
        let stamp = stamp.into();
        let mut change = self.begin().await?;
        let current = check_write(&mut change, key, precondition).await?;
        let revision = write(&mut change, key, body, stamp).await?;
        if let Some((key, body)) = beside {
            write(&mut change, key, body, stamp).await?;
        }
        if let Some(organization) = key.organization() {
            let bytes = body.len() + beside.map_or(0, |(_, body)| body.len());
            if current.is_none() {
                check_number(&mut change, organization).await?;
            }
            if bytes > SHORT_BYTES {
                check_bytes(&mut change, organization, BYTES_PER_ORGANIZATION).await?;
            }
        }
        change.commit().await?;
        Ok(WriteResult { revision, created: current.is_none() })
    }

    /// Deletes the document and its dependents: the sessions of an agent; the agents, sessions, tokens, credentials, tools and
    /// approvals of an organization, so that a new organization of that name does not get them.
    pub async fn delete_document(
        &self,
        key: &DocumentKey,
        precondition: &Precondition,
        stamp: impl Into<Stamp<'_>>,
    ) -> Result<Deleted, StoreError> {
        let stamp = stamp.into();
        let now_ms = stamp.at_ms;
        let mut change = self.begin().await?;
        if check_precondition(&mut change, key, precondition).await?.is_none() {
            return Err(StoreError::no_document(key));
        }
        delete_row(&mut change, key, stamp).await?;
        let mut deleted = Deleted::default();
        match key {
            DocumentKey::Organization(organization) => {
                // At first as well, so that no deletion below looks through the histories of all its documents.
                history::delete_of_organization(&mut change, organization.as_str()).await?;
                delete_if_there(&mut change, &DocumentKey::Policy(organization.clone()), stamp).await?;
                let assertions = DocumentKey::Assertions(Some(organization.clone()));
                delete_if_there(&mut change, &assertions, stamp).await?;
                deleted.agents = delete_in_organization(&mut change, organization, stamp).await?;
                deleted.tokens =
                    super::tokens::revoke_of_organization(&mut change, organization, now_ms).await?;
                deleted.sessions = super::sessions::end_of(&mut change, organization, None, now_ms).await?;
                super::plugins::delete_owned(&mut change, organization.as_str()).await?;
                super::webhooks::delete_of(&mut change, organization).await?;
                history::delete_of_organization(&mut change, organization.as_str()).await?;
                for sql in [
                    "DELETE FROM credentials WHERE organization = $1",
                    "DELETE FROM approvals WHERE organization = $1",
                    // Here, and not only with the other data: after a kill in between, a new organization of the name would
                    // open the records of the old one.
                    "DELETE FROM organization_keys WHERE organization = $1",
                ] {
                    sqlx::query(sql).bind(organization.as_str()).execute(&mut *change).await?;
                }
            }
            DocumentKey::Agent { organization, agent } => {
                deleted.sessions =
                    super::sessions::end_of(&mut change, organization, Some(agent), now_ms).await?;
            }
            DocumentKey::Tool(tool) => {
                delete_if_there(&mut change, &DocumentKey::Mount(tool.clone()), stamp).await?;
                delete_if_there(&mut change, &DocumentKey::ToolGrant(tool.clone()), stamp).await?;
                delete_if_there(&mut change, &DocumentKey::Enabled(tool.clone()), stamp).await?;
            }
            DocumentKey::Platform
            | DocumentKey::Policy(_)
            | DocumentKey::Grant(_)
            | DocumentKey::Mount(_)
            | DocumentKey::Enabled(_)
            | DocumentKey::Assertions(_)
            | DocumentKey::PublisherKey(..)
            | DocumentKey::ToolGrant(_) => {}
        }
        change.commit().await?;
        Ok(deleted)
    }
}

/// Checks that the organization exists; the transaction keeps it until the commit.
pub(super) async fn require_organization(
    change: &mut StoreTransaction,
    organization: &Name,
) -> Result<(), StoreError> {
    require(change, &DocumentKey::Organization(organization.clone())).await
}

/// Checks that the document exists.
pub(super) async fn require(change: &mut StoreTransaction, key: &DocumentKey) -> Result<(), StoreError> {
    match current_revision(change, key).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::no_document(key)),
    }
}

/// Checks that the organization exists and the precondition holds. Returns the current revision of the document.
async fn check_write(
    change: &mut StoreTransaction,
    key: &DocumentKey,
    precondition: &Precondition,
) -> Result<Option<Revision>, StoreError> {
    if let Some(organization) = key.organization() {
        require_organization(change, organization).await?;
    }
    check_precondition(change, key, precondition).await
}

/// Returns the current revision if the precondition holds.
async fn check_precondition(
    change: &mut StoreTransaction,
    key: &DocumentKey,
    precondition: &Precondition,
) -> Result<Option<Revision>, StoreError> {
    let current = current_revision(change, key).await?;
    match precondition.check(current) {
        PreconditionResult::Holds => Ok(current),
        PreconditionResult::Fails(failure) => {
            Err(StoreError::PreconditionFailed { what: key.to_string(), failure })
        }
        PreconditionResult::Required => Err(StoreError::PreconditionRequired { what: key.to_string() }),
    }
}

/// Refuses one document more than an organization may have.
async fn check_number(change: &mut StoreTransaction, organization: &Name) -> Result<(), StoreError> {
    let sql = "SELECT COUNT(*) FROM docs WHERE scope = $1 \
               AND kind IN ('agent', 'enabled', 'mount', 'tool', 'tool_grant', 'publisher_key')";
    let number: i64 = sqlx::query_scalar(sql).bind(organization.as_str()).fetch_one(&mut **change).await?;
    if number > PER_ORGANIZATION { Err(StoreError::TooManyDocuments) } else { Ok(()) }
}

/// Refuses longer documents than an organization may have.
async fn check_bytes(
    change: &mut StoreTransaction,
    organization: &Name,
    most: i64,
) -> Result<(), StoreError> {
    // SQLite reads the length alone of a long text.
    let sql = "SELECT COALESCE(SUM(OCTET_LENGTH(body)), 0) FROM docs WHERE scope = $1 \
               AND kind IN ('agent', 'enabled', 'mount', 'tool', 'tool_grant', 'publisher_key')";
    let bytes: i64 = sqlx::query_scalar(sql).bind(organization.as_str()).fetch_one(&mut **change).await?;
    if bytes > most { Err(StoreError::TooManyDocuments) } else { Ok(()) }
}

async fn write(
    change: &mut StoreTransaction,
    key: &DocumentKey,
    body: &str,
    stamp: Stamp<'_>,
) -> Result<Revision, StoreError> {
    let revision = next_revision(change).await?;
    sqlx::query(
        "INSERT INTO docs (kind, scope, name, revision, body, updated_ms) \
         VALUES ($1, $2, $3, $4, $5, $6) \
         ON CONFLICT (kind, scope, name) DO UPDATE \
         SET revision = excluded.revision, body = excluded.body, updated_ms = excluded.updated_ms",
    )
    .bind(key.kind().as_str())
    .bind(key.scope())
    .bind(key.name())
    .bind(to_sql(revision.0))
    .bind(body)
    .bind(to_sql(stamp.at_ms))
    .execute(&mut **change)
    .await?;
    history::add(change, key, revision, Some(body), stamp).await?;
    Ok(revision)
}

async fn current_revision(
    change: &mut StoreTransaction,
    key: &DocumentKey,
) -> Result<Option<Revision>, StoreError> {
    let row = sqlx::query_scalar("SELECT revision FROM docs WHERE kind = $1 AND scope = $2 AND name = $3")
        .bind(key.kind().as_str())
        .bind(key.scope())
        .bind(key.name())
        .fetch_optional(&mut **change)
        .await?;
    Ok(row.map(|revision| Revision(from_sql(revision))))
}

/// Takes the next revision, which documents and credentials share.
pub(super) async fn next_revision(change: &mut StoreTransaction) -> Result<Revision, StoreError> {
    let sql = "UPDATE counters SET value = value + 1 WHERE name = 'changes' RETURNING value";
    Ok(Revision(from_sql(sqlx::query_scalar(sql).fetch_one(&mut **change).await?)))
}

/// Deletes the agents, custom tools, settings and consents of an organization. Returns the names of the agents.
async fn delete_in_organization(
    change: &mut StoreTransaction,
    organization: &Name,
    stamp: Stamp<'_>,
) -> Result<Vec<String>, StoreError> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT kind, name FROM docs WHERE scope = $1 AND kind IN ('agent', 'enabled', 'mount', 'tool', 'tool_grant', 'publisher_key') \
         ORDER BY kind, name",
    )
    .bind(organization.as_str())
    .fetch_all(&mut **change)
    .await?;
    let mut agents = Vec::new();
    for (kind, name) in rows {
        let key = DocumentKey::from_row(&kind, organization.as_str(), &name).ok_or_else(unreadable)?;
        delete_row(change, &key, stamp).await?;
        if matches!(key, DocumentKey::Agent { .. }) {
            agents.push(name);
        }
    }
    Ok(agents)
}

/// Deletes what organizations have set for a plugin of the platform, unless they have their own of that namespace.
pub(super) async fn delete_enabled(
    change: &mut StoreTransaction,
    namespace: &Namespace,
    now_ms: u64,
) -> Result<(), StoreError> {
    let organizations: Vec<String> = sqlx::query_scalar(
        "SELECT scope FROM docs WHERE kind = 'enabled' AND name = $1 \
         AND scope NOT IN (SELECT scope FROM docs WHERE kind = 'tool' AND name = $1) \
         AND scope NOT IN (SELECT owner FROM plugins WHERE namespace = $1)",
    )
    .bind(namespace.as_str())
    .fetch_all(&mut **change)
    .await?;
    for organization in organizations {
        let key =
            DocumentKey::from_row("enabled", &organization, namespace.as_str()).ok_or_else(unreadable)?;
        delete_row(change, &key, now_ms.into()).await?;
    }
    Ok(())
}

pub(super) async fn delete_if_there(
    change: &mut StoreTransaction,
    key: &DocumentKey,
    stamp: impl Into<Stamp<'_>>,
) -> Result<(), StoreError> {
    match current_revision(change, key).await? {
        Some(_) => delete_row(change, key, stamp.into()).await,
        None => Ok(()),
    }
}

async fn delete_row(
    change: &mut StoreTransaction,
    key: &DocumentKey,
    stamp: Stamp<'_>,
) -> Result<(), StoreError> {
    let revision = next_revision(change).await?;
    sqlx::query("DELETE FROM docs WHERE kind = $1 AND scope = $2 AND name = $3")
        .bind(key.kind().as_str())
        .bind(key.scope())
        .bind(key.name())
        .execute(&mut **change)
        .await?;
    history::add(change, key, revision, None, stamp).await?;
    history::remove_oldest_deleted(change, key).await
}

fn read((kind, scope, name, body, revision, updated_ms): Row) -> Result<Document, StoreError> {
    Ok(Document {
        key: DocumentKey::from_row(&kind, &scope, &name).ok_or_else(unreadable)?,
        body,
        revision: Revision(from_sql(revision)),
        updated_ms: from_sql(updated_ms),
    })
}

fn unreadable() -> StoreError {
    StoreError::corrupt("a row of `docs` has no valid key")
}

#[cfg(test)]
mod tests;
