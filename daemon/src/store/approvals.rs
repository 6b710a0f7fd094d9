//! Approvals in the store. A use is taken in one statement, so that it is taken once however many try.

use sqlx::{FromRow, Sqlite, Transaction};
use toolgate_admission::Name;

use super::{Store, StoreError, from_sql, to_sql};

/// Most approvals of one organization that wait for somebody at the same time. A person answers dozens; what is beyond
/// is an agent in a loop.
const PENDING_OF_ORGANIZATION: i64 = 10_000;

/// What has become of an approval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalState {
    /// Nobody has decided yet.
    Pending,
    /// It was given, and has uses left.
    Approved,
    /// It was refused.
    Denied,
    /// It was given, and all of its uses are taken.
    Used,
    /// Its time came to an end.
    Expired,
    /// What it was bound to has changed.
    Void,
}

impl ApprovalState {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Approved, Self::Denied, Self::Used, Self::Expired, Self::Void];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Denied => "denied",
            Self::Used => "used",
            Self::Expired => "expired",
            Self::Void => "void",
        }
    }

    fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }
}

/// An approval as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRow {
    pub id: String,
    pub organization: Name,
    pub agent: Name,
    pub session: String,
    /// The call that asked first.
    pub call: String,
    pub user: Option<String>,
    pub conversation: Option<String>,
    pub channel: Option<String>,
    /// The id of the token that made the call.
    pub asked_by: String,
    /// The id of the token that opened the session.
    pub opened_by: String,
    /// `namespace/tool`.
    pub tool: String,
    /// The tool as the model called it.
    pub called: String,
    pub plugin_version: String,
    pub plugin_digest: String,
    /// The rules that asked.
    pub rules: String,
    pub arguments: String,
    pub binding: String,
    pub state: ApprovalState,
    pub uses_left: u64,
    pub constraints: Option<String>,
    /// The decider's words.
    pub reason: Option<String>,
    /// The id of the token that decided.
    pub decided_by: Option<String>,
    pub decided_ms: Option<u64>,
    pub created_ms: u64,
    pub expires_ms: u64,
}

/// What somebody decided.
#[derive(Clone, Debug)]
pub struct Decision {
    pub state: ApprovalState,
    pub uses: u64,
    pub constraints: Option<String>,
    pub reason: Option<String>,
    pub decided_by: String,
    pub decided_ms: u64,
    pub expires_ms: u64,
}

#[derive(FromRow)]
struct Row {
    id: String,
    organization: String,
    agent: String,
    session: String,
    call_id: String,
    user_name: Option<String>,
    conversation: Option<String>,
    channel: Option<String>,
    asked_by: String,
    opened_by: String,
    tool: String,
    called: String,
    plugin_version: String,
    plugin_digest: String,
    rules: String,
    arguments: String,
    binding: String,
    state: String,
    uses_left: i64,
    constraints: Option<String>,
    reason: Option<String>,
    decided_by: Option<String>,
    decided_ms: Option<i64>,
    created_ms: i64,
    expires_ms: i64,
}

