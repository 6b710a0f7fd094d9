//! Answers in each form, as the OpenAPI document tells of them.

use serde_json::Value;
use utoipa::ToSchema;

use crate::dispatch::Executed;
use crate::http::calls::CallResult;
use crate::http::problem::ErrorTypeForm;
use crate::sessions::Status as CallStatus;

/// What became of the calls, in the form in which they came.
#[derive(ToSchema)]
#[schema(as = CallsAnswer)]
#[serde(untagged)]
#[allow(dead_code, clippy::large_enum_variant, reason = "read by the derive alone")]
pub enum AnswerForm {
    /// Our own form.
    Ours(OurAnswer),
    /// The chat completions of OpenAI.
    OpenAi(OpenAiAnswer),
    /// The responses of OpenAI.
    Responses(ResponsesAnswer),
    /// The messages of Anthropic.
    Anthropic(AnthropicAnswer),
    /// Gemini.
    Gemini(GeminiAnswer),
    /// One call as a flat object.
    Flat(FlatAnswer),
    /// One call as a string.
    Text(TextAnswer),
}

macro_rules! answer {
    ($(#[$about:meta])* $name:ident { $($(#[$member_about:meta])* $member:ident: $type:ty),* }) => {
        $(#[$about])*
        #[derive(ToSchema)]
        #[allow(dead_code, reason = "read by the derive alone")]
        pub struct $name {
            /// The session.
            session: String,
            /// The orchestrator's conversation, where the session has one.
            #[schema(value_type = String, required = false)]
            conversation: Option<String>,
            /// The turn, where the request named one.
            #[schema(value_type = String, required = false)]
            turn: Option<String>,
            $($(#[$member_about])* $member: $type,)*
            /// What the orchestrator does next: wait for an `approval`, hand to the `client`, `wait` for calls that still run, or go
            /// on with the `model`.
            #[schema(pattern = "^(approval|client|wait|model)$")]
            next: String,
        }
    };
}

answer! {
    /// What became of calls in our own form.
    OurAnswer {
        /// One result a call, in the order of the request.
        results: Vec<CallResult>
    }
}

answer! {
    /// What became of calls of OpenAI's chat completions.
    OpenAiAnswer {
        /// The messages that answer the calls; they follow the assistant's.
        openai: Vec<OpenAiToolMessage>,
        /// What became of each call, for a program.
        calls: Vec<CallState>
    }
}

answer! {
    /// What became of calls of OpenAI's responses.
    ResponsesAnswer {
        /// The items that answer the calls, for the next `input`.
        openai_responses: Vec<ResponsesOutput>,
        /// What became of each call, for a program.
        calls: Vec<CallState>
    }
}

answer! {
    /// What became of calls of Anthropic's messages.
    AnthropicAnswer {
        /// The blocks that answer the calls, for the content of the next message of the user.
        anthropic: Vec<AnthropicToolResult>,
        /// What became of each call, for a program.
        calls: Vec<CallState>
    }
}

answer! {
    /// What became of calls of Gemini.
    GeminiAnswer {
        /// The parts that answer the calls, for the next content of the user.
        gemini: Vec<GeminiResponsePart>,
        /// What became of each call, for a program.
        calls: Vec<CallState>
    }
}

answer! {
    /// What became of the call of a flat object.
    FlatAnswer {
        /// The result, or the error, or what the call waits for.
        tool_call: FlatResult,
        /// What became of the call, for a program.
        calls: Vec<CallState>
    }
}

answer! {
    /// What became of the call of a string.
    TextAnswer {
        /// `[[TOOL_RESPONSE: name(…) -> …]]`: a string as a literal in single quotes, other output as JSON, or `error`
        /// with its type and message.
        text: String,
        /// What became of the call, for a program.
        calls: Vec<CallState>
    }
}

/// A message that answers a call.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct OpenAiToolMessage {
    /// `tool`.
    #[schema(pattern = "^tool$")]
    role: String,
    /// The call's id.
    tool_call_id: String,
    /// The result as text, marked as data.
    content: String,
}

/// An item that answers a call.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct ResponsesOutput {
    /// `function_call_output`.
    #[schema(pattern = "^function_call_output$")]
    r#type: String,
    /// The call's id.
    call_id: String,
    /// The result as text, marked as data.
    output: String,
    /// Who called, as the call said it.
    #[schema(value_type = Value, required = false)]
    caller: Option<Value>,
}

/// A block that answers a call.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct AnthropicToolResult {
    /// `tool_result`.
    #[schema(pattern = "^tool_result$")]
    r#type: String,
    /// The call's id.
    tool_use_id: String,
    /// The result as text, marked as data.
    content: String,
    /// True where the call was refused or failed.
    #[schema(value_type = bool, required = false)]
    is_error: Option<bool>,
}

/// A part that answers a call.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct GeminiResponsePart {
    /// The response.
    #[serde(rename = "functionResponse")]
    function_response: GeminiFunctionResponse,
}

