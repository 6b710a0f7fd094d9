//! Sessions in the store: rows that outlive the daemon. While it runs, the
//! sessions in memory are what counts; their use is written behind, in batches.

use std::collections::BTreeMap;

use sqlx::{FromRow, Sqlite, Transaction};
use toolgate_admission::Name;

use super::documents::require;
use super::{Store, StoreError, from_sql, to_sql};
use crate::documents::DocumentKey;

/// A session as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    pub id: String,
    pub organization: Name,
    pub agent: Name,
    pub user: Option<String>,
    pub conversation: Option<String>,
    pub channel: Option<String>,
    /// The id of the token that opened it.
    pub opened_by: String,
    pub disabled_tools: Vec<String>,
    /// Tools that kept failing, and how.
    pub broken_tools: BTreeMap<String, String>,
    /// Requests for calls so far.
    pub rounds: u64,
    pub created_ms: u64,
    pub last_used_ms: u64,
    pub ended_ms: Option<u64>,
}

/// What using a session changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionUse {
    pub id: String,
    pub rounds: u64,
    pub last_used_ms: u64,
}

#[derive(FromRow)]
struct Row {
    id: String,
    organization: String,
    agent: String,
    user_name: Option<String>,
    conversation: Option<String>,
    channel: Option<String>,
    opened_by: String,
    disabled_tools: String,
    broken_tools: String,
    rounds: i64,
    created_ms: i64,
    last_used_ms: i64,
    ended_ms: Option<i64>,
}

impl Store {
    /// Adds a session of an agent that is there: whoever deletes an agent ends its sessions, and one that came later would
    /// be the next agent's of that name.
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
        .bind(to_json(&session.disabled_tools))
        .bind(to_sql(session.rounds))
        .bind(to_sql(session.created_ms))
        .bind(to_sql(session.last_used_ms))
        .bind(session.ended_ms.map(to_sql))
        .bind(serde_json::Value::from_iter(session.broken_tools.clone()).to_string())
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(())
    }

    /// The session, ended or not.
    pub async fn session(&self, id: &str) -> Result<SessionRow, StoreError> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM sessions WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        read(row.ok_or_else(|| not_found(id))?)
    }

    /// Every session that has not ended; read once, at the start.
    pub async fn open_sessions(&self) -> Result<Vec<SessionRow>, StoreError> {
        let rows: Vec<Row> =
            sqlx::query_as("SELECT * FROM sessions WHERE ended_ms IS NULL ORDER BY created_ms, id")
                .fetch_all(&self.readers)
                .await?;
        rows.into_iter().map(read).collect()
    }

    /// Writes which tools are out for a session.
    pub async fn set_tools_out(
        &self,
        id: &str,
        disabled: &[String],
        broken: &BTreeMap<String, String>,
    ) -> Result<(), StoreError> {
        let broken =
            serde_json::Value::from_iter(broken.iter().map(|(tool, why)| (tool.as_str(), why.as_str())));
        let done = sqlx::query(
            "UPDATE sessions SET disabled_tools = $2, broken_tools = $3 WHERE id = $1 AND ended_ms IS NULL",
        )
        .bind(id)
        .bind(to_json(disabled))
        .bind(broken.to_string())
        .execute(&self.writer)
        .await?;
        found(done.rows_affected(), id)
    }

    /// Writes what many sessions were used for, in one transaction. A session that
    /// has ended meanwhile is passed over.
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

    /// Ends a session; one that has ended already is not found.
    pub async fn end_session(&self, id: &str, now_ms: u64) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let done = sqlx::query("UPDATE sessions SET ended_ms = $2 WHERE id = $1 AND ended_ms IS NULL")
            .bind(id)
            .bind(to_sql(now_ms))
            .execute(&mut *change)
            .await?;
        found(done.rows_affected(), id)?;
        super::approvals::void_of(&mut change, &[id.to_owned()]).await?;
        change.commit().await?;
        Ok(())
    }

    /// Forgets the sessions that ended before `ended_before_ms`; answers their ids,
    /// whose workspaces can go.
    pub async fn forget_sessions(&self, ended_before_ms: u64) -> Result<Vec<String>, StoreError> {
        let rows: Vec<(String,)> = sqlx::query_as("DELETE FROM sessions WHERE ended_ms < $1 RETURNING id")
            .bind(to_sql(ended_before_ms))
            .fetch_all(&self.writer)
            .await?;
        Ok(ids(rows))
    }
}

/// Ends the open sessions of an organization, or of one of its agents.
pub(super) async fn end_of(
    change: &mut Transaction<'static, Sqlite>,
    organization: &Name,
    agent: Option<&Name>,
    now_ms: u64,
) -> Result<Vec<String>, StoreError> {
    let rows: Vec<(String,)> = sqlx::query_as(
        "UPDATE sessions SET ended_ms = $3 \
         WHERE organization = $1 AND agent = COALESCE($2, agent) AND ended_ms IS NULL RETURNING id",
    )
    .bind(organization.as_str())
    .bind(agent.map(Name::as_str))
    .bind(to_sql(now_ms))
    .fetch_all(&mut **change)
    .await?;
    let ended = ids(rows);
    super::approvals::void_of(change, &ended).await?;
    Ok(ended)
}

fn ids(rows: Vec<(String,)>) -> Vec<String> {
    rows.into_iter().map(|(id,)| id).collect()
}

fn to_json(tools: &[String]) -> String {
    serde_json::Value::from_iter(tools.iter().map(String::as_str)).to_string()
}

fn found(rows: u64, id: &str) -> Result<(), StoreError> {
    if rows == 0 { Err(not_found(id)) } else { Ok(()) }
}

fn not_found(id: &str) -> StoreError {
    StoreError::not_found(format!("session `{id}`"))
}

fn read(row: Row) -> Result<SessionRow, StoreError> {
    let unreadable = || StoreError::damaged("a row of `sessions` cannot be read");
    Ok(SessionRow {
        organization: Name::parse(&row.organization).map_err(|_| unreadable())?,
        agent: Name::parse(&row.agent).map_err(|_| unreadable())?,
        disabled_tools: serde_json::from_str(&row.disabled_tools).map_err(|_| unreadable())?,
        broken_tools: serde_json::from_str(&row.broken_tools).map_err(|_| unreadable())?,
        id: row.id,
        user: row.user_name,
        conversation: row.conversation,
        channel: row.channel,
        opened_by: row.opened_by,
        rounds: from_sql(row.rounds),
        created_ms: from_sql(row.created_ms),
        last_used_ms: from_sql(row.last_used_ms),
        ended_ms: row.ended_ms.map(from_sql),
    })
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
