//! Webhooks, their deliveries, and the tokens in them (G18). Secrets are ciphertext that this module cannot open.

use sqlx::sqlite::SqliteRow;
use sqlx::{FromRow, Row as _};
use toolgate_api::name::Name;
use toolgate_macros::boxed;

use super::documents::require_organization;
use super::{
    SealedText, Store, StoreError, StoreTransaction, from_sql, name, natural, optional_natural, parse_column,
    to_sql,
};
use crate::identifier;

/// Most webhooks of an organization: one for each system that people decide in.
const WEBHOOKS_PER_ORGANIZATION: i64 = 16;

/// Most deliveries to a webhook that wait. More come from an agent in a loop, or an endpoint that is long gone; the approvals
/// can still be listed.
const WAITING_PER_WEBHOOK: i64 = 1_000;

/// Ended deliveries of a webhook that are kept for its owner, beside those whose tokens can still decide.
const KEPT_PER_WEBHOOK: i64 = 50;

/// A stored webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookRow {
    pub organization: Name,
    pub name: Name,
    /// Unique, also among webhooks that had the same name before.
    pub id: String,
    /// Number of the write, to which the ciphertext is bound.
    pub version: u64,
    /// URL and events, as JSON.
    pub document: String,
    pub sealed: SealedText,
    /// Why nothing is sent any more.
    pub disabled: Option<String>,
    pub created_ms: u64,
    pub changed_ms: u64,
}

/// An announcement to one webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRow {
    pub id: String,
    pub organization: Name,
    /// The webhook's id.
    pub webhook: String,
    pub approval: String,
    pub event: String,
    pub state: String,
    /// Requests that were sent.
    pub attempts: u64,
    /// The time of the next request.
    pub next_ms: u64,
    /// Why the last request failed.
    pub error: Option<String>,
    pub created_ms: u64,
    pub ended_ms: Option<u64>,
}

/// The purpose of a token in a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A signed decision by the endpoint.
    Callback,
    /// The link for a person.
    Link,
}

/// Waiting deliveries have this state.
pub const DELIVERY_PENDING: &str = "pending";

impl TokenKind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Callback => "callback",
            Self::Link => "link",
        }
    }
}

impl FromRow<'_, SqliteRow> for WebhookRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            organization: parse_column(row, "organization", name)?,
            name: parse_column(row, "name", name)?,
            id: row.try_get("id")?,
            version: natural(row, "version")?,
            document: row.try_get("document")?,
            sealed: SealedText {
                root_key: row.try_get("root_key")?,
                wrapped_key: row.try_get("wrapped_key")?,
                secret: row.try_get("sealed_secret")?,
            },
            disabled: row.try_get("disabled")?,
            created_ms: natural(row, "created_ms")?,
            changed_ms: natural(row, "changed_ms")?,
        })
    }
}

impl FromRow<'_, SqliteRow> for DeliveryRow {
    fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            id: row.try_get("id")?,
            organization: parse_column(row, "organization", name)?,
            webhook: row.try_get("webhook")?,
            approval: row.try_get("approval")?,
            event: row.try_get("event")?,
            state: row.try_get("state")?,
            attempts: natural(row, "attempts")?,
            next_ms: natural(row, "next_ms")?,
            error: row.try_get("error")?,
            created_ms: natural(row, "created_ms")?,
            ended_ms: optional_natural(row, "ended_ms")?,
        })
    }
}

#[boxed]
impl Store {
    /// Waits until an approval was announced since the last wait.
    pub async fn wait_for_announcement(&self) {
        self.announced.notified().await;
    }

    /// Lists the webhooks of an organization by name.
    pub async fn webhooks(&self, organization: &Name) -> Result<Vec<WebhookRow>, StoreError> {
        let query = sqlx::query_as("SELECT * FROM webhooks WHERE organization = $1 ORDER BY name");
        Ok(query.bind(organization.as_str()).fetch_all(&self.readers).await?)
    }

    /// Returns a webhook.
    pub async fn webhook(&self, organization: &Name, name: &Name) -> Result<WebhookRow, StoreError> {
        let row: Option<WebhookRow> =
            sqlx::query_as("SELECT * FROM webhooks WHERE organization = $1 AND name = $2")
                .bind(organization.as_str())
                .bind(name.as_str())
                .fetch_optional(&self.readers)
                .await?;
        row.ok_or_else(|| no_webhook(organization, name))
    }

