//! What one call is answered with, before it takes a wire format: one shape for every end (R4, R5).

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use toolgate_admission::{Admitted, CallError, ErrorType, Refusal, ToolId, read_called_name};
use toolgate_sandbox::{Component, Usage};
use utoipa::ToSchema;

use super::RequestedCall;
use crate::audit::{self, Row};
use crate::frame;
use crate::sessions::{CallState, Recorded, Status};
use crate::store::{ApprovalRow, ApprovalState};

/// Whether guest code began to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Executed {
    /// It did.
    Yes,
    /// It did not.
    No,
    /// Nobody can tell.
    Unknown,
}

/// The end of one call.
#[derive(Debug)]
pub struct Answer {
    pub(super) status: Status,
    pub(super) executed: Executed,
    pub(super) result: Option<Result<String, CallError>>,
    pub(super) usage: Usage,
    pub(super) waited: Duration,
    tool: Option<ToolId>,
    plugin: Option<PluginStamp>,
    approval: Option<ApprovalStamp>,
    /// What a client is to perform, as JSON text.
    payload: Option<String>,
    expires_ms: Option<u64>,
}

/// The approval that a call waits for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ApprovalStamp {
    /// Its id, under `/v1/approvals`.
    id: String,
    /// How it stands.
    state: ApprovalState,
    /// When it can no longer be given or used, in milliseconds since 1970.
    expires_at: u64,
}

impl From<&ApprovalRow> for ApprovalStamp {
    fn from(row: &ApprovalRow) -> Self {
        Self { id: row.id.clone(), state: row.state, expires_at: row.expires_ms }
    }
}

/// The plugin that a call ran, or would have run.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PluginStamp {
    /// As the plugin says.
    version: String,
    /// SHA-256 of the component: `sha256:` and 64 hexadecimal digits.
    digest: String,
}

impl Answer {
    /// Refused before anything ran.
    pub(super) fn refused(error: CallError) -> Self {
        Self::ended(Err(error), Executed::No)
    }

    /// Stopped by its caller, nobody here knows when.
    pub(super) fn cancelled() -> Self {
        Self::ended(Err(CallError::cancelled()), Executed::Unknown)
    }

    /// Cancelled while it waited for somebody.
    pub(super) fn withdrawn(executed: Executed) -> Self {
        Self::ended(Err(CallError::cancelled()), executed)
    }

    /// Came back from the sandbox.
    pub(super) fn finished(result: Result<String, CallError>, usage: Usage, executed: bool) -> Self {
        let executed = if executed { Executed::Yes } else { Executed::No };
        Self { usage, ..Self::ended(result, executed) }
    }

    /// Waits for a person.
    pub(crate) fn waiting(row: &ApprovalRow) -> Self {
        let stamp = PluginStamp { version: row.plugin_version.clone(), digest: row.plugin_digest.clone() };
        Self {
            status: Status::ApprovalRequired,
            tool: ToolId::parse(&row.tool).ok(),
            plugin: Some(stamp),
            approval: Some(row.into()),
            ..Self::open(Executed::No)
        }
    }

    /// Waits for a client to perform what was prepared.
    pub(super) fn for_client(payload: String, expires_ms: u64, usage: Usage) -> Self {
        Self {
            status: Status::ClientRequired,
            usage,
            payload: Some(payload),
            expires_ms: Some(expires_ms),
            ..Self::open(Executed::Yes)
        }
    }

    /// Ended by a client.
    pub(super) fn of_client(result: Result<String, CallError>) -> Self {
        Self::ended(result, Executed::Yes)
    }

    /// The approval that it waits for.
    pub(super) fn approval_id(&self) -> Option<&str> {
        self.approval.as_ref().map(|approval| approval.id.as_str())
    }

    pub(super) fn expires_ms(&self) -> Option<u64> {
        self.expires_ms
    }

    pub(super) fn tool(&self) -> Option<&ToolId> {
        self.tool.as_ref()
    }

    fn open(executed: Executed) -> Self {
        Self { result: None, ..Self::ended(Err(CallError::cancelled()), executed) }
    }

    /// Its outcome could not be recorded, so it is answered with that.
    pub(super) fn unrecorded_outcome(error: CallError, answer: Self) -> Self {
        Self { result: Some(Err(error)), status: Status::Error, ..answer }
    }

    /// What is known of an id that was used before.
    pub(crate) fn of_known(state: &CallState) -> Self {
        match state {
            CallState::Running { .. } => Self { status: Status::Running, ..Self::open(Executed::Unknown) },
            CallState::Cancelled => Self::cancelled(),
            CallState::Ended(_) | CallState::Forgotten | CallState::Waiting(_) | CallState::Client(_) => {
                Self { executed: Executed::Unknown, ..Self::refused(no_longer_held(Executed::Unknown)) }
            }
        }
    }

