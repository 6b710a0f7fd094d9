//! A call as requested, and its outcome: one typed value from `dispatch` to the front ends, each of which renders it
//! (R4, R5).

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use toolgate_admission::{Admitted, Refusal};
use toolgate_api::approval::ApprovalStamp;
use toolgate_api::call::{CallStatus, Executed, PluginStamp};
use toolgate_api::content::ContentBlock;
use toolgate_api::error::{CallError, Details, ErrorType};
use toolgate_api::name::ToolId;
use toolgate_audit as audit;
use toolgate_audit::Row;
use toolgate_sandbox::{Component, Usage};
use toolgate_state::store::ApprovalRow;

/// Longest text of one result for a model, in bytes. A model's context is small, and the response also has the full JSON.
pub const MODEL_TEXT_BYTES: usize = 64 * 1024;

/// A call as a request carries it.
#[derive(Clone, Debug)]
pub struct RequestedCall {
    /// The orchestrator's id, unique in the session.
    pub id: String,
    /// The tool as the model named it.
    pub tool: Arc<str>,
    /// The arguments: JSON text, kept byte for byte.
    pub arguments: Arc<str>,
    /// The daemon made the id for this request, so no earlier call can have it.
    pub id_is_new: bool,
    /// Whether the call goes on when its caller hangs up (R6). Its caller must know the id, to ask for the outcome.
    pub outlives_request: bool,
    /// The orchestrator's own limit of the duration in milliseconds, within that of the rules.
    pub deadline_ms: Option<u64>,
    /// The defect of the call as it was sent (M6). It does not run, and the other calls of its request do.
    pub fault: Option<Box<CallError>>,
}

impl RequestedCall {
    /// A call that the daemon makes for itself.
    pub fn new(id: &str, tool: &str, arguments: Arc<str>) -> Self {
        let (id, tool) = (id.to_owned(), tool.into());
        Self { id, tool, arguments, id_is_new: true, outlives_request: false, deadline_ms: None, fault: None }
    }
}

/// The answer to a request about one of its calls.
#[derive(Clone, Debug)]
pub struct CallAnswer {
    /// The outcome, or the present state.
    pub outcome: Arc<CallOutcome>,
    /// The call ran for an earlier request with the same id, and this is its recorded outcome (R7).
    pub replayed: bool,
}

impl From<CallOutcome> for CallAnswer {
    fn from(outcome: CallOutcome) -> Self {
        Self { outcome: Arc::new(outcome), replayed: false }
    }
}

impl Deref for CallAnswer {
    type Target = CallOutcome;

    fn deref(&self) -> &CallOutcome {
        &self.outcome
    }
}

/// The outcome of a call, or its present state where it has not ended. Its JSON is the form on disk, not one for clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CallOutcome {
    /// The call's id.
    pub id: String,
    /// The tool as the model named it.
    pub called: Arc<str>,
    /// The tool that the name stands for, where the call was decided.
    #[serde(serialize_with = "write_tool", deserialize_with = "read_tool")]
    pub tool: Option<ToolId>,
    /// The plugin that ran, or would have run.
    pub plugin: Option<PluginStamp>,
    /// Whether guest code began to run.
    pub executed: Executed,
    /// Result, error, or what the call waits for.
    pub state: OutcomeState,
    /// Content blocks beside the output (R11).
    pub content: Vec<ContentBlock>,
    /// The file of the workspace with the whole of a result that is cut for models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_in: Option<Box<str>>,
    /// Whether it ran with arguments of its approver, which the first content block says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ran_otherwise: bool,
    /// Resources that the call used.
    pub usage: Usage,
    /// Time from arrival to outcome, queues included.
    pub duration: Duration,
}

