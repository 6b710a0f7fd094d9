//! Documents in the store: each write judges its precondition, takes the next
//! number, stores the body and notes the change, in one transaction.

use sqlx::{Sqlite, Transaction};
use toolgate_admission::Name;

use super::{Store, StoreError, from_sql, to_sql};
use crate::documents::{Document, DocumentKey, DocumentKind, Judgement, Precondition, Revision};

/// What a write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    pub revision: Revision,
    /// Whether there was none before.
    pub created: bool,
}

/// What went with a document that was deleted, for the rooms that hold it in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Names of the agents of a deleted organization.
    pub agents: Vec<String>,
    /// Ids of the sessions that ended.
    pub sessions: Vec<String>,
    /// Ids of the tokens that were revoked.
    pub tokens: Vec<String>,
}

/// A write or a deletion that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub revision: Revision,
    pub key: DocumentKey,
    pub deleted: bool,
}

/// `kind, scope, name, body, revision, updated_ms`
type Row = (String, String, String, String, i64, i64);

impl Store {
    /// The document, or `NotFound`.
    pub async fn document(&self, key: &DocumentKey) -> Result<Document, StoreError> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT kind, scope, name, body, revision, updated_ms FROM docs \
             WHERE kind = $1 AND scope = $2 AND name = $3",
        )
        .bind(key.kind().as_str())
        .bind(key.scope())
        .bind(key.name())
        .fetch_optional(&self.readers)
        .await?;
        read(row.ok_or_else(|| StoreError::no_document(key))?)
    }

    /// Documents of a kind within `scope` (empty for the platform's own), by name,
    /// those after `after`; at most `limit`.
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

    /// Every document there is, organizations first, policies last; read once, at the start.
    pub async fn all_documents(&self) -> Result<Vec<Document>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT kind, scope, name, body, revision, updated_ms FROM docs \
             ORDER BY CASE kind WHEN 'organization' THEN 0 WHEN 'agent' THEN 1 ELSE 2 END, scope, name",
        )
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter().map(read).collect()
    }

    /// Replaces the document whole. A policy, an agent and a tool need their organization.
    pub async fn put_document(
        &self,
        key: &DocumentKey,
        body: &str,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<Written, StoreError> {
        self.put_documents((key, body), None, precondition, now_ms).await
    }

    /// The same, with another document that goes with it, whatever that one was.
    pub async fn put_documents(
        &self,
        (key, body): (&DocumentKey, &str),
        beside: Option<(&DocumentKey, &str)>,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<Written, StoreError> {
        let mut change = self.begin().await?;
        if let Some(organization) = key.organization() {
            require_organization(&mut change, organization).await?;
        }
        let current = judged(&mut change, key, precondition).await?;
        let revision = write(&mut change, key, body, now_ms).await?;
        if let Some((key, body)) = beside {
            write(&mut change, key, body, now_ms).await?;
        }
        change.commit().await?;
        Ok(Written { revision, created: current.is_none() })
    }

    /// Deletes the document and what cannot be without it: the sessions of an
    /// agent; the agents, sessions and tokens of an organization, lest a new
    /// organization of that name be open to the tokens of the old one.
    pub async fn delete_document(
        &self,
        key: &DocumentKey,
        precondition: &Precondition,
        now_ms: u64,
    ) -> Result<Removed, StoreError> {
        let mut change = self.begin().await?;
        if judged(&mut change, key, precondition).await?.is_none() {
            return Err(StoreError::no_document(key));
        }
        delete_row(&mut change, key, now_ms).await?;
        let mut removed = Removed::default();
        match key {
            DocumentKey::Organization(organization) => {
                delete_if_there(&mut change, &DocumentKey::Policy(organization.clone()), now_ms).await?;
                removed.agents = delete_agents(&mut change, organization, now_ms).await?;
                removed.tokens =
                    super::tokens::revoke_of_organization(&mut change, organization, now_ms).await?;
                super::credentials::delete_of_organization(&mut change, organization).await?;
                delete_tools(&mut change, organization, now_ms).await?;
                removed.sessions = super::sessions::end_of(&mut change, organization, None, now_ms).await?;
                super::approvals::remove_of_organization(&mut change, organization).await?;
            }
            DocumentKey::Agent { organization, agent } => {
                removed.sessions =
                    super::sessions::end_of(&mut change, organization, Some(agent), now_ms).await?;
            }
            DocumentKey::Tool(tool) => {
                delete_if_there(&mut change, &DocumentKey::Mount(tool.clone()), now_ms).await?;
                delete_if_there(&mut change, &DocumentKey::ToolGrant(tool.clone()), now_ms).await?;
            }
            DocumentKey::Platform
            | DocumentKey::Policy(_)
            | DocumentKey::Grant(_)
            | DocumentKey::Mount(_)
            | DocumentKey::ToolGrant(_) => {}
        }
        change.commit().await?;
        Ok(removed)
    }

    /// Changes after `after`, oldest first; at most `limit`.
    pub async fn changes_after(&self, after: Revision, limit: u32) -> Result<Vec<Change>, StoreError> {
        let rows: Vec<(i64, String, String, String, i16)> = sqlx::query_as(
            "SELECT seq, kind, scope, name, deleted FROM changes WHERE seq > $1 ORDER BY seq LIMIT $2",
        )
        .bind(to_sql(after.0))
        .bind(i64::from(limit))
        .fetch_all(&self.readers)
        .await?;
        let change = |(seq, kind, scope, name, deleted): (i64, String, String, String, i16)| {
            let key = DocumentKey::from_row(&kind, &scope, &name).ok_or_else(unreadable)?;
            Ok(Change { revision: Revision(from_sql(seq)), key, deleted: deleted != 0 })
        };
        rows.into_iter().map(change).collect()
    }
}

/// That the organization is there, and stays so for the rest of the change.
pub(super) async fn require_organization(
    change: &mut Transaction<'static, Sqlite>,
    organization: &Name,
) -> Result<(), StoreError> {
    require(change, &DocumentKey::Organization(organization.clone())).await
}

/// The same of any document.
pub(super) async fn require(
    change: &mut Transaction<'static, Sqlite>,
    key: &DocumentKey,
) -> Result<(), StoreError> {
    match current_revision(change, key).await? {
        Some(_) => Ok(()),
        None => Err(StoreError::no_document(key)),
    }
}

/// The revision that the document has, if the precondition lets a write go on.
async fn judged(
    change: &mut Transaction<'static, Sqlite>,
    key: &DocumentKey,
    precondition: &Precondition,
) -> Result<Option<Revision>, StoreError> {
    let current = current_revision(change, key).await?;
    match precondition.judge(current) {
        Judgement::Holds => Ok(current),
        Judgement::Fails(unmet) => Err(StoreError::PreconditionFailed { what: key.to_string(), unmet }),
        Judgement::Required => Err(StoreError::PreconditionRequired { what: key.to_string() }),
    }
}

async fn write(
    change: &mut Transaction<'static, Sqlite>,
    key: &DocumentKey,
    body: &str,
    now_ms: u64,
) -> Result<Revision, StoreError> {
    let revision = note_change(change, key, false, now_ms).await?;
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
    .bind(to_sql(now_ms))
    .execute(&mut **change)
    .await?;
    Ok(revision)
}

async fn current_revision(
    change: &mut Transaction<'static, Sqlite>,
    key: &DocumentKey,
) -> Result<Option<Revision>, StoreError> {
    let row: Option<(i64,)> =
        sqlx::query_as("SELECT revision FROM docs WHERE kind = $1 AND scope = $2 AND name = $3")
            .bind(key.kind().as_str())
            .bind(key.scope())
            .bind(key.name())
            .fetch_optional(&mut **change)
            .await?;
    Ok(row.map(|(revision,)| Revision(from_sql(revision))))
}

async fn note_change(
    change: &mut Transaction<'static, Sqlite>,
    key: &DocumentKey,
    deleted: bool,
    now_ms: u64,
) -> Result<Revision, StoreError> {
    let (seq,): (i64,) =
        sqlx::query_as("UPDATE counters SET value = value + 1 WHERE name = 'changes' RETURNING value")
            .fetch_one(&mut **change)
            .await?;
    let sql = if deleted {
        "INSERT INTO changes (seq, kind, scope, name, changed_ms, deleted) VALUES ($1, $2, $3, $4, $5, 1)"
    } else {
        "INSERT INTO changes (seq, kind, scope, name, changed_ms, deleted) VALUES ($1, $2, $3, $4, $5, 0)"
    };
    sqlx::query(sql)
        .bind(seq)
        .bind(key.kind().as_str())
        .bind(key.scope())
        .bind(key.name())
        .bind(to_sql(now_ms))
        .execute(&mut **change)
        .await?;
    Ok(Revision(from_sql(seq)))
}

async fn delete_agents(
    change: &mut Transaction<'static, Sqlite>,
    organization: &Name,
    now_ms: u64,
) -> Result<Vec<String>, StoreError> {
    let agents: Vec<(String,)> =
        sqlx::query_as("SELECT name FROM docs WHERE kind = 'agent' AND scope = $1 ORDER BY name")
            .bind(organization.as_str())
            .fetch_all(&mut **change)
            .await?;
    for (agent,) in &agents {
        let agent = Name::parse(agent).map_err(|_| unreadable())?;
        delete_row(change, &DocumentKey::agent(organization, &agent), now_ms).await?;
    }
    Ok(agents.into_iter().map(|(agent,)| agent).collect())
}

/// The tools that an organization made, with what goes with them.
async fn delete_tools(
    change: &mut Transaction<'static, Sqlite>,
    organization: &Name,
    now_ms: u64,
) -> Result<(), StoreError> {
    let rows: Vec<(String, String)> = sqlx::query_as(
        "SELECT kind, name FROM docs WHERE scope = $1 AND kind IN ('tool', 'mount', 'tool_grant') ORDER BY kind, name",
    )
    .bind(organization.as_str())
    .fetch_all(&mut **change)
    .await?;
    for (kind, name) in rows {
        let key = DocumentKey::from_row(&kind, organization.as_str(), &name).ok_or_else(unreadable)?;
        delete_row(change, &key, now_ms).await?;
    }
    Ok(())
}

pub(super) async fn delete_if_there(
    change: &mut Transaction<'static, Sqlite>,
    key: &DocumentKey,
    now_ms: u64,
) -> Result<(), StoreError> {
    match current_revision(change, key).await? {
        Some(_) => delete_row(change, key, now_ms).await,
        None => Ok(()),
    }
}

async fn delete_row(
    change: &mut Transaction<'static, Sqlite>,
    key: &DocumentKey,
    now_ms: u64,
) -> Result<(), StoreError> {
    note_change(change, key, true, now_ms).await?;
    sqlx::query("DELETE FROM docs WHERE kind = $1 AND scope = $2 AND name = $3")
        .bind(key.kind().as_str())
        .bind(key.scope())
        .bind(key.name())
        .execute(&mut **change)
        .await?;
    Ok(())
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
    StoreError::damaged("a row of `docs` or `changes` has no sound key")
}

#[cfg(test)]
mod tests;
