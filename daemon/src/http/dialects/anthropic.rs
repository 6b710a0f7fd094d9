//! Anthropic's messages: content blocks, of which a `tool_use` is a call. The response has `tool_result` blocks for
//! the next user message.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::items::{Calls, fitting, is_a};
use crate::call::CallOutcome;
use crate::frame;
use crate::http::problem::Problem;

/// A `tool_use` block.
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

/// Adds the `tool_use` blocks. Anthropic executes the calls of its own server tools (`server_tool_use`) itself.
pub fn parse(blocks: &[&RawValue], calls: &mut Calls) -> Result<(), Problem> {
    for (at, block) in blocks.iter().enumerate() {
        let place = format_args!("/anthropic/{at}");
        if !is_a("tool_use", block, place)? {
            continue;
        }
        let call: Call<'_> = fitting(block, place)?;
        calls.add(Some(call.id), &call.name, call.input.map(RawValue::get))?;
    }
    Ok(())
}

/// A result block for a call.
#[derive(Serialize, ToSchema)]
pub struct AnthropicToolResult<'a> {
    /// The type, `tool_result`.
    #[schema(pattern = "^tool_result$")]
    r#type: &'static str,
    /// The call's id.
    tool_use_id: &'a str,
    /// The result as text, framed as data.
    content: String,
    /// `true` if the call was refused or failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    is_error: bool,
}

/// Returns one block per call.
pub fn answer<'a>(outcomes: &'a [Arc<CallOutcome>]) -> Vec<AnthropicToolResult<'a>> {
    let block = |outcome: &'a CallOutcome| AnthropicToolResult {
        r#type: "tool_result",
        tool_use_id: &outcome.id,
        content: frame::outcome_text(outcome),
        is_error: outcome.error().is_some(),
    };
    outcomes.iter().map(|outcome| block(outcome)).collect()
}
