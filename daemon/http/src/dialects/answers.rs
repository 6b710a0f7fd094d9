//! Responses in every dialect: the serialized types, which the OpenAPI document describes.

use std::borrow::Cow;
use toolgate_api::call::{CallResult, CallResultError, CallState, NativeAnswer};
use toolgate_core::call::{CallAnswer, CallOutcome};
use toolgate_core::dispatch::BatchOutcome;
use toolgate_core::sessions::Session;

use serde::Serialize;
use toolgate_api::error::CallError;
use utoipa::ToSchema;

use super::{anthropic, gemini, openai, responses, s5};
use crate::frame;

/// The outcomes of the calls, in the dialect of the request.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[allow(clippy::large_enum_variant, reason = "one value for each request")]
pub(crate) enum CallsAnswer<'a> {
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
pub(crate) struct ReplyContext<'a> {
    /// The session's id.
    pub session: &'a str,
    /// The orchestrator's conversation id, if the session has one.
    pub conversation: Option<&'a str>,
    /// The turn, if the request has one.
    pub turn: Option<&'a str>,
    /// The next action of the orchestrator.
    pub next: &'static str,
}

impl<'a> ReplyContext<'a> {
    /// Returns the members of the response to a request with calls.
    pub(crate) fn new(session: &'a Session, turn: Option<&'a str>, outcome: &BatchOutcome) -> Self {
        let conversation = session.setup.conversation.as_deref();
        Self { session: &session.setup.id, conversation, turn, next: outcome.next().as_str() }
    }
}

macro_rules! answer {
    ($(#[$about:meta])* $name:ident { $($(#[$member_about:meta])* $member:ident: $type:ty),* }) => {
        $(#[$about])*
        #[derive(Serialize, ToSchema)]
        pub(crate) struct $name<'a> {
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

/// Renders the outcomes of calls in Toolgate's own dialect.
pub(super) fn native<'a>(context: ReplyContext<'a>, results: Vec<CallResult<'a>>) -> NativeAnswer<'a> {
    let ReplyContext { session, conversation, turn, next } = context;
    NativeAnswer {
        session: session.into(),
        conversation: conversation.map(Cow::from),
        turn: turn.map(Cow::from),
        results,
        next: next.into(),
    }
}

/// Renders the outcome of a call. `replayed`: the call ran for an earlier request.
pub(crate) fn call_result(outcome: &CallOutcome, replayed: bool) -> CallResult<'_> {
    let (tool_name, action) = s5::tool_names(outcome);
    CallResult {
        session: None,
        conversation: None,
        id: outcome.id.as_str().into(),
        tool: (*outcome.called).into(),
        tool_name,
        action,
        status: outcome.status(),
        executed: outcome.executed,
        replayed,
        output: outcome.output().map(Cow::Borrowed),
        content: outcome.content.as_slice().into(),
        error: outcome.error().map(call_error),
        text: frame::outcome_text(outcome),
        usage: outcome.usage,
        plugin: outcome.plugin.as_ref().map(Cow::Borrowed),
        approval: outcome.approval().map(Cow::Borrowed),
        payload: outcome.payload().map(Cow::Borrowed),
        expires_at: outcome.expires_ms(),
    }
}

fn call_error(error: &CallError) -> CallResultError<'_> {
    CallResultError {
        error_type: error.error_type,
        message: error.message.as_str().into(),
        hint: error.hint.as_str().into(),
        retryable: error.retryable,
        details: error.details.as_ref().map(Cow::Borrowed),
    }
}

pub(super) fn call_state(answer: &CallAnswer) -> CallState<'_> {
    let (outcome, replayed) = (&*answer.outcome, answer.replayed);
    let error = outcome.error();
    CallState {
        id: outcome.id.as_str().into(),
        status: outcome.status(),
        executed: outcome.executed,
        replayed,
        output: outcome.output().map(Cow::Borrowed),
        content: outcome.content.as_slice().into(),
        error_type: error.map(|error| error.error_type),
        retryable: error.map(|error| error.retryable),
        details: error.and_then(|error| error.details.as_ref()).map(Cow::Borrowed),
        payload: outcome.payload().map(Cow::Borrowed),
        approval: outcome.approval().map(Cow::Borrowed),
        expires_at: outcome.expires_ms(),
    }
}
