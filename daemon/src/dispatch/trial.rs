//! A call that a person makes to see what a tool does (C3): the way of every call, in a session of its own.
//!
//! It is decided, charged, recorded and run like any other, by rules that whoever tries it chose: those of the organization
//! for a tool that is there, those of the tool alone for a definition that is not. What is more is that its requests are
//! kept, and shown without their secrets.

use std::sync::{Arc, Mutex, PoisonError};

use toolgate_admission::{CallError, ErrorType, Name, Rules, SessionFacts};
use toolgate_sandbox::{Component, Exchange};

use super::{Dispatcher, Origin, RequestedCall, Terms, now_ms};
use crate::audit::Sha256;
use crate::identifier;
use crate::sessions::{Beginning, Opened, Recorded, Session, SessionSetup, Sessions};

/// What is tried.
pub struct Trial {
    /// Whose credentials it has.
    pub organization: Name,
    /// Whose of them, where they are a user's.
    pub user: Option<String>,
    /// What it is decided by.
    pub rules: Rules<Component>,
    pub(super) exchanges: Mutex<Vec<Exchange>>,
}

/// What came of it.
pub struct Tried {
    /// The answer of the call.
    pub answer: Arc<Recorded>,
    /// Its requests, as far as it came.
    pub exchanges: Vec<Exchange>,
}

/// The agent that such calls are recorded under.
const AGENT: &str = "try";

impl Trial {
    /// Nothing was tried yet.
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
        let beginning = Beginning { facts: SessionFacts::default(), rounds: 0, last_used_ms: now_ms };
        sessions.unlisted(setup, beginning)
    }
}

impl Dispatcher {
    /// Tries a tool once.
    pub async fn try_tool(
        &self,
        sessions: &Sessions,
        trial: Trial,
        call: RequestedCall,
        origin: &Origin,
    ) -> Result<Tried, CallError> {
        let agent = Name::parse(AGENT)
            .map_err(|error| CallError::new(ErrorType::Internal, error.message, error.hint))?;
        let session = trial.session(sessions, agent, origin);
        // Whoever hangs up leaves no files behind either.
        let _files = scopeguard::guard(Arc::clone(&session), |session| {
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move { session.remove_files().await });
            }
        });
        let sha256 = Sha256::of(call.arguments.as_bytes());
        let Opened::New(running) =
            session.calls.open(&call.id, &call.tool, sha256.0, now_ms(), session.ended())
        else {
            return Err(super::id_reused(&call.id));
        };
        let trial = Arc::new(trial);
        let terms = Terms { spent: None, trial: Some(Arc::clone(&trial)) };
        let answer = self.carry(&session, call, sha256, origin, running, terms).await;
        let exchanges = std::mem::take(&mut *trial.exchanges.lock().unwrap_or_else(PoisonError::into_inner));
        Ok(Tried { answer, exchanges })
    }
}