    /// Returns a webhook by its id; `None` if it was deleted.
    pub async fn webhook_by_id(&self, id: &str) -> Result<Option<WebhookRow>, StoreError> {
        let query = sqlx::query_as("SELECT * FROM webhooks WHERE id = $1");
        Ok(query.bind(id).fetch_optional(&self.readers).await?)
    }

    /// Checks what [`put_webhook`](Self::put_webhook) checks before it writes, and writes nothing.
    pub async fn check_webhook(&self, row: &WebhookRow) -> Result<(), StoreError> {
        check_write(&mut self.begin().await?, row).await.map(drop)
    }

    /// Creates or replaces a webhook by name. Returns whether it is new.
    pub async fn put_webhook(&self, row: &WebhookRow) -> Result<bool, StoreError> {
        let mut change = self.begin().await?;
        let known = check_write(&mut change, row).await?;
        sqlx::query(
            "INSERT INTO webhooks (organization, name, id, version, document, root_key, wrapped_key, \
             sealed_secret, disabled, created_ms, changed_ms) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, NULL, $9, $10) \
             ON CONFLICT (organization, name) DO UPDATE SET id = excluded.id, version = excluded.version, \
             document = excluded.document, root_key = excluded.root_key, wrapped_key = excluded.wrapped_key, \
             sealed_secret = excluded.sealed_secret, disabled = NULL, changed_ms = excluded.changed_ms",
        )
        .bind(row.organization.as_str())
        .bind(row.name.as_str())
        .bind(&row.id)
        .bind(to_sql(row.version))
        .bind(&row.document)
        .bind(&row.sealed.root_key)
        .bind(&row.sealed.wrapped_key)
        .bind(&row.sealed.secret)
        .bind(to_sql(row.created_ms))
        .bind(to_sql(row.changed_ms))
        .execute(&mut *change)
        .await?;
        change.commit().await?;
        Ok(known.is_none())
    }

