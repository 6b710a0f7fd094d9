//! The effects of a call outside its instance, and the write-ahead record that precedes them.
//!
//! An effect outlives the call: a written file, a sent request, or a refused attempt at one. The call's intent must be
//! on disk before its first effect, so that a crash leaves a record with an unknown outcome and never an unrecorded
//! effect. [`BeforeEffect`] lets the sandbox wait for that record without knowing the audit log.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// One effect, or a refused attempt at one. The audit log records it as a child of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The kind: `workspace_write`, `file_denied`, `file_unfinished`, `quota_exceeded`, `network_denied`,
    /// `network_request`, `credential_displaced`; `workspace_read` in test calls.
    pub kind: &'static str,
    /// The object (a path, a host) as the guest names it, never as the host does, and the result. One line.
    pub detail: String,
}

impl Effect {
    /// Splits the detail into the object and the result. An address contains no `: `, but a file name may, so the last
    /// `: ` separates these.
    pub fn parts(&self) -> (&str, &str) {
        let end = match self.kind {
            "workspace_write" | "workspace_read" => None,
            "file_denied" | "quota_exceeded" => self.detail.rfind(": "),
            _ => self.detail.find(": "),
        };
        self.detail.split_at(end.unwrap_or(self.detail.len()))
    }
}

type RecordFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Ensures that the intent of a call is on disk. Idempotent: a second wait costs nothing.
#[derive(Clone)]
pub struct BeforeEffect(Arc<dyn Fn() -> RecordFuture + Send + Sync>);

impl BeforeEffect {
    /// Wraps the function that writes the intent. Its error is the reason why the intent could not be written.
    pub fn new<F, R>(record: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(record())))
    }

    /// For calls that may have no effects: every wait fails.
    pub fn forbidden() -> Self {
        Self::new(|| async { Err("this call may have no effects".to_owned()) })
    }

    /// Waits until the intent is on disk.
    pub async fn wait(&self) -> Result<(), String> {
        (self.0)().await
    }
}

type ReportProgress = dyn Fn(u64, Option<u64>, Option<&str>) + Send + Sync;

/// Receives the progress of a call: units done, total units, message.
#[derive(Clone)]
pub struct ProgressSink(Option<Arc<ReportProgress>>);

impl ProgressSink {
    /// Discards all reports.
    pub const NONE: Self = Self(None);

    /// Calls this function for each report. It must not block.
    pub fn new(report: impl Fn(u64, Option<u64>, Option<&str>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(report)))
    }

    pub(crate) fn report(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        if let Some(report) = &self.0 {
            report(done, total, message);
        }
    }
}
