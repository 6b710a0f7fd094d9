//! A stored answer, as JSON: the outcome, and for a call that waits for its client what ends it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolgate_admission::ClientResultCheck;

use crate::call::CallOutcome;
use crate::sessions::{ClientPart, PendingCall, PendingOn};

use super::writer::Append;

/// The newest record of a call.
#[derive(Serialize, Deserialize)]
pub struct StoredAnswer {
    at_ms: u64,
    /// SHA-256 of the arguments; files of earlier versions do not have it.
    #[serde(default)]
    arguments: Option<[u8; 32]>,
    /// The fingerprint of the client's result.
    posted: Option<[u8; 32]>,
    at_client: Option<StoredClientPart>,
    /// The outcome, or the present state of a call that waits for its client.
    pub outcome: Arc<CallOutcome>,
}

/// The check of the client's result.
#[derive(Serialize, Deserialize)]
struct StoredClientPart {
    arguments: [u8; 32],
    output_bytes: u64,
    schema: Option<Value>,
}

impl StoredAnswer {
    pub(super) fn of(append: &Append) -> Self {
        let at_client = append.at_client.as_ref().and_then(|call| {
            let PendingOn::Client(part) = &call.on else { return None };
            let (output_bytes, schema) = part.source();
            Some(StoredClientPart { arguments: call.arguments, output_bytes, schema: schema.cloned() })
        });
        let outcome = Arc::clone(&append.outcome);
        Self {
            at_ms: append.at_ms,
            arguments: Some(append.arguments),
            posted: append.posted,
            at_client,
            outcome,
        }
    }

    /// When the call was answered.
    pub(super) fn at_ms(&self) -> u64 {
        self.at_ms
    }

    /// Whether the record is of a call of the tool `called` with these arguments.
    pub fn is_of(&self, called: &str, arguments: [u8; 32]) -> bool {
        *self.outcome.called == *called && self.arguments.is_none_or(|recorded| recorded == arguments)
    }

    /// Whether the outcome is final.
    pub fn has_ended(&self) -> bool {
        self.at_client.is_none()
    }

    /// Whether the call ended with this result of its client; `None` if no result ended it.
    pub fn was_posted(&self, fingerprint: [u8; 32]) -> Option<bool> {
        self.posted.map(|posted| posted == fingerprint)
    }

    /// The call that waits for its client.
    pub(super) fn into_pending(self) -> Option<PendingCall> {
        let part = self.at_client?;
        let called = Arc::clone(&self.outcome.called);
        let check = ClientResultCheck::new(called, part.output_bytes, part.schema.as_ref()).ok()?;
        let on = PendingOn::Client(ClientPart::Restored(Box::new(check)));
        Some(PendingCall { outcome: self.outcome, arguments: part.arguments, on })
    }
}
