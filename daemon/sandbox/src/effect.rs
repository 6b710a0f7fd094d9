//! What a call does to the world outside its instance, and the promise that comes first.
//!
//! An effect is something that outlives the call: a file written, a request sent, or an attempt at one
//! that was refused. Before the first of them the call's intent must be on disk, so that a crash leaves
//! a record that says "may have happened" and never an effect that nobody wrote down. [`BeforeEffect`] is
//! how the sandbox waits for that without knowing what an audit log is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// One thing that a call did, or tried to do and was refused. Goes into the audit as a child of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// What happened: `workspace_write`, `file_denied`, `file_unfinished`, `quota_exceeded`, `network_denied`,
    /// `network_request`, `credential_displaced`; `workspace_read` where a tool is tried out.
    pub kind: &'static str,
    /// To what, in the guest's own words (a path, a host) and never in the host's. One line.
    pub detail: String,
}

impl Effect {
    /// What it was done to, and how it went. An address holds no `: `; the name of a file can, so what is said of one comes
    /// behind the last.
    pub fn parts(&self) -> (&str, &str) {
        let end = match self.kind {
            "workspace_write" | "workspace_read" => None,
            "file_denied" | "quota_exceeded" => self.detail.rfind(": "),
            _ => self.detail.find(": "),
        };
        self.detail.split_at(end.unwrap_or(self.detail.len()))
    }
}

type Recording = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Makes sure that the intent of a call is on disk. Waiting twice costs nothing.
#[derive(Clone)]
pub struct BeforeEffect(Arc<dyn Fn() -> Recording + Send + Sync>);

impl BeforeEffect {
    /// Wraps what writes the intent; an error says why it could not be written.
    pub fn new<F, R>(record: F) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<(), String>> + Send + 'static,
    {
        Self(Arc::new(move || Box::pin(record())))
    }

    /// For calls that may have no effects at all.
    pub fn refused() -> Self {
        Self::new(|| async { Err("this call may have no effects".to_owned()) })
    }

    /// Waits until the intent is on disk.
    pub async fn recorded(&self) -> Result<(), String> {
        (self.0)().await
    }
}

impl fmt::Debug for BeforeEffect {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("BeforeEffect")
    }
}

type Telling = dyn Fn(u64, Option<u64>, Option<&str>) + Send + Sync;

/// Is told how far a call is: how much is done, of how much, and in words.
#[derive(Clone)]
pub struct ProgressSink(Option<Arc<Telling>>);

impl ProgressSink {
    /// Nobody listens.
    pub const NONE: Self = Self(None);

    /// Tells this function, which must not wait.
    pub fn new(tell: impl Fn(u64, Option<u64>, Option<&str>) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(tell)))
    }

    pub(crate) fn report(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        if let Some(tell) = &self.0 {
            tell(done, total, message);
        }
    }
}

impl fmt::Debug for ProgressSink {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("ProgressSink")
    }
}
