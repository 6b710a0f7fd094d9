//! The dialects of calls: Toolgate's own, S5's, and those of model providers (R1). A request is parsed into calls here, and
//! their outcomes are rendered in the same dialect.
//!
//! The member that carries the calls chooses the dialect; a request with two of them is refused. Fields of the provider's
//! published types are accepted, so that a message can be posted as it came; other fields are refused. In lists that mix a
//! model's text, thoughts and calls, the items that are not calls are skipped, since providers add kinds of them.
//!
//! Arguments stay the bytes that they were. This module decides nothing and knows no tools.
//!
//! Answers in a provider's dialect are lists that its client libraries take unchanged. The orchestrator's program finds
//! status, approval and payload beside them, under `calls`.

mod answers;
mod anthropic;
mod envelope;
mod gemini;
mod native;
mod openai;
mod request_schemas;
mod responses;
mod s5;
mod text;
pub mod tools;

use std::sync::Arc;

use super::problem::Problem;
use crate::call::{CallOutcome, RequestedCall};
use answers::{
    AnthropicAnswer, FlatAnswer, GeminiAnswer, NativeAnswer, OpenAiAnswer, ResponsesAnswer, TextAnswer,
};
pub use answers::{CallResult, CallsAnswer, ReplyContext};
pub use envelope::bounded;
use envelope::{Envelope, Items, RequestBody};
pub use request_schemas::CallsRequest;

/// A parsed request.
#[derive(Debug)]
pub struct ParsedRequest {
    /// The dialect of its calls, and so of the answer.
    pub dialect: Dialect,
    /// The model's turn that the calls belong to.
    pub turn: Option<String>,
    /// The calls, in the order of the request.
    pub calls: Vec<RequestedCall>,
}

/// The dialect of a request, with the parts of it that its answer repeats.
#[derive(Debug)]
pub enum Dialect {
    /// `calls`: Toolgate's own.
    Native,
    /// `openai`: OpenAI's chat completions.
    OpenAi,
    /// `openai_responses`: OpenAI's responses.
    Responses(Vec<responses::ResponseEnvelope>),
    /// `anthropic`: content blocks.
    Anthropic,
    /// `gemini`: parts.
    Gemini(Vec<gemini::ResponseEnvelope>),
    /// `tool_call`: one call in S5's form.
    Flat(s5::ResponseEnvelope),
    /// `text`: one call as a string.
    Text(text::ResponseEnvelope),
}

/// Parses a request of at most `calls_max` calls.
pub fn parse(body: &[u8], calls_max: u64) -> Result<ParsedRequest, Problem> {
    let Envelope { turn, id, body } = envelope::parse(body)?;
    let mut calls = envelope::Calls::default();
    let dialect = match body {
        RequestBody::Native(Items(requested)) => native::parse(requested, &mut calls)?,
        RequestBody::OpenAi(message) => openai::parse(&message, &mut calls)?,
        RequestBody::Responses(Items(items)) => responses::parse(&items, &mut calls)?,
        RequestBody::Anthropic(Items(blocks)) => anthropic::parse(&blocks, &mut calls)?,
        RequestBody::Gemini(Items(parts)) => gemini::parse(&parts, &mut calls)?,
        RequestBody::Flat(call) => s5::parse(call, id, &mut calls)?,
        RequestBody::Text(text) => text::parse(&text, id, &mut calls)?,
    };
    Ok(ParsedRequest { dialect, turn, calls: calls.into_list(calls_max)? })
}

/// Renders the outcomes of the calls in the dialect of their request, in its order.
pub fn render(dialect: &Dialect, context: ReplyContext<'_>, outcomes: &[Arc<CallOutcome>]) -> String {
    let states = || outcomes.iter().map(|outcome| (&**outcome).into()).collect();
    // The dialects with one call have one outcome.
    let first = outcomes.first();
    let answer = match (dialect, first) {
        (Dialect::Native, _) => {
            let results = outcomes.iter().map(|outcome| (&**outcome).into()).collect();
            CallsAnswer::Native(NativeAnswer::new(context, results))
        }
        (Dialect::OpenAi, _) => {
            CallsAnswer::OpenAi(OpenAiAnswer::new(context, openai::answer(outcomes), states()))
        }
        (Dialect::Responses(envelopes), _) => {
            let items = responses::answer(envelopes, outcomes);
            CallsAnswer::Responses(ResponsesAnswer::new(context, items, states()))
        }
        (Dialect::Anthropic, _) => {
            CallsAnswer::Anthropic(AnthropicAnswer::new(context, anthropic::answer(outcomes), states()))
        }
        (Dialect::Gemini(envelopes), _) => {
            let parts = gemini::answer(envelopes, outcomes);
            CallsAnswer::Gemini(GeminiAnswer::new(context, parts, states()))
        }
        (Dialect::Flat(envelope), Some(outcome)) => {
            CallsAnswer::Flat(FlatAnswer::new(context, s5::answer(envelope, outcome), states()))
        }
        (Dialect::Text(envelope), Some(outcome)) => {
            CallsAnswer::Text(TextAnswer::new(context, text::answer(envelope, outcome), states()))
        }
        (Dialect::Flat(_) | Dialect::Text(_), None) => {
            CallsAnswer::Native(NativeAnswer::new(context, Vec::new()))
        }
    };
    json(&answer)
}

/// Renders one outcome in Toolgate's own dialect.
pub fn render_one(outcome: &CallOutcome) -> String {
    json(&CallResult::from(outcome))
}

fn json<T: serde::Serialize>(value: &T) -> String {
    // Strings, numbers and raw JSON always serialize.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
