//! Anthropic's messages: the content blocks, of which `tool_use` is a call; answered with `tool_result` blocks for
//! the next user message.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Form;
use super::envelope::{Calls, fitting, is_a};
use super::outcome::Outcome;
use crate::http::problem::Problem;

/// A block that is a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some fields are accepted because the published type has them")]
struct Call<'a> {
    id: String,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: IgnoredAny,
    caller: Option<IgnoredAny>,
    cache_control: Option<IgnoredAny>,
    toolset_name: Option<IgnoredAny>,
}

/// Adds the blocks that are calls; those of Anthropic's own servers (`server_tool_use`) are answered there.
pub fn read(blocks: &[&RawValue], calls: &mut Calls) -> Result<Form, Problem> {
    for (at, block) in blocks.iter().enumerate() {
        let place = format_args!("/anthropic/{at}");
        if !is_a("tool_use", block, place)? {
            continue;
        }
        let call: Call<'_> = fitting(block, place)?;
        calls.add(Some(call.id), &call.name, call.input.map(RawValue::get))?;
    }
    Ok(Form::Anthropic)
}

/// A block that answers a call.
#[derive(Serialize)]
pub struct ToolResult<'a> {
    r#type: &'static str,
    tool_use_id: &'a str,
    content: Cow<'a, str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

/// One block a call.
pub fn answer<'a>(outcomes: &'a [Outcome<'_>]) -> Vec<ToolResult<'a>> {
    let block = |outcome: &'a Outcome<'_>| ToolResult {
        r#type: "tool_result",
        tool_use_id: &outcome.id,
        content: outcome.content(),
        is_error: outcome.error.is_some(),
    };
    outcomes.iter().map(block).collect()
}
