//! Sends deliveries: concurrently, so that an endpoint that hangs delays no other organization's, and again with back-off.

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::Duration;

use http::{Request, StatusCode, header};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolgate_api::approval::ApprovalState;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::webhook::{WebhookCallback, WebhookMessage, WebhookTested};
use toolgate_audit::{ActOutcome, AdminRecord, Entry, Status};
use toolgate_macros::boxed;
use toolgate_sandbox::HostClientError;
use toolgate_state::clock::now_ms;
use toolgate_state::identifier;
use toolgate_state::store::{ApprovalRow, DeliveryRow, StoreError, TokenKind, WebhookRow};
use url::Url;

use super::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER, sign};
use super::{Webhooks, random_text, read_document, token_hash};
use crate::approvals;

/// Header of a delivery's id, the same for each try.
const DELIVERY_HEADER: &str = "toolgate-delivery";

/// Timeout of one request. A slower endpoint is asked again.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Time for requests in progress when the daemon stops.
const STOP_TIME: Duration = Duration::from_secs(12);
/// Requests at once to one webhook.
const RUNNING_PER_WEBHOOK: u32 = 4;
/// Requests at once to the webhooks of one organization: one to each, as many as it can have.
const RUNNING_PER_ORGANIZATION: u32 = 16;
/// Requests at once to all webhooks: more than many organizations whose endpoints hang can use.
const RUNNING: usize = 256;
/// Longest wait, since the system clock may be set meanwhile.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Waits after failures, the last one for all further ones.
const BACKOFF_MS: [u64; 6] = [1_000, 5_000, 30_000, 300_000, 1_800_000, 7_200_000];
/// Time after which a delivery is given up.
const GIVEN_UP_MS: u64 = 24 * 3_600_000;

/// Principal and source of audit records without a request.
const PRINCIPAL: &str = "toolgate";
const SOURCE: &str = "daemon";

/// Event of a delivery that a person can decide on.
const CREATED: &str = "approval.created";

const PRIVATE_ADDRESS: &str =
    "the host has an address that is not public, and is not in `webhooks.private_hosts`";