    /// Deletes a webhook with its deliveries and their tokens.
    pub async fn delete_webhook(&self, organization: &Name, name: &Name) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        let id: Option<String> =
            sqlx::query_scalar("DELETE FROM webhooks WHERE organization = $1 AND name = $2 RETURNING id")
                .bind(organization.as_str())
                .bind(name.as_str())
                .fetch_optional(&mut *change)
                .await?;
        let id = id.ok_or_else(|| no_webhook(organization, name))?;
        for sql in [
            "DELETE FROM webhook_tokens WHERE delivery IN (SELECT id FROM webhook_deliveries WHERE webhook = $1)",
            "DELETE FROM webhook_deliveries WHERE webhook = $1",
        ] {
            sqlx::query(sql).bind(&id).execute(&mut *change).await?;
        }
        change.commit().await?;
        Ok(())
    }

    /// Ends the sending to a webhook, until it is replaced. Returns false if it was replaced or deleted since `version`.
    pub async fn disable_webhook(&self, id: &str, version: u64, why: &str) -> Result<bool, StoreError> {
        let done = sqlx::query("UPDATE webhooks SET disabled = $3 WHERE id = $1 AND version = $2")
            .bind(id)
            .bind(to_sql(version))
            .bind(why)
            .execute(&self.writer)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Lists at most `limit` webhooks whose secret is under another root key.
    pub async fn webhooks_under_other_keys(
        &self,
        root_key: &str,
        limit: u32,
    ) -> Result<Vec<WebhookRow>, StoreError> {
        let query = sqlx::query_as("SELECT * FROM webhooks WHERE root_key <> $1 ORDER BY id LIMIT $2");
        Ok(query.bind(root_key).bind(i64::from(limit)).fetch_all(&self.readers).await?)
    }

    /// Stores data keys that were wrapped under another root key, all or none.
    pub async fn rewrap_webhooks(&self, rows: &[WebhookRow]) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        for row in rows {
            sqlx::query("UPDATE webhooks SET root_key = $3, wrapped_key = $4 WHERE id = $1 AND version = $2")
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

    /// Lists the last deliveries of a webhook, latest first.
    pub async fn deliveries_of(&self, webhook: &str, limit: u32) -> Result<Vec<DeliveryRow>, StoreError> {
        let sql = "SELECT * FROM webhook_deliveries WHERE webhook = $1 ORDER BY id DESC LIMIT $2";
        Ok(sqlx::query_as(sql).bind(webhook).bind(i64::from(limit)).fetch_all(&self.readers).await?)
    }

    /// Lists the deliveries whose time has come: at most `per_webhook` and `per_organization`. The webhooks of an organization
    /// take turns, and so do the organizations.
    pub async fn due_deliveries(
        &self,
        now_ms: u64,
        per_webhook: u32,
        per_organization: u32,
    ) -> Result<Vec<DeliveryRow>, StoreError> {
        let rows = sqlx::query_as(
            "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY organization ORDER BY place, next_ms, id) AS turn \
             FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY webhook ORDER BY next_ms, id) AS place \
             FROM webhook_deliveries WHERE state = 'pending' AND next_ms <= $1) AS due WHERE place <= $2) AS turns \
             WHERE turn <= $3 ORDER BY turn, next_ms, id",
        )
        .bind(to_sql(now_ms))
        .bind(i64::from(per_webhook))
        .bind(i64::from(per_organization))
        .fetch_all(&self.readers)
        .await?;
        Ok(rows)
    }

    /// The time of the first delivery after now.
    pub async fn next_delivery_ms(&self, now_ms: u64) -> Result<Option<u64>, StoreError> {
        let next: Option<i64> = sqlx::query_scalar(
            "SELECT MIN(next_ms) FROM webhook_deliveries WHERE state = 'pending' AND next_ms > $1",
        )
        .bind(to_sql(now_ms))
        .fetch_one(&self.readers)
        .await?;
        Ok(next.map(from_sql))
    }

    /// Stores the result of a request: the delivery has ended in `state`, or is sent again at `next_ms`. Deletes ended deliveries
    /// of the webhook that are no longer kept.
    pub async fn note_delivery(&self, row: &DeliveryRow) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        sqlx::query(
            "UPDATE webhook_deliveries SET state = $2, attempts = $3, next_ms = $4, error = $5, ended_ms = $6 \
             WHERE id = $1",
        )
        .bind(&row.id)
        .bind(&row.state)
        .bind(to_sql(row.attempts))
        .bind(to_sql(row.next_ms))
        .bind(&row.error)
        .bind(row.ended_ms.map(to_sql))
        .execute(&mut *change)
        .await?;
        if row.ended_ms.is_some() {
            forget_ended(&mut change, &row.webhook).await?;
        }
        change.commit().await?;
        Ok(())
    }

    /// Adds the tokens of a request to a delivery, by their hashes.
    pub async fn add_delivery_tokens(
        &self,
        delivery: &str,
        tokens: &[(TokenKind, String)],
    ) -> Result<(), StoreError> {
        let mut change = self.begin().await?;
        for (kind, hash) in tokens {
            sqlx::query("INSERT INTO webhook_tokens (hash, delivery, kind) VALUES ($1, $2, $3)")
                .bind(hash)
                .bind(delivery)
                .bind(kind.as_str())
                .execute(&mut *change)
                .await?;
        }
        change.commit().await?;
        Ok(())
    }

    /// Returns the delivery of a token.
    pub async fn delivery_of_token(
        &self,
        kind: TokenKind,
        hash: &str,
    ) -> Result<Option<DeliveryRow>, StoreError> {
        let row = sqlx::query_as(
            "SELECT webhook_deliveries.* FROM webhook_deliveries \
             JOIN webhook_tokens ON webhook_tokens.delivery = webhook_deliveries.id \
             WHERE webhook_tokens.hash = $1 AND webhook_tokens.kind = $2",
        )
        .bind(hash)
        .bind(kind.as_str())
        .fetch_optional(&self.readers)
        .await?;
        Ok(row)
    }
}

/// Adds a delivery of the event for each webhook of the organization, in the transaction of what it announces. Returns
/// whether there is one.
pub(super) async fn announce(
    change: &mut StoreTransaction,
    (organization, approval): (&str, &str),
    event: &str,
    now_ms: u64,
) -> Result<bool, StoreError> {
    let webhooks: Vec<(String, i64)> = sqlx::query_as(
        "SELECT id, (SELECT COUNT(*) FROM webhook_deliveries WHERE webhook = webhooks.id AND state = 'pending') \
         FROM webhooks WHERE organization = $1 AND disabled IS NULL",
    )
    .bind(organization)
    .fetch_all(&mut **change)
    .await?;
    let mut is_announced = false;
    for (webhook, waiting) in &webhooks {
        if *waiting >= WAITING_PER_WEBHOOK {
            tracing::warn!(organization, webhook, approval, event, "not announced: too many deliveries wait");
            continue;
        }
        sqlx::query(
            "INSERT INTO webhook_deliveries (id, organization, webhook, approval, event, state, attempts, \
             next_ms, created_ms) VALUES ($1, $2, $3, $4, $5, 'pending', 0, $6, $6)",
        )
        .bind(identifier::time_ordered("d", now_ms))
        .bind(organization)
        .bind(webhook)
        .bind(approval)
        .bind(event)
        .bind(to_sql(now_ms))
        .execute(&mut **change)
        .await?;
        is_announced = true;
    }
    Ok(is_announced)
}

