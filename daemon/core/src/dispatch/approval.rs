//! Pending calls: the use of approvals, and what ends a call that waits for a person or a client.

use std::pin::pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_admission::{Approval, Checked, Unapproved, Verdict};
use toolgate_api::approval::ApprovalState;
use toolgate_api::error::CallError;
use toolgate_audit::outer_id;
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::clock::now_ms;

use super::{Attempt, Dispatcher, Origin, Recorded, events, record, rules_of};
use crate::approvals::{self, ApprovalLookup, ApprovalStatus};
use crate::call::{CallOutcome, OutcomeState, RequestedCall};
use crate::events::Events;
use crate::sessions::{CallState, PendingCall, PendingOn, Session, Sessions};

/// A use of an approval, consumed for a call that may run.
pub(super) struct ApprovalUse {
    id: String,
    /// No use is left for another call.
    is_last: bool,
    /// The arguments that the approver gave in place of the call's.
    pub(super) instead: Option<Arc<str>>,
}

#[boxed]
impl Dispatcher {
    /// Consumes a use of an approval for the call, or returns the outcome without one: the call waits, or is refused.
    ///
    /// The look-up waits for the store, so the call is decided again where the rules changed meanwhile. A call that then
    /// does not run releases its use.
    pub(super) async fn consume_approval(
        &self,
        unapproved: Unapproved<Component>,
        attempt: &Recorded<'_>,
        revision: u64,
    ) -> Result<(Checked<Component>, ApprovalUse), Box<(CallOutcome, Option<PendingOn>)>> {
        let parts = &*self.0;
        let Attempt { session, call, origin, .. } = **attempt;
        let refused = |error| Box::new((CallOutcome::of_error(call, error), None));
        let found = parts.approvals.find(session, &call.id, &origin.principal, &unapproved, now_ms()).await;
        let approvals::Use { id, approval, is_last, instead } = match found.map_err(refused)? {
            ApprovalLookup::Used(used) => *used,
            ApprovalLookup::Pending(row, expired) => {
                if let Some(expired) = expired {
                    let error = approvals::expiry(false);
                    self.apply_decision(session, &expired, ApprovalState::Expired, Some(&error));
                }
                let outcome = CallOutcome::awaiting_approval(&call.id, &call.tool, &row);
                return Err(Box::new((outcome, Some(PendingOn::Person))));
            }
            ApprovalLookup::Void(id) => {
                // Other calls may wait for the same approval.
                self.apply_decision(session, &id, ApprovalState::Void, Some(&approvals::void()));
                return Err(refused(approvals::void()));
            }
            ApprovalLookup::Refused(error) => return Err(refused(error)),
        };
        let approval_use = ApprovalUse { id, is_last, instead: instead.clone() };
        let snapshot = parts.registry.snapshot();
        let decided_again = match snapshot.revision == revision {
            true => Ok(unapproved),
            false => match parts.decide(&rules_of(&snapshot, session), session, call) {
                Verdict::NeedsApproval(unapproved) => Ok(unapproved),
                // A call that needs no approval any more is not the recorded one: it has another component or other rules.
                // Posted again, it is recorded as what it is now.
                Verdict::Run(_) => Err(refused(approvals::void())),
                Verdict::Refused(refusal) => Err(Box::new((CallOutcome::of_refusal(call, refusal), None))),
            },
        };
        let approved = |unapproved: Unapproved<Component>| match &instead {
            None => unapproved.approved_by(&approval).ok(),
            Some(arguments) => {
                let call = RequestedCall { arguments: Arc::clone(arguments), ..call.clone() };
                let verdict = parts.decide(&rules_of(&snapshot, session), session, &call);
                approved_instead(&unapproved, &approval, verdict)
            }
        };
        let checked = decided_again
            .and_then(|unapproved| approved(unapproved).ok_or_else(|| refused(approvals::void())));
        match checked {
            Ok(checked) => Ok((checked, approval_use)),
            Err(outcome) => {
                self.release_approval(Some(approval_use)).await;
                Err(outcome)
            }
        }
    }

    /// Returns the use of a call that does not run to its approval.
    pub(super) async fn release_approval(&self, approval_use: Option<ApprovalUse>) {
        if let Some(ApprovalUse { id, .. }) = approval_use
            && let Err(error) = self.0.approvals.release(&id).await
        {
            tracing::warn!(%error, approval = id, "the use of an approval cannot be released");
        }
    }

    /// Records that the call runs by an approval.
    pub(super) fn record_approval_use(&self, attempt: &Recorded<'_>, approval_use: Option<&ApprovalUse>) {
        let Some(ApprovalUse { id, is_last, .. }) = approval_use else { return };
        record::approval_use(&self.0.audit, attempt.entry, id);
        if *is_last {
            // Other calls that wait for this approval would wait for ever.
            let error = approvals::used_up();
            self.apply_decision(attempt.session, id, ApprovalState::Used, Some(&error));
        }
    }