/// Result, error, or what a call waits for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum OutcomeState {
    /// The tool's result, as raw JSON text.
    Ok(Box<RawValue>),
    /// The tool's result is larger than the call's limit, and in the workspace (R10).
    Spilled(Box<SpilledResult>),
    /// The call was refused, or failed.
    Error(#[serde(with = "ErrorForm")] CallError),
    /// The daemon stopped while the call ran, so its effects are unknown.
    Unknown(#[serde(with = "ErrorForm")] CallError),
    /// The client performs `payload`, raw JSON text, and posts the result until `expires_ms` (since 1970).
    ClientRequired { payload: Box<RawValue>, expires_ms: u64 },
    /// A person must approve the call. The audit log, which answers after a restart, does not have the approval.
    ApprovalRequired(Option<ApprovalStamp>),
    /// The call has not ended.
    Running,
}

/// A result in a file of the workspace.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SpilledResult {
    /// Its path, size, beginning and end: the output that programs get instead.
    pub output: Box<RawValue>,
    /// The same for a model.
    pub text: String,
    /// Its size.
    pub bytes: u64,
    /// Its digest.
    pub sha256: audit::Sha256,
}

impl CallOutcome {
    /// An outcome without tool, plugin or usage.
    pub fn new(id: impl Into<String>, called: &Arc<str>, executed: Executed, state: OutcomeState) -> Self {
        Self {
            id: id.into(),
            called: Arc::clone(called),
            tool: None,
            plugin: None,
            executed,
            state,
            content: Vec::new(),
            kept_in: None,
            ran_otherwise: false,
            usage: Usage::default(),
            duration: Duration::ZERO,
        }
    }

    /// The outcome of a call that failed before guest code ran.
    pub fn of_error(call: &RequestedCall, error: CallError) -> Self {
        Self::new(&call.id, &call.tool, Executed::No, OutcomeState::Error(error))
    }

    /// The outcome of a call that the gate refused.
    pub fn of_refusal(call: &RequestedCall, refusal: Refusal) -> Self {
        Self { tool: refusal.tool, ..Self::of_error(call, refusal.error) }
    }

    /// The state of a call that waits for a person.
    pub fn awaiting_approval(id: &str, called: &Arc<str>, row: &ApprovalRow) -> Self {
        let approval = ApprovalStamp { id: row.id.clone(), state: row.state, expires_at: row.expires_ms };
        let plugin = PluginStamp { version: row.plugin_version.clone(), digest: row.plugin_digest.clone() };
        Self {
            tool: ToolId::parse(&row.tool).ok(),
            plugin: Some(plugin),
            ..Self::new(id, called, Executed::No, OutcomeState::ApprovalRequired(Some(approval)))
        }
    }

    /// The outcome of a call whose answer the daemon no longer holds.
    pub fn of_forgotten(id: &str, called: &Arc<str>, executed: Executed) -> Self {
        Self::new(id, called, executed, OutcomeState::Error(no_longer_held(executed)))
    }

    /// The outcome of a call that the audit log does not have, where the stored answers of the session cannot be read.
    pub fn of_unreadable_answers(id: &str, called: &Arc<str>) -> Self {
        Self::new(id, called, Executed::Unknown, OutcomeState::Unknown(unreadable_answers()))
    }

    /// The outcome of a call of an earlier run of the daemon, as the audit log has it. The log does not have outputs.
    pub fn from_audit(id: &str, called: &Arc<str>, row: &Row) -> Self {
        let outcome = row.outcome.as_ref();
        let executed = outcome.map_or(Executed::Unknown, |outcome| outcome.executed);
        let state = match row.status {
            Some(audit::Status::Unknown) | None if row.damaged.is_some() => {
                OutcomeState::Unknown(unreadable_record())
            }
            Some(audit::Status::Unknown | audit::Status::Running) | None => {
                OutcomeState::Unknown(unknown_outcome())
            }
            Some(audit::Status::Cancelled) => OutcomeState::Error(CallError::cancellation()),
            Some(audit::Status::ApprovalRequired) => {
                return Self::new(id, called, Executed::No, OutcomeState::ApprovalRequired(None));
            }
            Some(_) => OutcomeState::Error(no_longer_held(executed)),
        };
        let usage = outcome.map(|outcome| recorded_usage(&outcome.usage)).unwrap_or_default();
        Self { usage, ..Self::new(id, called, executed, state) }
    }