/// Checks that the organization exists and may have the webhook. Returns the id of the webhook that is replaced.
async fn check_write(change: &mut StoreTransaction, row: &WebhookRow) -> Result<Option<String>, StoreError> {
    require_organization(change, &row.organization).await?;
    let known: Option<String> =
        sqlx::query_scalar("SELECT id FROM webhooks WHERE organization = $1 AND name = $2")
            .bind(row.organization.as_str())
            .bind(row.name.as_str())
            .fetch_optional(&mut **change)
            .await?;
    if known.is_none() {
        let count: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM webhooks WHERE organization = $1")
            .bind(row.organization.as_str())
            .fetch_one(&mut **change)
            .await?;
        if count >= WEBHOOKS_PER_ORGANIZATION {
            return Err(StoreError::TooManyWebhooks);
        }
    }
    Ok(known)
}

/// Deletes all but the last ended deliveries of a webhook, with their tokens, unless the tokens can still decide.
async fn forget_ended(change: &mut StoreTransaction, webhook: &str) -> Result<(), StoreError> {
    let forgotten: Vec<String> = sqlx::query_scalar(
        "DELETE FROM webhook_deliveries WHERE webhook = $1 AND state <> 'pending' AND id NOT IN \
         (SELECT id FROM webhook_deliveries WHERE webhook = $1 AND state <> 'pending' ORDER BY id DESC LIMIT $2) \
         AND NOT EXISTS (SELECT 1 FROM approvals WHERE id = webhook_deliveries.approval AND state = 'pending') \
         RETURNING id",
    )
    .bind(webhook)
    .bind(KEPT_PER_WEBHOOK)
    .fetch_all(&mut **change)
    .await?;
    for delivery in forgotten {
        let sql = "DELETE FROM webhook_tokens WHERE delivery = $1";
        sqlx::query(sql).bind(delivery).execute(&mut **change).await?;
    }
    Ok(())
}

/// Deletes the webhooks of an organization with everything about them.
pub(super) async fn delete_of(change: &mut StoreTransaction, organization: &Name) -> Result<(), StoreError> {
    for sql in [
        "DELETE FROM webhook_tokens WHERE delivery IN (SELECT webhook_deliveries.id FROM webhook_deliveries \
         JOIN webhooks ON webhooks.id = webhook_deliveries.webhook WHERE webhooks.organization = $1)",
        "DELETE FROM webhook_deliveries WHERE webhook IN (SELECT id FROM webhooks WHERE organization = $1)",
        "DELETE FROM webhooks WHERE organization = $1",
    ] {
        sqlx::query(sql).bind(organization.as_str()).execute(&mut **change).await?;
    }
    Ok(())
}

