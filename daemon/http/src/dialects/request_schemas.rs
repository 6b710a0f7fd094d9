//! Schemas of requests in every dialect, for the OpenAPI document.
//!
//! The parsers in this folder enforce more than a schema can express, such as that a list has a call among its items.
//! For the providers' types the document has the fields of a call; the providers document the others.

use super::envelope::OnDisconnect;
use serde_json::Value;
use utoipa::ToSchema;

/// Calls to execute. The request has exactly one member that carries calls, which selects the dialect.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(crate) enum CallsRequest {
    /// Toolgate's own dialect.
    Native(NativeRequest),
    /// The chat completions of OpenAI.
    OpenAi(OpenAiRequest),
    /// The responses of OpenAI.
    Responses(ResponsesRequest),
    /// The messages of Anthropic.
    Anthropic(AnthropicRequest),
    /// Gemini's parts.
    Gemini(GeminiRequest),
    /// One call as a flat object.
    Flat(FlatRequest),
    /// One call as a string.
    Text(TextRequest),
}

macro_rules! request {
    ($(#[$about:meta])* $name:ident as $schema:ident { $(#[$member_about:meta])* $member:ident: $type:ty $(, id: $id:ty)? }) => {
        $(#[$about])*
        #[derive(ToSchema)]
        #[schema(as = $schema)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "read by the derive alone")]
        pub(crate) struct $name {
            /// The model's turn: an id of the orchestrator, at most 200 bytes. Rounds are counted per turn.
            #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "t1")]
            turn: Option<String>,
            /// The effect on running calls when the client hangs up. Default: `finish`.
            on_disconnect: Option<OnDisconnect>,
            /// The time that the calls may take, waits included, in milliseconds. A longer one than the limit of the agent's
            /// rules has no effect. Default: that limit.
            #[schema(minimum = 1, example = 10_000)]
            deadline_ms: Option<u64>,
            $(
                /// The call's id, unique in the session: at most 2 KiB of visible characters. A repeated id returns the
                /// response of the same call. Default: a new id.
                #[schema(example = "c1")]
                id: $id,
            )?
            $(#[$member_about])*
            $member: $type,
        }
    };
}

request! {
    /// Calls in Toolgate's own dialect.
    NativeRequest as NativeCalls {
        /// The calls, at most 32 unless the operator allows more. They run concurrently.
        #[schema(min_items = 1)]
        calls: Vec<CallRequest>
    }
}

request! {
    /// Calls in the format of OpenAI's chat completions.
    OpenAiRequest as OpenAiCalls {
        /// The assistant message, or its `tool_calls` alone.
        openai: OpenAiMessage
    }
}

request! {
    /// Calls in the format of OpenAI's responses.
    ResponsesRequest as OpenAiResponsesCalls {
        /// The output items. Items of the type `function_call` are executed; others are ignored.
        #[schema(min_items = 1)]
        openai_responses: Vec<ResponsesItem>
    }
}

request! {
    /// Calls in the format of Anthropic's messages.
    AnthropicRequest as AnthropicCalls {
        /// The content blocks. Items of the type `tool_use` are executed; others are ignored.
        #[schema(min_items = 1)]
        anthropic: Vec<AnthropicBlock>
    }
}

request! {
    /// Calls in the format of Gemini.
    GeminiRequest as GeminiCalls {
        /// The parts of the content. Parts with a `functionCall` are executed; others are ignored.
        #[schema(min_items = 1)]
        gemini: Vec<GeminiPart>
    }
}

request! {
    /// One call as a flat object.
    FlatRequest as FlatCall {
        /// The call.
        tool_call: FlatToolCall,
        id: Option<String>
    }
}

request! {
    /// One call as a string.
    TextRequest as TextCall {
        /// Exactly `[[TOOL_CALL: name(argument='value', other=3)]]` without surrounding text. The arguments are named
        /// JSON literals, whose strings can also be in single quotes.
        #[schema(pattern = r"^\[\[TOOL_CALL:\s*[A-Za-z0-9_/.-]+\([\s\S]*\)\]\]$", example = "[[TOOL_CALL: call_arithmetic_evaluate(expression='6*7')]]")]
        text: String,
        id: Option<String>
    }
}

/// An assistant message. Its other fields are allowed.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct OpenAiMessage {
    /// The tool calls. Function calls are executed; others are ignored.
    #[schema(min_items = 1)]
    tool_calls: Vec<OpenAiToolCall>,
}

/// A tool call of OpenAI's chat completions. Its other fields are allowed.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct OpenAiToolCall {
    /// The call's id, any visible characters.
    #[schema(max_length = 2048, example = "call_1")]
    id: String,
    /// The type, `function`.
    #[schema(pattern = "^function$")]
    r#type: String,
    /// The function to call.
    function: OpenAiFunction,
}

/// The function of a tool call.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct OpenAiFunction {
    /// The wire name, `call_NAMESPACE_TOOL`, from the tool list.
    #[schema(example = "call_arithmetic_evaluate")]
    name: String,
    /// The arguments as the model wrote them: a JSON object as a string.
    #[schema(example = "{\"expression\":\"6*7\"}")]
    arguments: String,
}

