//! The dialects of calls: Toolgate's own, S5's, and those of model providers (R1). This module parses a request into
//! calls and renders their outcomes in the same dialect.
//!
//! The member that carries the calls selects the dialect; a request with two such members is refused. Messages of providers
//! are taken as providers and gateways send them (M6): unknown fields are ignored. Toolgate's own dialects refuse them. In all
//! of them any id is repeated in the answer, and what is wrong with one call is the error of that call. In lists that mix a
//! model's text, thoughts and calls, items that are not calls are skipped, since providers add new item types.
//!
//! Arguments keep their original bytes. This module makes no policy decisions and knows no tools.
//!
//! Responses in a provider's dialect are lists that its client libraries accept unchanged. The orchestrator's program
//! reads status, approval and payload in the `calls` member beside the list.

mod answers;
mod anthropic;
mod content;
mod envelope;
mod gemini;
mod items;
mod native;
mod openai;
mod request_schemas;
mod responses;
mod s5;
mod text;
pub(crate) mod tools;

use toolgate_core::call::{CallAnswer, CallOutcome, RequestedCall};
use toolgate_core::sessions::Session;

use super::problem::Problem;
use answers::{AnthropicAnswer, FlatAnswer, GeminiAnswer, OpenAiAnswer, ResponsesAnswer, TextAnswer};
pub(crate) use answers::{CallsAnswer, ReplyContext, call_result};
use answers::{call_state, native as native_answer};
pub(crate) use content::PDF;
use envelope::{Envelope, OnDisconnect, RequestBody};
use items::Calls;
pub(crate) use items::{kept_id, truncate_name};
pub(crate) use request_schemas::CallsRequest;
use toolgate_api::call::CallResult;

/// A parsed request.
#[derive(Debug)]
pub(crate) struct ParsedRequest {
    /// The dialect of the calls, and of the response.
    pub dialect: Dialect,
    /// The model's turn, to which the calls belong.
    pub turn: Option<String>,
    /// The calls, in the order of the request.
    pub calls: Vec<RequestedCall>,
}

/// The dialect of a request, with the parts of it that the response repeats.
#[derive(Debug)]
pub(crate) enum Dialect {
    /// `calls`: Toolgate's own.
    Native(Vec<items::GivenId>),
    /// `openai`: OpenAI's chat completions.
    OpenAi(Vec<items::GivenId>),
    /// `openai_responses`: OpenAI's responses.
    Responses(Vec<responses::ResponseEnvelope>),
    /// `anthropic`: Anthropic's content blocks.
    Anthropic(Vec<items::GivenId>),
    /// `gemini`: Gemini's parts.
    Gemini(Vec<gemini::ResponseEnvelope>),
    /// `tool_call`: one call as S5's flat object.
    Flat(s5::ResponseEnvelope),
    /// `text`: one call as a string.
    Text(text::ResponseEnvelope),
}

impl Dialect {
    /// The types of media that results may have. None where a program reads the blocks as they are.
    pub(crate) fn media(&self) -> Option<&'static [&'static str]> {
        match self {
            Self::Native(_) => None,
            Self::Responses(_) | Self::Anthropic(_) => Some(&content::MEDIA),
            Self::Gemini(_) => Some(&content::GEMINI_MEDIA),
            Self::OpenAi(_) | Self::Flat(_) | Self::Text(_) => Some(&[]),
        }
    }
}

/// Parses a request of at most `calls_max` calls.
pub(crate) fn parse(body: &[u8], calls_max: u64) -> Result<ParsedRequest, Problem> {
    let Envelope { turn, on_disconnect, deadline_ms, id, body } = envelope::parse(body)?;
    let mut calls = Calls::default();
    let dialect = match body {
        RequestBody::Native(requested) => Dialect::Native(native::parse(requested.into_vec()?, &mut calls)),
        RequestBody::OpenAi(message) => Dialect::OpenAi(openai::parse(message, &mut calls)?),
        RequestBody::Responses(items) => Dialect::Responses(responses::parse(&items.into_vec()?, &mut calls)),
        RequestBody::Anthropic(blocks) => {
            Dialect::Anthropic(anthropic::parse(&blocks.into_vec()?, &mut calls))
        }
        RequestBody::Gemini(parts) => Dialect::Gemini(gemini::parse(&parts.into_vec()?, &mut calls)),
        RequestBody::Flat(call) => Dialect::Flat(s5::parse(call, id, &mut calls)),
        RequestBody::Text(text) => Dialect::Text(text::parse(&text, id, &mut calls)?),
    };
    if matches!(on_disconnect, Some(OnDisconnect::Cancel)) {
        calls.end_with_request();
    }
    calls.end_within(deadline_ms);
    if !matches!(dialect, Dialect::Native(_)) {
        calls.leave_out_after(calls_max);
    }
    Ok(ParsedRequest { dialect, turn, calls: calls.into_list(calls_max)? })
}

/// Renders the outcomes of the calls in the dialect of their request and in its order.
pub(crate) fn render(dialect: &Dialect, context: ReplyContext<'_>, outcomes: &[CallAnswer]) -> String {
    let states = || outcomes.iter().map(call_state).collect();
    // A dialect with one call has one outcome.
    let first = outcomes.first();
    let answer = match (dialect, first) {
        (Dialect::Native(ids), _) => {
            let results = ids.iter().zip(outcomes).map(|(id, answer)| CallResult {
                id: id.or_id_of(answer).into(),
                ..call_result(answer, answer.replayed)
            });
            CallsAnswer::Native(native_answer(context, results.collect()))
        }
        (Dialect::OpenAi(ids), _) => {
            CallsAnswer::OpenAi(OpenAiAnswer::new(context, openai::answer(ids, outcomes), states()))
        }
        (Dialect::Responses(envelopes), _) => {
            let items = responses::answer(envelopes, outcomes);
            CallsAnswer::Responses(ResponsesAnswer::new(context, items, states()))
        }
        (Dialect::Anthropic(ids), _) => {
            CallsAnswer::Anthropic(AnthropicAnswer::new(context, anthropic::answer(ids, outcomes), states()))
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
            CallsAnswer::Native(native_answer(context, Vec::new()))
        }
    };
    json(&answer)
}

/// Renders one outcome in Toolgate's own dialect, with its session and conversation (R4).
pub(crate) fn render_one(session: &Session, outcome: &CallOutcome) -> String {
    json(&CallResult {
        session: Some(session.setup.id.as_str().into()),
        conversation: session.setup.conversation.as_deref().map(Into::into),
        ..call_result(outcome, false)
    })
}

fn json<T: serde::Serialize>(value: &T) -> String {
    // Serialization of strings, numbers and raw JSON cannot fail.
    serde_json::to_string(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