/// The response to a call of Gemini's.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct GeminiFunctionResponse {
    /// The call's id, where Gemini gave it one.
    #[schema(value_type = String, required = false)]
    id: Option<String>,
    /// The function as it was called.
    name: String,
    /// What came of it.
    response: GeminiResponse,
}

/// What came of a call of Gemini's.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct GeminiResponse {
    /// The result as text, marked as data.
    #[schema(value_type = String, required = false)]
    output: Option<String>,
    /// The error as text, where the call was refused or failed.
    #[schema(value_type = String, required = false)]
    error: Option<String>,
}

/// The result of a call, or its error, as a flat object.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct FlatResult {
    /// The namespace, as it was called.
    tool_name: String,
    /// The tool in its namespace.
    #[schema(value_type = String, required = false)]
    action: Option<String>,
    /// How the call ended, or that it has not.
    status: CallStatus,
    /// Whether guest code began.
    executed: Executed,
    /// The result, any JSON, where the status is `ok`.
    #[schema(value_type = Value, required = false)]
    output: Option<Value>,
    /// The stable code, where the status is `error`.
    #[schema(value_type = ErrorTypeForm, required = false)]
    error_type: Option<String>,
    /// What happened, or what the call waits for.
    #[schema(value_type = String, required = false)]
    message: Option<String>,
    /// What to do about it.
    #[schema(value_type = String, required = false)]
    hint: Option<String>,
    /// Whether the same call can succeed later.
    #[schema(value_type = bool, required = false)]
    retryable: Option<bool>,
    /// More, in a form that depends on the `error_type`.
    #[schema(value_type = Object, required = false)]
    details: Option<Value>,
    /// What the client is to carry out, where the status is `client_required`.
    #[schema(value_type = Value, required = false)]
    payload: Option<Value>,
    /// The approval that the call waits for.
    #[schema(value_type = Value, required = false)]
    approval: Option<Value>,
    /// When it is waited for no longer, in milliseconds since 1970.
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
}

/// What became of a call, for a program.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct CallState {
    /// The call's id.
    id: String,
    /// How it ended, or that it has not.
    status: CallStatus,
    /// Whether guest code began.
    executed: Executed,
    /// The stable code, where the status is `error`.
    #[schema(value_type = ErrorTypeForm, required = false)]
    error_type: Option<String>,
    /// Whether the same call can succeed later.
    #[schema(value_type = bool, required = false)]
    retryable: Option<bool>,
    /// More, in a form that depends on the `error_type`.
    #[schema(value_type = Object, required = false)]
    details: Option<Value>,
    /// What the client is to carry out, where the status is `client_required`.
    #[schema(value_type = Value, required = false)]
    payload: Option<Value>,
    /// The approval that the call waits for.
    #[schema(value_type = Value, required = false)]
    approval: Option<Value>,
    /// When it is waited for no longer, in milliseconds since 1970.
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
}
