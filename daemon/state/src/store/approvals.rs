//! Approvals. A use is consumed by one statement, so that concurrent calls cannot consume it twice.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, QueryBuilder, Row as _, Sqlite};
use toolgate_api::approval::ApprovalState;
use toolgate_api::name::Name;
use toolgate_macros::boxed;

use super::webhooks::announce;
use super::{
    Store, StoreError, StoreTransaction, fitting_rows, from_sql, name, natural, optional_natural,
    parse_column, to_sql,
};

/// Limit of pending approvals per organization. A person decides dozens; more come from an agent in a loop.
const PENDING_PER_ORGANIZATION: i64 = 10_000;

/// Limit of the bytes of arguments and rules in the approvals of an organization, as of its documents. Each may have 8 MiB.
const BYTES_PER_ORGANIZATION: i64 = 256 << 20;

/// Limit of ended approvals per organization: calls that are cancelled at once leave one each.
const ENDED_PER_ORGANIZATION: i64 = 10_000;

/// Approvals that expire in one transaction. Each is announced to the webhooks of its organization, and other writes wait.
const EXPIRED_AT_ONCE: usize = 500;

/// Events of approvals, as webhooks announce them (G18).
const CREATED: &str = "approval.created";
const DECIDED: &str = "approval.decided";
const EXPIRED: &str = "approval.expired";

/// An approval as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalRow {
    pub id: String,
    pub organization: Name,
    pub agent: Name,
    pub session: String,
    /// Id of the first call that asked for it.
    pub call: String,
    pub user: Option<String>,
    pub conversation: Option<String>,
    pub channel: Option<String>,
    /// Id of the token that made the call.
    pub asked_by: String,
    /// Id of the token that opened the session.
    pub opened_by: String,
    /// `namespace/tool`.
    pub tool: String,
    /// Tool name in the model's call.
    pub called: String,
    pub plugin_version: String,
    pub plugin_digest: String,
    /// The rules that require the approval.
    pub rules: String,
    pub arguments: String,
    pub binding: String,
    pub state: ApprovalState,
    pub uses_left: u64,
    pub constraints: Option<String>,
    /// Arguments that the approver gave in place of `arguments`.
    pub arguments_instead: Option<String>,
    /// Reason given with the decision.
    pub reason: Option<String>,
    /// Id of the token that decided.
    pub decided_by: Option<String>,
    pub decided_ms: Option<u64>,
    pub created_ms: u64,
    pub expires_ms: u64,
}

/// The approvals of a list, in the order of their ids.
#[derive(Clone, Copy, Debug, Default)]
pub struct ApprovalFilter<'a> {
    /// The organization; all of them without it.
    pub organization: Option<&'a Name>,
    pub state: Option<ApprovalState>,
    /// The approvals after this id.
    pub after: Option<&'a str>,
}

/// An approval that expired, without its arguments: thousands can expire at once.
#[derive(Debug)]
pub struct ExpiredApproval {
    pub id: String,
    pub organization: Name,
    pub session: String,
    pub decided_ms: Option<u64>,
}

/// A decision about a pending approval.
#[derive(Clone, Debug)]
pub struct Decision {
    pub state: ApprovalState,
    pub uses: u64,
    pub constraints: Option<String>,
    pub arguments_instead: Option<String>,
    pub reason: Option<String>,
    pub decided_by: String,
    pub decided_ms: u64,
    pub expires_ms: u64,
}

impl FromRow<'_, SqliteRow> for ExpiredApproval {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            organization: parse_column(row, "organization", name)?,
            session: row.try_get("session")?,
            decided_ms: optional_natural(row, "decided_ms")?,
        })
    }
}

impl FromRow<'_, SqliteRow> for ApprovalRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            organization: parse_column(row, "organization", name)?,
            agent: parse_column(row, "agent", name)?,
            session: row.try_get("session")?,
            call: row.try_get("call_id")?,
            user: row.try_get("user_name")?,
            conversation: row.try_get("conversation")?,
            channel: row.try_get("channel")?,
            asked_by: row.try_get("asked_by")?,
            opened_by: row.try_get("opened_by")?,
            tool: row.try_get("tool")?,
            called: row.try_get("called")?,
            plugin_version: row.try_get("plugin_version")?,
            plugin_digest: row.try_get("plugin_digest")?,
            rules: row.try_get("rules")?,
            arguments: row.try_get("arguments")?,
            binding: row.try_get("binding")?,
            state: parse_column(row, "state", ApprovalState::parse)?,
            uses_left: natural(row, "uses_left")?,
            constraints: row.try_get("constraints")?,
            arguments_instead: row.try_get("arguments_instead")?,
            reason: row.try_get("reason")?,
            decided_by: row.try_get("decided_by")?,
            decided_ms: optional_natural(row, "decided_ms")?,
            created_ms: natural(row, "created_ms")?,
            expires_ms: natural(row, "expires_ms")?,
        })
    }
}

