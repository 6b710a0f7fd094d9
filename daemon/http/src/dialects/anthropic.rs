//! Anthropic's messages: content blocks, of which a `tool_use` is a call. The response has `tool_result` blocks for
//! the next user message.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_core::call::CallAnswer;
use utoipa::ToSchema;

use super::content::{self, ProviderContent};
use super::items::{Calls, GivenCall, GivenId, LooseText, fitting, is_a};

/// A `tool_use` block.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    id: LooseText<'a>,
    #[serde(borrow, default)]
    name: LooseText<'a>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
}

/// Adds the `tool_use` blocks. Anthropic executes the calls of its own server tools (`server_tool_use`) itself.
pub(super) fn parse(blocks: &[&RawValue], calls: &mut Calls) -> Vec<GivenId> {
    let mut ids = Vec::new();
    for (at, block) in blocks.iter().enumerate() {
        let place = format_args!("/anthropic/{at}");
        let fault = match is_a("tool_use", block, place) {
            Ok(true) => None,
            Ok(false) => continue,
            Err(fault) => Some(fault),
        };
        let (given, fault) = match fitting::<Call<'_>>(block, place) {
            Ok(Call { id, name, input }) => (GivenCall { id, name, arguments: input }, fault),
            Err(unfit) => (GivenCall::default(), fault.or(Some(unfit))),
        };
        ids.push(calls.add_given(given, fault, place));
    }
    ids
}

/// A result block for a call.
#[derive(Serialize, ToSchema)]
pub(super) struct AnthropicToolResult<'a> {
    /// The type, `tool_result`.
    #[schema(pattern = "^tool_result$")]
    r#type: &'static str,
    /// The call's id.
    tool_use_id: &'a str,
    /// The result.
    content: ProviderContent,
    /// `true` if the call was refused or failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schema(value_type = bool, required = false)]
    is_error: bool,
}

/// Returns one block per call.
pub(super) fn answer<'a>(ids: &'a [GivenId], outcomes: &'a [CallAnswer]) -> Vec<AnthropicToolResult<'a>> {
    let block = |(id, outcome): (&'a GivenId, &'a CallAnswer)| AnthropicToolResult {
        r#type: "tool_result",
        tool_use_id: id.or_id_of(outcome),
        content: content::anthropic(outcome),
        is_error: outcome.error().is_some(),
    };
    ids.iter().zip(outcomes).map(block).collect()
}
