//! Webhooks: where approvals are announced (G18), what they receive, and what they send back.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::approval::{ApprovalView, Choice};
use crate::credential::SecretText;

/// A webhook, as its owner writes it.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct WebhookRequest {
    /// The endpoint. The operator must have granted its host in `webhooks.hosts`.
    #[schema(max_length = 2000, example = "https://hooks.example.org/approvals")]
    pub url: String,
    /// The events. Default: `["approval"]`.
    #[serde(default)]
    #[schema(value_type = Vec<WebhookEvent>, required = false)]
    pub events: Option<Vec<WebhookEvent>>,
    /// The key of the signatures, 16 to 256 visible ASCII characters. It is never returned. Left out, the webhook keeps its
    /// secret, and a new one gets a random secret.
    #[serde(default)]
    #[schema(value_type = String, write_only, required = false, min_length = 16, max_length = 256)]
    pub secret: Option<SecretText>,
}

/// A kind of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WebhookEvent {
    /// Approvals that wait for a decision, are decided, or expire.
    Approval,
}

/// A webhook.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookView {
    /// Its name.
    pub name: String,
    /// The endpoint.
    pub url: String,
    /// The events.
    pub events: Vec<WebhookEvent>,
    /// `active`, or `disabled` after the endpoint answered 410.
    pub state: Cow<'static, str>,
    /// Why it is disabled.
    pub reason: Option<String>,
    /// When it was made.
    pub created_at: u64,
    /// When it was last changed.
    pub changed_at: u64,
    /// The random secret of a new webhook; it is shown once.
    pub secret: Option<String>,
    /// The last deliveries, latest first; only of one requested webhook.
    pub deliveries: Option<Vec<DeliveryView>>,
}

/// A delivery of an event.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct DeliveryView {
    /// The value of `Toolgate-Delivery`.
    pub id: String,
    /// The approval.
    pub approval: String,
    /// `approval.created`, `approval.decided` or `approval.expired`.
    pub event: String,
    /// `pending`, `delivered`, `failed`, or `dropped` where the approval ended before.
    pub state: String,
    /// Requests that were sent.
    pub attempts: u64,
    /// When the event happened.
    pub created_at: u64,
    /// When it is sent again.
    pub next_at: Option<u64>,
    /// Why the last request failed.
    pub error: Option<String>,
}

/// The list of webhooks of an organization.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookList {
    /// The webhooks, by name.
    pub items: Vec<WebhookView>,
}

/// The result of a test request to a webhook.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookTested {
    /// Whether the endpoint answered with a status of 200 to 299.
    pub delivered: bool,
    /// Why it failed.
    pub error: Option<String>,
}

/// The body of a request to a webhook.
///
/// `Toolgate-Signature` is `v1=` and the HMAC-SHA256 in hexadecimal digits, under the webhook's secret, of the text of
/// `Toolgate-Timestamp`, a dot and the body.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookMessage {
    /// `approval.created`, `approval.decided`, `approval.expired` or `test`.
    pub event: String,
    /// The organization.
    pub organization: String,
    /// The approval as it is now; absent in a test.
    pub approval: Option<ApprovalView>,
    /// A link for one person, who can use it once to decide this approval; only with `approval.created`.
    pub link: Option<String>,
    /// The URL and token with which the endpoint can decide; only with `approval.created`.
    pub callback: Option<WebhookCallback>,
}

/// The URL and token with which a webhook can decide.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct WebhookCallback {
    /// The URL of a `POST`.
    pub url: String,
    /// The token of the decision, for one use.
    pub token: String,
}

/// A decision that a webhook sends, signed as the requests to it are.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallbackRequest {
    /// The `callback.token` of the delivery.
    #[schema(max_length = 100)]
    pub token: String,
    /// `approve` or `deny`.
    pub decision: Choice,
    /// The reason, in words. The model is told the reason of a denial.
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
    /// The person who decided, as the endpoint asserts. Recorded, not checked.
    #[schema(max_length = 200)]
    pub approver: Option<String>,
}
