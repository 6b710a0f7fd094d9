//! Webhooks: signed announcements of approvals to endpoints of organizations, and decisions that come back (G18).
//!
//! A delivery is stored in the transaction of the event that it announces (`store::webhooks`), and sent with back-off
//! until the endpoint accepts it, the approval ends, or a day has passed (`deliver`). Each request has a token for one
//! signed callback and one for a link; only their hashes are stored (`decision`). Connections go by the daemon's HTTPS
//! client, whose addresses are vetted (SSRF), and to hosts that the operator granted (`endpoint`).

mod decision;
mod deliver;
mod endpoint;
mod signature;

use std::sync::Arc;

use arc_swap::ArcSwap;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};
use toolgate_api::credential::SecretText;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_api::webhook::{DeliveryView, WebhookEvent, WebhookRequest, WebhookView};
use toolgate_audit::{Audit, sha256};
use toolgate_macros::boxed;
use toolgate_sandbox::{HostClient, Secret};
use toolgate_state::identifier;
use toolgate_state::store::{DELIVERY_PENDING, DeliveryRow, SealedText, Store, StoreError, WebhookRow};

use crate::credentials::Credentials;

pub use decision::{OnceApprover, SignedBody};
pub use endpoint::GrantedHosts;
pub use signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};

/// Length of a secret of a webhook, in characters.
const SECRET_CHARS: std::ops::RangeInclusive<usize> = 16..=256;
/// Deliveries that a view has.
const SHOWN_DELIVERIES: u32 = 20;
/// Random bytes of tokens and secrets.
const RANDOM_BYTES: usize = 32;

/// The webhooks of all organizations. Cheap to clone.
#[derive(Clone)]
pub struct Webhooks(Arc<Inner>);

struct Inner {
    store: Store,
    audit: Audit,
    credentials: Credentials,
    granted: ArcSwap<Granted>,
    base_url: String,
}

/// The hosts that the operator granted, and the client that may reach them.
struct Granted {
    hosts: GrantedHosts,
    http: HostClient,
}

/// The parts of [`Webhooks`].
pub struct WebhookParts {
    /// Stores webhooks and deliveries.
    pub store: Store,
    /// Records each request that is sent.
    pub audit: Audit,
    /// Seals and opens secrets.
    pub credentials: Credentials,
    /// Sends the requests. It allows private addresses and plain HTTP to the hosts that the operator granted so.
    pub http: HostClient,
    /// The hosts that webhooks may have.
    pub hosts: GrantedHosts,
    /// URL of the daemon for browsers and callbacks, without a slash at its end.
    pub base_url: String,
}

/// The part of a webhook that its secret is bound to.
#[derive(Debug, Serialize, Deserialize)]
struct WebhookDocument {
    url: String,
    events: Vec<WebhookEvent>,
}

#[boxed]
impl Webhooks {
    /// The webhooks in this store.
    pub fn new(parts: WebhookParts) -> Self {
        let WebhookParts { store, audit, credentials, http, hosts, base_url } = parts;
        let granted = ArcSwap::from_pointee(Granted { hosts, http });
        Self(Arc::new(Inner { store, audit, credentials, granted, base_url }))
    }

    /// Grants other hosts from the next delivery on. `http` sends the requests, as in [`WebhookParts`].
    pub fn replace_hosts(&self, hosts: GrantedHosts, http: HostClient) {
        self.0.granted.store(Arc::new(Granted { hosts, http }));
    }

