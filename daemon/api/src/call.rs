//! Outcomes of calls, in Toolgate's own dialect.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::approval::ApprovalStamp;
pub use crate::call_usage::CallUsage;
use crate::content::ContentBlock;
use crate::error::{Details, ErrorType};
use crate::words::words;

words! {
    /// The status of a call, as every dialect writes it. The audit log has a list of its own, with `cancelled`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    pub enum CallStatus {
        /// The tool returned a result.
        Ok = "ok",
        /// The call was refused, or failed.
        Error = "error",
        /// The tool prepared a payload that the client performs.
        ClientRequired = "client_required",
        /// A person must approve the call first.
        ApprovalRequired = "approval_required",
        /// The call has not ended.
        Running = "running",
        /// The daemon stopped while the call ran.
        Unknown = "unknown",
    }
}

/// Whether guest code began to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Executed {
    /// Guest code ran.
    Yes,
    /// No guest code ran.
    No,
    /// The daemon cannot tell.
    Unknown,
}

/// The plugin that a call ran, or would have run.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PluginStamp {
    /// The plugin's own version.
    pub version: String,
    /// SHA-256 of the component: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
}

/// The outcome of one call.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CallResult<'a> {
    /// The session's id, in the answer about one call. The answer to a request with calls has it beside the results.
    pub session: Option<Cow<'a, str>>,
    /// The orchestrator's conversation id, in the answer about one call, if the session has one.
    pub conversation: Option<Cow<'a, str>>,
    /// The call's id.
    #[schema(value_type = String)]
    pub id: Cow<'a, str>,
    /// The tool name as the model called it.
    #[schema(value_type = String)]
    pub tool: Cow<'a, str>,
    /// The namespace; if the called name is no valid tool name, the name as the model called it.
    #[schema(value_type = String)]
    pub tool_name: Cow<'a, str>,
    /// The tool's name within its namespace.
    pub action: Option<Cow<'a, str>>,
    /// The status of the call: its outcome, or the state that it waits in.
    pub status: CallStatus,
    /// Whether guest code started to run.
    pub executed: Executed,
    /// Whether the call ran for an earlier request with the same id, and this is its recorded outcome.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// The result, any JSON, if the status is `ok`.
    #[schema(value_type = Value)]
    pub output: Option<Cow<'a, RawValue>>,
    /// Text, images, audio and files that the tool gave beside its output.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<ContentBlock>)]
    pub content: Cow<'a, [ContentBlock]>,
    /// The error, if the status is `error`.
    pub error: Option<CallResultError<'a>>,
    /// The result as text for a model's context, framed as data.
    pub text: String,
    /// The resources that the call used.
    pub usage: CallUsage,
    /// The plugin version that ran, or that would have run.
    pub plugin: Option<Cow<'a, PluginStamp>>,
    /// The pending approval, if the status is `approval_required`.
    pub approval: Option<Cow<'a, ApprovalStamp>>,
    /// The payload for the client to perform, any JSON, if the status is `client_required`.
    #[schema(value_type = Value)]
    pub payload: Option<Cow<'a, RawValue>>,
    /// Deadline for the client to post the result, in milliseconds since 1970.
    pub expires_at: Option<u64>,
}

/// The error of a call.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CallResultError<'a> {
    /// The stable error code.
    pub error_type: ErrorType,
    /// The error message, for a model.
    #[schema(value_type = String)]
    pub message: Cow<'a, str>,
    /// How to resolve the error.
    #[schema(value_type = String)]
    pub hint: Cow<'a, str>,
    /// Whether the same call can succeed later.
    pub retryable: bool,
    /// Details, with a schema that depends on the `error_type`.
    #[schema(value_type = Object)]
    pub details: Option<Cow<'a, Details>>,
}

/// The state of a call for the orchestrator's program, beside the list for the model.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct CallState<'a> {
    /// The call's id.
    #[schema(value_type = String)]
    pub id: Cow<'a, str>,
    /// The status of the call: its outcome, or the state that it waits in.
    pub status: CallStatus,
    /// Whether guest code started to run.
    pub executed: Executed,
    /// Whether the call ran for an earlier request with the same id, and this is its recorded outcome.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
    /// The result, any JSON, if the status is `ok`: for programs, since a provider's message has it as text.
    #[schema(value_type = Value)]
    pub output: Option<Cow<'a, RawValue>>,
    /// Text, images, audio and files that the tool gave beside its output.
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    #[schema(value_type = Vec<ContentBlock>)]
    pub content: Cow<'a, [ContentBlock]>,
    /// The stable error code, if the status is `error`.
    pub error_type: Option<ErrorType>,
    /// Whether the same call can succeed later.
    pub retryable: Option<bool>,
    /// Details, with a schema that depends on the `error_type`.
    #[schema(value_type = Object)]
    pub details: Option<Cow<'a, Details>>,
    /// The payload for the client to perform, if the status is `client_required`.
    #[schema(value_type = Value)]
    pub payload: Option<Cow<'a, RawValue>>,
    /// The pending approval.
    #[schema(value_type = Value)]
    pub approval: Option<Cow<'a, ApprovalStamp>>,
    /// Deadline for the client to post the result, in milliseconds since 1970.
    pub expires_at: Option<u64>,
}

/// The outcomes of calls in Toolgate's own dialect.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct NativeAnswer<'a> {
    /// The session's id.
    #[schema(value_type = String)]
    pub session: Cow<'a, str>,
    /// The orchestrator's conversation id, if the session has one.
    pub conversation: Option<Cow<'a, str>>,
    /// The turn, if the request has one.
    pub turn: Option<Cow<'a, str>>,
    /// One result per call, in the order of the request.
    pub results: Vec<CallResult<'a>>,
    /// The next action of the orchestrator: obtain an `approval`, pass payloads to the `client`, `wait` for calls that
    /// still run, or pass the results to the `model`.
    #[schema(value_type = String, pattern = "^(approval|client|wait|model)$")]
    pub next: Cow<'static, str>,
}
