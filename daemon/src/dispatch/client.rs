//! The second half of a call that a client performs (T3): its result comes back, is held against what the tool
//! promised, and recorded.
//!
//! The record is a call of its own under the same id, closed at once. The same result posted again is answered the
//! same; another one is a conflict. A client that hangs up while its result is being recorded has posted it all the same.

use std::sync::Arc;

use serde_json::json;
use toolgate_admission::{Admitted, CallError, ErrorType, Mode};
use toolgate_sandbox::Component;

use super::answer::Answer;
use super::{Dispatcher, Origin, RequestedCall, now_ms, record, tell};
use crate::audit::Sha256;
use crate::sessions::{ClientCall, PostedResult, Recorded, ResultOpened, Session};

/// What a client says came of its part.
#[derive(Clone, Debug)]
pub enum ClientResult {
    /// The output, as JSON text.
    Output(Box<str>),
    /// It could not be done, in the client's words.
    Failed(String),
}

/// Why a result was not taken.
#[derive(Debug)]
pub enum NotTaken {
    /// There is no call that waits for one.
    NotClients,
    /// The call waits for one, or waited, and this is not it.
    Refused(CallError),
}

/// Calls of one session that a client has at the same time. Each is held with its arguments and its payload until the
/// result comes or is too late; a request brings no more than these unless the operator allows it.
const AT_CLIENT: usize = 32;

/// Longest failure that is passed on, in characters.
const FAILURE_CHARS: usize = 2_000;

/// Whether one more call can be left to the client.
pub(super) fn room(session: &Session, admitted: &Admitted<Component>) -> Result<(), CallError> {
    if admitted.tool().mode != Mode::Client || session.calls.at_client() < AT_CLIENT {
        return Ok(());
    }
    let message = format!("the client has {AT_CLIENT} calls of this session that it has not ended");
    let hint = "call again when the client has posted results, or when they have expired";
    Err(CallError::new(ErrorType::QuotaExceeded, message, hint)
        .with_details(json!({"retry_after_ms": 1_000})))
}

impl Dispatcher {
    /// Takes the result of a call's second half, and answers with the call as it ended.
    pub async fn take_result(
        &self,
        session: &Arc<Session>,
        id: &str,
        result: ClientResult,
        origin: &Origin,
    ) -> Result<Arc<Recorded>, NotTaken> {
        let fingerprint = match &result {
            ClientResult::Output(json) => Sha256::of(format!("output {json}").as_bytes()),
            ClientResult::Failed(message) => Sha256::of(format!("failed {message}").as_bytes()),
        };
        let posted = match session.calls.open_result(id, fingerprint.0, now_ms()) {
            ResultOpened::Open(posted) => posted,
            ResultOpened::Same(recorded) => return Ok(recorded),
            ResultOpened::Conflict => return Err(NotTaken::Refused(another())),
            ResultOpened::TooLate => {
                self.end_expired(session);
                return Err(NotTaken::Refused(too_late()));
            }
            ResultOpened::NotClients => return Err(NotTaken::NotClients),
        };
        self.recorded_result(session, id, posted, result, origin).await.map_err(NotTaken::Refused)
    }

    async fn recorded_result(
        &self,
        session: &Arc<Session>,
        id: &str,
        posted: PostedResult,
        result: ClientResult,
        origin: &Origin,
    ) -> Result<Arc<Recorded>, CallError> {
        let client = Arc::clone(&posted.call);
        let ended = match result {
            ClientResult::Output(json) => Ok(client.admitted.check_client_result(json)?),
            ClientResult::Failed(message) => Err(failed(&message)),
        };
        let parts = self.parts();
        let call = called(id, &client);
        let answer = Answer::of_client(ended).by(&client.admitted);
        let revision = parts.registry.snapshot().revision;
        let intent = record::client_intent(session, &call, &client, revision, origin);
        let entry = parts.audit.open(intent).map_err(|error| record::unrecordable(&error))?;
        let outcome = parts.audit.close(entry, record::outcome(&answer));
        outcome.await.map_err(|error| record::unrecordable(&error))?;
        let answer = answer.using(client.usage);
        tell::ended(&parts.events, session, &call, &answer);
        Ok(posted.end(answer.recorded(&call), now_ms()))
    }

    /// Ends the calls whose client did not come in time.
    pub fn end_expired(&self, session: &Arc<Session>) {
        for (id, client) in session.calls.expired_at_client(now_ms()) {
            let call = called(&id, &client);
            let answer = Answer::of_client(Err(too_late())).by(&client.admitted).using(client.usage);
            if session.calls.end_too_late(&id, answer.recorded(&call), now_ms()).is_some() {
                tell::ended(&self.parts().events, session, &call, &answer);
            }
        }
    }
}

fn called(id: &str, client: &ClientCall) -> RequestedCall {
    RequestedCall { tool: Arc::clone(&client.called), ..RequestedCall::unnamed(id.to_owned()) }
}

fn failed(message: &str) -> CallError {
    CallError::new(
        ErrorType::ToolFailed,
        format!("the client could not do it: {}", toolgate_admission::show(message, FAILURE_CHARS)),
        "go on without it, or call again with other arguments",
    )
}

fn too_late() -> CallError {
    CallError::new(
        ErrorType::Expired,
        "the client's result of this call did not come in time",
        "use a new id to call again",
    )
}

fn another() -> CallError {
    CallError::new(
        ErrorType::Conflict,
        "another result of this call was posted before",
        "ask for the call to see what it ended with",
    )
}