    /// What the log knows of a call of an earlier run of the daemon. Its output is not in the log.
    pub(crate) fn of_an_earlier_run(row: &Row) -> Self {
        let outcome = row.outcome.as_ref();
        let executed = outcome.map_or(Executed::Unknown, |outcome| outcome.executed.into());
        let (status, error) = match row.status {
            Some(audit::Status::Unknown) | None if row.damaged.is_some() => (Status::Unknown, unreadable()),
            Some(audit::Status::Unknown | audit::Status::Running) | None => (Status::Unknown, unknown()),
            Some(audit::Status::Cancelled) => (Status::Error, CallError::cancelled()),
            Some(audit::Status::ApprovalRequired) => {
                return Self { status: Status::ApprovalRequired, ..Self::open(Executed::No) };
            }
            Some(_) => (Status::Error, no_longer_held(executed)),
        };
        Self {
            status,
            executed,
            usage: outcome.map(|outcome| (&outcome.usage).into()).unwrap_or_default(),
            ..Self::refused(error)
        }
    }

    fn ended(result: Result<String, CallError>, executed: Executed) -> Self {
        Self {
            status: if result.is_ok() { Status::Ok } else { Status::Error },
            executed,
            result: Some(result),
            usage: Usage::default(),
            waited: Duration::ZERO,
            tool: None,
            plugin: None,
            approval: None,
            payload: None,
            expires_ms: None,
        }
    }

    /// Names the tool and the plugin that it concerns.
    pub(super) fn by(mut self, admitted: &Admitted<Component>) -> Self {
        self.tool = Some(admitted.id().clone());
        self.plugin = Some(PluginStamp {
            version: admitted.plugin().descriptor.version.clone(),
            digest: admitted.plugin().digest.as_str().to_owned(),
        });
        self
    }

    /// With what an earlier part of it took, which has a record of its own.
    pub(super) fn using(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    pub(super) fn timed(self, waited: Duration) -> Self {
        Self { waited, ..self }
    }

    /// The error, where it ended in one.
    pub(super) fn error(&self) -> Option<&CallError> {
        self.result.as_ref().and_then(|result| result.as_ref().err())
    }

    /// The result's JSON text, where it ended well.
    pub(super) fn output(&self) -> Option<&str> {
        self.result.as_ref()?.as_deref().ok()
    }

    /// An answer that is given once and not kept.
    pub(crate) fn unrecorded(&self, call: &RequestedCall) -> Arc<Recorded> {
        Arc::new(self.recorded(call))
    }

    /// The answer as it is kept.
    pub(crate) fn recorded(&self, call: &RequestedCall) -> Recorded {
        Recorded { json: self.json(call), status: self.status }
    }

    /// The result object of our own form, as JSON text.
    pub(crate) fn json(&self, call: &RequestedCall) -> Box<str> {
        let read = self.tool.is_none().then(|| read_called_name(&call.tool)).flatten();
        let named = self.tool.as_ref().or(read.as_ref());
        let content = match &self.result {
            Some(Ok(output)) => unquoted(output),
            Some(Err(error)) => {
                format!("{}: {} ({})", error.error_type.as_str(), error.message, error.hint).into()
            }
            None => self.still_open().into(),
        };
        let wire = Wire {
            id: &call.id,
            tool: &call.tool,
            tool_name: named.map_or(&*call.tool, |id| id.namespace.as_str()),
            action: named.map(|id| id.tool.as_str()),
            status: self.status,
            executed: self.executed,
            error: self.error().map(WireError::from),
            text: frame::tool_result(&call.tool, self.status.as_str(), &content),
            usage: WireUsage::from(&self.usage),
            plugin: self.plugin.as_ref(),
            approval: self.approval.as_ref(),
            expires_at: self.expires_ms,
        };
        match &self.payload {
            Some(payload) => with_json(&wire, "payload", Some(payload)),
            None => with_json(&wire, "output", self.output()),
        }
    }

    /// For a model, what it means that there is no result yet.
    fn still_open(&self) -> &'static str {
        match self.status {
            Status::ApprovalRequired => {
                "This call has not run. A person must approve it first; do not repeat it meanwhile."
            }
            Status::ClientRequired => {
                "This call is prepared, and the client performs it; its result comes later."
            }
            _ => "This call still runs.",
        }
    }
}

/// What the log is told of an answer, and the way back.
impl From<Executed> for audit::Executed {
    fn from(executed: Executed) -> Self {
        match executed {
            Executed::Yes => Self::Yes,
            Executed::No => Self::No,
            Executed::Unknown => Self::Unknown,
        }
    }
}

impl From<audit::Executed> for Executed {
    fn from(executed: audit::Executed) -> Self {
        match executed {
            audit::Executed::Yes => Self::Yes,
            audit::Executed::No => Self::No,
            audit::Executed::Unknown => Self::Unknown,
        }
    }
}

impl From<&Usage> for audit::Usage {
    fn from(usage: &Usage) -> Self {
        Self {
            fuel: usage.fuel,
            memory_bytes: usage.memory_bytes,
            duration_us: usage.duration_us,
            host_calls: usage.host_calls,
            egress_bytes: usage.egress_bytes,
            log_bytes: usage.log_bytes,
        }
    }
}

