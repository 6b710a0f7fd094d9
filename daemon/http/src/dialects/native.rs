//! Toolgate's own dialect: `{"calls":[{"id","tool","arguments"}]}`.
//!
//! An unknown field is an error of the request. A wrong id or tool is that call's error (M6).

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_api::read::Object;

use super::items::{Calls, GivenId, excerpt, invalid, no_tool};
use crate::problem::Problem;

/// A call of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    tool: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Adds the calls of the list.
pub(super) fn parse(requested: Vec<Object<Call<'_>>>, calls: &mut Calls) -> Vec<GivenId> {
    let numbered = requested.into_iter().enumerate();
    numbered.map(|(at, Object(call))| add(call, calls, format_args!("/calls/{at}"))).collect()
}

fn add(call: Call<'_>, calls: &mut Calls, place: fmt::Arguments<'_>) -> GivenId {
    match (text(call.id), text(call.tool)) {
        (Ok(id), Ok(Some(tool))) => calls.add(id, &tool, call.arguments.map(RawValue::get), place),
        (Ok(id), Ok(None)) => calls.add_faulty(id, "", no_tool(place)),
        (Ok(id), Err(sent)) => calls.add_faulty(id, "", no_text("tool", sent, place)),
        // The answer repeats a number, so that its caller finds it.
        (Err(sent), tool) => {
            let is_number = sent.starts_with(|first: char| first == '-' || first.is_ascii_digit());
            let tool = tool.ok().flatten().unwrap_or_default();
            calls.add_faulty(is_number.then(|| sent.to_owned()), &tool, no_text("id", sent, place))
        }
    }
}

/// A text that was sent, unless it is absent or `null`; other JSON as the error.
fn text(sent: Option<&RawValue>) -> Result<Option<String>, &str> {
    let Some(sent) = sent.map(RawValue::get) else { return Ok(None) };
    match sent.starts_with('"') {
        true => serde_json::from_str(sent).map(Some).map_err(|_| sent),
        false => Err(sent),
    }
}

fn no_text(member: &str, sent: &str, place: fmt::Arguments<'_>) -> Problem {
    let message = format!("`{place}/{member}` is `{}`, which is no text", excerpt(sent));
    invalid(message, "send it as a string").at(&format_args!("{place}/{member}"))
}
