//! OpenAI's responses: output items, of which a `function_call` is a call, and a `tool_search_call` of the client a search
//! (M5). The response has `function_call_output` and `tool_search_output` items for the next request's `input`.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_core::call::CallAnswer;
use utoipa::ToSchema;

use super::content::{self, ProviderContent};
use super::items::{Calls, GivenCall, GivenId, LooseText, excerpt, fitting, invalid, is_a, kind};
use super::tools::FIND_TOOL;

/// The fields of a call that the response repeats: its id, and the caller if that is not the model itself.
#[derive(Debug)]
pub(crate) struct ResponseEnvelope {
    id: GivenId,
    caller: Option<Box<RawValue>>,
    is_search: bool,
}

/// A `function_call` or `tool_search_call` item.
#[derive(Default, Deserialize)]
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
    #[serde(borrow, default)]
    execution: LooseText<'a>,
}

/// Adds the `function_call` items, and the `tool_search_call` items that OpenAI does not perform itself.
pub(super) fn parse(items: &[&RawValue], calls: &mut Calls) -> Vec<ResponseEnvelope> {
    let mut envelopes = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let place = format_args!("/openai_responses/{at}");
        let is_search = kind(item, place).is_ok_and(|kind| kind.as_deref() == Some("tool_search_call"));
        let is_call = if is_search { Ok(true) } else { is_a("function_call", item, place) };
        let unfit = match is_call {
            Ok(true) => None,
            Ok(false) => continue,
            Err(unfit) => Some(unfit),
        };
        let (call, unfit) = match fitting::<Call<'_>>(item, place) {
            Ok(call) => (call, unfit),
            Err(fault) => (Call::default(), unfit.or(Some(fault))),
        };
        let Call { call_id, mut name, arguments, status, caller, execution } = call;
        if is_search {
            // A search that is no fitting item is the provider's, as most are.
            if execution.0.as_deref() != Some("client") {
                continue;
            }
            name = LooseText(Some(FIND_TOOL.into()));
        }
        // The first chunk of a stream has no arguments yet; the call would run without them.
        let unfinished = status.0.as_deref().filter(|status| *status != "completed");
        let unfinished = unfinished.map(|status| {
            invalid(
                format!("`{place}` is not complete: its status is `{}`", excerpt(status)),
                "post the item of `response.output_item.done`, or that of the whole response",
            )
        });
        let fault = unfit.or(unfinished);
        let id = calls.add_given(GivenCall { id: call_id, name, arguments }, fault, place);
        envelopes.push(ResponseEnvelope { id, caller: caller.map(ToOwned::to_owned), is_search });
    }
    envelopes
}

/// An output item for a call.
#[derive(Serialize, ToSchema)]
pub(super) struct ResponsesOutput<'a> {
    /// The type, `function_call_output`, or `tool_search_output` for a search.
    #[schema(pattern = "^(function_call|tool_search)_output$")]
    r#type: &'static str,
    /// The call's id.
    call_id: &'a str,
    /// The result of a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ProviderContent, required = false)]
    output: Option<ProviderContent>,
    /// The tools that a search found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Vec<Value>, required = false)]
    tools: Option<&'a RawValue>,
    /// `client`, for a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    execution: Option<&'static str>,
    /// `completed`, for a search.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    status: Option<&'static str>,
    /// The caller, copied from the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    caller: Option<&'a RawValue>,
}

/// Returns one item per call.
pub(super) fn answer<'a>(
    envelopes: &'a [ResponseEnvelope],
    outcomes: &'a [CallAnswer],
) -> Vec<ResponsesOutput<'a>> {
    let item = |(envelope, outcome): (&'a ResponseEnvelope, &'a CallAnswer)| {
        let call_id = envelope.id.or_id_of(outcome);
        let caller = envelope.caller.as_deref();
        match envelope.is_search {
            // A search that failed found nothing. The member `calls` of the response says why.
            true => ResponsesOutput {
                r#type: "tool_search_output",
                call_id,
                output: None,
                tools: Some(outcome.output().unwrap_or_else(no_tools)),
                execution: Some("client"),
                status: Some("completed"),
                caller,
            },
            false => ResponsesOutput {
                r#type: "function_call_output",
                call_id,
                output: Some(content::responses(outcome)),
                tools: None,
                execution: None,
                status: None,
                caller,
            },
        }
    };
    envelopes.iter().zip(outcomes).map(item).collect()
}

fn no_tools<'a>() -> &'a RawValue {
    serde_json::from_str("[]").unwrap_or(RawValue::NULL)
}
