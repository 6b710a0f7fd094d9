//! Sessions. The sessions in memory are authoritative while the daemon runs; their use is written in batches.

use std::collections::BTreeMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row as _, Sqlite};
use toolgate_api::name::Name;
use toolgate_macros::boxed;

use super::documents::require;
use super::{Store, StoreError, StoreTransaction, name, natural, optional_natural, parse_column, to_sql};
use crate::documents::DocumentKey;

/// A stored session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub id: String,
    pub organization: Name,
    pub agent: Name,
    pub user: Option<String>,
    pub conversation: Option<String>,
    pub channel: Option<String>,
    /// Id of the token that opened it.
    pub opened_by: String,
    pub disabled_tools: Vec<String>,
    /// Tools that the circuit breaker disabled, with the reason.
    pub broken_tools: BTreeMap<String, String>,
    /// Number of call requests so far.
    pub rounds: u64,
    pub created_ms: u64,
    pub last_used_ms: u64,
    pub ended_ms: Option<u64>,
}

/// Usage of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUse {
    pub id: String,
    pub rounds: u64,
    pub last_used_ms: u64,
}

/// Filters of a list of sessions; a session must match all of them.
#[derive(Clone, Debug, Default)]
pub struct SessionFilter {
    pub organization: Option<Name>,
    /// Sessions of these agents; `None` for all.
    pub agents: Option<Vec<Name>>,
    pub conversation: Option<String>,
    pub user: Option<String>,
    /// Opened at or after this time.
    pub since_ms: Option<u64>,
    /// Opened before this time.
    pub until_ms: Option<u64>,
    /// Only open sessions, or only ended ones.
    pub is_open: Option<bool>,
    /// Only sessions after this one in the list: the time at which it was opened, and its id.
    pub after: Option<(u64, String)>,
}

impl FromRow<'_, SqliteRow> for SessionRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            organization: parse_column(row, "organization", name)?,
            agent: parse_column(row, "agent", name)?,
            user: row.try_get("user_name")?,
            conversation: row.try_get("conversation")?,
            channel: row.try_get("channel")?,
            opened_by: row.try_get("opened_by")?,
            disabled_tools: parse_column(row, "disabled_tools", |json| serde_json::from_str(json).ok())?,
            broken_tools: parse_column(row, "broken_tools", |json| serde_json::from_str(json).ok())?,
            rounds: natural(row, "rounds")?,
            created_ms: natural(row, "created_ms")?,
            last_used_ms: natural(row, "last_used_ms")?,
            ended_ms: optional_natural(row, "ended_ms")?,
        })
    }
}

