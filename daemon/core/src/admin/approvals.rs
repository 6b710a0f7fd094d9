//! Decisions about approvals (G11).

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use toolgate_admission::Verdict;
use toolgate_api::approval::{ApprovalState, Choice, DecisionRequest};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::json::parse_strict;
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::store::{ApprovalRow, Decision};

use super::{Actor, Admin, AuditedAction};
use crate::approvals::{self, constraints, is_current, refusal};
use crate::redact::{Secrets, redact};

/// Most calls that one approval allows.
const USES_MAX: u64 = 1_000;
/// Longest reason, in characters.
const REASON_CHARS: usize = 1_000;
/// Deepest nesting of arguments in a record: readers of JSON take 128 levels, those around them included.
const RECORDED_DEPTH: u64 = 100;
/// Deepest nesting of arguments.
const ARGUMENTS_DEPTH: u64 = 128;

#[boxed]
impl Admin {
    /// Decides an approval.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND`, `FORBIDDEN` for the principal that opened the session or made the call, `CONFLICT` where it is decided,
    /// `APPROVAL_EXPIRED` where it would not cover what runs, and `INVALID_REQUEST`.
    pub async fn decide_approval(
        &self,
        actor: Actor<'_>,
        id: &str,
        request: DecisionRequest,
    ) -> Result<ApprovalRow, CallError> {
        self.decide_approval_for(actor, id, request, None).await
    }

    /// Decides an approval for the person that a webhook names.
    ///
    /// # Errors
    ///
    /// As [`Admin::decide_approval`].
    pub(super) async fn decide_approval_for(
        &self,
        actor: Actor<'_>,
        id: &str,
        request: DecisionRequest,
        approver: Option<&str>,
    ) -> Result<ApprovalRow, CallError> {
        let row = self.services().store.approval(id, actor.caller.organization.as_ref()).await?;
        let action = match request.decision {
            Choice::Approve => "approval.approve",
            Choice::Deny => "approval.deny",
        };
        let organization = row.organization.clone();
        actor.caller.may_decide(&organization)?;
        let instead = self.recorded_instead(&row, &request);
        let details = details(&row, &request, instead.as_deref(), approver);
        let action =
            AuditedAction { details: details.as_deref(), ..actor.action(Some(&organization), action, id) };
        self.run_audited(action, self.decide(actor, row, request)).await
    }

    async fn decide(
        &self,
        actor: Actor<'_>,
        row: ApprovalRow,
        request: DecisionRequest,
    ) -> Result<ApprovalRow, CallError> {
        let now_ms = now_ms();
        let parts = self.services();
        check_other_principal(actor, &row)?;
        if row.decided_ms.is_some() {
            return Err(decided_already(&row));
        }
        let decision = self.parse_decision(actor, &row, request, now_ms)?;
        let session = parts.sessions.find(&row.session);
        if decision.state == ApprovalState::Approved {
            let verdict = session
                .as_ref()
                .map(|session| self.dispatcher().verdict(session, &row.called, &row.arguments));
            if !verdict.is_some_and(|verdict| is_current(&row, &verdict)) {
                parts.store.end_approval(&row.id, ApprovalState::Void).await?;
                if let Some(session) = &session {
                    let why = approvals::void();
                    self.dispatcher().apply_decision(session, &row.id, ApprovalState::Void, Some(&why));
                }
                return Err(stale_approval());
            }
            self.check_instead(&row, decision.arguments_instead.as_deref())?;
        }
        if !parts.store.decide_approval(&row.id, &decision).await? {
            let row = parts.store.approval(&row.id, None).await?;
            return Err(refusal(&row, now_ms)
                .filter(|_| row.decided_ms.is_none())
                .unwrap_or_else(|| decided_already(&row)));
        }
        let row = parts.store.approval(&row.id, None).await?;
        if let Some(session) = &session {
            self.dispatcher().apply_decision(session, &row.id, row.state, refusal(&row, now_ms).as_ref());
        }
        Ok(row)
    }

    /// Checks the arguments that an approver gives as the call's own would be.
    fn check_instead(&self, row: &ApprovalRow, arguments: Option<&str>) -> Result<(), CallError> {
        let parts = self.services();
        let (Some(arguments), Some(session)) = (arguments, parts.sessions.find(&row.session)) else {
            return Ok(());
        };
        match self.dispatcher().verdict(&session, &row.called, arguments) {
            Verdict::NeedsApproval(_) | Verdict::Run(_) => Ok(()),
            Verdict::Refused(refusal) => Err(refusal.error),
        }
    }

    /// The arguments that an approver gives, for the audit log; `None` for a tool that is not there any more, and for what is no JSON of
    /// arguments.
    fn recorded_instead(&self, row: &ApprovalRow, request: &DecisionRequest) -> Option<Box<RawValue>> {
        let arguments = request.arguments_instead.as_ref()?;
        // What no reader of the log could parse is refused below, and not recorded.
        parse_strict(arguments.get(), RECORDED_DEPTH).ok()?;
        let snapshot = self.services().registry.snapshot();
        let catalogue = snapshot.catalogue_of(&row.organization);
        let pointers = &catalogue.find(&row.tool)?.descriptor().redact;
        let secrets = Secrets { pointers, emails: snapshot.redacts_emails(&row.organization) };
        redact(arguments.get(), secrets).map(Cow::into_owned)
    }

