//! The handle of a call between its intent and its outcome.
//!
//! An [`Entry`] cannot be lost: closing consumes it, and dropping it (a caller that hung up, an early return,
//! a panic) records `cancelled` or `crashed`. It does not keep the log alive; one that outlives the log
//! leaves its call to recovery, which says `unknown`.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;

use super::error::AuditError;
use super::format::{self, RecordKind};
use super::queue::{Durable, Queue};
use super::record::{
    CallOutcome, EFFECT_DETAIL_BYTES, EFFECT_NAME_BYTES, ERROR_TYPE_BYTES, EffectRecord, Executed, Status,
};

/// Room for a usual record, so that serializing does not grow it step by step.
const RECORD_BYTES_USUAL: usize = 1024;

/// A call whose intent is recorded.
#[must_use = "dropping an entry records the call as cancelled"]
pub struct Entry {
    queue: Arc<Queue>,
    sequence: u64,
    opened: Instant,
    effects_lost: AtomicU64,
    closed: bool,
}

/// An outcome as it is written, when there is more to say than the caller knows.
#[derive(Serialize)]
struct OutcomeWithLoss<'a> {
    #[serde(flatten)]
    outcome: &'a CallOutcome<'a>,
    effects_lost: u64,
}

impl Entry {
    pub(super) fn new(queue: Arc<Queue>, sequence: u64) -> Self {
        Self { queue, sequence, opened: Instant::now(), effects_lost: AtomicU64::new(0), closed: false }
    }

    /// The place of the intent in the log.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Resolves when the intent is on disk: to be awaited before the call's first effect on the outside.
    pub fn synced(&self) -> Durable {
        self.queue.durable(self.sequence)
    }

    /// The same for whoever cannot hold the entry, as a sandbox that is about to write.
    pub fn intent_sync(&self) -> IntentSync {
        IntentSync { queue: self.queue.clone(), sequence: self.sequence }
    }

    pub(super) fn effect(&self, effect: &EffectRecord<'_>) -> Result<(), AuditError> {
        let (name, detail) =
            (cut(&effect.effect, EFFECT_NAME_BYTES), cut(&effect.detail, EFFECT_DETAIL_BYTES));
        let record = encode(
            RecordKind::Effect,
            self.sequence,
            &EffectRecord { effect: name.into(), detail: detail.into() },
        );
        let appended = self.queue.append(RecordKind::Effect, self.sequence, &record);
        if appended.is_err() {
            self.effects_lost.fetch_add(1, Ordering::Relaxed);
        }
        appended.map(drop)
    }

    pub(super) fn close(mut self, outcome: CallOutcome<'_>) -> Durable {
        self.closed = true;
        let record = self.outcome_record(outcome);
        self.queue.append_durably(RecordKind::CallClose, self.sequence, &record)
    }

    fn outcome_record(&self, outcome: CallOutcome<'_>) -> Vec<u8> {
        let error_type = outcome.error_type.as_deref().map(|text| Cow::Borrowed(cut(text, ERROR_TYPE_BYTES)));
        let outcome = &CallOutcome { error_type, ..outcome };
        match self.effects_lost.load(Ordering::Relaxed) {
            0 => encode(RecordKind::CallClose, self.sequence, outcome),
            effects_lost => {
                encode(RecordKind::CallClose, self.sequence, &OutcomeWithLoss { outcome, effects_lost })
            }
        }
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if self.closed {
            return;
        }
        let (status, error_type) = match std::thread::panicking() {
            true => (Status::Crashed, "INTERNAL"),
            false => (Status::Cancelled, "CANCELLED"),
        };
        let duration_us = u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX);
        let outcome =
            CallOutcome { duration_us, ..CallOutcome::abandoned(status, error_type, Executed::Unknown) };
        let record = self.outcome_record(outcome);
        if let Err(error) = self.queue.append(RecordKind::CallClose, self.sequence, &record) {
            let sequence = self.sequence;
            tracing::warn!(event = "audit_outcome_lost", sequence, %error, "recovery will call it unknown");
        }
    }
}

/// Waits for one intent; clones wait for the same.
#[derive(Clone)]
pub struct IntentSync {
    queue: Arc<Queue>,
    sequence: u64,
}

impl IntentSync {
    pub fn synced(&self) -> Durable {
        self.queue.durable(self.sequence)
    }
}

/// A record up to what only the writer knows.
pub fn encode(kind: RecordKind, of: u64, body: &impl Serialize) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD_BYTES_USUAL);
    format::begin(&mut record);
    // INVARIANT: bodies are this module's structs: string keys, no maps, numbers without NaN. They always
    // serialize.
    let _ = serde_json::to_writer(&mut record, body);
    format::finish_payload(&mut record, kind, of, super::now_ms());
    record
}

/// The start of `text`, cut where a character ends.
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
