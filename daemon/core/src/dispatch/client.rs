//! The client's part of a call (T3): its result is checked against the tool's output schema and recorded.
//!
//! The record is a call of its own under the same id, closed at once. The same result posted again gets the same answer;
//! another result is a conflict. A result whose client disconnects while it is being recorded counts as posted.

use std::sync::Arc;

use toolgate_admission::Admitted;
use toolgate_api::descriptor::Mode;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_audit as audit;
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::clock::now_ms;

use super::{Dispatcher, Origin, call, events, record};
use crate::call::{CallOutcome, OutcomeState};
use crate::sessions::{PendingOn, PostedResult, ResultLookup, Session, Sessions};

/// The result of the client's part.
#[derive(Clone, Debug)]
pub enum ClientResult {
    /// The output, as JSON text.
    Output(Box<str>),
    /// The client failed, in its words.
    Failed(String),
}

/// The reason why a client result was refused.
#[derive(Debug)]
pub enum ResultRefusal {
    /// No call waits for a client result.
    NotForClient,
    /// The call waits, or waited, for a client result, and this one does not fit.
    Refused(CallError),
}

/// Calls of one session that may wait for their client at the same time. Each holds its arguments and payload; a request
/// carries at most this many calls by default.
const AT_CLIENT_MAX: usize = 32;

/// Longest failure that is passed on, in characters.
const FAILURE_CHARS: usize = 2_000;

/// Refuses a call of mode `client` where clients have too many already: of the session or of its organization.
pub(super) fn check_capacity(session: &Session, admitted: &Admitted<Component>) -> Result<(), CallError> {
    if admitted.tool().mode != Mode::Client {
        return Ok(());
    }
    let message = match session.organization_use().at_client_limit() {
        _ if session.calls.at_client() >= AT_CLIENT_MAX => {
            format!("{AT_CLIENT_MAX} calls of this session wait for their client")
        }
        Some(most) => format!("{most} calls of the organization wait for their clients"),
        None => return Ok(()),
    };
    let hint = "call again when the client has posted results, or when they have expired";
    Err(CallError::new(ErrorType::QuotaExceeded, message, hint).with_retry_after_ms(1_000))
}

#[boxed]
impl Dispatcher {
    /// Takes the client's result of a call, and returns the call's outcome.
    pub async fn take_result(
        &self,
        session: &Arc<Session>,
        id: &str,
        result: ClientResult,
        origin: &Origin,
    ) -> Result<Arc<CallOutcome>, ResultRefusal> {
        let fingerprint = match &result {
            ClientResult::Output(json) => audit::sha256(format!("output {json}").as_bytes()),
            ClientResult::Failed(message) => audit::sha256(format!("failed {message}").as_bytes()),
        };
        let posted = match session.calls.open_result(id, fingerprint.0, now_ms()) {
            ResultLookup::Open(posted) => posted,
            ResultLookup::Same(outcome) => return Ok(outcome),
            ResultLookup::Conflict => return Err(ResultRefusal::Refused(conflict())),
            ResultLookup::TooLate => {
                self.end_expired(session);
                return Err(ResultRefusal::Refused(too_late()));
            }
            ResultLookup::NotForClient => return self.take_result_again(session, id, fingerprint.0).await,
        };
        self.record_result(session, posted, result, origin).await.map_err(ResultRefusal::Refused)
    }

    /// The answer to the result of a call that may have ended before a restart.
    async fn take_result_again(
        &self,
        session: &Session,
        id: &str,
        fingerprint: [u8; 32],
    ) -> Result<Arc<CallOutcome>, ResultRefusal> {
        let stored = match session.calls.has(id) {
            true => None,
            false => session.stored_answer(id, now_ms()).await,
        };
        match stored.as_ref().and_then(|stored| Some((stored, stored.was_posted(fingerprint)?))) {
            Some((stored, true)) => Ok(Arc::clone(&stored.outcome)),
            Some((_, false)) => Err(ResultRefusal::Refused(conflict())),
            None => Err(ResultRefusal::NotForClient),
        }
    }

    /// Restores the calls that waited for their client when the daemon stopped, and have not ended since.
    pub async fn restore_at_client(&self, sessions: &Sessions) -> std::io::Result<()> {
        for session in sessions.restore_answers(now_ms())? {
            let Some(stored) = &session.stored else { continue };
            for call in stored.calls_at_client().await {
                let setup = &session.setup;
                let found = self.0.audit.lookup(&setup.id, setup.created_ms, &call.outcome.id).await;
                // A log that was cut has no record of the call, and none of its end, which would be newer.
                let waits = match found {
                    Ok(Some(row)) => row.status == Some(audit::Status::ClientRequired),
                    Ok(None) => true,
                    Err(_) => false,
                };
                if waits {
                    session.calls.restore(call);
                }
            }
        }
        Ok(())
    }

    async fn record_result(
        &self,
        session: &Arc<Session>,
        posted: PostedResult,
        result: ClientResult,
        origin: &Origin,
    ) -> Result<Arc<CallOutcome>, CallError> {
        let pending = Arc::clone(&posted.call);
        let PendingOn::Client(part) = &pending.on else { return Err(CallError::cancellation()) };
        let state = match result {
            ClientResult::Output(json) => OutcomeState::Ok(call::raw(part.check(json)?)?),
            ClientResult::Failed(message) => OutcomeState::Error(failure(&message)),
        };
        let outcome = CallOutcome::end_of(&pending.outcome, state);
        let services = self.services();
        let intent = record::client_intent(session, &pending, services.registry.snapshot().revision, origin);
        let entry = services.audit.open(intent).map_err(|error| record::unrecordable(&error))?;
        let outcome_record = record::client_outcome(&outcome);
        services.audit.close(entry, outcome_record).await.map_err(|error| record::unrecordable(&error))?;
        events::emit_end(&services.events, session, &outcome);
        services.log.tool_executed(&session.setup, &outcome);
        Ok(posted.end(outcome, now_ms()))
    }

    /// Ends the calls whose client posted no result in time.
    pub fn end_expired(&self, session: &Arc<Session>) {
        for (_, pending) in session.calls.expired_at_client(now_ms()) {
            let outcome = CallOutcome::end_of(&pending.outcome, OutcomeState::Error(too_late()));
            if let Some(outcome) = session.calls.end_too_late(outcome, now_ms()) {
                events::emit_end(&self.0.events, session, &outcome);
            }
        }
    }
}

fn failure(message: &str) -> CallError {
    CallError::new(
        ErrorType::ToolFailed,
        format!("the client failed: {}", toolgate_api::text::escape_for_display(message, FAILURE_CHARS)),
        "go on without it, or call again with other arguments",
    )
}

pub(super) fn too_late() -> CallError {
    CallError::new(
        ErrorType::Expired,
        "the client posted no result of this call in time",
        "use a new id to call again",
    )
}

fn conflict() -> CallError {
    CallError::new(
        ErrorType::Conflict,
        "another result of this call was posted before",
        "ask for the call to see its outcome",
    )
}