#[boxed]
impl Store {
    /// Adds a pending approval, or returns the one that the same call of the session already waits for; one that was decided
    /// since the call looked, instead of asking again. Also returns the id of the one that this call expired, so that its
    /// waiters can be notified.
    pub async fn ask_for_approval(
        &self,
        asked: &ApprovalRow,
    ) -> Result<(ApprovalRow, Option<String>), StoreError> {
        let mut change = self.begin().await?;
        let expired: Option<String> = sqlx::query_scalar(
            "UPDATE approvals SET state = 'expired' WHERE session = $1 AND binding = $2 AND state = 'pending' \
             AND expires_ms <= $3 RETURNING id",
        )
        .bind(&asked.session)
        .bind(&asked.binding)
        .bind(to_sql(asked.created_ms))
        .fetch_optional(&mut *change)
        .await?;
        let mut is_announced = false;
        let organization = asked.organization.as_str();
        if let Some(expired) = &expired {
            is_announced = announce(&mut change, (organization, expired), EXPIRED, asked.created_ms).await?;
        }
        if insert_pending(&mut change, asked).await? {
            make_room(&mut change, organization, BYTES_PER_ORGANIZATION).await?;
            is_announced |=
                announce(&mut change, (organization, &asked.id), CREATED, asked.created_ms).await?;
        }
        let row = sqlx::query_as(
            "SELECT * FROM approvals WHERE session = $1 \
             AND (binding = $2 AND state = 'pending' OR call_id = $3 AND state <> 'used') \
             ORDER BY state <> 'pending', created_ms DESC LIMIT 1",
        )
        .bind(&asked.session)
        .bind(&asked.binding)
        .bind(&asked.call)
        .fetch_one(&mut *change)
        .await?;
        change.commit().await?;
        self.wake_webhooks(is_announced);
        Ok((row, expired))
    }

    /// Lists the approvals of a session that a call of the tool may use: the given ones, and those that this call asked for in any
    /// state. Oldest first. Approvals that other calls wait for are left out, since an agent can ask for thousands.
    pub async fn approvals_for(
        &self,
        session: &str,
        tool: &str,
        call: &str,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let rows = sqlx::query_as(
            "SELECT * FROM approvals WHERE session = $1 AND tool = $2 \
             AND (state = 'approved' OR call_id = $3) ORDER BY created_ms, id",
        )
        .bind(session)
        .bind(tool)
        .bind(call)
        .fetch_all(&self.readers)
        .await?;
        Ok(rows)
    }

    /// Returns the approval, if it belongs to the organization.
    pub async fn approval(&self, id: &str, organization: Option<&Name>) -> Result<ApprovalRow, StoreError> {
        let row: Option<ApprovalRow> = sqlx::query_as("SELECT * FROM approvals WHERE id = $1")
            .bind(id)
            .fetch_optional(&self.readers)
            .await?;
        row.filter(|row| organization.is_none_or(|organization| row.organization == *organization))
            .ok_or_else(|| StoreError::not_found(format!("approval `{id}`")))
    }

    /// The number of approvals that wait for a decision.
    pub async fn pending_approvals(&self) -> Result<u64, StoreError> {
        let query = sqlx::query_scalar("SELECT count(*) FROM approvals WHERE state = $1");
        let pending: i64 = query.bind(ApprovalState::Pending.as_str()).fetch_one(&self.readers).await?;
        Ok(u64::try_from(pending).unwrap_or(0))
    }

