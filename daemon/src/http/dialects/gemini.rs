//! Gemini: content parts, of which a part with `functionCall` is a call. The response has `functionResponse` parts.
//!
//! A call can lack an id. The id that the daemon then creates is in the `calls` member only, since the model does not
//! know it. Field names are accepted in both spellings of the JSON mapping of Protocol Buffers.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_api::nearest;
use toolgate_api::read::Object;
use utoipa::ToSchema;

use super::items::{Calls, excerpt, fitting, invalid};
use crate::call::CallOutcome;
use crate::frame;
use crate::http::problem::Problem;

/// The two spellings of the field of a call.
const CALL_FIELDS: [&str; 2] = ["functionCall", "function_call"];

/// The field of a call that the response depends on.
#[derive(Debug)]
pub struct ResponseEnvelope {
    has_id: bool,
}

/// The fields of a part that tell whether it is a call.
#[derive(Deserialize)]
struct Peek {
    #[serde(rename = "functionCall", alias = "function_call")]
    call: Option<IgnoredAny>,
}

/// A part with a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[allow(dead_code, reason = "most fields are accepted because the published type has them")]
struct Part<'a> {
    #[serde(borrow, alias = "function_call")]
    function_call: Object<Call<'a>>,
    #[serde(alias = "audio_transcription")]
    audio_transcription: Option<IgnoredAny>,
    #[serde(alias = "code_execution_result")]
    code_execution_result: Option<IgnoredAny>,
    #[serde(alias = "executable_code")]
    executable_code: Option<IgnoredAny>,
    #[serde(alias = "file_data")]
    file_data: Option<IgnoredAny>,
    #[serde(alias = "function_response")]
    function_response: Option<IgnoredAny>,
    #[serde(alias = "inline_data")]
    inline_data: Option<IgnoredAny>,
    #[serde(alias = "media_processing")]
    media_processing: Option<IgnoredAny>,
    #[serde(alias = "media_resolution")]
    media_resolution: Option<IgnoredAny>,
    #[serde(alias = "part_metadata")]
    part_metadata: Option<IgnoredAny>,
    #[serde(alias = "speech_metadata")]
    speech_metadata: Option<IgnoredAny>,
    text: Option<IgnoredAny>,
    thought: Option<IgnoredAny>,
    #[serde(alias = "thought_signature")]
    thought_signature: Option<IgnoredAny>,
    #[serde(alias = "tool_call")]
    tool_call: Option<IgnoredAny>,
    #[serde(alias = "tool_response")]
    tool_response: Option<IgnoredAny>,
    #[serde(alias = "video_metadata")]
    video_metadata: Option<IgnoredAny>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Call<'a> {
    id: Option<String>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(alias = "partial_args")]
    partial_args: Option<Vec<IgnoredAny>>,
    #[serde(alias = "will_continue")]
    will_continue: Option<bool>,
}

/// Adds the parts that are calls.
pub fn parse(parts: &[&RawValue], calls: &mut Calls) -> Result<Vec<ResponseEnvelope>, Problem> {
    let mut envelopes = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let place = format_args!("/gemini/{at}");
        if fitting::<Peek>(part, place)?.call.is_none() {
            let fields: BTreeMap<Cow<'_, str>, IgnoredAny> = fitting(part, place)?;
            // A misspelled field name would be skipped like the model's text, without an error.
            match fields.keys().find(|field| nearest(field, CALL_FIELDS.into_iter()).is_some()) {
                Some(field) => {
                    let message =
                        format!("`{place}` has the field `{}`, which is none of a part's", excerpt(field));
                    return Err(invalid(message, "did you mean `functionCall`?").at(&place));
                }
                None => continue,
            }
        }
        let Part { function_call: Object(call), .. } = fitting(part, place)?;
        let is_chunk =
            call.will_continue == Some(true) || call.partial_args.is_some_and(|args| !args.is_empty());
        if is_chunk {
            return Err(invalid(
                format!("`{place}` is a chunk of a call that is still being streamed"),
                "assemble its arguments, and post the whole call",
            )
            .at(&place));
        }
        // In Protocol Buffers an empty string equals an absent one.
        let id = call.id.filter(|id| !id.is_empty());
        envelopes.push(ResponseEnvelope { has_id: id.is_some() });
        calls.add(id, &call.name, call.args.map(RawValue::get))?;
    }
    Ok(envelopes)
}

/// A response part for a call.
#[derive(Serialize, ToSchema)]
pub struct GeminiResponsePart<'a> {
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
}

/// The result or the error of a function call of Gemini.
#[derive(Serialize, ToSchema)]
struct GeminiResponse {
    /// The result as text, framed as data.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    output: Option<String>,
    /// The error as text, if the call was refused or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    error: Option<String>,
}

/// Returns one part per call.
pub fn answer<'a>(
    envelopes: &'a [ResponseEnvelope],
    outcomes: &'a [Arc<CallOutcome>],
) -> Vec<GeminiResponsePart<'a>> {
    let part = |(envelope, outcome): (&'a ResponseEnvelope, &'a Arc<CallOutcome>)| {
        let text = Some(frame::outcome_text(outcome));
        let response = match outcome.error() {
            Some(_) => GeminiResponse { output: None, error: text },
            None => GeminiResponse { output: text, error: None },
        };
        let id = envelope.has_id.then_some(&*outcome.id);
        GeminiResponsePart {
            function_response: GeminiFunctionResponse { id, name: &outcome.called, response },
        }
    };
    envelopes.iter().zip(outcomes).map(part).collect()
}