    /// Adds the tool and the plugin.
    #[must_use]
    pub fn by(mut self, admitted: &Admitted<Component>) -> Self {
        self.tool = Some(admitted.id().clone());
        self.plugin = Some(PluginStamp {
            version: admitted.plugin().descriptor.version.clone(),
            digest: admitted.plugin().digest.as_str().to_owned(),
        });
        self
    }

    /// Tells the model with which arguments of the approver the call ran, if with any.
    #[must_use]
    pub fn with_arguments_instead(mut self, arguments: Option<&str>) -> Self {
        if let Some(arguments) = arguments {
            let text = format!("The approver changed the arguments of this call; it ran with: {arguments}");
            self.content.insert(0, ContentBlock::Text { text });
            self.ran_otherwise = true;
        }
        self
    }

    /// The content blocks of the tool, and the note that an approver changed its arguments.
    pub fn split_content(&self) -> (Option<&ContentBlock>, &[ContentBlock]) {
        match self.content.split_first().filter(|_| self.ran_otherwise) {
            Some((note, content)) => (Some(note), content),
            None => (None, &self.content),
        }
    }

    /// The outcome of a pending call that ended, with the tool, the plugin, the content and the usage of its first part.
    pub fn end_of(pending: &Self, state: OutcomeState) -> Self {
        Self {
            content: pending.content.clone(),
            ran_otherwise: pending.ran_otherwise,
            tool: pending.tool.clone(),
            plugin: pending.plugin.clone(),
            usage: pending.usage,
            ..Self::new(&pending.id, &pending.called, pending.executed, state)
        }
    }

    /// The status that every dialect writes.
    pub fn status(&self) -> CallStatus {
        match self.state {
            OutcomeState::Ok(_) | OutcomeState::Spilled(_) => CallStatus::Ok,
            OutcomeState::Error(_) => CallStatus::Error,
            OutcomeState::Unknown(_) => CallStatus::Unknown,
            OutcomeState::ClientRequired { .. } => CallStatus::ClientRequired,
            OutcomeState::ApprovalRequired(_) => CallStatus::ApprovalRequired,
            OutcomeState::Running => CallStatus::Running,
        }
    }

    /// The error, where there is one.
    pub fn error(&self) -> Option<&CallError> {
        match &self.state {
            OutcomeState::Error(error) | OutcomeState::Unknown(error) => Some(error),
            _ => None,
        }
    }

    /// The result, where the tool returned one.
    pub fn output(&self) -> Option<&RawValue> {
        match &self.state {
            OutcomeState::Ok(output) => Some(output),
            OutcomeState::Spilled(result) => Some(&result.output),
            _ => None,
        }
    }

    /// The result, where it is in a file of the workspace.
    pub fn spilled_result(&self) -> Option<&SpilledResult> {
        match &self.state {
            OutcomeState::Spilled(result) => Some(result),
            _ => None,
        }
    }

    /// The payload that the client performs.
    pub fn payload(&self) -> Option<&RawValue> {
        match &self.state {
            OutcomeState::ClientRequired { payload, .. } => Some(payload),
            _ => None,
        }
    }

    /// When the client's result comes too late, in milliseconds since 1970.
    pub fn expires_ms(&self) -> Option<u64> {
        match self.state {
            OutcomeState::ClientRequired { expires_ms, .. } => Some(expires_ms),
            _ => None,
        }
    }

    /// The approval that the call waits for.
    pub fn approval(&self) -> Option<&ApprovalStamp> {
        match &self.state {
            OutcomeState::ApprovalRequired(approval) => approval.as_ref(),
            _ => None,
        }
    }

