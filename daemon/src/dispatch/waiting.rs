//! Calls that wait: what lets one go on that a person must approve, and what ends those that nobody waits for any more.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use toolgate_admission::{CallError, Checked, Unapproved, Verdict};
use toolgate_sandbox::Component;

use super::answer::{Answer, Executed};
use super::{Attempt, Dispatcher, Origin, RequestedCall, decide, now_ms, record, tell};
use crate::approvals::{self, Found, Stands};
use crate::events::Events;
use crate::sessions::{CallState, LeftTo, Recorded, Session, Sessions, WaitsFor};
use crate::store::ApprovalState;

/// A use of an approval, taken for a call that may run.
pub(super) struct UsedApproval {
    id: String,
    /// Nobody else can run by it.
    is_last: bool,
}

impl Dispatcher {
    /// Takes a use of an approval for the call, or answers what there is instead of running. It waited for the store,
    /// so where the rules changed meanwhile the call is decided again. Where it does not run after all, the use is to be
    /// given back.
    pub(super) async fn approved(
        &self,
        unapproved: Unapproved<Component>,
        attempt: &Attempt<'_>,
        revision: u64,
    ) -> Result<(Checked<Component>, UsedApproval), Box<(Answer, Option<LeftTo>)>> {
        let parts = &*self.0;
        let Attempt { session, call, origin, .. } = *attempt;
        let refused = |error| Box::new((Answer::refused(error), None));
        let left_to = |approval| LeftTo::Person { approval, arguments: attempt.arguments.0 };
        let found = parts.approvals.find(session, &call.id, &origin.principal, &unapproved, now_ms()).await;
        let approvals::Use { id, approval, is_last } = match found.map_err(refused)? {
            Found::Used(used) => *used,
            Found::Waits(row, expired) => {
                if let Some(expired) = expired {
                    self.decided(session, &expired, ApprovalState::Expired, &Some(approvals::expired(false)));
                }
                return Err(Box::new((Answer::waiting(&row), Some(left_to(row.id)))));
            }
            Found::Void(id) => {
                // Other calls may wait for it.
                self.decided(session, &id, ApprovalState::Void, &Some(approvals::void()));
                return Err(refused(approvals::void()));
            }
            Found::Refused(error) => return Err(refused(error)),
        };
        let used = UsedApproval { id, is_last };
        let snapshot = parts.registry.snapshot();
        let unapproved = match snapshot.revision == revision {
            true => unapproved,
            false => match decide(&super::rules_of(&snapshot, session), session, call) {
                Verdict::NeedsApproval(unapproved) => unapproved,
                // What nobody need be asked about any more is not what was recorded: another file of the plugin, or other
                // rules. Made again it is recorded as what it is now.
                Verdict::Run(_) => {
                    self.not_used(Some(used)).await;
                    return Err(refused(approvals::void()));
                }
                Verdict::Refused(refusal) => {
                    self.not_used(Some(used)).await;
                    return Err(Box::new((refusal.into(), None)));
                }
            },
        };
        match unapproved.approved_by(&approval) {
            Ok(checked) => Ok((checked, used)),
            Err(_) => {
                self.not_used(Some(used)).await;
                Err(refused(approvals::void()))
            }
        }
    }

    /// A call that does not run leaves its approval as it was.
    pub(super) async fn not_used(&self, used: Option<UsedApproval>) {
        if let Some(UsedApproval { id, .. }) = used
            && let Err(error) = self.0.approvals.give_back(&id).await
        {
            tracing::warn!(%error, approval = id, "the use of an approval cannot be given back");
        }
    }

    /// A call runs now, by an approval: nothing keeps it back any more.
    pub(super) fn used(&self, attempt: &Attempt<'_>, used: Option<UsedApproval>) {
        let Some(UsedApproval { id, is_last }) = used else { return };
        record::approval_used(&self.0.audit, attempt.entry, &id);
        if is_last {
            // Nothing will ever let them run: an orchestrator that waits for its call would wait for good.
            self.decided(attempt.session, &id, ApprovalState::Used, &Some(approvals::used_up()));
        }
    }