#[boxed]
impl Store {
    /// Adds a session of an existing agent. Deleting an agent ends its sessions, so a session added later would belong to the
    /// next agent of that name.
    pub async fn add_session(&self, session: &SessionRow) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        require(&mut change, &DocumentKey::agent(&session.organization, &session.agent)).await?;
        sqlx::query(
            "INSERT INTO sessions (id, organization, agent, user_name, conversation, channel, opened_by, \
             disabled_tools, rounds, created_ms, last_used_ms, ended_ms, broken_tools) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
        )
        .bind(&session.id)
        .bind(session.organization.as_str())
        .bind(session.agent.as_str())
        .bind(&session.user)
        .bind(&session.conversation)
        .bind(&session.channel)
        .bind(&session.opened_by)
        .bind(disabled_to_json(&session.disabled_tools))
        .bind(to_sql(session.rounds))
        .bind(to_sql(session.created_ms))
        .bind(to_sql(session.last_used_ms))
        .bind(session.ended_ms.map(to_sql))
        .bind(broken_to_json(&session.broken_tools))
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(())
    }

    /// Returns the session, open or ended.
    pub async fn session(&self, id: &str) -> Result<SessionRow, StoreError> {
        let query = sqlx::query_as("SELECT * FROM sessions WHERE id = $1").bind(id);
        query.fetch_optional(&self.readers).await?.ok_or_else(|| not_found(id))
    }

    /// Returns up to `limit` sessions, the newest first.
    pub async fn sessions(&self, filter: &SessionFilter, limit: u32) -> Result<Vec<SessionRow>, StoreError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT * FROM sessions WHERE 1 = 1");
        if let Some(organization) = &filter.organization {
            sql.push(" AND organization = ").push_bind(organization.to_string());
        }
        if let Some(agents) = &filter.agents {
            sql.push(" AND agent IN (");
            let mut list = sql.separated(", ");
            for agent in agents {
                list.push_bind(agent.to_string());
            }
            sql.push(")");
        }
        if let Some(conversation) = &filter.conversation {
            sql.push(" AND conversation = ").push_bind(conversation.clone());
        }
        if let Some(user) = &filter.user {
            sql.push(" AND user_name = ").push_bind(user.clone());
        }
        if let Some(since_ms) = filter.since_ms {
            sql.push(" AND created_ms >= ").push_bind(to_sql(since_ms));
        }
        if let Some(until_ms) = filter.until_ms {
            sql.push(" AND created_ms < ").push_bind(to_sql(until_ms));
        }
        if let Some(is_open) = filter.is_open {
            sql.push(if is_open { " AND ended_ms IS NULL" } else { " AND ended_ms IS NOT NULL" });
        }
        if let Some((created_ms, id)) = &filter.after {
            sql.push(" AND (created_ms, id) < (").push_bind(to_sql(*created_ms));
            sql.push(", ").push_bind(id.clone()).push(")");
        }
        sql.push(" ORDER BY created_ms DESC, id DESC LIMIT ").push_bind(i64::from(limit));
        Ok(sql.build_query_as().persistent(false).fetch_all(&self.readers).await?)
    }

    /// Returns every open session; called once, at the start.
    pub async fn open_sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let query = sqlx::query_as("SELECT * FROM sessions WHERE ended_ms IS NULL ORDER BY created_ms, id");
        Ok(query.fetch_all(&self.readers).await?)
    }

    /// Stores the disabled and broken tools of an open session.
    pub async fn set_tools_out(
        &self,
        id: &str,
        disabled: &[String],
        broken: &BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let done = sqlx::query(
            "UPDATE sessions SET disabled_tools = $2, broken_tools = $3 WHERE id = $1 AND ended_ms IS NULL",
        )
        .bind(id)
        .bind(disabled_to_json(disabled))
        .bind(broken_to_json(broken))
        .execute(&self.writer)
        .await?;
        require_row(done.rows_affected(), id)
    }

    /// Stores the usage of many sessions in one transaction. Skips sessions that have ended.
    pub async fn note_session_use(&self, uses: &[SessionUse]) -> Result<(), StoreError> {
        if uses.is_empty() {
            return Ok(());
        }
        let mut change = self.begin().await?;
        for session in uses {
            sqlx::query(
                "UPDATE sessions SET rounds = $2, last_used_ms = $3 WHERE id = $1 AND ended_ms IS NULL",
            )
            .bind(&session.id)
            .bind(to_sql(session.rounds))
            .bind(to_sql(session.last_used_ms))
            .execute(&mut *change)
            .await?;
        }
        change.commit().await?;
        Ok(())
    }

    /// Ends an open session; `NotFound` if it has ended already.
    pub async fn end_session(&self, id: &str, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let done = sqlx::query("UPDATE sessions SET ended_ms = $2 WHERE id = $1 AND ended_ms IS NULL")
            .bind(id)
            .bind(to_sql(now_ms))
            .execute(&mut *change)
            .await?;
        require_row(done.rows_affected(), id)?;
        super::approvals::void_of(&mut change, &[id.to_owned()]).await?;
        change.commit().await?;
        Ok(())
    }

    /// Deletes the sessions that ended before `ended_before_ms`. Returns their ids, whose workspaces can be removed.
    pub async fn forget_sessions(&self, ended_before_ms: u64) -> Result<Vec<String>, StoreError> {
        let query = sqlx::query_scalar("DELETE FROM sessions WHERE ended_ms < $1 RETURNING id");
        Ok(query.bind(to_sql(ended_before_ms)).fetch_all(&self.writer).await?)
    }
}

/// Ends the open sessions of an organization, or of one of its agents.
pub(super) async fn end_of(
    change: &mut StoreTransaction,
    organization: &Name,
    agent: Option<&Name>,
    now_ms: u64,
) -> Result<Vec<String>, StoreError> {
    let ended: Vec<String> = sqlx::query_scalar(
        "UPDATE sessions SET ended_ms = $3 \
         WHERE organization = $1 AND agent = COALESCE($2, agent) AND ended_ms IS NULL RETURNING id",
    )
    .bind(organization.as_str())
    .bind(agent.map(Name::as_str))
    .bind(to_sql(now_ms))
    .fetch_all(&mut **change)
    .await?;
    super::approvals::void_of(change, &ended).await?;
    super::messages::delete_of(change, organization, agent).await?;
    Ok(ended)
}