    /// Applies what happened while the call was still running and is now pending: a cancellation stopped a running call, and
    /// a decision found no pending one. Returns the outcome of a call that this ends.
    pub(super) async fn reconcile_races(
        &self,
        session: &Arc<Session>,
        origin: &Origin,
        outcome: &CallOutcome,
        cancelled: &CancellationToken,
    ) -> Option<Arc<CallOutcome>> {
        let id = &outcome.id;
        if cancelled.is_cancelled() {
            if let Err(error) = self.cancel(session, id, origin).await {
                let (conversation, session) = (session.setup.conversation_or_empty(), &session.setup.id);
                tracing::warn!(%error, session, conversation, call = id, "the cancellation of a pending call cannot be recorded");
            }
        } else if let Some(approval) = outcome.approval().map(|approval| approval.id.as_str()) {
            match self.0.approvals.status(approval, now_ms()).await {
                Ok(ApprovalStatus::Over(state, why)) => {
                    self.apply_decision(session, approval, state, Some(&why));
                }
                Ok(ApprovalStatus::Open(row)) if row.state != ApprovalState::Pending => {
                    self.apply_decision(session, approval, row.state, None);
                }
                Ok(ApprovalStatus::Open(_)) => {}
                Err(error) => tracing::warn!(%error, approval, "the state of an approval cannot be read"),
            }
        }
        match session.calls.find(id, now_ms())? {
            CallState::Ended(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Emits a decision to the calls that wait for the approval. If the approval allows no call, `why` ends them.
    pub fn apply_decision(
        &self,
        session: &Arc<Session>,
        approval: &str,
        state: ApprovalState,
        why: Option<&CallError>,
    ) {
        let events = &self.0.events;
        for id in session.calls.pending_on_approval(approval) {
            let Some(CallState::Pending(pending)) = session.calls.find(&id, now_ms()) else { continue };
            events::emit_decision(events, session, &pending.outcome, approval, state);
            if let Some(error) = why {
                let end = CallOutcome::end_of(&pending.outcome, OutcomeState::Error(error.clone()));
                if let Some(outcome) = session.calls.end_unapproved(end, now_ms()) {
                    events::emit_end(events, session, &outcome);
                }
            }
        }
        session.calls.announce_decision();
    }

    /// Waits while a call waits for a person or a client, and nothing is decided. Posted again, it then runs or tells its end.
    ///
    /// The store is read once, and again after each decision of the session, so a wait costs nothing.
    pub async fn wait_while_undecided(&self, session: &Session, call: &str) {
        let mut decisions = session.calls.decisions();
        let mut may_be_decided = true;
        loop {
            let mut next_end = pin!(session.calls.next_end());
            next_end.as_mut().enable();
            let Some(CallState::Pending(pending)) = session.calls.find(call, now_ms()) else { return };
            if let Some(approval) = pending.approval().filter(|_| may_be_decided) {
                let status = self.0.approvals.status(approval, now_ms()).await;
                // An error of the store is told by the call that is posted again.
                if !matches!(status, Ok(ApprovalStatus::Open(row)) if row.state == ApprovalState::Pending) {
                    return;
                }
            }
            may_be_decided = tokio::select! {
                changed = decisions.changed() => changed.is_ok(),
                () = next_end => false,
            };
        }
    }

    /// Cancels a call: a running one is stopped, a pending one ends. A call that has ended stays as it is.
    pub async fn cancel(&self, session: &Arc<Session>, id: &str, origin: &Origin) -> Result<(), CallError> {
        let parts = &*self.0;
        let Some((pending, outcome)) = cancel(&parts.events, session, id) else { return Ok(()) };
        // The call's first record says that it is pending, and after a restart only the records are left.
        let revision = parts.registry.snapshot().revision;
        let intent = record::cancelled_intent(session, &pending, revision, origin);
        let entry = parts.audit.open(intent).map_err(|error| record::unrecordable(&error))?;
        let recorded = parts.audit.close(entry, record::client_outcome(&outcome)).await;
        recorded.map_err(|error| record::unrecordable(&error))?;
        for inner in session.calls.pending().iter().filter(|inner| outer_id(inner) == Some(id)) {
            Box::pin(self.cancel(session, inner, origin)).await?;
        }
        match pending.approval() {
            Some(approval) => self.withdraw_approval(session, approval).await,
            None => Ok(()),
        }
    }

    /// Withdraws a pending approval, unless another call waits for it.
    pub(super) async fn withdraw_approval(&self, session: &Session, approval: &str) -> Result<(), CallError> {
        if session.calls.pending_on_approval(approval).is_empty() {
            self.0.store.withdraw_approval(approval).await?;
        }
        Ok(())
    }

    /// Ends a session: running calls are stopped, pending calls end, the workspace is removed.
    pub async fn end_session(&self, sessions: &Sessions, id: &str) {
        let Some(session) = sessions.close(id) else { return };
        for call in session.calls.pending() {
            cancel(&self.0.events, &session, &call);
        }
        session.pending_events().close();
        session.remove_files().await;
    }
}

/// The call with the approver's arguments, where the approval covers the call that asked and nothing but the arguments differs.
fn approved_instead(
    asked: &Unapproved<Component>,
    approval: &Approval,
    verdict: Verdict<Component>,
) -> Option<Checked<Component>> {
    let Verdict::NeedsApproval(other) = verdict else { return None };
    let (given, binding) = (&approval.binding, other.binding());
    let is_same =
        binding.tool == given.tool && binding.plugin == given.plugin && binding.rules == given.rules;
    let given = Approval { binding, constraints: None };
    (is_same && asked.is_covered_by(approval)).then(|| other.approved_by(&given).ok()).flatten()
}

/// Stops a running call. Ends a pending one, emits its end, and returns it with its outcome.
fn cancel(events: &Events, session: &Session, id: &str) -> Option<(Arc<PendingCall>, Arc<CallOutcome>)> {
    let mut ended = None;
    session.calls.cancel(id, now_ms(), |pending| {
        let state = OutcomeState::Error(CallError::cancellation());
        let outcome = Arc::new(CallOutcome::end_of(&pending.outcome, state));
        ended = Some((pending, Arc::clone(&outcome)));
        outcome
    });
    let (_, outcome) = ended.as_ref()?;
    events::emit_end(events, session, outcome);
    ended
}
