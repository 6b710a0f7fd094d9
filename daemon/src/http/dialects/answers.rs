//! Responses in every dialect: the serialized types, which the OpenAPI document describes.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use toolgate_api::error::{CallError, Details};
use toolgate_api::name::read_called_name;
use toolgate_sandbox::Usage;
use utoipa::ToSchema;

use super::{anthropic, gemini, openai, responses, s5};
use crate::call::{ApprovalStamp, CallOutcome, Executed, PluginStamp, Status};
use crate::frame;
use crate::http::problem::ErrorTypeForm;

/// The outcomes of the calls, in the dialect of the request.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "one value for each request")]
pub enum CallsAnswer<'a> {
    /// Toolgate's own dialect.
    Native(NativeAnswer<'a>),
    /// OpenAI's chat completions.
    OpenAi(OpenAiAnswer<'a>),
    /// OpenAI's responses.
    Responses(ResponsesAnswer<'a>),
    /// Anthropic's messages.
    Anthropic(AnthropicAnswer<'a>),
    /// Gemini's parts.
    Gemini(GeminiAnswer<'a>),
    /// One call as a flat object.
    Flat(FlatAnswer<'a>),
    /// One call as a string.
    Text(TextAnswer<'a>),
}

/// The members of every response beside the results.
#[derive(Clone, Copy, Debug)]
pub struct ReplyContext<'a> {
    /// The session's id.
    pub session: &'a str,
    /// The orchestrator's conversation id, if the session has one.
    pub conversation: Option<&'a str>,
    /// The turn, if the request has one.
    pub turn: Option<&'a str>,
    /// The next action of the orchestrator.
    pub next: &'static str,
}

macro_rules! answer {
    ($(#[$about:meta])* $name:ident { $($(#[$member_about:meta])* $member:ident: $type:ty),* }) => {
        $(#[$about])*
        #[derive(Serialize, ToSchema)]
        pub struct $name<'a> {
            /// The session's id.
            session: &'a str,
            /// The orchestrator's conversation id, if the session has one.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schema(value_type = String, required = false)]
            conversation: Option<&'a str>,
            /// The turn, if the request has one.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schema(value_type = String, required = false)]
            turn: Option<&'a str>,
            $($(#[$member_about])* $member: $type,)*
            /// The next action of the orchestrator: obtain an `approval`, pass payloads to the `client`, `wait` for
            /// calls that still run, or pass the results to the `model`.
            #[schema(pattern = "^(approval|client|wait|model)$")]
            next: &'static str,
        }

        impl<'a> $name<'a> {
            pub(super) fn new(context: ReplyContext<'a>, $($member: $type),*) -> Self {
                let ReplyContext { session, conversation, turn, next } = context;
                Self { session, conversation, turn, $($member,)* next }
            }
        }
    };
}

answer! {
    /// The outcomes of calls in Toolgate's own dialect.
    NativeAnswer {
        /// One result per call, in the order of the request.
        results: Vec<CallResult<'a>>
    }
}

answer! {
    /// The outcomes of calls in the format of OpenAI's chat completions.
    OpenAiAnswer {
        /// The tool messages, to append after the assistant message.
        openai: Vec<openai::OpenAiToolMessage<'a>>,
        /// The state of each call, for the orchestrator's program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcomes of calls in the format of OpenAI's responses.
    ResponsesAnswer {
        /// The output items, for the next request's `input`.
        openai_responses: Vec<responses::ResponsesOutput<'a>>,
        /// The state of each call, for the orchestrator's program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcomes of calls in the format of Anthropic's messages.
    AnthropicAnswer {
        /// The `tool_result` blocks, for the content of the next user message.
        anthropic: Vec<anthropic::AnthropicToolResult<'a>>,
        /// The state of each call, for the orchestrator's program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcomes of calls in the format of Gemini.
    GeminiAnswer {
        /// The response parts, for the next user content.
        gemini: Vec<gemini::GeminiResponsePart<'a>>,
        /// The state of each call, for the orchestrator's program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcome of a call that was sent as a flat object.
    FlatAnswer {
        /// The result, the error, or the pending state of the call.
        tool_call: s5::FlatResult<'a>,
        /// The state of the call, for the orchestrator's program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcome of a call that was sent as a string.
    TextAnswer {
        /// `[[TOOL_RESPONSE: name(…) -> …]]`, with a string result as a literal in single quotes, other results as
        /// JSON, or `error` with its type and message.
        text: String,
        /// The state of the call, for the orchestrator's program.
        calls: Vec<CallState<'a>>
    }
}

/// The outcome of one call.
#[derive(Serialize, ToSchema)]
pub struct CallResult<'a> {
    /// The call's id.
    id: &'a str,
    /// The tool name as the model called it.
    tool: &'a str,
    /// The namespace; if the called name is no valid tool name, the name as the model called it.
    #[schema(value_type = String)]
    tool_name: Cow<'a, str>,
    /// The tool's name within its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    action: Option<Cow<'a, str>>,
    /// The status of the call: its outcome, or the state that it waits in.
    status: Status,
    /// Whether guest code started to run.
    executed: Executed,
    /// The result, any JSON, if the status is `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<&'a RawValue>,
    /// The error, if the status is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallResultError, required = false)]
    error: Option<CallResultError<'a>>,
    /// The result as text for a model's context, framed as data.
    text: String,
    /// The resources that the call used.
    usage: CallUsage,
    /// The plugin version that ran, or that would have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PluginStamp, required = false)]
    plugin: Option<&'a PluginStamp>,
    /// The pending approval, if the status is `approval_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ApprovalStamp, required = false)]
    approval: Option<&'a ApprovalStamp>,
    /// The payload for the client to perform, any JSON, if the status is `client_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    payload: Option<&'a RawValue>,
    /// Deadline for the client to post the result, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
}

/// The error of a call.
#[derive(Serialize, ToSchema)]
pub struct CallResultError<'a> {
    /// The stable error code.
    #[schema(value_type = ErrorTypeForm)]
    error_type: &'static str,
    /// The error message, for a model.
    message: &'a str,
    /// How to resolve the error.
    hint: &'a str,
    /// Whether the same call can succeed later.
    retryable: bool,
    /// Details, with a schema that depends on the `error_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    details: Option<&'a Details>,
}

/// The resources that a call used.
#[derive(Serialize, ToSchema)]
pub struct CallUsage {
    /// Guest instructions, in wasmtime fuel units.
    fuel: u64,
    /// Peak memory of the guest, in bytes.
    memory_bytes: u64,
    /// Time in the sandbox, in microseconds.
    duration_us: u64,
    /// Number of calls from the guest to host functions.
    host_calls: u64,
    /// Bytes sent and received over the network.
    egress_bytes: u64,
    /// Size of the result as JSON text, in bytes.
    output_bytes: u64,
    /// Bytes written to the log, standard output and standard error.
    log_bytes: u64,
}

/// The state of a call for the orchestrator's program, beside the list for the model.
#[derive(Serialize, ToSchema)]
pub struct CallState<'a> {
    /// The call's id.
    id: &'a str,
    /// The status of the call: its outcome, or the state that it waits in.
    status: Status,
    /// Whether guest code started to run.
    executed: Executed,
    /// The stable error code, if the status is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ErrorTypeForm, required = false)]
    error_type: Option<&'static str>,
    /// Whether the same call can succeed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    retryable: Option<bool>,
    /// Details, with a schema that depends on the `error_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    details: Option<&'a Details>,
    /// The payload for the client to perform, if the status is `client_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    payload: Option<&'a RawValue>,
    /// The pending approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    approval: Option<&'a ApprovalStamp>,
    /// Deadline for the client to post the result, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
}

/// Returns the namespace and the tool; if the called name is no valid tool name, returns that name alone.
pub(super) fn tool_names(outcome: &CallOutcome) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    match (&outcome.tool, read_called_name(&outcome.called)) {
        (Some(id), _) => (id.namespace.as_str().into(), Some(id.tool.as_str().into())),
        (None, Some(id)) => {
            (id.namespace.as_str().to_owned().into(), Some(id.tool.as_str().to_owned().into()))
        }
        (None, None) => ((*outcome.called).into(), None),
    }
}

impl<'a> From<&'a CallOutcome> for CallResult<'a> {
    fn from(outcome: &'a CallOutcome) -> Self {
        let (tool_name, action) = tool_names(outcome);
        Self {
            id: &outcome.id,
            tool: &outcome.called,
            tool_name,
            action,
            status: outcome.status(),
            executed: outcome.executed,
            output: outcome.output(),
            error: outcome.error().map(CallResultError::from),
            text: frame::outcome_text(outcome),
            usage: CallUsage::from(&outcome.usage),
            plugin: outcome.plugin.as_ref(),
            approval: outcome.approval(),
            payload: outcome.payload(),
            expires_at: outcome.expires_ms(),
        }
    }
}

impl<'a> From<&'a CallError> for CallResultError<'a> {
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

impl From<&Usage> for CallUsage {
    fn from(usage: &Usage) -> Self {
        let Usage { fuel, memory_bytes, duration_us, host_calls, egress_bytes, output_bytes, log_bytes } =
            *usage;
        Self { fuel, memory_bytes, duration_us, host_calls, egress_bytes, output_bytes, log_bytes }
    }
}

impl<'a> From<&'a CallOutcome> for CallState<'a> {
    fn from(outcome: &'a CallOutcome) -> Self {
        let error = outcome.error();
        Self {
            id: &outcome.id,
            status: outcome.status(),
            executed: outcome.executed,
            error_type: error.map(|error| error.error_type.as_str()),
            retryable: error.map(|error| error.retryable),
            details: error.and_then(|error| error.details.as_ref()),
            payload: outcome.payload(),
            approval: outcome.approval(),
            expires_at: outcome.expires_ms(),
        }
    }
}
