//! The calls of one request: rounds, concurrency, and what the orchestrator does next (T4).
//!
//! Each call runs by itself, so a refused or failed one does not affect the others. Dropping a batch stops those
//! of its calls that end with their request, and all end with a recorded outcome.

use std::sync::Arc;

use tokio::task::JoinSet;
use toolgate_api::call::{CallStatus, Executed};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_audit as audit;
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;

use super::known_calls::{id_reused, known_outcome};
use super::{Dispatcher, Origin};
use crate::call::{CallAnswer, CallOutcome, OutcomeState, RequestedCall};
use crate::sessions::{CallState, Lookup, Session};

/// The outcomes of a request.
#[derive(Debug)]
pub struct BatchOutcome {
    /// One answer a call, in the order of the request.
    pub results: Vec<CallAnswer>,
}

/// The next step of the orchestrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for a person.
    Approval,
    /// Hand the payloads to the client.
    Client,
    /// Ask again for the calls that still run.
    Wait,
    /// Give the results to the model.
    Model,
}

impl Next {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Client => "client",
            Self::Wait => "wait",
            Self::Model => "model",
        }
    }
}

impl BatchOutcome {
    /// A person comes before a client, and the model last. A call still runs where the request repeats the id of another
    /// request.
    pub fn next(&self) -> Next {
        let any = |status| self.results.iter().any(|result| result.status() == status);
        if any(CallStatus::ApprovalRequired) {
            Next::Approval
        } else if any(CallStatus::ClientRequired) {
            Next::Client
        } else if any(CallStatus::Running) {
            Next::Wait
        } else {
            Next::Model
        }
    }
}

#[boxed]
impl Dispatcher {
    /// Begins the calls of one request, and returns their states before any has ended. They go on by themselves (R6).
    pub fn begin_batch(
        &self,
        session: &Arc<Session>,
        turn: Option<String>,
        calls: Vec<RequestedCall>,
        origin: &Origin,
    ) -> BatchOutcome {
        let results = calls.iter().map(|call| present_answer(session, call)).collect();
        let (dispatcher, session, origin) = (self.clone(), Arc::clone(session), origin.clone());
        let batch = async move { dispatcher.batch(&session, turn.as_deref(), calls, &origin).await };
        tokio::spawn(self.0.detached.track(batch));
        BatchOutcome { results }
    }

    /// Runs one call of a client that has no turns, and whose session may last for ever (MCP). Each new call is a round of the last
    /// hour.
    pub async fn single(&self, session: &Arc<Session>, call: RequestedCall, origin: &Origin) -> CallAnswer {
        let round = if call.id_is_new { session.state.enter_round_of_hour(now_ms()) } else { Ok(()) };
        self.call_idempotent(session, call, origin, round.err(), None).await
    }

    /// Runs the calls of one request at the same time. A request with a new id is a round of its turn.
    pub async fn batch(
        &self,
        session: &Arc<Session>,
        turn: Option<&str>,
        calls: Vec<RequestedCall>,
        origin: &Origin,
    ) -> BatchOutcome {
        let has_new = self.has_new_id(session, &calls).await;
        let exceeded = if has_new { session.state.enter_round(turn).err() } else { None };
        if let [_] = calls.as_slice() {
            let mut results = Vec::with_capacity(1);
            for call in calls {
                results.push(self.call_idempotent(session, call, origin, exceeded, None).await);
            }
            return BatchOutcome { results };
        }
        // A task for each, so that calls that compute use every processor. Dropping the set stops them.
        let mut running = JoinSet::new();
        let named: Vec<_> = calls.iter().map(|call| (call.id.clone(), Arc::clone(&call.tool))).collect();
        let mut results: Vec<Option<CallAnswer>> = calls.iter().map(|_| None).collect();
        for (at, call) in calls.into_iter().enumerate() {
            let (dispatcher, session, origin) = (self.clone(), Arc::clone(session), origin.clone());
            let call = async move {
                (at, dispatcher.call_idempotent(&session, call, &origin, exceeded, None).await)
            };
            running.spawn(self.0.detached.track(call));
        }
        while let Some(ended) = running.join_next().await {
            if let Ok((at, outcome)) = ended
                && let Some(result) = results.get_mut(at)
            {
                *result = Some(outcome);
            }
        }
        let failed = |(answer, (id, tool)): (Option<CallAnswer>, (String, Arc<str>))| {
            answer.unwrap_or_else(|| task_failure(&id, &tool))
        };
        BatchOutcome { results: results.into_iter().zip(named).map(failed).collect() }
    }

    /// Whether one of the calls has an id that the session has not had, in no run of the daemon.
    async fn has_new_id(&self, session: &Session, calls: &[RequestedCall]) -> bool {
        for call in calls {
            if call.id_is_new {
                return true;
            }
            let is_known = session.calls.has(&call.id)
                || (session.restored && Box::pin(self.had_call(session, &call.id)).await.unwrap_or(true));
            if !is_known {
                return true;
            }
        }
        false
    }
}

/// The state of a call that has just begun.
fn present_answer(session: &Session, call: &RequestedCall) -> CallAnswer {
    if let Some(fault) = &call.fault {
        return CallOutcome::of_error(call, (**fault).clone()).into();
    }
    match session.calls.look_up(&call.id, &call.tool, audit::sha256(call.arguments.as_bytes()).0) {
        // The answer may be on disk, where the call is found that is asked for later.
        Some(Lookup::Known(CallState::Forgotten)) | None => {
            CallOutcome::new(&*call.id, &call.tool, Executed::Unknown, OutcomeState::Running).into()
        }
        Some(Lookup::Known(state)) => {
            let replayed = matches!(state, CallState::Ended(_));
            CallAnswer { outcome: known_outcome(&call.id, &call.tool, &state), replayed }
        }
        Some(_) => CallOutcome::of_error(call, id_reused(&call.id)).into(),
    }
}

/// The outcome of a call whose task panicked.
fn task_failure(id: &str, tool: &Arc<str>) -> CallAnswer {
    let error = CallError::new(
        ErrorType::Internal,
        "the daemon failed while it carried the call out",
        "tell the operator; the daemon's log says more",
    );
    CallOutcome::new(id, tool, Executed::Unknown, OutcomeState::Error(error)).into()
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::*;

    /// The order of `docs/calls.md`: what a person or a client must do comes before what only takes time.
    #[test]
    fn t4_next_is_what_comes_first_of_a_running_call_and_each_other_kind() {
        let json = || RawValue::from_string("{}".to_owned()).unwrap();
        let client = || OutcomeState::ClientRequired { payload: json(), expires_ms: 0 };
        let kinds = || {
            [
                (OutcomeState::ApprovalRequired(None), Next::Approval),
                (client(), Next::Client),
                (OutcomeState::Running, Next::Wait),
                (OutcomeState::Ok(json()), Next::Wait),
                (OutcomeState::Error(CallError::cancellation()), Next::Wait),
            ]
        };
        let outcome = |state| CallAnswer::from(CallOutcome::new("c", &"a/b".into(), Executed::No, state));
        let next = |states: Vec<OutcomeState>| {
            BatchOutcome { results: states.into_iter().map(outcome).collect() }.next()
        };
        for (kind, with_running) in kinds() {
            assert_eq!(next(vec![OutcomeState::Running, kind]), with_running);
        }
        for (kind, with_running) in kinds() {
            assert_eq!(next(vec![kind, OutcomeState::Running]), with_running);
        }
        assert_eq!(next(vec![OutcomeState::Ok(json())]), Next::Model);
        assert_eq!(next(vec![client(), OutcomeState::ApprovalRequired(None)]), Next::Approval);
    }
}
