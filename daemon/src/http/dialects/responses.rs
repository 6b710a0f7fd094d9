//! OpenAI's responses: output items, of which a `function_call` is a call. The response has `function_call_output`
//! items for the next request's `input`.

use std::borrow::Cow;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::items::{Calls, MaybeText, fitting, invalid, is_a};
use super::openai::arguments;
use crate::call::CallOutcome;
use crate::frame;
use crate::http::problem::Problem;

/// The field of a call that the response repeats: the caller, if it is not the model itself.
#[derive(Debug)]
pub struct ResponseEnvelope {
    caller: Option<Box<RawValue>>,
}

/// A `function_call` item.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "some fields are accepted because the published type has them")]
struct Call<'a> {
    call_id: String,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: MaybeText<'a>,
    #[serde(borrow, default)]
    status: MaybeText<'a>,
    #[serde(borrow, default)]
    caller: Option<&'a RawValue>,
    #[serde(rename = "type")]
    kind: IgnoredAny,
    id: Option<IgnoredAny>,
    // The Python client library serializes the field as `async_`.
    #[serde(alias = "async_")]
    r#async: Option<IgnoredAny>,
    namespace: Option<IgnoredAny>,
    created_by: Option<IgnoredAny>,
    parsed_arguments: Option<IgnoredAny>,
}

/// Adds the `function_call` items.
pub fn parse(items: &[&RawValue], calls: &mut Calls) -> Result<Vec<ResponseEnvelope>, Problem> {
    let mut envelopes = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = format_args!("/openai_responses/{at}");
        if !is_a("function_call", item, place)? {
            continue;
        }
        let call: Call<'_> = fitting(item, place)?;
        // The first chunk of a stream has no arguments yet; the call would run without them.
        if let Some(status) = call.status.0.as_deref().filter(|status| *status != "completed") {
            return Err(invalid(
                format!("`{place}` is not complete: its status is `{}`", super::items::excerpt(status)),
                "post the item of `response.output_item.done`, or that of the whole response",
            )
            .at(&place));
        }
        calls.add(Some(call.call_id), &call.name, arguments(&call.arguments))?;
        envelopes.push(ResponseEnvelope { caller: call.caller.map(ToOwned::to_owned) });
    }
    Ok(envelopes)
}

/// An output item for a call.
#[derive(Serialize, ToSchema)]
pub struct ResponsesOutput<'a> {
    /// The type, `function_call_output`.
    #[schema(pattern = "^function_call_output$")]
    r#type: &'static str,
    /// The call's id.
    call_id: &'a str,
    /// The result as text, framed as data.
    output: String,
    /// The caller, copied from the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    caller: Option<&'a RawValue>,
}

/// Returns one item per call.
pub fn answer<'a>(
    envelopes: &'a [ResponseEnvelope],
    outcomes: &'a [Arc<CallOutcome>],
) -> Vec<ResponsesOutput<'a>> {
    let item = |(envelope, outcome): (&'a ResponseEnvelope, &'a Arc<CallOutcome>)| ResponsesOutput {
        r#type: "function_call_output",
        call_id: &outcome.id,
        output: frame::outcome_text(outcome),
        caller: envelope.caller.as_deref(),
    };
    envelopes.iter().zip(outcomes).map(item).collect()
}
