//! Decisions that come back from a webhook: signed callbacks, and links for one person. Both are bound to one approval. An
//! approval is decided once, in one transaction, so a token is used up exactly when its decision is stored.

use toolgate_api::approval::ApprovalState;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::webhook::CallbackRequest;
use toolgate_macros::boxed;
use toolgate_state::store::TokenKind;

use super::signature::verify;
use super::{Webhooks, token_hash};
use crate::identity::Caller;

/// Greatest difference between the clocks of the daemon and of an endpoint, in seconds.
const CLOCK_SKEW_SECONDS: u64 = 5 * 60;
/// Longest name of an approver that an endpoint asserts, in characters.
const APPROVER_CHARS: usize = 200;

/// The signed parts of a callback as they were sent.
pub struct SignedBody<'a> {
    /// The header of the time.
    pub timestamp: &'a str,
    /// The header of the signature.
    pub signature: &'a str,
    /// The body.
    pub body: &'a [u8],
}

/// A person who followed the link of a delivery: decides one approval, as the webhook.
pub struct OnceApprover {
    caller: Caller,
    approval: String,
}

impl OnceApprover {
    /// The caller, if it may decide this approval.
    pub fn caller_for(&self, approval: &str) -> Option<&Caller> {
        (self.approval == approval).then_some(&self.caller)
    }

    /// The id of the approval.
    pub fn approval(&self) -> &str {
        &self.approval
    }
}

#[boxed]
impl Webhooks {
    /// Verifies a callback about an approval. Returns the caller that decides for the webhook.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED`, with the same text for an unknown approval, token or signature; `UNAVAILABLE` while the daemon is
    /// sealed.
    pub async fn verify_callback(
        &self,
        approval: &str,
        request: &CallbackRequest,
        signed: SignedBody<'_>,
        now_ms: u64,
    ) -> Result<Caller, CallError> {
        let parts = &*self.0;
        let delivery =
            parts.store.delivery_of_token(TokenKind::Callback, &token_hash(&request.token)).await?;
        let delivery =
            delivery.filter(|delivery| delivery.approval == approval).ok_or_else(unsigned_callback)?;
        let webhook = parts.store.webhook_by_id(&delivery.webhook).await?.ok_or_else(unsigned_callback)?;
        let secret = parts.credentials.open_webhook_secret(&webhook)?;
        if !verify(&secret, signed.timestamp, signed.body, signed.signature) {
            return Err(unsigned_callback());
        }
        check_time(signed.timestamp, now_ms)?;
        if request.approver.as_ref().is_some_and(|name| name.chars().count() > APPROVER_CHARS) {
            let message = format!("`approver` has more than {APPROVER_CHARS} characters");
            return Err(CallError::new(ErrorType::InvalidRequest, message, "shorten it"));
        }
        Ok(Caller::of_webhook(&webhook.organization, &webhook.name))
    }

    /// Verifies the token of a link, which lets a person decide this approval alone.
    ///
    /// # Errors
    ///
    /// `EXPIRED`, with the same text for a token that is unknown, of another approval, or of one that is decided or has ended.
    pub async fn verify_link(
        &self,
        approval: &str,
        token: &str,
        now_ms: u64,
    ) -> Result<OnceApprover, CallError> {
        let parts = &*self.0;
        let delivery = parts.store.delivery_of_token(TokenKind::Link, &token_hash(token)).await?;
        let delivery = delivery.filter(|delivery| delivery.approval == approval).ok_or_else(no_link)?;
        let webhook = parts.store.webhook_by_id(&delivery.webhook).await?.ok_or_else(no_link)?;
        let row =
            parts.store.approval(approval, Some(&delivery.organization)).await.map_err(|_| no_link())?;
        if row.state != ApprovalState::Pending || row.expires_ms <= now_ms {
            return Err(no_link());
        }
        let caller = Caller::of_webhook(&webhook.organization, &webhook.name);
        Ok(OnceApprover { caller, approval: approval.to_owned() })
    }
}

fn check_time(timestamp: &str, now_ms: u64) -> Result<(), CallError> {
    let is_near =
        timestamp.parse::<u64>().is_ok_and(|time| time.abs_diff(now_ms / 1_000) <= CLOCK_SKEW_SECONDS);
    if is_near {
        return Ok(());
    }
    Err(CallError::new(
        ErrorType::Unauthenticated,
        format!("`Toolgate-Timestamp` is not within {CLOCK_SKEW_SECONDS} seconds of the daemon's clock"),
        "sign with the present time in seconds since 1970; check the clocks of both machines",
    ))
}

/// INVARIANT: the same text for every callback that is not proven to be of a webhook.
fn unsigned_callback() -> CallError {
    CallError::new(
        ErrorType::Unauthenticated,
        "this is no signed callback of a delivery about this approval",
        "send `callback.token` of the delivery, and sign timestamp, dot and body with the secret of the webhook",
    )
}

/// INVARIANT: the same text for every link that does not work.
fn no_link() -> CallError {
    CallError::new(
        ErrorType::Expired,
        "this link was used, has expired, or never existed",
        "decide with a token: `toolgate approval list` shows what waits",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_a_timestamp_is_within_five_minutes() {
        let now_ms = 1_000_000_000;
        for seconds in ["1000000", "999700", "1000300"] {
            check_time(seconds, now_ms).expect(seconds);
        }
        for seconds in ["999699", "1000301", "0", "", "-1", "1000000000", "now"] {
            check_time(seconds, now_ms).expect_err(seconds);
        }
    }
}