/// INVARIANT: the same text for a webhook of another organization.
fn no_webhook(organization: &Name, name: &Name) -> StoreError {
    StoreError::not_found(format!("webhook `{organization}/{name}`"))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{pending_approval, store_with_acme};
    use super::*;

    fn webhook(name: &str) -> WebhookRow {
        WebhookRow {
            organization: Name::parse("acme").expect("a name"),
            name: Name::parse(name).expect("a name"),
            id: format!("w_{name}"),
            version: 1,
            document: "{}".into(),
            sealed: SealedText { root_key: "k".into(), wrapped_key: "w".into(), secret: "s".into() },
            disabled: None,
            created_ms: 1,
            changed_ms: 1,
        }
    }

    /// A pending approval with a binding of its own.
    fn new_approval(id: &str) -> crate::store::ApprovalRow {
        crate::store::ApprovalRow { binding: id.into(), ..pending_approval(id, id) }
    }

    #[tokio::test]
    async fn g18_an_approval_is_announced_to_each_webhook_once() {
        let (_folder, store) = store_with_acme().await;
        store.ask_for_approval(&new_approval("a0")).await.expect("without webhooks");
        assert_eq!(store.due_deliveries(u64::MAX >> 1, 10, 10).await.expect("rows"), []);
        assert!(store.put_webhook(&webhook("one")).await.expect("stored"));
        assert!(!store.put_webhook(&webhook("one")).await.expect("replaced"));
        store.put_webhook(&webhook("two")).await.expect("stored");
        // The second call waits for the same approval.
        for _ in 0..2 {
            store.ask_for_approval(&new_approval("a1")).await.expect("asked");
        }
        let due = store.due_deliveries(u64::MAX >> 1, 10, 10).await.expect("rows");
        let events: Vec<_> = due.iter().map(|row| (row.approval.as_str(), row.event.as_str())).collect();
        assert_eq!(events, [("a1", "approval.created"), ("a1", "approval.created")]);
        assert!(!store.disable_webhook("w_two", 0, "gone").await.expect("replaced since"));
        assert!(store.disable_webhook("w_two", 1, "gone").await.expect("disabled"));
        store.delete_webhook(&webhook("one").organization, &webhook("one").name).await.expect("deleted");
        store.ask_for_approval(&new_approval("a2")).await.expect("asked");
        let due = store.due_deliveries(u64::MAX >> 1, 10, 10).await.expect("rows");
        assert_eq!(due.iter().map(|row| row.approval.as_str()).collect::<Vec<_>>(), ["a1"]);
    }

    #[tokio::test]
    async fn g18_a_token_is_of_one_delivery_and_kind() {
        let (_folder, store) = store_with_acme().await;
        store.put_webhook(&webhook("one")).await.expect("stored");
        store.ask_for_approval(&new_approval("a1")).await.expect("asked");
        let delivery = store.due_deliveries(u64::MAX >> 1, 1, 1).await.expect("rows").remove(0);
        let tokens = [(TokenKind::Callback, "h1".to_owned()), (TokenKind::Link, "h2".to_owned())];
        store.add_delivery_tokens(&delivery.id, &tokens).await.expect("stored");
        assert_eq!(store.delivery_of_token(TokenKind::Link, "h1").await.expect("read"), None);
        let found = store.delivery_of_token(TokenKind::Callback, "h1").await.expect("read");
        assert_eq!(found.map(|row| row.id), Some(delivery.id.clone()));
    }

    #[tokio::test]
    async fn g18_a_webhook_whose_deliveries_wait_silences_no_other() {
        let (_folder, store) = store_with_acme().await;
        store.put_webhook(&webhook("dead")).await.expect("stored");
        let mut change = store.begin().await.expect("a transaction");
        for number in 0..WAITING_PER_WEBHOOK {
            announce(&mut change, ("acme", &format!("a{number}")), "approval.created", 1)
                .await
                .expect("announced");
        }
        change.commit().await.expect("stored");
        store.put_webhook(&webhook("other")).await.expect("stored");
        store.ask_for_approval(&new_approval("new")).await.expect("asked");
        let due = store.due_deliveries(u64::MAX >> 1, 4, 2).await.expect("rows");
        let webhooks: Vec<&str> = due.iter().map(|row| row.webhook.as_str()).collect();
        assert_eq!(webhooks, ["w_dead", "w_other"]);
        assert_eq!(due[1].approval, "new");
        let all = store.due_deliveries(u64::MAX >> 1, u32::MAX, u32::MAX).await.expect("rows");
        assert_eq!(all.len(), 1_001, "the full one gets nothing more");
    }

    #[tokio::test]
    async fn g18_the_last_ended_deliveries_are_kept_and_those_that_can_decide() {
        let (_folder, store) = store_with_acme().await;
        store.put_webhook(&webhook("one")).await.expect("stored");
        store.ask_for_approval(&new_approval("waits")).await.expect("asked");
        let mut change = store.begin().await.expect("a transaction");
        for number in 0..=50 {
            let approval = format!("a{number}");
            announce(&mut change, ("acme", &approval), "approval.decided", 1_000 + number)
                .await
                .expect("announced");
        }
        change.commit().await.expect("stored");
        for row in store.due_deliveries(u64::MAX >> 1, 100, 100).await.expect("rows") {
            store
                .add_delivery_tokens(&row.id, &[(TokenKind::Link, row.approval.clone())])
                .await
                .expect("stored");
            let ended = DeliveryRow { state: "delivered".into(), ended_ms: Some(3), ..row };
            store.note_delivery(&ended).await.expect("noted");
        }
        let kept = async |approval: &str| {
            store.delivery_of_token(TokenKind::Link, approval).await.expect("read").is_some()
        };
        assert!(kept("waits").await && kept("a1").await);
        assert!(!kept("a0").await);
        assert_eq!(store.deliveries_of("w_one", 100).await.expect("rows").len(), 51);
    }
}
