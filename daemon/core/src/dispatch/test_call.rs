//! Test calls (C3): the sequence of every call, in a session of its own, with the HTTP exchanges kept.
//!
//! A test call is decided, charged, recorded and run like any other. Its rules are those of the organization for a saved
//! tool, and those of the tool alone for a definition that is not saved.

use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_admission::{Rules, SessionFacts};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_audit as audit;
use toolgate_macros::boxed;
use toolgate_sandbox::{Component, Exchange};
use toolgate_state::clock::now_ms;
use toolgate_state::identifier;

use super::{CallOptions, Dispatcher, Origin, known_calls};
use crate::call::{CallOutcome, RequestedCall};
use crate::sessions::{InitialState, Lookup, Session, SessionSetup, Sessions};

/// A test call.
pub struct TestCall {
    /// The organization, whose credentials it may use.
    pub organization: Name,
    /// The user, whose credentials it may use.
    pub user: Option<String>,
    /// The rules that decide it.
    pub rules: Rules<Component>,
    pub(super) exchanges: Mutex<Vec<Exchange>>,
}

/// The result of a test call.
pub struct TestCallResult {
    /// The call's outcome.
    pub outcome: Arc<CallOutcome>,
    /// Its HTTP exchanges.
    pub exchanges: Vec<Exchange>,
}

/// The agent that test calls are recorded under.
const AGENT: &str = "try";

impl TestCall {
    /// A test call by these rules.
    pub fn new(organization: Name, user: Option<String>, rules: Rules<Component>) -> Self {
        Self { organization, user, rules, exchanges: Mutex::default() }
    }

    fn session(&self, sessions: &Sessions, agent: Name, origin: &Origin) -> Arc<Session> {
        let now_ms = now_ms();
        let setup = SessionSetup {
            id: identifier::fresh("t"),
            organization: self.organization.clone(),
            agent,
            user: self.user.clone(),
            conversation: None,
            channel: None,
            principal: origin.principal.to_string(),
            created_ms: now_ms,
        };
        let initial = InitialState { facts: SessionFacts::default(), rounds: 0, last_used_ms: now_ms };
        sessions.make_unlisted(setup, initial)
    }
}

#[boxed]
impl Dispatcher {
    /// Runs a test call.
    pub async fn test_call(
        &self,
        sessions: &Sessions,
        test: TestCall,
        call: RequestedCall,
        origin: &Origin,
    ) -> Result<TestCallResult, CallError> {
        let agent = Name::parse(AGENT)
            .map_err(|error| CallError::new(ErrorType::Internal, error.message, error.hint))?;
        let session = test.session(sessions, agent, origin);
        // A caller that disconnects leaves no files either.
        let _files = scopeguard::guard(Arc::clone(&session), |session| {
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { session.remove_files().await });
            }
        });
        let sha256 = audit::sha256(call.arguments.as_bytes());
        let Lookup::New(running) =
            session.calls.open(&call.id, &call.tool, sha256.0, now_ms(), session.end_signal())
        else {
            return Err(known_calls::id_reused(&call.id));
        };
        let test = Arc::new(test);
        let options = CallOptions { test: Some(Arc::clone(&test)), ..CallOptions::default() };
        let outcome = self.call_to_end(&session, call, sha256, origin, running, options).await;
        let exchanges = std::mem::take(&mut *test.exchanges.lock());
        Ok(TestCallResult { outcome, exchanges })
    }
}
