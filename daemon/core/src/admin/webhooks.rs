//! Webhooks, and the decisions that come back from them (G18).

use toolgate_api::approval::DecisionRequest;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_api::webhook::{CallbackRequest, WebhookRequest, WebhookTested, WebhookView};
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::store::ApprovalRow;

use super::{Actor, Admin};
use crate::webhooks::{OnceApprover, SignedBody};

#[boxed]
impl Admin {
    /// Creates or replaces a webhook. Returns whether it is new. A dry run checks it alone.
    pub async fn put_webhook(
        &self,
        actor: Actor<'_>,
        organization: &Name,
        name: &Name,
        request: WebhookRequest,
        dry_run: bool,
    ) -> Result<(WebhookView, bool), CallError> {
        self.expect_own(actor.caller, organization)?;
        let putting = self.services().webhooks.put(organization, name, request, now_ms(), dry_run);
        let action = actor.action(Some(organization), "webhook.put", name.as_str());
        self.run_audited_unless_dry(dry_run, action, putting).await
    }

    /// Deletes a webhook.
    pub async fn delete_webhook(
        &self,
        actor: Actor<'_>,
        organization: &Name,
        name: &Name,
    ) -> Result<(), CallError> {
        self.expect_own(actor.caller, organization)?;
        let deleting = self.services().webhooks.delete(organization, name);
        self.run_audited(actor.action(Some(organization), "webhook.delete", name.as_str()), deleting).await
    }

    /// Sends a test event to a webhook.
    pub async fn test_webhook(
        &self,
        actor: Actor<'_>,
        organization: &Name,
        name: &Name,
    ) -> Result<WebhookTested, CallError> {
        self.expect_own(actor.caller, organization)?;
        let testing = self.services().webhooks.test(organization, name);
        self.run_audited(actor.action(Some(organization), "webhook.test", name.as_str()), testing).await
    }

    /// Decides an approval by a signed callback. The audit log has the webhook as the principal, and the approver that it
    /// asserts in the details.
    ///
    /// # Errors
    ///
    /// The errors of the callback's verification, and of [`Admin::decide_approval`].
    pub async fn decide_by_callback(
        &self,
        source: &'static str,
        approval: &str,
        request: CallbackRequest,
        signed: SignedBody<'_>,
    ) -> Result<ApprovalRow, CallError> {
        let caller = self.services().webhooks.verify_callback(approval, &request, signed, now_ms()).await?;
        let actor = Actor { caller: &caller, source };
        let decision = DecisionRequest {
            decision: request.decision,
            reason: request.reason,
            arguments: None,
            arguments_instead: None,
            uses: None,
            expires_at: None,
        };
        self.decide_approval_for(actor, approval, decision, request.approver.as_deref()).await
    }

    /// Decides an approval as the person who followed its link.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND` for any other approval, and those of [`Admin::decide_approval`].
    pub async fn decide_once(
        &self,
        source: &'static str,
        approver: &OnceApprover,
        approval: &str,
        request: DecisionRequest,
    ) -> Result<ApprovalRow, CallError> {
        let caller = approver
            .caller_for(approval)
            .ok_or_else(|| toolgate_state::store::StoreError::not_found(format!("approval `{approval}`")))?;
        self.decide_approval(Actor { caller, source }, approval, request).await
    }
}
