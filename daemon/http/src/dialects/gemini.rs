//! Gemini: content parts, of which a part with `functionCall` is a call. The response has `functionResponse` parts.
//!
//! A call can lack an id. The id that the daemon then creates is in the `calls` member only, since the model does not
//! know it. Field names are accepted in both spellings of the JSON mapping of Protocol Buffers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use toolgate_api::nearest;
use toolgate_api::read::Object;
use toolgate_core::call::CallAnswer;
use utoipa::ToSchema;

use super::content;
use super::items::{Calls, GivenCall, GivenId, LooseText, excerpt, fitting, invalid};
use crate::problem::Problem;

/// The two spellings of the field of a call.
const CALL_FIELDS: [&str; 2] = ["functionCall", "function_call"];

/// The id of a call, if Gemini sent one.
#[derive(Debug)]
pub(crate) struct ResponseEnvelope {
    id: Option<GivenId>,
}

/// The fields of a part that tell whether it is a call.
#[derive(Deserialize)]
struct Peek {
    #[serde(rename = "functionCall", alias = "function_call")]
    call: Option<IgnoredAny>,
}

/// A part with a call.
#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "functionCall", alias = "function_call")]
    function_call: Object<Call<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Call<'a> {
    #[serde(borrow, default)]
    id: LooseText<'a>,
    #[serde(borrow, default)]
    name: LooseText<'a>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(alias = "partial_args")]
    partial_args: Option<Vec<IgnoredAny>>,
    #[serde(alias = "will_continue")]
    will_continue: Option<bool>,
}

/// Adds the parts that are calls.
pub(super) fn parse(parts: &[&RawValue], calls: &mut Calls) -> Vec<ResponseEnvelope> {
    let mut envelopes = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let place = format_args!("/gemini/{at}");
        let unfit = match is_call(part, place) {
            Ok(true) => None,
            Ok(false) => continue,
            Err(unfit) => Some(unfit),
        };
        let (given, fault) = match fitting::<Part<'_>>(part, place) {
            Ok(Part { function_call: Object(call) }) => {
                let is_chunk = call.will_continue == Some(true)
                    || call.partial_args.is_some_and(|args| !args.is_empty());
                let Call { id, name, args: arguments, .. } = call;
                (GivenCall { id, name, arguments }, is_chunk.then(|| chunk(place)))
            }
            Err(fault) => (GivenCall::default(), unfit.or(Some(fault))),
        };
        // In Protocol Buffers an empty string equals an absent one.
        let has_id = given.id.0.as_deref().is_some_and(|id| !id.is_empty());
        let id = calls.add_given(given, fault, place);
        envelopes.push(ResponseEnvelope { id: has_id.then_some(id) });
    }
    envelopes
}

/// Returns true if the part is a call. A part that may be one is an error: that of the call.
fn is_call(part: &RawValue, place: fmt::Arguments<'_>) -> Result<bool, Problem> {
    if fitting::<Peek>(part, place)?.call.is_some() {
        return Ok(true);
    }
    let fields: BTreeMap<Cow<'_, str>, IgnoredAny> = fitting(part, place)?;
    // A misspelled field name would be skipped like the model's text, without an error.
    match fields.keys().find(|field| nearest(field, CALL_FIELDS.into_iter()).is_some()) {
        Some(field) => {
            let message = format!("`{place}` has the field `{}`, which is none of a part's", excerpt(field));
            Err(invalid(message, "did you mean `functionCall`?").at(&place))
        }
        None => Ok(false),
    }
}

fn chunk(place: fmt::Arguments<'_>) -> Problem {
    invalid(
        format!("`{place}` is a chunk of a call that is still being streamed"),
        "assemble its arguments, and post the whole call",
    )
}

/// A response part for a call.
#[derive(Serialize, ToSchema)]
pub(super) struct GeminiResponsePart<'a> {
    /// The response to the call.
    #[serde(rename = "functionResponse")]
    function_response: GeminiFunctionResponse<'a>,
}

/// The response to a function call of Gemini.
#[derive(Serialize, ToSchema)]
struct GeminiFunctionResponse<'a> {
    /// The call's id, if Gemini sent one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    id: Option<&'a str>,
    /// The function name as the model called it.
    name: &'a str,
    /// The result or the error.
    response: GeminiResponse,
    /// Images and audio.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    parts: Vec<Value>,
}

/// The result or the error of a function call of Gemini.
#[derive(Serialize, ToSchema)]
struct GeminiResponse {
    /// The result as text, as it is but for invisible characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    output: Option<String>,
    /// The error as text, if the call was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    error: Option<String>,
}

/// Returns one part per call.
pub(super) fn answer<'a>(
    envelopes: &'a [ResponseEnvelope],
    outcomes: &'a [CallAnswer],
) -> Vec<GeminiResponsePart<'a>> {
    let part = |(envelope, outcome): (&'a ResponseEnvelope, &'a CallAnswer)| {
        let (text, parts) = content::gemini(outcome);
        let text = Some(text);
        let response = match outcome.error() {
            Some(_) => GeminiResponse { output: None, error: text },
            None => GeminiResponse { output: text, error: None },
        };
        let id = envelope.id.as_ref().map(|id| id.or_id_of(outcome));
        GeminiResponsePart {
            function_response: GeminiFunctionResponse { id, name: &outcome.called, response, parts },
        }
    };
    envelopes.iter().zip(outcomes).map(part).collect()
}