    /// Counts the webhooks whose last try failed, the credentials that have expired or expire until `soon_ms` without being renewed, and
    /// the tokens that end until then.
    pub async fn operator_counts(&self, now_ms: u64, soon_ms: u64) -> Result<[u64; 4], StoreError> {
        let query = sqlx::query_as(
            "SELECT (SELECT count(DISTINCT webhook) FROM webhook_deliveries WHERE state = 'pending' AND error IS NOT NULL), \
             (SELECT count(*) FROM credentials WHERE refresh_ms IS NULL AND expires_ms <= $1), \
             (SELECT count(*) FROM credentials WHERE refresh_ms IS NULL AND expires_ms > $1 AND expires_ms <= $2), \
             (SELECT count(*) FROM tokens WHERE revoked_ms IS NULL AND expires_ms > $1 AND expires_ms <= $2)",
        );
        let counts: (i64, i64, i64, i64) =
            query.bind(to_sql(now_ms)).bind(to_sql(soon_ms)).fetch_one(&self.readers).await?;
        Ok([counts.0, counts.1, counts.2, counts.3].map(|count| u64::try_from(count).unwrap_or(0)))
    }

    /// The organizations and names of webhooks whose last try failed.
    pub async fn failing_webhooks(&self, limit: u64) -> Result<Vec<(String, String)>, StoreError> {
        let query = sqlx::query_as(
            "SELECT DISTINCT w.organization, w.name FROM webhooks w JOIN webhook_deliveries d ON d.webhook = w.id \
             WHERE d.state = 'pending' AND d.error IS NOT NULL ORDER BY 1, 2 LIMIT $1",
        );
        Ok(query.bind(to_sql(limit)).fetch_all(&self.readers).await?)
    }

    /// Counts the approvals that can be decided, of one organization or of all, up to `most`.
    pub async fn count_open_approvals(
        &self,
        organization: Option<&Name>,
        now_ms: u64,
        most: u64,
    ) -> Result<u64, StoreError> {
        let mut sql = QueryBuilder::<Sqlite>::new("SELECT count(*) FROM (SELECT 1");
        push_filter(
            &mut sql,
            ApprovalFilter { organization, state: Some(ApprovalState::Pending), after: None },
        );
        sql.push(" AND expires_ms > ").push_bind(to_sql(now_ms));
        sql.push(" LIMIT ").push_bind(to_sql(most)).push(")");
        let open: i64 = sql.build_query_scalar().fetch_one(&self.readers).await?;
        Ok(u64::try_from(open).unwrap_or(0))
    }

    /// Lists at most `limit` approvals.
    pub async fn approvals(
        &self,
        filter: ApprovalFilter<'_>,
        limit: u32,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let mut sql = list("SELECT *", filter, limit);
        Ok(sql.build_query_as().fetch_all(&self.readers).await?)
    }

    /// Lists at most `limit` approvals whose texts have at most `most_bytes`, and at least one. Returns whether there are more.
    pub async fn approvals_within(
        &self,
        filter: ApprovalFilter<'_>,
        limit: u32,
        most_bytes: u64,
    ) -> Result<(Vec<ApprovalRow>, bool), StoreError> {
        // SQLite reads the length alone of a long text.
        let bytes = "SELECT OCTET_LENGTH(arguments) + OCTET_LENGTH(COALESCE(arguments_instead, ''))";
        let mut sql = list(bytes, filter, limit.saturating_add(1));
        let found: Vec<i64> = sql.build_query_scalar().fetch_all(&self.readers).await?;
        let fitting = fitting_rows(&found, limit, most_bytes);
        Ok((self.approvals(filter, fitting).await?, found.len() > fitting as usize))
    }

    /// Lists as [`Store::approvals`] does, for an inbox: only the start of the arguments, without the rules and what a
    /// decision changed.
    pub async fn inbox_approvals(
        &self,
        filter: ApprovalFilter<'_>,
        limit: u32,
        argument_chars: usize,
    ) -> Result<Vec<ApprovalRow>, StoreError> {
        let columns = format!(
            "SELECT id, organization, agent, session, call_id, user_name, conversation, channel, asked_by, opened_by, \
             tool, called, plugin_version, plugin_digest, '' AS rules, substr(arguments, 1, {argument_chars}) AS arguments, \
             binding, state, uses_left, NULL AS constraints, NULL AS arguments_instead, reason, decided_by, decided_ms, \
             created_ms, expires_ms"
        );
        Ok(list(&columns, filter, limit).build_query_as().fetch_all(&self.readers).await?)
    }

