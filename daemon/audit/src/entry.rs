//! A call or an administrative act between its intent and its outcome.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::data_keys::DataSealing;
use super::format::RecordKind;
use super::group_commit::{CommitQueue, Durable};
use super::record::{CallOutcome, ERROR_TYPE_BYTES, Executed, Status, implicit_outcome};
use super::{encode, truncate};

/// A call, or an administrative act, between its intent and its outcome.
///
/// Every entry gets an outcome: [`Audit::close`](super::Audit::close) or [`Audit::close_act`](super::Audit::close_act) consumes it. Dropping the entry of a call (client
/// disconnect, early return, panic) records `cancelled` or `crashed`, that of an act `unknown`. An entry does not keep the log alive; the next recovery closes one that outlives the log as `unknown`.
#[must_use = "dropping an entry records the outcome `cancelled`"]
pub struct Entry {
    pub(super) kind: RecordKind,
    pub(super) queue: Arc<CommitQueue>,
    pub(super) sequence: u64,
    pub(super) opened_ms: u64,
    pub(super) opened: Instant,
    pub(super) effects_lost: AtomicU64,
    /// The encryption of the details of its effects.
    pub(super) sealing: DataSealing,
    pub(super) closed: bool,
}

/// The outcome of a call some of whose effects did not fit into the log.
#[derive(Serialize)]
struct OutcomeWithLoss<'a> {
    #[serde(flatten)]
    outcome: &'a CallOutcome<'a>,
    effects_lost: u64,
}

impl Entry {
    /// Sequence of the intent in the log.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The time of the intent in the log, in milliseconds since 1970.
    pub fn opened_ms(&self) -> u64 {
        self.opened_ms
    }

    /// Resolves when the intent is on disk; await it before the first effect.
    pub fn sync(&self) -> Durable {
        self.queue.durable(self.sequence)
    }

    /// A clonable handle for the same wait, for code that does not own the entry, such as the sandbox.
    pub fn intent_sync(&self) -> IntentSync {
        IntentSync { queue: self.queue.clone(), sequence: self.sequence }
    }

    pub(super) fn encode_outcome(&self, outcome: CallOutcome<'_>) -> Vec<u8> {
        let error_type =
            outcome.error_type.as_deref().map(|text| Cow::Borrowed(truncate(text, ERROR_TYPE_BYTES)));
        let outcome = &CallOutcome { error_type, ..outcome };
        match self.effects_lost.load(Ordering::Relaxed) {
            0 => encode(RecordKind::Close, self.sequence, outcome),
            effects_lost => {
                encode(RecordKind::Close, self.sequence, &OutcomeWithLoss { outcome, effects_lost })
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let (status, error_type) = match (self.kind, std::thread::panicking()) {
            // An act that stops midway may have taken effect.
            (RecordKind::AdminOpen, _) => (Status::Unknown, "UNKNOWN"),
            (_, true) => (Status::Crashed, "INTERNAL"),
            (_, false) => (Status::Cancelled, "CANCELLED"),
        };
        let duration_us = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        let outcome = CallOutcome { duration_us, ..implicit_outcome(status, error_type, Executed::Unknown) };
        let record = self.encode_outcome(outcome);
        if let Err(error) = self.queue.append(RecordKind::Close, self.sequence, &record) {
            let sequence = self.sequence;
            tracing::warn!(event = "audit_outcome_lost", sequence, %error, "the next recovery records the outcome as unknown");
        }
    }
}

/// Waits for one intent to be on disk.
#[derive(Clone)]
pub struct IntentSync {
    queue: Arc<CommitQueue>,
    sequence: u64,
}

impl IntentSync {
    pub fn sync(&self) -> Durable {
        self.queue.durable(self.sequence)
    }
}
