//! Gemini: the parts of a content, of which one with `functionCall` is a call; answered with `functionResponse`
//! parts.
//!
//! A call need not have an id there; one that is made here then stands under `calls` alone, since the model would
//! not know it. Names are read in both ways in which the JSON form of protocol buffers writes them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_admission::nearest;

use super::Form;
use super::envelope::{Calls, fitting, invalid, shown};
use super::outcome::Outcome;
use crate::http::body::Object;
use crate::http::problem::Problem;

/// How the field of a call is written.
const CALL_FIELDS: [&str; 2] = ["functionCall", "function_call"];

/// What of a call stands in its answer again.
#[derive(Debug)]
pub struct Echo {
    has_id: bool,
}

/// Whether a part is a call.
#[derive(Deserialize)]
struct Peek {
    #[serde(rename = "functionCall", alias = "function_call")]
    call: Option<IgnoredAny>,
}

/// A part that is a call.
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
pub fn read(parts: &[&RawValue], calls: &mut Calls) -> Result<Form, Problem> {
    let mut echoes = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let place = format_args!("/gemini/{at}");
        if fitting::<Peek>(part, place)?.call.is_none() {
            let fields: BTreeMap<Cow<'_, str>, IgnoredAny> = fitting(part, place)?;
            // A call that is misspelt would be passed over with the model's text, and nobody would miss it.
            match fields.keys().find(|field| nearest(field, CALL_FIELDS.into_iter()).is_some()) {
                Some(field) => {
                    let message =
                        format!("`{place}` has the field `{}`, which is none of a part's", shown(field));
                    return Err(invalid(message, "did you mean `functionCall`?").at(&place));
                }
                None => continue,
            }
        }
        let Part { function_call: Object(call), .. } = fitting(part, place)?;
        let is_a_piece =
            call.will_continue == Some(true) || call.partial_args.is_some_and(|args| !args.is_empty());
        if is_a_piece {
            return Err(invalid(
                format!("`{place}` is a piece of a call that is still being streamed"),
                "put its arguments together, and post the whole call",
            )
            .at(&place));
        }
        // In protocol buffers an empty string is one that is not there.
        let id = call.id.filter(|id| !id.is_empty());
        echoes.push(Echo { has_id: id.is_some() });
        calls.add(id, &call.name, call.args.map(RawValue::get))?;
    }
    Ok(Form::Gemini(echoes))
}

/// A part that answers a call.
#[derive(Serialize)]
pub struct ResponsePart<'a> {
    #[serde(rename = "functionResponse")]
    function_response: FunctionResponse<'a>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: Response<'a>,
}

/// `output` and `error` are the keys that Gemini knows.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Response<'a> {
    Output(Cow<'a, str>),
    Error(Cow<'a, str>),
}

/// One part a call.
pub fn answer<'a>(echoes: &'a [Echo], outcomes: &'a [Outcome<'_>]) -> Vec<ResponsePart<'a>> {
    let part = |(echo, outcome): (&'a Echo, &'a Outcome<'_>)| {
        let content = outcome.content();
        let response =
            if outcome.error.is_some() { Response::Error(content) } else { Response::Output(content) };
        let id = echo.has_id.then_some(&*outcome.id);
        ResponsePart { function_response: FunctionResponse { id, name: &outcome.tool, response } }
    };
    echoes.iter().zip(outcomes).map(part).collect()
}
