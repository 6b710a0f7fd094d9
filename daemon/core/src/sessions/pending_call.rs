//! Calls that were answered and have not ended: they wait for a person or a client.

use std::sync::Arc;

use toolgate_admission::{Admitted, ClientResultCheck};
use toolgate_api::error::CallError;
use toolgate_sandbox::Component;

use crate::call::CallOutcome;

/// A call that was answered and has not ended.
#[derive(Debug)]
pub struct PendingCall {
    /// The answer so far, with the approval or the payload.
    pub outcome: Arc<CallOutcome>,
    /// SHA-256 of the arguments.
    pub arguments: [u8; 32],
    /// Person or client.
    pub on: PendingOn,
}

/// The party that a call waits for.
#[derive(Debug)]
pub enum PendingOn {
    /// A person, who approves it. Posted again, the call is decided again.
    Person,
    /// A person, who approves an inner call of its script. Posted again, the script runs again.
    Script {
        /// The start of its first run, in milliseconds since 1970.
        began_ms: u64,
    },
    /// The client, which posts the result of its part (T3).
    Client(ClientPart),
}

/// The call whose client posts a result.
#[derive(Debug)]
pub enum ClientPart {
    /// This run of the daemon admitted the call.
    Admitted(Box<Admitted<Component>>),
    /// An earlier run admitted it.
    Restored(Box<ClientResultCheck>),
}

impl ClientPart {
    /// Validates the client's result, and returns it byte for byte.
    pub fn check(&self, json: Box<str>) -> Result<String, CallError> {
        match self {
            Self::Admitted(admitted) => admitted.check_client_result(json),
            Self::Restored(check) => check.check(json),
        }
    }

    /// Most bytes of a result, and the source of its schema.
    pub(super) fn source(&self) -> (u64, Option<&serde_json::Value>) {
        match self {
            Self::Admitted(admitted) => (
                admitted.limits().output_bytes,
                admitted.tool().output.as_ref().map(|schema| schema.source()),
            ),
            Self::Restored(check) => check.source(),
        }
    }
}

impl PendingCall {
    /// The approval's id, where the call waits for one.
    pub fn approval(&self) -> Option<&str> {
        self.outcome.approval().map(|approval| approval.id.as_str())
    }

    pub(super) fn expires_ms(&self) -> u64 {
        self.outcome.expires_ms().unwrap_or(u64::MAX)
    }

    /// Whether it waits for the client, and not for a person.
    pub fn is_at_client(&self) -> bool {
        matches!(self.on, PendingOn::Client(_))
    }
}