/// An output item of OpenAI's responses. Its other fields are allowed.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct ResponsesItem {
    /// The type; an item of the type `function_call` is a call.
    #[schema(example = "function_call")]
    r#type: String,
    /// The call's id.
    #[schema(required = false, value_type = String, example = "call_1")]
    call_id: Option<String>,
    /// The wire name, `call_NAMESPACE_TOOL`, from the tool list.
    #[schema(required = false, value_type = String, example = "call_arithmetic_evaluate")]
    name: Option<String>,
    /// The arguments as the model wrote them: a JSON object as a string.
    #[schema(required = false, value_type = String, example = "{\"expression\":\"6*7\"}")]
    arguments: Option<String>,
}

/// A content block of Anthropic's messages. Its other fields are allowed.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct AnthropicBlock {
    /// The type; a block of the type `tool_use` is a call.
    #[schema(example = "tool_use")]
    r#type: String,
    /// The call's id.
    #[schema(required = false, value_type = String, example = "toolu_1")]
    id: Option<String>,
    /// The wire name, `call_NAMESPACE_TOOL`, from the tool list.
    #[schema(required = false, value_type = String, example = "call_arithmetic_evaluate")]
    name: Option<String>,
    /// The arguments.
    #[schema(required = false, value_type = Value)]
    input: Option<Value>,
}

/// A part of a Gemini content. Its other fields are allowed.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct GeminiPart {
    /// The call, if the part is one.
    #[schema(required = false, value_type = GeminiFunctionCall)]
    #[serde(rename = "functionCall")]
    function_call: Option<GeminiFunctionCall>,
}

/// A function call of Gemini.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct GeminiFunctionCall {
    /// The call's id, if it has one.
    id: Option<String>,
    /// The wire name, `call_NAMESPACE_TOOL`, from the tool list.
    #[schema(example = "call_arithmetic_evaluate")]
    name: String,
    /// The arguments.
    #[schema(required = false, value_type = Value)]
    args: Option<Value>,
}

/// A call as a flat object.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct FlatToolCall {
    /// The namespace, or the wire name if `action` is absent.
    #[schema(example = "arithmetic")]
    tool_name: String,
    /// The tool's name within the namespace.
    #[schema(example = "evaluate")]
    action: Option<String>,
    /// The arguments.
    #[schema(required = false, value_type = Value)]
    parameters: Option<Value>,
}

/// A call.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(super) struct CallRequest {
    /// The call's id, unique in the session: at most 2 KiB of visible characters. A repeated id returns the response of the
    /// first call. The second of two equal ids of a request is that call's `CONFLICT`. Default: a new id.
    #[schema(example = "c1")]
    id: Option<String>,
    /// `call_NAMESPACE_TOOL` or `namespace/tool`. A name that is not a valid tool name, or too long, makes this call
    /// fail with `TOOL_NOT_FOUND`, and no name with `INVALID_REQUEST`; a name of more than 256 bytes is truncated in the
    /// response.
    tool: String,
    /// An object that matches the tool's input schema. Default: an empty object. Arguments that do not match make
    /// this call fail with `INVALID_ARGUMENTS`.
    #[schema(value_type = Value, required = false, example = json!({"expression": "6*7"}))]
    arguments: Option<Value>,
}

#[cfg(test)]
mod tests;
