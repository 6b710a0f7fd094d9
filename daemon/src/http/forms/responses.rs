//! OpenAI's responses: the list of output items, of which `function_call` is a call; answered with
//! `function_call_output` items for the next request's `input`.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Form;
use super::envelope::{Calls, MaybeText, fitting, invalid, is_a};
use super::openai::arguments;
use super::outcome::Outcome;
use crate::http::problem::Problem;

/// What of a call stands in its answer again: who called, where it was not the model itself.
#[derive(Debug)]
pub struct Echo {
    caller: Option<Box<RawValue>>,
}

/// An item that is a call.
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
    // `async_` is what the Python client calls it.
    #[serde(alias = "async_")]
    r#async: Option<IgnoredAny>,
    namespace: Option<IgnoredAny>,
    created_by: Option<IgnoredAny>,
    parsed_arguments: Option<IgnoredAny>,
}

/// Adds the items that are calls of functions.
pub fn read(items: &[&RawValue], calls: &mut Calls) -> Result<Form, Problem> {
    let mut echoes = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = format_args!("/openai_responses/{at}");
        if !is_a("function_call", item, place)? {
            continue;
        }
        let call: Call<'_> = fitting(item, place)?;
        // The first piece of a stream has no arguments yet, and would run without them.
        if let Some(status) = call.status.0.as_deref().filter(|status| *status != "completed") {
            return Err(invalid(
                format!("`{place}` is not complete: its status is `{}`", super::envelope::shown(status)),
                "post the item of `response.output_item.done`, or that of the whole response",
            )
            .at(&place));
        }
        calls.add(Some(call.call_id), &call.name, arguments(&call.arguments))?;
        echoes.push(Echo { caller: call.caller.map(ToOwned::to_owned) });
    }
    Ok(Form::Responses(echoes))
}

/// An item that answers a call.
#[derive(Serialize)]
pub struct Output<'a> {
    r#type: &'static str,
    call_id: &'a str,
    output: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a RawValue>,
}

/// One item a call.
pub fn answer<'a>(echoes: &'a [Echo], outcomes: &'a [Outcome<'_>]) -> Vec<Output<'a>> {
    let item = |(echo, outcome): (&'a Echo, &'a Outcome<'_>)| Output {
        r#type: "function_call_output",
        call_id: &outcome.id,
        output: outcome.content(),
        caller: echo.caller.as_deref(),
    };
    echoes.iter().zip(outcomes).map(item).collect()
}