impl Store {
    /// Adds an approval that somebody is to decide, or gives the one that the same call of the session waits for
    /// already. One that nobody decided in time is nobody's any more: its id comes back beside, so that those who wait
    /// for it are told.
    pub async fn ask_for_approval(
        &self,
        asked: &ApprovalRow,
    ) -> Result<(ApprovalRow, Option<String>), StoreError> {
        let mut change = self.begin().await?;
        let expired: Option<(String,)> = sqlx::query_as(
            "UPDATE approvals SET state = 'expired' WHERE session = $1 AND binding = $2 AND state = 'pending' \
             AND expires_ms <= $3 RETURNING id",
        )
        .bind(&asked.session)
        .bind(&asked.binding)
        .bind(to_sql(asked.created_ms))
        .fetch_optional(&mut *change)
        .await?;
        let (pending,): (i64,) = sqlx::query_as(
            "SELECT COUNT(*) FROM approvals WHERE organization = $1 AND state = 'pending' AND expires_ms > $2",
        )
        .bind(asked.organization.as_str())
        .bind(to_sql(asked.created_ms))
        .fetch_one(&mut *change)
        .await?;
        if pending >= PENDING_OF_ORGANIZATION {
            return Err(StoreError::TooMany { what: "approvals of this organization that wait" });
        }
        sqlx::query(
            "INSERT INTO approvals (id, organization, agent, session, call_id, user_name, conversation, channel, \
             asked_by, opened_by, tool, called, plugin_version, plugin_digest, rules, arguments, binding, state, \
             uses_left, created_ms, expires_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 'pending', 0, $18, $19) \
             ON CONFLICT (session, binding) WHERE state = 'pending' DO NOTHING",
        )
        .bind(&asked.id)
        .bind(asked.organization.as_str())
        .bind(asked.agent.as_str())
        .bind(&asked.session)
        .bind(&asked.call)
        .bind(&asked.user)
        .bind(&asked.conversation)
        .bind(&asked.channel)
        .bind(&asked.asked_by)
        .bind(&asked.opened_by)
        .bind(&asked.tool)
        .bind(&asked.called)
        .bind(&asked.plugin_version)
        .bind(&asked.plugin_digest)
        .bind(&asked.rules)
        .bind(&asked.arguments)
        .bind(&asked.binding)
        .bind(to_sql(asked.created_ms))
        .bind(to_sql(asked.expires_ms))
        .execute(&mut *change)
        .await?;
        let row: Row = sqlx::query_as(
            "SELECT * FROM approvals WHERE session = $1 AND binding = $2 AND state = 'pending'",
        )
        .bind(&asked.session)
        .bind(&asked.binding)
        .fetch_one(&mut *change)
        .await?;
        change.commit().await?;
        Ok((read(row)?, expired.map(|(id,)| id)))
    }