    /// A call has left off running and waits for somebody from now on. Who cancelled it until then found it running, and who
    /// decided about it found nobody that waits. Gives its end, where it has come.
    pub(super) async fn see_what_it_missed(
        &self,
        session: &Arc<Session>,
        call: &RequestedCall,
        origin: &Origin,
        answer: &Answer,
        cancelled: &CancellationToken,
    ) -> Option<Arc<Recorded>> {
        if cancelled.is_cancelled() {
            if let Err(error) = self.cancel(session, &call.id, origin).await {
                tracing::warn!(%error, call = call.id, "a call that waits cannot be cancelled as it should be");
            }
        } else if let Some(approval) = answer.approval_id() {
            match self.0.approvals.stands(approval, now_ms()).await {
                Ok(Stands::Over(state, why)) => self.decided(session, approval, state, &Some(why)),
                Ok(Stands::Open(row)) if row.state != ApprovalState::Pending => {
                    self.decided(session, approval, row.state, &None);
                }
                Ok(Stands::Open(_)) => {}
                Err(error) => tracing::warn!(%error, approval, "how an approval stands cannot be read"),
            }
        }
        match session.calls.find(&call.id, now_ms())? {
            CallState::Ended(recorded) => Some(recorded),
            _ => None,
        }
    }

    /// What the rules in force say about a call of that session.
    pub fn verdict(&self, session: &Session, tool: &str, arguments: &str) -> Verdict<Component> {
        let call = RequestedCall {
            tool: tool.into(),
            arguments: arguments.into(),
            ..RequestedCall::unnamed(String::new())
        };
        decide(&super::rules_of(&self.0.registry.snapshot(), session), session, &call)
    }

    /// Tells the calls that wait for an approval how it was decided, and ends those that it will not let run.
    pub fn decided(
        &self,
        session: &Arc<Session>,
        approval: &str,
        state: ApprovalState,
        why: &Option<CallError>,
    ) {
        let events = &self.0.events;
        for id in session.calls.waiting_for(approval) {
            let Some(CallState::Waiting(waiting)) = session.calls.find(&id, now_ms()) else { continue };
            let call =
                RequestedCall { tool: Arc::clone(&waiting.called), ..RequestedCall::unnamed(id.to_string()) };
            tell::decided(events, session, &call, approval, state.as_str());
            if let Some(error) = why {
                let answer = Answer::refused(error.clone());
                if session.calls.end_waiting(&id, answer.recorded(&call), now_ms()).is_some() {
                    tell::ended(events, session, &call, &answer);
                }
            }
        }
    }
}

impl Dispatcher {
    /// Cancels a call: one that runs is stopped, and one that waits for somebody ends. One that has ended stays as it
    /// is.
    pub async fn cancel(&self, session: &Arc<Session>, id: &str, origin: &Origin) -> Result<(), CallError> {
        let parts = &*self.0;
        let Some((waited_for, call, answer)) = cancel(&parts.events, session, id) else { return Ok(()) };
        // Its first record says that it waits, and after a restart there is nothing but the records.
        let revision = parts.registry.snapshot().revision;
        let intent = record::cancelled_intent(session, &call, &waited_for, revision, origin);
        let entry = parts.audit.open(intent).map_err(|error| record::unrecordable(&error))?;
        let recorded = parts.audit.close(entry, record::outcome(&answer)).await;
        recorded.map_err(|error| record::unrecordable(&error))?;
        if let WaitsFor::Person(waiting) = &waited_for {
            self.withdraw(session, &waiting.approval).await?;
        }
        Ok(())
    }

    /// Takes back the question that a call waited for, unless another one does: lest a person is asked about what nobody
    /// wants any more.
    pub(super) async fn withdraw(&self, session: &Session, approval: &str) -> Result<(), CallError> {
        if session.calls.waiting_for(approval).is_empty() {
            self.0.store.withdraw_approval(approval).await?;
        }
        Ok(())
    }

    /// Ends a session: what runs in it is stopped, what waits for somebody ends, its files are removed.
    pub async fn end_session(&self, sessions: &Sessions, id: &str) {
        let Some(session) = sessions.close(id) else { return };
        for call in session.calls.waiting() {
            cancel(&self.0.events, &session, &call);
        }
        session.telling().close();
        session.remove_files().await;
    }
}

/// Stops a call that runs; ends one that waits for somebody, tells of it, and gives what it waited for.
fn cancel(events: &Events, session: &Session, id: &str) -> Option<(WaitsFor, RequestedCall, Answer)> {
    let mut ended = None;
    session.calls.cancel(id, now_ms(), |waits_for| {
        let (called, answer) = match &waits_for {
            WaitsFor::Person(waiting) => (&waiting.called, Answer::withdrawn(Executed::No)),
            WaitsFor::Client(client) => {
                (&client.called, Answer::withdrawn(Executed::Yes).by(&client.admitted))
            }
        };
        let call = RequestedCall { tool: Arc::clone(called), ..RequestedCall::unnamed(id.to_owned()) };
        let recorded = answer.recorded(&call);
        ended = Some((waits_for, call, answer));
        recorded
    });
    let (_, call, answer) = ended.as_ref()?;
    tell::ended(events, session, call, answer);
    ended
}
