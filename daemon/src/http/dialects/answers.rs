//! Answers in every dialect: the types that are serialized, and that the OpenAPI document describes.

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
    /// Toolgate's own.
    Native(NativeAnswer<'a>),
    /// OpenAI's chat completions.
    OpenAi(OpenAiAnswer<'a>),
    /// OpenAI's responses.
    Responses(ResponsesAnswer<'a>),
    /// Anthropic's messages.
    Anthropic(AnthropicAnswer<'a>),
    /// Gemini.
    Gemini(GeminiAnswer<'a>),
    /// One call as a flat object.
    Flat(FlatAnswer<'a>),
    /// One call as a string.
    Text(TextAnswer<'a>),
}

/// The members that every answer has beside the results.
#[derive(Clone, Copy, Debug)]
pub struct ReplyContext<'a> {
    /// The session.
    pub session: &'a str,
    /// The orchestrator's conversation, where the session has one.
    pub conversation: Option<&'a str>,
    /// The turn, where the request named one.
    pub turn: Option<&'a str>,
    /// The next step of the orchestrator.
    pub next: &'static str,
}

macro_rules! answer {
    ($(#[$about:meta])* $name:ident { $($(#[$member_about:meta])* $member:ident: $type:ty),* }) => {
        $(#[$about])*
        #[derive(Serialize, ToSchema)]
        pub struct $name<'a> {
            /// The session.
            session: &'a str,
            /// The orchestrator's conversation, where the session has one.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schema(value_type = String, required = false)]
            conversation: Option<&'a str>,
            /// The turn, where the request named one.
            #[serde(skip_serializing_if = "Option::is_none")]
            #[schema(value_type = String, required = false)]
            turn: Option<&'a str>,
            $($(#[$member_about])* $member: $type,)*
            /// The next step of the orchestrator: wait for an `approval`, hand payloads to the `client`, `wait` for calls that
            /// still run, or give the results to the `model`.
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
        /// One result a call, in the order of the request.
        results: Vec<CallResult<'a>>
    }
}

answer! {
    /// The outcomes of calls of OpenAI's chat completions.
    OpenAiAnswer {
        /// The messages that answer the calls; they follow the assistant's.
        openai: Vec<openai::OpenAiToolMessage<'a>>,
        /// The state of each call, for a program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcomes of calls of OpenAI's responses.
    ResponsesAnswer {
        /// The items that answer the calls, for the next `input`.
        openai_responses: Vec<responses::ResponsesOutput<'a>>,
        /// The state of each call, for a program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcomes of calls of Anthropic's messages.
    AnthropicAnswer {
        /// The blocks that answer the calls, for the content of the next message of the user.
        anthropic: Vec<anthropic::AnthropicToolResult<'a>>,
        /// The state of each call, for a program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcomes of calls of Gemini.
    GeminiAnswer {
        /// The parts that answer the calls, for the next content of the user.
        gemini: Vec<gemini::GeminiResponsePart<'a>>,
        /// The state of each call, for a program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcome of the call of a flat object.
    FlatAnswer {
        /// The result, the error, or what the call waits for.
        tool_call: s5::FlatResult<'a>,
        /// The state of the call, for a program.
        calls: Vec<CallState<'a>>
    }
}

answer! {
    /// The outcome of the call of a string.
    TextAnswer {
        /// `[[TOOL_RESPONSE: name(…) -> …]]`: a string as a literal in single quotes, other output as JSON, or `error`
        /// with its type and message.
        text: String,
        /// The state of the call, for a program.
        calls: Vec<CallState<'a>>
    }
}

/// The outcome of one call.
#[derive(Serialize, ToSchema)]
pub struct CallResult<'a> {
    /// The call's id.
    id: &'a str,
    /// The tool as the model named it.
    tool: &'a str,
    /// The namespace; the tool as the model named it, where that is no tool name.
    #[schema(value_type = String)]
    tool_name: Cow<'a, str>,
    /// The tool in its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    action: Option<Cow<'a, str>>,
    /// How the call ended, or that it has not.
    status: Status,
    /// Whether guest code began to run.
    executed: Executed,
    /// The result, any JSON, where the status is `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<&'a RawValue>,
    /// The error, where the status is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = CallResultError, required = false)]
    error: Option<CallResultError<'a>>,
    /// The result as text for a model's context, marked as data.
    text: String,
    /// Resources that the call used.
    usage: CallUsage,
    /// The plugin that ran, or would have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = PluginStamp, required = false)]
    plugin: Option<&'a PluginStamp>,
    /// The approval that the call waits for, where the status is `approval_required`.
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
    /// The stable code.
    #[schema(value_type = ErrorTypeForm)]
    error_type: &'static str,
    /// What happened, for a model.
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

/// Resources that a call used.
#[derive(Serialize, ToSchema)]
pub struct CallUsage {
    /// Guest instructions.
    fuel: u64,
    /// Peak memory of the guest, in bytes.
    memory_bytes: u64,
    /// Time in the sandbox, in microseconds.
    duration_us: u64,
    /// Calls of the guest into the host.
    host_calls: u64,
    /// Bytes over the network, both directions together.
    egress_bytes: u64,
    /// Size of the result as JSON text, in bytes.
    output_bytes: u64,
    /// Bytes written to the log, standard output and standard error.
    log_bytes: u64,
}

/// The state of a call, for the orchestrator's program, beside the list for the model.
#[derive(Serialize, ToSchema)]
pub struct CallState<'a> {
    /// The call's id.
    id: &'a str,
    /// How the call ended, or that it has not.
    status: Status,
    /// Whether guest code began to run.
    executed: Executed,
    /// The stable code, where the status is `error`.
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
    /// The approval that the call waits for.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    approval: Option<&'a ApprovalStamp>,
    /// Deadline for the client to post the result, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
}

/// The namespace and the tool; the name as the model called it, where that is no tool name.
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