    /// Stores a decision. Returns false if the approval was decided before or has expired.
    pub async fn decide_approval(&self, id: &str, decision: &Decision) -> Result<bool, StoreError> {
        let mut change = self.begin().await?;
        let organization: Option<String> = sqlx::query_scalar(
            "UPDATE approvals SET state = $2, uses_left = $3, constraints = $4, reason = $5, decided_by = $6, \
             decided_ms = $7, expires_ms = $8, arguments_instead = $9, \
             bytes = bytes + COALESCE(OCTET_LENGTH($9), 0) \
             WHERE id = $1 AND state = 'pending' AND expires_ms > $7 \
             RETURNING organization",
        )
        .bind(id)
        .bind(decision.state.as_str())
        .bind(to_sql(decision.uses))
        .bind(&decision.constraints)
        .bind(&decision.reason)
        .bind(&decision.decided_by)
        .bind(to_sql(decision.decided_ms))
        .bind(to_sql(decision.expires_ms))
        .bind(&decision.arguments_instead)
        .fetch_optional(&mut *change)
        .await?;
        let Some(organization) = organization else { return Ok(false) };
        let is_announced = announce(&mut change, (&organization, id), DECIDED, decision.decided_ms).await?;
        change.commit().await?;
        self.wake_webhooks(is_announced);
        Ok(true)
    }

    /// Consumes one use of an approval and returns how many are left; `None` if there was none. Atomic: concurrent calls
    /// consume no more uses than there are.
    pub async fn use_approval(&self, id: &str, now_ms: u64) -> Result<Option<u64>, StoreError> {
        let left: Option<i64> = sqlx::query_scalar(
            "UPDATE approvals SET uses_left = uses_left - 1, \
             state = CASE WHEN uses_left = 1 THEN 'used' ELSE state END \
             WHERE id = $1 AND state = 'approved' AND uses_left > 0 AND expires_ms > $2 RETURNING uses_left",
        )
        .bind(id)
        .bind(to_sql(now_ms))
        .fetch_optional(&self.writer)
        .await?;
        Ok(left.map(from_sql))
    }

    /// Releases a use consumed for a call that did not run.
    pub async fn release_approval_use(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query(
            "UPDATE approvals SET uses_left = uses_left + 1, state = 'approved' \
             WHERE id = $1 AND state IN ('approved', 'used')",
        )
        .bind(id)
        .execute(&self.writer)
        .await?;
        Ok(())
    }