    /// The approvals of a session that a call of the tool could wait for or use: those that are open, and what became of
    /// the ones that this very call asked for. The oldest first.
    pub async fn approvals_for(
        &self,
        session: &str,
        tool: &str,
        call: &str,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT * FROM approvals WHERE session = $1 AND tool = $2 \
             AND (state IN ('pending', 'approved') OR call_id = $3) ORDER BY created_ms, id",
        )
        .bind(session)
        .bind(tool)
        .bind(call)
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter().map(read).collect()
    }

    /// The approval of that id, if it is of the organization.
    pub async fn approval(&self, id: &str, organization: Option<&Name>) -> Result<ApprovalRow, StoreError> {
        let row: Option<Row> = sqlx::query_as("SELECT * FROM approvals WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        let row = row.map(read).transpose()?;
        row.filter(|row| organization.is_none_or(|organization| row.organization == *organization))
            .ok_or_else(|| not_found(id))
    }

    /// Approvals of an organization or of all, those after `after`, at most `limit`; in one state or in any.
    pub async fn approvals(
        &self,
        organization: Option<&Name>,
        state: Option<ApprovalState>,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT * FROM approvals WHERE ($1 = '' OR organization = $1) AND ($2 = '' OR state = $2) AND id > $3 \
             ORDER BY id LIMIT $4",
        )
        .bind(organization.map_or("", Name::as_str))
        .bind(state.map_or("", ApprovalState::as_str))
        .bind(after.unwrap_or(""))
        .bind(i64::from(limit))
        .fetch_all(&self.readers)
        .await?;
        rows.into_iter().map(read).collect()
    }

    /// Writes a decision, if nobody decided before and there is time left.
    pub async fn decide_approval(&self, id: &str, decision: &Decision) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "UPDATE approvals SET state = $2, uses_left = $3, constraints = $4, reason = $5, decided_by = $6, \
             decided_ms = $7, expires_ms = $8 WHERE id = $1 AND state = 'pending' AND expires_ms > $7",
        )
        .bind(id)
        .bind(decision.state.as_str())
        .bind(to_sql(decision.uses))
        .bind(&decision.constraints)
        .bind(&decision.reason)
        .bind(&decision.decided_by)
        .bind(to_sql(decision.decided_ms))
        .bind(to_sql(decision.expires_ms))
        .execute(&self.writer)
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Takes one use of an approval, and answers how many are left; none where there was none. Of many that try, as many
    /// get one as there are.
    pub async fn use_approval(&self, id: &str, now_ms: u64) -> Result<Option<u64>, StoreError> {
        let taken: Option<(i64,)> = sqlx::query_as(
            "UPDATE approvals SET uses_left = uses_left - 1, \
             state = CASE WHEN uses_left = 1 THEN 'used' ELSE state END \
             WHERE id = $1 AND state = 'approved' AND uses_left > 0 AND expires_ms > $2 RETURNING uses_left",
        )
        .bind(id)
        .bind(to_sql(now_ms))
        .fetch_optional(&self.writer)
        .await?;
        Ok(taken.map(|(left,)| from_sql(left)))
    }

    /// Gives back a use that was taken for a call which then did not run.
    pub async fn give_back_approval(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE approvals SET uses_left = uses_left + 1, state = 'approved' \
             WHERE id = $1 AND state IN ('approved', 'used')",
        )
        .bind(id)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    /// Ends an approval that cannot be used any more.
    pub async fn end_approval(&self, id: &str, state: ApprovalState) -> Result<(), StoreError> {
        sqlx::query("UPDATE approvals SET state = $2 WHERE id = $1 AND state IN ('pending', 'approved')")
            .bind(id)
            .bind(state.as_str())
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    /// Takes back the question that nobody has answered.
    pub async fn withdraw_approval(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE approvals SET state = 'void' WHERE id = $1 AND state = 'pending'")
            .bind(id)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    /// Ends the approvals whose time is over, and answers them; removes those that ended long ago.
    pub async fn expire_approvals(
        &self,
        now_ms: u64,
        forget_before_ms: u64,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let rows: Vec<Row> = sqlx::query_as(
            "UPDATE approvals SET state = 'expired' WHERE state IN ('pending', 'approved') AND expires_ms <= $1 \
             RETURNING *",
        )
        .bind(to_sql(now_ms))
        .fetch_all(&self.writer)
        .await?;
        sqlx::query("DELETE FROM approvals WHERE state NOT IN ('pending', 'approved') AND expires_ms < $1")
            .bind(to_sql(forget_before_ms))
            .execute(&self.writer)
            .await?;
        rows.into_iter().map(read).collect()
    }
}

/// Ends what is open of sessions that end: nobody can use it any more.
pub(super) async fn void_of(
    change: &mut Transaction<'static, Sqlite>,
    sessions: &[String],
) -> Result<(), StoreError> {
    for session in sessions {
        sqlx::query(
            "UPDATE approvals SET state = 'void' WHERE session = $1 AND state IN ('pending', 'approved')",
        )
        .bind(session)
        .execute(&mut **change)
        .await?;
    }
    Ok(())
}

/// Removes those of an organization that is deleted, lest one of that name find them.
pub(super) async fn remove_of_organization(
    change: &mut Transaction<'static, Sqlite>,
    organization: &Name,
) -> Result<(), StoreError> {
    sqlx::query("DELETE FROM approvals WHERE organization = $1")
        .bind(organization.as_str())
        .execute(&mut **change)
        .await?;
    Ok(())
}

fn read(row: Row) -> Result<ApprovalRow, StoreError> {
    let name = |text: &str| Name::parse(text).map_err(|_| unreadable());
    Ok(ApprovalRow {
        organization: name(&row.organization)?,
        agent: name(&row.agent)?,
        state: ApprovalState::parse(&row.state).ok_or_else(unreadable)?,
        id: row.id,
        session: row.session,
        call: row.call_id,
        user: row.user_name,
        conversation: row.conversation,
        channel: row.channel,
        asked_by: row.asked_by,
        opened_by: row.opened_by,
        tool: row.tool,
        called: row.called,
        plugin_version: row.plugin_version,
        plugin_digest: row.plugin_digest,
        rules: row.rules,
        arguments: row.arguments,
        binding: row.binding,
        uses_left: from_sql(row.uses_left),
        constraints: row.constraints,
        reason: row.reason,
        decided_by: row.decided_by,
        decided_ms: row.decided_ms.map(from_sql),
        created_ms: from_sql(row.created_ms),
        expires_ms: from_sql(row.expires_ms),
    })
}

fn not_found(id: &str) -> StoreError {
    StoreError::not_found(format!("approval `{id}`"))
}

fn unreadable() -> StoreError {
    StoreError::damaged("a row of `approvals` is not sound")
}

#[cfg(test)]
pub(super) mod tests;