    /// Creates or replaces a webhook. Returns its view, with a generated secret, and whether it is new. A dry run checks all of
    /// it, stores nothing, and returns no secret.
    ///
    /// # Errors
    ///
    /// `INVALID_REQUEST`, `NETWORK_DENIED` for a host that the operator did not grant, `UNAVAILABLE` while sealed.
    pub async fn put(
        &self,
        organization: &Name,
        name: &Name,
        request: WebhookRequest,
        now_ms: u64,
        dry_run: bool,
    ) -> Result<(WebhookView, bool), CallError> {
        let parts = &*self.0;
        let document = self.document(&request.url, request.events)?;
        let given = request.secret.map(parse_secret).transpose()?;
        // Held until the webhook is stored: a write at the same time would have its version, and bring back an old secret.
        let sealing = parts.credentials.begin_sealing().await?;
        let known = match parts.store.webhook(organization, name).await {
            Ok(known) => Some(known),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (secret, generated) = match (given, &known) {
            (Some(secret), _) => (secret, None),
            (None, Some(known)) => (parts.credentials.open_webhook_secret(known)?, None),
            (None, None) => {
                let text = format!("whsec_{}", random_text()?);
                (Secret::new(text.clone().into_bytes()), Some(text))
            }
        };
        let row = WebhookRow {
            organization: organization.clone(),
            name: name.clone(),
            id: known.as_ref().map_or_else(|| identifier::fresh("w"), |known| known.id.clone()),
            version: known.as_ref().map_or(1, |known| known.version.saturating_add(1)),
            document,
            sealed: SealedText { root_key: String::new(), wrapped_key: String::new(), secret: String::new() },
            disabled: None,
            created_ms: known.map_or(now_ms, |known| known.created_ms),
            changed_ms: now_ms,
        };
        let row = WebhookRow { sealed: sealing.seal(&row, &secret)?, ..row };
        if dry_run {
            parts.store.check_webhook(&row).await?;
            return Ok((view(&row)?, false));
        }
        let is_new = parts.store.put_webhook(&row).await?;
        Ok((WebhookView { secret: generated, ..view(&row)? }, is_new))
    }

    /// Lists the webhooks of an organization by name.
    pub async fn list(&self, organization: &Name) -> Result<Vec<WebhookView>, CallError> {
        self.0.store.webhooks(organization).await?.iter().map(view).collect()
    }

    /// Returns a webhook with its last deliveries.
    pub async fn find(&self, organization: &Name, name: &Name) -> Result<WebhookView, CallError> {
        let row = self.0.store.webhook(organization, name).await?;
        let deliveries = self.0.store.deliveries_of(&row.id, SHOWN_DELIVERIES).await?;
        let deliveries = deliveries.into_iter().map(delivery_view).collect();
        Ok(WebhookView { deliveries: Some(deliveries), ..view(&row)? })
    }

    /// Deletes a webhook. Its links and callbacks are no longer valid.
    pub async fn delete(&self, organization: &Name, name: &Name) -> Result<(), CallError> {
        Ok(self.0.store.delete_webhook(organization, name).await?)
    }

    fn document(&self, url: &str, events: Option<Vec<WebhookEvent>>) -> Result<String, CallError> {
        let url = self.0.granted.load().hosts.check(url)?;
        let events = events.unwrap_or_else(|| vec![WebhookEvent::Approval]);
        if events != [WebhookEvent::Approval] {
            let hint = "write `[\"approval\"]`, or leave `events` out";
            return Err(CallError::new(
                ErrorType::InvalidRequest,
                "`events` is not a list of one event",
                hint,
            ));
        }
        serde_json::to_string(&WebhookDocument { url, events })
            .map_err(|error| CallError::new(ErrorType::Internal, error.to_string(), "tell the operator"))
    }
}

fn read_document(row: &WebhookRow) -> Result<WebhookDocument, CallError> {
    serde_json::from_str(&row.document)
        .map_err(|_| StoreError::corrupt("a row of `webhooks` is not sound").into())
}

fn view(row: &WebhookRow) -> Result<WebhookView, CallError> {
    let document = read_document(row)?;
    Ok(WebhookView {
        name: row.name.to_string(),
        url: document.url,
        events: document.events,
        state: if row.disabled.is_some() { "disabled" } else { "active" }.into(),
        reason: row.disabled.clone(),
        created_at: row.created_ms,
        changed_at: row.changed_ms,
        secret: None,
        deliveries: None,
    })
}

fn delivery_view(row: DeliveryRow) -> DeliveryView {
    DeliveryView {
        next_at: (row.state == DELIVERY_PENDING).then_some(row.next_ms),
        id: row.id,
        approval: row.approval,
        event: row.event,
        state: row.state,
        attempts: row.attempts,
        created_at: row.created_ms,
        error: row.error,
    }
}

fn parse_secret(SecretText(text): SecretText) -> Result<Secret, CallError> {
    if SECRET_CHARS.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(Secret::new(text.as_bytes().to_vec()));
    }
    let message = format!(
        "`secret` has not {} to {} visible ASCII characters",
        SECRET_CHARS.start(),
        SECRET_CHARS.end()
    );
    Err(CallError::new(ErrorType::InvalidRequest, message, "leave it out to get a random one"))
}

/// 256 random bits in base64url.
fn random_text() -> Result<String, CallError> {
    let mut bytes = [0; RANDOM_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        CallError::new(ErrorType::Unavailable, "the system gives no random bytes", "try again later")
    })?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

/// The SHA-256 of a token in hexadecimal digits. A slow hash would add nothing, since tokens are not guessable.
fn token_hash(token: &str) -> String {
    sha256(token.as_bytes()).to_string()
}

#[cfg(test)]
mod tests;
