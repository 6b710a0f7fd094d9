//! Looks up calls whose id was used before: in memory, on disk, and in the audit log (R7).

use std::sync::Arc;

use toolgate_api::call::Executed;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_audit as audit;
use toolgate_audit::{AuditError, EarlierCalls, Status};
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;

use super::refusals::is_given_up;
use super::{Dispatcher, Origin, client, record};
use crate::call::{CallAnswer, CallOutcome, OutcomeState, RequestedCall};
use crate::sessions::{CallState, PendingCall, PendingOn, Session, StoredAnswer, UnreadableAnswers};

#[boxed]
impl Dispatcher {
    /// Looks for a call of this id in an earlier run of the daemon. Returns its answer as the error, since it must not run
    /// again; otherwise the start of a call that waited for an approval.
    pub(super) async fn earlier_answer(
        &self,
        session: &Arc<Session>,
        call: &RequestedCall,
        sha256: audit::Sha256,
        origin: &Origin,
    ) -> Result<Option<u64>, Box<CallAnswer>> {
        let answer = |outcome: CallOutcome| Err(Box::new(outcome.into()));
        let (setup, audit) = (&session.setup, &self.0.audit);
        let look_up = async {
            match self.earlier_calls(session).await?.may_have(&call.id) {
                true => audit.lookup(&setup.id, setup.created_ms, &call.id).await,
                false => Ok(None),
            }
        };
        let row = match look_up.await {
            Ok(None) => return self.unrecorded_answer(session, call, sha256, origin).await,
            Ok(Some(row)) => row,
            Err(error) => return answer(CallOutcome::of_error(call, record::unrecordable(&error))),
        };
        // A call whose intent cannot be read counts as the same call: it must not run again.
        let is_same = row
            .call
            .as_ref()
            .is_none_or(|intent| *intent.wire_name == *call.tool && intent.arguments_sha256 == sha256);
        if !is_same {
            return Err(Box::new(self.refuse_unopened(session, call, origin, id_reused(&call.id))));
        }
        // A call that was given up in the queue has not run, and is decided again.
        if is_given_up(&row) {
            return Ok(None);
        }
        match (self.stored_outcome(session, &call.id, &row).await, row.status) {
            (Some(outcome), _) => Err(Box::new(CallAnswer { outcome, replayed: true })),
            // A call that waited for approval has not run, and is decided again.
            (None, Some(Status::ApprovalRequired)) => Ok(Some(row.at_ms)),
            (None, _) => answer(CallOutcome::from_audit(&call.id, &call.tool, &row)),
        }
    }