    /// Describes the pending state for a model and a person; none where the call has ended.
    pub fn pending_text(&self) -> Option<&'static str> {
        match self.state {
            OutcomeState::ApprovalRequired(_) => Some(
                "The call has not run. It waits for a person's approval, and runs when it is posted again with the \
                 same id after a person has approved it. Say that it waits, and do not repeat it meanwhile.",
            ),
            OutcomeState::ClientRequired { .. } => Some(
                "The call is prepared and waits for the client to carry it out; its result comes later. Do not repeat \
                 it.",
            ),
            OutcomeState::Running => Some("The call still runs; its result comes later. Do not repeat it."),
            OutcomeState::Ok(_)
            | OutcomeState::Spilled(_)
            | OutcomeState::Error(_)
            | OutcomeState::Unknown(_) => None,
        }
    }

    /// Bytes that keeping the outcome costs, about.
    pub fn held_bytes(&self) -> usize {
        let text = match &self.state {
            OutcomeState::Ok(json) | OutcomeState::ClientRequired { payload: json, .. } => json.get().len(),
            OutcomeState::Spilled(result) => result.output.get().len() + result.text.len(),
            OutcomeState::Error(error) | OutcomeState::Unknown(error) => {
                error.message.len() + error.hint.len()
            }
            OutcomeState::ApprovalRequired(_) | OutcomeState::Running => 0,
        };
        let content: usize = self.content.iter().map(ContentBlock::held_bytes).sum();
        size_of::<Self>() + self.id.len() + self.called.len() + text + content
    }
}

/// The usage as the audit log has it, which records the size of the output beside its digest.
pub fn usage_record(usage: &Usage) -> audit::Usage {
    let Usage { fuel, memory_bytes, duration_us, cpu_us, host_calls, egress_bytes, cost, log_bytes, .. } =
        *usage;
    audit::Usage { fuel, memory_bytes, duration_us, cpu_us, host_calls, egress_bytes, cost, log_bytes }
}

/// The usage of a recorded call, without the size of its output.
fn recorded_usage(usage: &audit::Usage) -> Usage {
    let audit::Usage { fuel, memory_bytes, duration_us, cpu_us, host_calls, egress_bytes, cost, log_bytes } =
        *usage;
    let output_bytes = 0;
    Usage { fuel, memory_bytes, duration_us, cpu_us, host_calls, egress_bytes, cost, output_bytes, log_bytes }
}

/// The hints differ because a model sees only the text, and the call that it is told to repeat may be a payment.
fn no_longer_held(executed: Executed) -> CallError {
    let (message, hint) = match executed {
        Executed::No => ("this call has not run; the reason is no longer held", "use a new id to call again"),
        Executed::Yes => (
            "this call has run; its answer is no longer held",
            "check what it changed before you call again with a new id",
        ),
        Executed::Unknown => (
            "this call has ended; its answer is no longer held",
            "check what it may have changed before you call again with a new id",
        ),
    };
    CallError::new(ErrorType::Expired, message, hint)
}

fn unknown_outcome() -> CallError {
    CallError::new(
        ErrorType::Unknown,
        "the daemon stopped while the call ran; its outcome is unknown",
        "check what it may have changed before you call again with a new id",
    )
}

fn unreadable_record() -> CallError {
    CallError::new(
        ErrorType::Unknown,
        "the audit log is damaged where this call may be recorded; whether it ran is unknown",
        "check what it may have changed before you call again in a new session",
    )
}

fn unreadable_answers() -> CallError {
    CallError::new(
        ErrorType::Unknown,
        "the stored answers of this session cannot be read; whether this call ran is unknown",
        "check what it may have changed before you call again in a new session",
    )
}

/// The form of an error on disk.
#[derive(Serialize, Deserialize)]
#[serde(remote = "CallError")]
struct ErrorForm {
    error_type: ErrorType,
    message: String,
    hint: String,
    details: Option<Details>,
    retryable: bool,
}

fn write_tool<S: Serializer>(tool: &Option<ToolId>, serializer: S) -> Result<S::Ok, S::Error> {
    tool.as_ref().map(ToString::to_string).serialize(serializer)
}

fn read_tool<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ToolId>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|tool| ToolId::parse(&tool).ok()))
}