/// All but the size of the output, which the log has beside its digest.
impl From<&audit::Usage> for Usage {
    fn from(usage: &audit::Usage) -> Self {
        Self {
            fuel: usage.fuel,
            memory_bytes: usage.memory_bytes,
            duration_us: usage.duration_us,
            host_calls: usage.host_calls,
            egress_bytes: usage.egress_bytes,
            log_bytes: usage.log_bytes,
            output_bytes: 0,
        }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self { tool: refusal.tool, ..Self::refused(refusal.error) }
    }
}

/// The answer of a call whose task died: a bug here, reported as one.
pub(super) fn lost(call_id: &str) -> Arc<Recorded> {
    let call = RequestedCall::unnamed(call_id.to_owned());
    let error = CallError::new(
        ErrorType::Internal,
        "the daemon failed while it carried the call out",
        "tell the operator; the daemon's log says more",
    );
    Answer { executed: Executed::Unknown, ..Answer::refused(error) }.unrecorded(&call)
}

/// A model sees only the text, and what it is told to call again may be a payment.
fn no_longer_held(executed: Executed) -> CallError {
    let (message, hint) = match executed {
        Executed::No => ("this call has not run; why not is no longer held", "use a new id to call again"),
        Executed::Yes => (
            "this call has run; its answer is no longer held",
            "look at what it changed before you call again with a new id",
        ),
        Executed::Unknown => (
            "this call has ended; its answer is no longer held",
            "look at what it may have changed before you call again with a new id",
        ),
    };
    CallError::new(ErrorType::Expired, message, hint)
}

fn unknown() -> CallError {
    CallError::new(
        ErrorType::Unknown,
        "the daemon stopped while the call ran; its outcome is unknown",
        "look at what it would have changed before you call again with a new id",
    )
}

fn unreadable() -> CallError {
    CallError::new(
        ErrorType::Unknown,
        "the audit log is damaged where this call may be recorded; whether it ran is unknown",
        "look at what it would have changed before you call again in a new session",
    )
}

/// A result that is one JSON string reads better without its quotes and escapes.
fn unquoted(content: &str) -> std::borrow::Cow<'_, str> {
    match content.starts_with('"').then(|| serde_json::from_str::<String>(content)) {
        Some(Ok(text)) => text.into(),
        _ => content.into(),
    }
}

/// Room for a usual result object without its text and its output.
const WIRE_BYTES_USUAL: usize = 512;

/// The result object. The output is JSON text that was checked already: it is put in as it is, not parsed
/// and written again.
fn with_json(wire: &Wire<'_>, member: &str, value: Option<&str>) -> Box<str> {
    // Room for all of it: growing step by step would copy it each time. Half as much again for what is escaped.
    let value_bytes = value.map_or(0, str::len);
    let mut json = Vec::with_capacity(WIRE_BYTES_USUAL + wire.text.len() * 3 / 2 + value_bytes);
    // Strings and numbers: nothing of it can fail.
    let _ = serde_json::to_writer(&mut json, wire);
    if let Some(value) = value {
        json.truncate(json.len().saturating_sub(1));
        for part in [",\"", member, "\":", value, "}"] {
            json.extend_from_slice(part.as_bytes());
        }
    }
    // In memory of its own size, since it is kept.
    str::from_utf8(&json).unwrap_or_default().into()
}

#[derive(Serialize)]
struct Wire<'a> {
    id: &'a str,
    tool: &'a str,
    tool_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    status: Status,
    executed: Executed,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<WireError<'a>>,
    text: String,
    usage: WireUsage,
    #[serde(skip_serializing_if = "Option::is_none")]
    plugin: Option<&'a PluginStamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a ApprovalStamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

#[derive(Serialize)]
struct WireError<'a> {
    error_type: &'a str,
    message: &'a str,
    hint: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a serde_json::Value>,
}

impl<'a> From<&'a CallError> for WireError<'a> {
    fn from(error: &'a CallError) -> Self {
        Self {
            error_type: error.error_type.as_str(),
            message: &error.message,
            hint: &error.hint,
            retryable: error.retryable,
            details: error.details.as_ref(),
        }
    }
}

/// What a call used.
#[derive(Serialize, ToSchema)]
#[schema(as = CallUsage)]
pub struct WireUsage {
    /// Guest instructions.
    fuel: u64,
    /// The most memory that it had at one time, in bytes.
    memory_bytes: u64,
    /// Time in the sandbox, in microseconds.
    duration_us: u64,
    /// Calls of the guest into the host.
    host_calls: u64,
    /// Bytes over the network, both ways together.
    egress_bytes: u64,
    /// Size of the result as JSON text, in bytes.
    output_bytes: u64,
    /// What it wrote to the log, standard output and error included, in bytes.
    log_bytes: u64,
}

impl From<&Usage> for WireUsage {
    fn from(usage: &Usage) -> Self {
        Self {
            fuel: usage.fuel,
            memory_bytes: usage.memory_bytes,
            duration_us: usage.duration_us,
            host_calls: usage.host_calls,
            egress_bytes: usage.egress_bytes,
            output_bytes: usage.output_bytes,
            log_bytes: usage.log_bytes,
        }
    }
}
