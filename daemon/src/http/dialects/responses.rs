//! OpenAI's responses: output items, of which a `function_call` is a call. The response has `function_call_output`
//! items for the next request's `input`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::content::{self, ProviderContent};
use super::items::{Calls, GivenCall, GivenId, LooseText, excerpt, fitting, invalid, is_a};
use crate::call::CallAnswer;
use crate::http::problem::Problem;

/// The fields of a call that the response repeats: its id, and the caller if that is not the model itself.
#[derive(Debug)]
pub struct ResponseEnvelope {
    id: GivenId,
    caller: Option<Box<RawValue>>,
}

/// A `function_call` item.
#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow, default)]
    call_id: LooseText<'a>,
    #[serde(borrow, default)]
    name: LooseText<'a>,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    status: LooseText<'a>,
    #[serde(borrow, default)]
    caller: Option<&'a RawValue>,
}

/// Adds the `function_call` items.
pub fn parse(items: &[&RawValue], calls: &mut Calls) -> Result<Vec<ResponseEnvelope>, Problem> {
    let mut envelopes = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = format_args!("/openai_responses/{at}");
        if !is_a("function_call", item, place)? {
            continue;
        }
        let Call { call_id, name, arguments, status, caller } = fitting(item, place)?;
        // The first chunk of a stream has no arguments yet; the call would run without them.
        let unfinished = status.0.as_deref().filter(|status| *status != "completed");
        let fault = unfinished.map(|status| {
            invalid(
                format!("`{place}` is not complete: its status is `{}`", excerpt(status)),
                "post the item of `response.output_item.done`, or that of the whole response",
            )
        });
        let id = calls.add_given(GivenCall { id: call_id, name, arguments }, fault, place);
        envelopes.push(ResponseEnvelope { id, caller: caller.map(ToOwned::to_owned) });
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
    /// The result.
    output: ProviderContent,
    /// The caller, copied from the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    caller: Option<&'a RawValue>,
}

/// Returns one item per call.
pub fn answer<'a>(envelopes: &'a [ResponseEnvelope], outcomes: &'a [CallAnswer]) -> Vec<ResponsesOutput<'a>> {
    let item = |(envelope, outcome): (&'a ResponseEnvelope, &'a CallAnswer)| ResponsesOutput {
        r#type: "function_call_output",
        call_id: envelope.id.shown(outcome),
        output: content::responses(outcome),
        caller: envelope.caller.as_deref(),
    };
    envelopes.iter().zip(outcomes).map(item).collect()
}