/// The result of one try.
enum TryResult {
    Delivered,
    /// The announcement is of no use any more, with the reason.
    Dropped(&'static str),
    /// The endpoint does not want further requests.
    Gone,
    Failed(String),
}

#[boxed]
impl Webhooks {
    /// Sends deliveries until `stop`, and then waits for the requests in progress.
    pub async fn run(self, stop: CancellationToken) {
        let mut running: JoinSet<String> = JoinSet::new();
        let mut in_flight: HashSet<String> = HashSet::new();
        loop {
            let wait = self.start_due(&mut running, &mut in_flight, now_ms()).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "the deliveries of webhooks cannot be read");
                LONGEST_WAIT
            });
            tokio::select! {
                () = stop.cancelled() => {
                    let ended = async { while running.join_next().await.is_some() {} };
                    // A delivery that is left is sent again by the next start.
                    let _ = tokio::time::timeout(STOP_TIME, ended).await;
                    return;
                }
                _ = tokio::time::timeout(wait, self.0.store.wait_for_announcement()) => {}
                Some(ended) = running.join_next() => match ended {
                    Ok(delivery) => {
                        in_flight.remove(&delivery);
                    }
                    Err(error) => {
                        tracing::error!(%error, "a delivery of a webhook panicked");
                        in_flight.clear();
                    }
                },
            }
        }
    }

    /// Starts the deliveries whose time has come and for which there is room. Returns the wait for the next one.
    async fn start_due(
        &self,
        running: &mut JoinSet<String>,
        in_flight: &mut HashSet<String>,
        now: u64,
    ) -> Result<Duration, StoreError> {
        let due = self.0.store.due_deliveries(now, RUNNING_PER_WEBHOOK, RUNNING_PER_ORGANIZATION);
        for delivery in due.await? {
            // Deliveries in flight are still due, and so have the first places of their webhook.
            if in_flight.len() >= RUNNING || !in_flight.insert(delivery.id.clone()) {
                continue;
            }
            let webhooks = self.clone();
            running.spawn(async move {
                let id = delivery.id.clone();
                webhooks.attempt(delivery).await;
                id
            });
        }
        let next_ms = self.0.store.next_delivery_ms(now).await?;
        let wait = next_ms.map_or(LONGEST_WAIT, |next| Duration::from_millis(next.saturating_sub(now)));
        Ok(wait.min(LONGEST_WAIT))
    }

    /// Sends a delivery once and stores the result.
    async fn attempt(&self, delivery: DeliveryRow) {
        let (result, until_ms) = match self.prepare(&delivery).await {
            Ok(Prepared::Ready(webhook, approval)) => {
                let until_ms = match delivery.event == CREATED {
                    true => approval.expires_ms,
                    false => u64::MAX,
                };
                let result = match self.send_event(&webhook, *approval, &delivery).await {
                    Ok(TryResult::Gone) => self.disable(&webhook).await,
                    Ok(result) => result,
                    Err(error) => TryResult::Failed(error.message),
                };
                (result, until_ms)
            }
            Ok(Prepared::Dropped(why)) => (TryResult::Dropped(why), u64::MAX),
            Err(error) => (TryResult::Failed(error.message), u64::MAX),
        };
        let noted = row_after_try(delivery, result, until_ms, now_ms(), rand::random());
        if let Err(error) = self.0.store.note_delivery(&noted).await {
            // The delivery is sent again, and not at once, since the endpoint would be flooded.
            tracing::warn!(%error, delivery = noted.id, "the result of a delivery cannot be stored");
            tokio::time::sleep(LONGEST_WAIT).await;
        }
    }

    /// Sends nothing more to a webhook, unless it was replaced since the request.
    async fn disable(&self, webhook: &WebhookRow) -> TryResult {
        let why = "the endpoint answered 410; replace the webhook to send to it again";
        match self.0.store.disable_webhook(&webhook.id, webhook.version, why).await {
            Ok(true) => TryResult::Gone,
            Ok(false) => TryResult::Failed("the endpoint answered 410, and was replaced since".to_owned()),
            Err(error) => {
                tracing::warn!(%error, "a webhook cannot be disabled");
                TryResult::Gone
            }
        }
    }

    async fn prepare(&self, delivery: &DeliveryRow) -> Result<Prepared, CallError> {
        let Some(webhook) = self.0.store.webhook_by_id(&delivery.webhook).await? else {
            return Ok(Prepared::Dropped("the webhook was deleted"));
        };
        if webhook.disabled.is_some() {
            return Ok(Prepared::Dropped("the webhook is disabled"));
        }
        let approval = match self.0.store.approval(&delivery.approval, Some(&delivery.organization)).await {
            Ok(approval) => approval,
            Err(StoreError::NotFound { .. }) => return Ok(Prepared::Dropped("the approval was deleted")),
            Err(error) => return Err(error.into()),
        };
        let is_open = approval.state == ApprovalState::Pending && approval.expires_ms > now_ms();
        match delivery.event == CREATED && !is_open {
            true => Ok(Prepared::Dropped("the approval has ended")),
            false => Ok(Prepared::Ready(webhook, Box::new(approval))),
        }
    }

    async fn send_event(
        &self,
        webhook: &WebhookRow,
        approval: ApprovalRow,
        delivery: &DeliveryRow,
    ) -> Result<TryResult, CallError> {
        let mut message = WebhookMessage {
            event: delivery.event.clone(),
            organization: webhook.organization.to_string(),
            approval: Some(approvals::view(&self.0.store, approval, now_ms()).await?),
            link: None,
            callback: None,
        };
        if delivery.event == CREATED {
            let (link, token) = (random_text()?, random_text()?);
            let hashes = [(TokenKind::Link, token_hash(&link)), (TokenKind::Callback, token_hash(&token))];
            self.0.store.add_delivery_tokens(&delivery.id, &hashes).await?;
            let (base_url, id) = (&self.0.base_url, &delivery.approval);
            message.link = Some(format!("{base_url}/console/approvals/{id}?once={link}"));
            let url = format!("{base_url}/v1/approvals/{id}/callback");
            message.callback = Some(WebhookCallback { url, token });
        }
        let intent = self.open_intent(webhook, delivery).await?;
        let sent = self.send(webhook, &delivery.id, &message).await;
        let error_type = match &sent {
            Ok(TryResult::Delivered) => None,
            Ok(_) => Some(ErrorType::ApiUnavailable),
            Err(error) => Some(error.error_type),
        };
        let outcome = ActOutcome {
            status: if error_type.is_none() { Status::Ok } else { Status::Error },
            error_type: error_type.map(|error_type| error_type.as_str().into()),
            revision: None,
        };
        self.0.audit.close_act(intent, outcome).await?;
        sent
    }

    /// Records that a request is sent. A request that cannot be recorded is not sent.
    async fn open_intent(&self, webhook: &WebhookRow, delivery: &DeliveryRow) -> Result<Entry, CallError> {
        let origin = origin(&read_document(webhook)?.url);
        let details = json!({
            "approval": delivery.approval, "event": delivery.event, "delivery": delivery.id,
            "attempt": delivery.attempts.saturating_add(1), "origin": origin,
        });
        let intent = self.0.audit.open_act(AdminRecord {
            organization: Some(webhook.organization.as_str().into()),
            principal: PRINCIPAL.into(),
            action: "webhook.send".into(),
            target: webhook.name.as_str().into(),
            outcome: ErrorType::Unknown.as_str().into(),
            revision: None,
            details: RawValue::from_string(details.to_string()).ok().map(Cow::Owned),
            source: SOURCE.into(),
        });
        let intent = intent?;
        intent.sync().await?;
        Ok(intent)
    }

    /// Sends a test event and waits for the answer.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND`, `NETWORK_DENIED` where the host is no longer granted, `UNAVAILABLE` while the daemon is sealed.
    pub async fn test(&self, organization: &Name, name: &Name) -> Result<WebhookTested, CallError> {
        let webhook = self.0.store.webhook(organization, name).await?;
        let message = WebhookMessage {
            event: "test".into(),
            organization: organization.to_string(),
            approval: None,
            link: None,
            callback: None,
        };
        let sent = self.send(&webhook, &identifier::time_ordered("d", now_ms()), &message).await?;
        let error = match sent {
            TryResult::Delivered => None,
            TryResult::Gone => Some("the endpoint answered 410".to_owned()),
            TryResult::Dropped(why) => Some(why.to_owned()),
            TryResult::Failed(why) => Some(why),
        };
        Ok(WebhookTested { delivered: error.is_none(), error })
    }

    async fn send(
        &self,
        webhook: &WebhookRow,
        delivery: &str,
        message: &WebhookMessage,
    ) -> Result<TryResult, CallError> {
        let url = read_document(webhook)?.url;
        // Checked again: the settings may be others since the webhook was written.
        let granted = self.0.granted.load_full();
        granted.hosts.check(&url)?;
        let secret = self.0.credentials.open_webhook_secret(webhook)?;
        let body = serde_json::to_vec(message).map_err(|error| internal(&error))?;
        let timestamp = (now_ms() / 1_000).to_string();
        let request = Request::post(&url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "toolgate")
            .header(DELIVERY_HEADER, delivery)
            .header(SIGNATURE_HEADER, sign(&secret, &timestamp, &body))
            .header(TIMESTAMP_HEADER, timestamp)
            .body(body)
            .map_err(|error| internal(&error))?;
        Ok(match tokio::time::timeout(REQUEST_TIME, granted.http.send(request)).await {
            Ok(Ok(response)) => result_of(response.status()),
            Ok(Err(HostClientError::PrivateAddress)) => TryResult::Failed(PRIVATE_ADDRESS.to_owned()),
            Ok(Err(error)) => TryResult::Failed(error.to_string()),
            Err(_) => TryResult::Failed(format!("no answer in {} seconds", REQUEST_TIME.as_secs())),
        })
    }
}

