//! OpenAI's chat completions: an assistant message with `tool_calls`, answered by messages of the role `tool`.
//!
//! `arguments` is a string that the model wrote. If it is not valid JSON, the call gets `INVALID_ARGUMENTS` for the
//! model to read, since the client that posts it cannot fix it.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_api::read::Object;
use utoipa::ToSchema;

use super::items::{Calls, Items, MaybeText, fitting, invalid, kind, unknown_kind};
use crate::call::CallOutcome;
use crate::frame;
use crate::http::problem::Problem;

/// An assistant message, or its list of calls alone.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "most fields are accepted because the published type has them")]
pub struct Message<'a> {
    #[serde(borrow, default)]
    tool_calls: Option<Items<&'a RawValue>>,
    function_call: Option<IgnoredAny>,
    role: Option<IgnoredAny>,
    name: Option<IgnoredAny>,
    content: Option<IgnoredAny>,
    refusal: Option<IgnoredAny>,
    annotations: Option<IgnoredAny>,
    audio: Option<IgnoredAny>,
    parsed: Option<IgnoredAny>,
}

/// A function call. Chunks of a stream have `index`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some fields are accepted because the published type has them")]
struct Call<'a> {
    id: String,
    #[serde(borrow)]
    function: Object<Function<'a>>,
    #[serde(rename = "type")]
    kind: Option<IgnoredAny>,
    index: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "one field is accepted because the published type has it")]
struct Function<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: MaybeText<'a>,
    parsed_arguments: Option<IgnoredAny>,
}

/// Adds the message's function calls. Calls of custom tools are not Toolgate's and are skipped.
pub fn parse(message: Message<'_>, calls: &mut Calls) -> Result<(), Problem> {
    if message.function_call.is_some() {
        return Err(invalid(
            "`/openai/function_call` was replaced by `tool_calls`",
            "give the model tools in place of functions, and post what it has in `tool_calls`",
        ));
    }
    let items = message.tool_calls.map(Items::into_vec).transpose()?.unwrap_or_default();
    for (at, item) in items.iter().enumerate() {
        let place = format_args!("/openai/tool_calls/{at}");
        match kind(item, place)?.as_deref() {
            None | Some("function") => {}
            Some("custom") => continue,
            Some(kind) => return Err(unknown_kind(kind, "function", place)),
        }
        let Call { id, function: Object(function), .. } = fitting(item, place)?;
        calls.add(Some(id), &function.name, arguments(&function.arguments))?;
    }
    Ok(())
}

/// Returns the text of the arguments. Models write an empty string for a function without parameters.
pub fn arguments<'a>(text: &'a MaybeText<'_>) -> Option<&'a str> {
    text.0.as_deref().filter(|text| !text.is_empty())
}

/// A tool message for a call.
#[derive(Serialize, ToSchema)]
pub struct OpenAiToolMessage<'a> {
    /// The role, `tool`.
    #[schema(pattern = "^tool$")]
    role: &'static str,
    /// The call's id.
    tool_call_id: &'a str,
    /// The result as text, framed as data.
    content: String,
}

/// Returns one message per call.
pub fn answer<'a>(outcomes: &'a [Arc<CallOutcome>]) -> Vec<OpenAiToolMessage<'a>> {
    let message = |outcome: &'a CallOutcome| OpenAiToolMessage {
        role: "tool",
        tool_call_id: &outcome.id,
        content: frame::outcome_text(outcome),
    };
    outcomes.iter().map(|outcome| message(outcome)).collect()
}