    fn parse_decision(
        &self,
        actor: Actor<'_>,
        row: &ApprovalRow,
        request: DecisionRequest,
        now_ms: u64,
    ) -> Result<Decision, CallError> {
        let is_denied = request.decision == Choice::Deny;
        let uses = request.uses.unwrap_or(1);
        check_shape(&request, uses)?;
        let lifetime_ms = self.services().approvals.lifetime_ms;
        let expires_max_ms = now_ms.saturating_add(lifetime_ms);
        let expires_ms = request.expires_at.unwrap_or(expires_max_ms);
        if expires_ms <= now_ms || expires_ms > expires_max_ms {
            let message = format!(
                "`expires_at` is not within the next {} seconds, as long as an approval can last here",
                lifetime_ms / 1_000
            );
            let hint = "name an earlier time in milliseconds since 1970, or leave it out; an operator can raise `calls.approval_seconds`";
            return Err(invalid(message, hint));
        }
        let arguments = request.arguments.map(|table| table.get().to_owned());
        let arguments_instead = request.arguments_instead.map(|arguments| arguments.get().to_owned());
        if let Some(table) = &arguments {
            let shown = parse_strict(&row.arguments, ARGUMENTS_DEPTH).map_err(|error| {
                CallError::new(ErrorType::Internal, error.to_string(), "tell the operator")
            })?;
            if !constraints(table, &shown)?.matches(&shown) {
                return Err(invalid(
                    "the call that waits is not among those that `arguments` allows".to_owned(),
                    "let the constraints hold for it as well; a call of another shape asks for itself",
                ));
            }
        }
        Ok(Decision {
            state: if is_denied { ApprovalState::Denied } else { ApprovalState::Approved },
            uses: if is_denied { 0 } else { uses },
            constraints: arguments,
            arguments_instead,
            reason: request.reason,
            decided_by: actor.caller.token_id.to_string(),
            decided_ms: now_ms,
            expires_ms: if is_denied { row.expires_ms } else { expires_ms },
        })
    }
}

/// An approval is never decided by the principal that opened the session or made the call.
fn check_other_principal(actor: Actor<'_>, row: &ApprovalRow) -> Result<(), CallError> {
    let own = &*actor.caller.token_id;
    if row.opened_by != own && row.asked_by != own {
        return Ok(());
    }
    Err(CallError::new(
        ErrorType::Forbidden,
        "the token that opened the session, or made the call, cannot decide about it",
        "decide with another token; `toolgate token create` makes one",
    ))
}

fn check_shape(request: &DecisionRequest, uses: u64) -> Result<(), CallError> {
    if request.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS) {
        return Err(invalid(format!("`reason` has more than {REASON_CHARS} characters"), "shorten it"));
    }
    let has_shape = request.arguments.is_some()
        || request.arguments_instead.is_some()
        || request.uses.is_some()
        || request.expires_at.is_some();
    if request.decision == Choice::Deny && has_shape {
        let hint = "a denial holds for the call that asked; leave `arguments`, `arguments_instead`, `uses` and `expires_at` out";
        return Err(invalid("a denial has no shape".to_owned(), hint));
    }
    if request.arguments_instead.is_some() && (request.arguments.is_some() || uses > 1) {
        let hint = "leave `arguments` and `uses` out: other arguments are for one call";
        return Err(invalid(
            "`arguments_instead` cannot be combined with `arguments` or `uses`".to_owned(),
            hint,
        ));
    }
    if uses == 0 || uses > USES_MAX {
        return Err(invalid(format!("`uses` is {uses}"), "allow 1 to 1000 calls"));
    }
    Ok(())
}

/// The details of a decision in the audit log. The record of the call has the arguments.
fn details(
    row: &ApprovalRow,
    request: &DecisionRequest,
    instead: Option<&RawValue>,
    approver: Option<&str>,
) -> Option<Box<RawValue>> {
    // Not by `json!`: as a value, arguments with a number beyond those of JSON libraries, or too deep, are a panic.
    #[derive(Serialize)]
    struct Details<'a> {
        session: &'a str,
        call: &'a str,
        tool: &'a str,
        plugin_digest: &'a str,
        uses: Option<u64>,
        expires_at: Option<u64>,
        reason: Option<&'a str>,
        constrained: bool,
        approver: Option<&'a str>,
        arguments_instead: Option<&'a RawValue>,
    }
    let details = Details {
        session: &row.session,
        call: &row.call,
        tool: &row.tool,
        plugin_digest: &row.plugin_digest,
        uses: request.uses,
        expires_at: request.expires_at,
        reason: request.reason.as_deref(),
        constrained: request.arguments.is_some(),
        approver,
        arguments_instead: instead,
    };
    to_raw_value(&details).ok()
}

fn invalid(message: String, hint: &str) -> CallError {
    CallError::new(ErrorType::InvalidRequest, message, hint)
}

/// The error for the approver, not for the model.
fn stale_approval() -> CallError {
    CallError::new(
        ErrorType::ApprovalExpired,
        "the shown call would not run any more: the tool, the rules or the session have changed since it asked",
        "there is nothing to decide; if the call still matters, it asks again under another approval",
    )
}

fn decided_already(row: &ApprovalRow) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("it is decided already: `{}`", row.state.as_str()),
        "get the approval to see the decision; another call asks for another approval",
    )
}