/// A delivery that can be sent, or need not be.
enum Prepared {
    Ready(WebhookRow, Box<ApprovalRow>),
    Dropped(&'static str),
}

/// Scheme, host and port of a URL. The rest can be a secret, as in the webhooks of chats.
fn origin(url: &str) -> Option<String> {
    Url::parse(url).ok().map(|url| url.origin().ascii_serialization())
}

fn result_of(status: StatusCode) -> TryResult {
    match status {
        status if status.is_success() => TryResult::Delivered,
        StatusCode::GONE => TryResult::Gone,
        status if status.is_redirection() => TryResult::Failed(format!(
            "the endpoint answered {}, and redirects are not followed",
            status.as_u16()
        )),
        status => TryResult::Failed(format!("the endpoint answered {}", status.as_u16())),
    }
}

/// The row of a delivery after a try. `until_ms` is when it is of no more use, `random` spreads the next tries.
fn row_after_try(
    delivery: DeliveryRow,
    result: TryResult,
    until_ms: u64,
    now_ms: u64,
    random: u8,
) -> DeliveryRow {
    let attempts = match result {
        TryResult::Dropped(_) => delivery.attempts,
        _ => delivery.attempts.saturating_add(1),
    };
    let ended = |state: &str, error: Option<String>| DeliveryRow {
        state: state.to_owned(),
        attempts,
        error,
        ended_ms: Some(now_ms),
        ..delivery.clone()
    };
    match result {
        TryResult::Delivered => ended("delivered", None),
        TryResult::Dropped(why) => ended("dropped", Some(why.to_owned())),
        TryResult::Gone => ended("failed", Some("the endpoint answered 410".to_owned())),
        TryResult::Failed(why) => {
            let step = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
            let wait_ms = BACKOFF_MS[step.min(BACKOFF_MS.len() - 1)];
            // Up to a fifth longer.
            let next_ms =
                now_ms.saturating_add(wait_ms).saturating_add(wait_ms * u64::from(random) / (5 * 256));
            let until_ms = until_ms.min(delivery.created_ms.saturating_add(GIVEN_UP_MS));
            match next_ms >= until_ms {
                true => ended("failed", Some(why)),
                false => DeliveryRow { attempts, next_ms, error: Some(why), ..delivery },
            }
        }
    }
}

fn internal(error: &dyn std::error::Error) -> CallError {
    CallError::new(ErrorType::Internal, error.to_string(), "tell the operator")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(attempts: u64) -> DeliveryRow {
        DeliveryRow {
            id: "d_1".into(),
            organization: Name::parse("acme").unwrap(),
            webhook: "w_1".into(),
            approval: "a_1".into(),
            event: CREATED.into(),
            state: toolgate_state::store::DELIVERY_PENDING.into(),
            attempts,
            next_ms: 0,
            error: None,
            created_ms: 0,
            ended_ms: None,
        }
    }

    fn fail(attempts: u64, until_ms: u64, now_ms: u64, random: u8) -> DeliveryRow {
        row_after_try(delivery(attempts), TryResult::Failed("why".into()), until_ms, now_ms, random)
    }

    #[test]
    fn g18_failed_deliveries_are_sent_again_later_and_later_until_a_day_has_passed() {
        let waits: Vec<u64> = (0..7).map(|attempts| fail(attempts, u64::MAX, 0, 0).next_ms).collect();
        assert_eq!(waits, [1_000, 5_000, 30_000, 300_000, 1_800_000, 7_200_000, 7_200_000]);
        let latest = fail(1, u64::MAX, 0, u8::MAX).next_ms;
        assert!((5_900..6_000).contains(&latest), "{latest}");
        let given_up = fail(20, u64::MAX, GIVEN_UP_MS - 1_000, 0);
        assert_eq!((given_up.state.as_str(), given_up.ended_ms), ("failed", Some(GIVEN_UP_MS - 1_000)));
    }

    #[test]
    fn g18_the_record_of_a_request_has_no_path_and_query() {
        let origin = |url| origin(url).unwrap();
        assert_eq!(
            origin("https://hooks.example.org/services/T0/B0/canary?token=canary"),
            "https://hooks.example.org"
        );
        assert_eq!(origin("http://127.0.0.1:9000/canary"), "http://127.0.0.1:9000");
    }

    #[test]
    fn g18_a_delivery_ends_with_its_approval() {
        assert_eq!(fail(2, 30_001, 0, 0).state, "pending");
        assert_eq!(fail(2, 30_000, 0, 0).state, "failed");
    }

    #[test]
    fn g18_an_answer_decides_whether_the_delivery_is_sent_again() {
        let result = |status: u16| match result_of(StatusCode::from_u16(status).unwrap()) {
            TryResult::Delivered => "delivered",
            TryResult::Gone => "gone",
            TryResult::Failed(why) if why.contains("redirects are not followed") => "redirect",
            TryResult::Failed(_) => "failed",
            TryResult::Dropped(_) => "dropped",
        };
        let statuses = [200, 204, 302, 307, 400, 404, 410, 429, 500, 503];
        let expected = [
            "delivered",
            "delivered",
            "redirect",
            "redirect",
            "failed",
            "failed",
            "gone",
            "failed",
            "failed",
            "failed",
        ];
        assert_eq!(statuses.map(result), expected);
    }
}