    /// Ends an open approval that cannot be used any more.
    pub async fn end_approval(&self, id: &str, state: ApprovalState) -> Result<(), StoreError> {
        sqlx::query("UPDATE approvals SET state = $2 WHERE id = $1 AND state IN ('pending', 'approved')")
            .bind(id)
            .bind(state.as_str())
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    /// Voids a pending approval.
    pub async fn withdraw_approval(&self, id: &str) -> Result<(), StoreError> {
        sqlx::query("UPDATE approvals SET state = 'void' WHERE id = $1 AND state = 'pending'")
            .bind(id)
            .execute(&self.writer)
            .await?;
        Ok(())
    }

    /// Expires the approvals whose time is over and returns them; deletes those that ended long ago.
    pub async fn expire_approvals(
        &self,
        now_ms: u64,
        forget_before_ms: u64,
    ) -> Result<Vec<ExpiredApproval>, StoreError> {
        // First, since an error after it would hide what has expired.
        sqlx::query("DELETE FROM approvals WHERE state NOT IN ('pending', 'approved') AND expires_ms < $1")
            .bind(to_sql(forget_before_ms))
            .execute(&self.writer)
            .await?;
        let mut all = Vec::new();
        loop {
            let expired = match self.expire_some(now_ms).await {
                // The caller ends the calls of those that have expired; the next sweep takes the rest.
                Err(_) if !all.is_empty() => return Ok(all),
                expired => expired?,
            };
            let is_last = expired.len() < EXPIRED_AT_ONCE;
            all.extend(expired);
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// Expires at most [`EXPIRED_AT_ONCE`] approvals.
    async fn expire_some(&self, now_ms: u64) -> Result<Vec<ExpiredApproval>, StoreError> {
        let mut change = self.begin().await?;
        let rows: Vec<ExpiredApproval> = sqlx::query_as(
            "UPDATE approvals SET state = 'expired' WHERE id IN \
             (SELECT id FROM approvals WHERE state IN ('pending', 'approved') AND expires_ms <= $1 LIMIT $2) \
             RETURNING id, organization, session, decided_ms",
        )
        .bind(to_sql(now_ms))
        .bind(i64::try_from(EXPIRED_AT_ONCE).unwrap_or(i64::MAX))
        .fetch_all(&mut *change)
        .await?;
        let mut is_announced = false;
        for row in &rows {
            let approval = (row.organization.as_str(), row.id.as_str());
            is_announced |= announce(&mut change, approval, EXPIRED, now_ms).await?;
        }
        change.commit().await?;
        self.wake_webhooks(is_announced);
        Ok(rows)
    }

    fn wake_webhooks(&self, is_announced: bool) {
        if is_announced {
            self.announced.notify_one();
        }
    }
}

/// Selects approvals in the order of their ids.
fn list(columns: &str, filter: ApprovalFilter<'_>, limit: u32) -> QueryBuilder<Sqlite> {
    let mut sql = QueryBuilder::new(columns);
    push_filter(&mut sql, filter);
    sql.push(" ORDER BY id LIMIT ").push_bind(i64::from(limit));
    sql
}

/// Adds the conditions that are set: with one that is always true, SQLite would read the approvals of all.
fn push_filter(sql: &mut QueryBuilder<Sqlite>, filter: ApprovalFilter<'_>) {
    sql.push(" FROM approvals WHERE id > ").push_bind(filter.after.unwrap_or_default().to_owned());
    if let Some(organization) = filter.organization {
        sql.push(" AND organization = ").push_bind(organization.to_string());
    }
    if let Some(state) = filter.state {
        sql.push(" AND state = ").push_bind(state.as_str());
    }
}

/// Voids the open approvals of ended sessions.
pub(super) async fn void_of(change: &mut StoreTransaction, sessions: &[String]) -> Result<(), StoreError> {
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

/// Removes the oldest ended approvals of an organization that has more than it may, and fails if its open ones are too many or too
/// large. A tenth of the room is left free, so that few calls have to sort all approvals.
async fn make_room(
    change: &mut StoreTransaction,
    organization: &str,
    most_bytes: i64,
) -> Result<(), StoreError> {
    let sql = "SELECT COUNT(*) FROM approvals WHERE organization = $1 AND state = 'pending'";
    let pending: i64 = sqlx::query_scalar(sql).bind(organization).fetch_one(&mut **change).await?;
    if pending > PENDING_PER_ORGANIZATION {
        return Err(StoreError::TooMany { what: "approvals of this organization that wait" });
    }
    let (ended, bytes, open_bytes): (i64, i64, i64) = sqlx::query_as(
        "SELECT COUNT(*) FILTER (WHERE NOT is_open), SUM(bytes), COALESCE(SUM(bytes) FILTER (WHERE is_open), 0) \
         FROM (SELECT state IN ('pending', 'approved') AS is_open, bytes FROM approvals WHERE organization = $1) AS sizes",
    )
    .bind(organization)
    .fetch_one(&mut **change)
    .await?;
    if open_bytes > most_bytes {
        let what = "bytes in the arguments of approvals of this organization that wait, or that are approved and not used";
        return Err(StoreError::TooMany { what });
    }
    if ended <= ENDED_PER_ORGANIZATION && bytes <= most_bytes {
        return Ok(());
    }
    sqlx::query(
        "DELETE FROM approvals WHERE id IN (\
           SELECT id FROM (\
             SELECT id, is_open, SUM(NOT is_open) OVER kept_first AS ended, SUM(bytes) OVER kept_first AS bytes \
             FROM (SELECT id, state IN ('pending', 'approved') AS is_open, bytes FROM approvals \
               WHERE organization = $1) AS sizes \
             WINDOW kept_first AS (ORDER BY is_open DESC, id DESC ROWS UNBOUNDED PRECEDING)) AS summed \
           WHERE NOT is_open AND (ended > $2 OR bytes > $3))",
    )
    .bind(organization)
    .bind(ENDED_PER_ORGANIZATION / 10 * 9)
    .bind(most_bytes / 10 * 9)
    .execute(&mut **change)
    .await?;
    Ok(())
}

/// Returns false if a call with the same binding waits already.
async fn insert_pending(change: &mut StoreTransaction, asked: &ApprovalRow) -> Result<bool, StoreError> {
    let done = sqlx::query(
        "INSERT INTO approvals (id, organization, agent, session, call_id, user_name, conversation, channel, \
         asked_by, opened_by, tool, called, plugin_version, plugin_digest, rules, arguments, binding, state, \
         uses_left, created_ms, expires_ms, bytes) \
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, 'pending', 0, $18, $19, \
         OCTET_LENGTH($15) + OCTET_LENGTH($16) WHERE NOT EXISTS (SELECT 1 FROM approvals \
         WHERE session = $4 AND call_id = $5 AND state NOT IN ('pending', 'used')) \
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
    .execute(&mut **change)
    .await?;
    Ok(done.rows_affected() == 1)
}

#[cfg(test)]
mod tests;