fn disabled_to_json(tools: &[String]) -> String {
    serde_json::Value::from_iter(tools.iter().map(String::as_str)).to_string()
}

fn broken_to_json(tools: &BTreeMap<String, String>) -> String {
    serde_json::Value::from_iter(tools.iter().map(|(tool, reason)| (tool.as_str(), reason.as_str())))
        .to_string()
}

fn require_row(rows: u64, id: &str) -> Result<(), StoreError> {
    if rows == 0 { Err(not_found(id)) } else { Ok(()) }
}

fn not_found(id: &str) -> StoreError {
    StoreError::not_found(format!("session `{id}`"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::empty_store;
    use super::*;
    use crate::documents::Precondition;

    fn session(id: &str) -> SessionRow {
        SessionRow {
            id: id.into(),
            organization: Name::parse("acme").expect("a name"),
            agent: Name::parse("bot").expect("a name"),
            user: Some("u-1".into()),
            conversation: Some("c-1".into()),
            channel: Some("sms".into()),
            opened_by: "t".into(),
            disabled_tools: vec!["files/write".into()],
            broken_tools: BTreeMap::from([("files/read".into(), "it trapped".into())]),
            rounds: 3,
            created_ms: 10,
            last_used_ms: 20,
            ended_ms: None,
        }
    }

    async fn store_with_the_agent() -> (tempfile::TempDir, Store) {
        let (folder, store) = empty_store().await;
        let SessionRow { organization, agent, .. } = session("");
        for key in
            [DocumentKey::Organization(organization.clone()), DocumentKey::agent(&organization, &agent)]
        {
            store.put_document(&key, "{}", &Precondition::Absent, 1).await.expect("made");
        }
        (folder, store)
    }

    #[tokio::test]
    async fn a_session_of_an_agent_that_is_gone_is_not_stored() {
        let (_folder, store) = store_with_the_agent().await;
        let SessionRow { organization, agent, .. } = session("");
        let bot = DocumentKey::agent(&organization, &agent);
        store.delete_document(&bot, &Precondition::Present, 2).await.expect("deleted");
        let error = store.add_session(&session("a")).await.expect_err("no agent");
        assert_eq!(error.to_string(), "no agent `acme/bot`");
        assert_eq!(store.open_sessions().await.expect("sessions"), []);
    }

    #[tokio::test]
    async fn a_session_comes_back_as_it_was_stored() {
        let (_folder, store) = store_with_the_agent().await;
        store.add_session(&session("a")).await.expect("stored");
        assert_eq!(store.session("a").await.expect("the session"), session("a"));
        assert!(matches!(store.session("b").await, Err(StoreError::NotFound { .. })));
    }

    #[tokio::test]
    async fn use_is_written_for_open_sessions_alone() {
        let (_folder, store) = store_with_the_agent().await;
        for id in ["a", "b"] {
            store.add_session(&session(id)).await.expect("stored");
        }
        store.end_session("b", 30).await.expect("ended");
        let used = |id: &str| SessionUse { id: id.into(), rounds: 4, last_used_ms: 40 };
        store.note_session_use(&[used("a"), used("b"), used("c")]).await.expect("written");
        assert_eq!(store.session("a").await.expect("the session").last_used_ms, 40);
        assert_eq!(store.session("b").await.expect("the session").last_used_ms, 20);
    }

    #[tokio::test]
    async fn a_session_ends_once() {
        let (_folder, store) = store_with_the_agent().await;
        store.add_session(&session("a")).await.expect("stored");
        store.set_tools_out("a", &[], &BTreeMap::new()).await.expect("open");
        store.end_session("a", 30).await.expect("ended");
        assert!(store.end_session("a", 31).await.is_err());
        assert!(store.set_tools_out("a", &[], &BTreeMap::new()).await.is_err());
        assert_eq!(store.session("a").await.expect("the session").ended_ms, Some(30));
        assert_eq!(store.open_sessions().await.expect("sessions"), []);
    }

    #[tokio::test]
    async fn ended_sessions_are_forgotten_and_open_ones_stay() {
        let (_folder, store) = store_with_the_agent().await;
        for id in ["ended", "open"] {
            store.add_session(&session(id)).await.expect("stored");
        }
        store.end_session("ended", 100).await.expect("ended");
        assert_eq!(store.forget_sessions(100).await.expect("none yet"), Vec::<String>::new());
        assert_eq!(store.forget_sessions(101).await.expect("forgotten"), ["ended"]);
        assert_eq!(store.open_sessions().await.expect("sessions"), [session("open")]);
    }
}
