//! Requests in every dialect, as the OpenAPI document describes them.
//!
//! The parsers beside this file check more than a schema can say, such as that a list has a call among its items. Of the
//! providers' types the document has the fields of a call; the providers document the others.

use serde_json::Value;
use utoipa::ToSchema;

use crate::http::calls::CallRequest;

/// Calls to carry out. The member that carries them chooses the dialect; there is exactly one.
#[derive(ToSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "read by the derive alone")]
pub enum CallsRequest {
    /// Toolgate's own.
    Native(NativeRequest),
    /// The chat completions of OpenAI.
    OpenAi(OpenAiRequest),
    /// The responses of OpenAI.
    Responses(ResponsesRequest),
    /// The messages of Anthropic.
    Anthropic(AnthropicRequest),
    /// Gemini.
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
        pub struct $name {
            /// The model's turn: an id of the orchestrator's, at most 200 bytes. Rounds are counted for each.
            #[schema(min_length = 1, max_length = 200, pattern = r"^[^\x00-\x1f\x7f-\x9f]+$", example = "t1")]
            turn: Option<String>,
            $(
                /// The call's id, unique in the session; the same id answers the same call again. Made where absent.
                #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$", example = "c1")]
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
        /// The calls, at most 32 unless the operator allows more. They run at the same time.
        #[schema(min_items = 1)]
        calls: Vec<CallRequest>
    }
}

request! {
    /// Calls as OpenAI's chat completions have them.
    OpenAiRequest as OpenAiCalls {
        /// The message of the assistant, or its `tool_calls` alone.
        openai: OpenAiMessage
    }
}

request! {
    /// Calls as OpenAI's responses have them.
    ResponsesRequest as OpenAiResponsesCalls {
        /// The output items. Items of the type `function_call` are executed; others are ignored.
        #[schema(min_items = 1)]
        openai_responses: Vec<ResponsesItem>
    }
}

request! {
    /// Calls as Anthropic's messages have them.
    AnthropicRequest as AnthropicCalls {
        /// The content blocks. Items of the type `tool_use` are executed; others are ignored.
        #[schema(min_items = 1)]
        anthropic: Vec<AnthropicBlock>
    }
}

request! {
    /// Calls as Gemini has them.
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
        /// The whole of `[[TOOL_CALL: name(argument='value', other=3)]]` with nothing around it. The arguments are named
        /// JSON literals, of which strings can be in single quotes too.
        #[schema(pattern = r"^\[\[TOOL_CALL:\s*[A-Za-z0-9_/.-]+\([\s\S]*\)\]\]$", example = "[[TOOL_CALL: call_arithmetic_evaluate(expression='6*7')]]")]
        text: String,
        id: Option<String>
    }
}

/// A message of an assistant. Its other fields can be there.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct OpenAiMessage {
    /// The calls. Function calls are executed; others are ignored.
    #[schema(min_items = 1)]
    tool_calls: Vec<OpenAiToolCall>,
}

/// A tool call of OpenAI's. Its other fields can be there.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct OpenAiToolCall {
    /// The call's id.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$", example = "call_1")]
    id: String,
    /// `function`.
    #[schema(pattern = "^function$")]
    r#type: String,
    /// The function.
    function: OpenAiFunction,
}

/// A function that is called.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct OpenAiFunction {
    /// `call_NAMESPACE_TOOL`, as the tool is listed.
    #[schema(example = "call_arithmetic_evaluate")]
    name: String,
    /// The arguments as the model wrote them: the text of a JSON object.
    #[schema(example = "{\"expression\":\"6*7\"}")]
    arguments: String,
}

/// An output item of OpenAI's responses. Its other fields can be there.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct ResponsesItem {
    /// The type; `function_call` is a call.
    #[schema(example = "function_call")]
    r#type: String,
    /// The call's id.
    #[schema(required = false, value_type = String, example = "call_1")]
    call_id: Option<String>,
    /// `call_NAMESPACE_TOOL`, as the tool is listed.
    #[schema(required = false, value_type = String, example = "call_arithmetic_evaluate")]
    name: Option<String>,
    /// The arguments as the model wrote them: the text of a JSON object.
    #[schema(required = false, value_type = String, example = "{\"expression\":\"6*7\"}")]
    arguments: Option<String>,
}

/// A content block of Anthropic's. Its other fields can be there.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct AnthropicBlock {
    /// The type; `tool_use` is a call.
    #[schema(example = "tool_use")]
    r#type: String,
    /// The call's id.
    #[schema(required = false, value_type = String, example = "toolu_1")]
    id: Option<String>,
    /// `call_NAMESPACE_TOOL`, as the tool is listed.
    #[schema(required = false, value_type = String, example = "call_arithmetic_evaluate")]
    name: Option<String>,
    /// The arguments.
    #[schema(required = false, value_type = Value)]
    input: Option<Value>,
}

/// A part of a content of Gemini's. Its other fields can be there.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct GeminiPart {
    /// The call, where it is one.
    #[schema(required = false, value_type = GeminiFunctionCall)]
    #[serde(rename = "functionCall")]
    function_call: Option<GeminiFunctionCall>,
}

/// A call of Gemini's.
#[derive(ToSchema)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct GeminiFunctionCall {
    /// The call's id, where it has one.
    id: Option<String>,
    /// `call_NAMESPACE_TOOL`, as the tool is listed.
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
pub struct FlatToolCall {
    /// A namespace, or without `action` what a model calls the tool.
    #[schema(example = "arithmetic")]
    tool_name: String,
    /// The tool in that namespace.
    #[schema(example = "evaluate")]
    action: Option<String>,
    /// The arguments.
    #[schema(required = false, value_type = Value)]
    parameters: Option<Value>,
}

#[cfg(test)]
mod tests;