    /// The calls of the session that earlier runs of the daemon recorded.
    async fn earlier_calls<'a>(&self, session: &'a Session) -> Result<&'a EarlierCalls, AuditError> {
        let (setup, audit) = (&session.setup, &self.0.audit);
        session.earlier_calls.get_or_try_init(|| audit.earlier_calls(&setup.id, setup.created_ms)).await
    }

    /// Whether an earlier run of the daemon had a call of this id, as far as the audit log and the disk tell.
    pub(super) async fn had_call(&self, session: &Session, id: &str) -> Result<bool, UnreadableAnswers> {
        if session.restored && self.earlier_calls(session).await.is_ok_and(|earlier| earlier.has(id)) {
            return Ok(true);
        }
        session.had_stored_answer(id).await
    }

    /// Looks on disk for a call that the audit log does not have, with the result of [`earlier_answer`](Self::earlier_answer).
    /// The log's retention may be shorter than that of answers, and a flood of equal refusals is one record.
    async fn unrecorded_answer(
        &self,
        session: &Arc<Session>,
        call: &RequestedCall,
        sha256: audit::Sha256,
        origin: &Origin,
    ) -> Result<Option<u64>, Box<CallAnswer>> {
        match self.had_call(session, &call.id).await {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(UnreadableAnswers) => {
                return Err(Box::new(CallOutcome::of_unreadable_answers(&call.id, &call.tool).into()));
            }
        }
        let stored = session.stored_answer(&call.id, now_ms()).await;
        if stored.as_ref().is_some_and(|stored| !stored.is_of(&call.tool, sha256.0)) {
            return Err(Box::new(self.refuse_unopened(session, call, origin, id_reused(&call.id))));
        }
        let replayed = stored.is_some();
        Err(Box::new(CallAnswer { outcome: end_of_stored(&call.id, &call.tool, stored), replayed }))
    }

    /// The outcome of a call that was stored on disk by an earlier run, and that the audit log does not have.
    pub async fn unrecorded_outcome(&self, session: &Session, id: &str) -> Option<Arc<CallOutcome>> {
        match session.had_stored_answer(id).await {
            Ok(true) => Some(end_of_stored(id, &"".into(), session.stored_answer(id, now_ms()).await)),
            Ok(false) => None,
            Err(UnreadableAnswers) => Some(Arc::new(CallOutcome::of_unreadable_answers(id, &"".into()))),
        }
    }

    /// Puts a call of an earlier run that waits for a person back among the calls of its session, so that it can be cancelled.
    pub async fn restore_waiting(&self, session: &Session, id: &str) -> Result<(), CallError> {
        if session.calls.has(id) || !self.had_call(session, id).await.unwrap_or(true) {
            return Ok(());
        }
        let (setup, audit) = (&session.setup, &self.0.audit);
        let found = audit.lookup(&setup.id, setup.created_ms, id).await;
        let found = found.map_err(|error| record::unrecordable(&error))?;
        let Some(row) = found.filter(|row| row.status == Some(Status::ApprovalRequired)) else {
            return Ok(());
        };
        let Some(intent) = &row.call else { return Ok(()) };
        if self.stored_outcome(session, id, &row).await.is_some() {
            return Ok(());
        }
        let called = Arc::from(&*intent.wire_name);
        let approvals = self.0.store.approvals_for(&setup.id, &intent.tool, id).await?;
        let outcome = match approvals.iter().rev().find(|approval| approval.call == id) {
            Some(approval) => CallOutcome::awaiting_approval(id, &called, approval),
            None => CallOutcome::from_audit(id, &called, &row),
        };
        let (outcome, arguments) = (Arc::new(outcome), intent.arguments_sha256.0);
        session.calls.restore(PendingCall { outcome, arguments, on: PendingOn::Person });
        Ok(())
    }

    /// The outcome on disk of a call of an earlier run, if it fits what the audit log knows of the call.
    ///
    /// The log does not have the end of a call whose approval or client's result did not come.
    pub async fn stored_outcome(
        &self,
        session: &Session,
        id: &str,
        row: &audit::Row,
    ) -> Option<Arc<CallOutcome>> {
        let status = row.status.filter(|_| row.damaged.is_none())?;
        let stored = session.stored_answer(id, now_ms()).await?;
        let outcome = Arc::clone(&stored.outcome);
        match (status, stored.has_ended()) {
            (Status::ApprovalRequired | Status::ClientRequired, true) => Some(outcome),
            (Status::ClientRequired, false) => Some(end_of_stored(id, &"".into(), Some(stored))),
            (status, true) => (record::outcome(&outcome).status == status).then_some(outcome),
            (_, false) => None,
        }
    }

    /// The outcome, or the present state, of a call whose id was used in this run of the daemon. `named` is the tool as this
    /// request names it.
    pub async fn known_outcome(
        &self,
        session: &Session,
        id: &str,
        named: &Arc<str>,
        state: &CallState,
    ) -> Arc<CallOutcome> {
        if matches!(state, CallState::Forgotten)
            && let Some(stored) = session.stored_answer(id, now_ms()).await
            && stored.has_ended()
        {
            return stored.outcome;
        }
        known_outcome(id, named, state)
    }
}

/// The outcome of a call of an earlier run that was stored as `stored`; `EXPIRED` if that is no longer kept. `called` is the
/// tool as this request names it.
fn end_of_stored(id: &str, called: &Arc<str>, stored: Option<StoredAnswer>) -> Arc<CallOutcome> {
    let Some(stored) = stored else {
        return Arc::new(CallOutcome::of_forgotten(id, called, Executed::Unknown));
    };
    match stored.has_ended() {
        true => stored.outcome,
        // A call that can still get its client's result was restored.
        false => Arc::new(CallOutcome::end_of(&stored.outcome, OutcomeState::Error(client::too_late()))),
    }
}

/// The outcome in memory, or the present state, of a call whose id was used before. `named` is the tool as this request
/// names it.
pub fn known_outcome(id: &str, named: &Arc<str>, state: &CallState) -> Arc<CallOutcome> {
    Arc::new(match state {
        CallState::Ended(outcome) => return Arc::clone(outcome),
        CallState::Pending(call) => return Arc::clone(&call.outcome),
        CallState::Running { called, .. } => {
            CallOutcome::new(id, called, Executed::Unknown, OutcomeState::Running)
        }
        CallState::Cancelled => {
            CallOutcome::new(id, named, Executed::Unknown, OutcomeState::Error(CallError::cancellation()))
        }
        CallState::Forgotten => CallOutcome::of_forgotten(id, named, Executed::Unknown),
    })
}

pub(super) fn id_reused(id: &str) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("the id `{id}` was used in this session for another tool or other arguments"),
        "give every call an id of its own; the same id returns the same outcome again",
    )
}
