//! OpenAI's chat completions: an assistant message with `tool_calls`, answered by messages of the role `tool`.
//!
//! `arguments` is a string that the model wrote. If it is not valid JSON, the call gets `INVALID_ARGUMENTS` for the
//! model to read, since the client that posts it cannot fix it.

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_api::read::Object;
use toolgate_core::call::CallAnswer;
use utoipa::ToSchema;

use super::content;
use super::items::{Calls, GivenCall, GivenId, Items, LooseText, fitting, invalid, kind, unknown_kind};
use crate::problem::Problem;

/// An assistant message, or its list of calls alone.
#[derive(Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    tool_calls: Option<Items<&'a RawValue>>,
    function_call: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Id<'a> {
    #[serde(borrow, default)]
    id: LooseText<'a>,
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    function: Object<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow, default)]
    name: LooseText<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
}

/// Adds the message's function calls. Calls of custom tools are not Toolgate's and are skipped.
pub(super) fn parse(message: Message<'_>, calls: &mut Calls) -> Result<Vec<GivenId>, Problem> {
    if message.function_call.is_some() {
        return Err(invalid(
            "`/openai/function_call` was replaced by `tool_calls`",
            "give the model tools in place of functions, and post what it has in `tool_calls`",
        ));
    }
    let items = message.tool_calls.map(Items::into_vec).transpose()?.unwrap_or_default();
    let mut ids = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        let place = format_args!("/openai/tool_calls/{at}");
        let unfit = match kind(item, place) {
            Ok(kind) => match kind.as_deref() {
                None | Some("function") => None,
                Some("custom") => continue,
                Some(kind) => Some(unknown_kind(kind, "function", place)),
            },
            Err(unfit) => Some(unfit),
        };
        let id = fitting::<Id<'_>>(item, place).map(|call| call.id).unwrap_or_default();
        let (given, fault) = match fitting::<Call<'_>>(item, place) {
            Ok(Call { function: Object(Function { name, arguments }) }) => {
                (GivenCall { id, name, arguments }, unfit)
            }
            Err(fault) => (GivenCall { id, ..GivenCall::default() }, unfit.or(Some(fault))),
        };
        ids.push(calls.add_given(given, fault, place));
    }
    Ok(ids)
}

/// A tool message for a call.
#[derive(Serialize, ToSchema)]
pub(super) struct OpenAiToolMessage<'a> {
    /// The role, `tool`.
    #[schema(pattern = "^tool$")]
    role: &'static str,
    /// The call's id.
    tool_call_id: &'a str,
    /// The result as text, as it is but for invisible characters.
    content: String,
}

/// Returns one message per call.
pub(super) fn answer<'a>(ids: &'a [GivenId], outcomes: &'a [CallAnswer]) -> Vec<OpenAiToolMessage<'a>> {
    let message = |(id, outcome): (&'a GivenId, &'a CallAnswer)| OpenAiToolMessage {
        role: "tool",
        tool_call_id: id.or_id_of(outcome),
        content: content::text(outcome),
    };
    ids.iter().zip(outcomes).map(message).collect()
}
