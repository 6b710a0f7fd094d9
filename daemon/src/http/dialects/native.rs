//! Toolgate's own dialect: `{"calls":[{"id","tool","arguments"}]}`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_api::read::Object;

use super::items::{Calls, GivenId};

/// A call of the list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call<'a> {
    id: Option<String>,
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// Adds the calls of the list.
pub fn parse(requested: Vec<Object<Call<'_>>>, calls: &mut Calls) -> Vec<GivenId> {
    let add = |(at, Object(call)): (usize, Object<Call<'_>>)| {
        calls.add(call.id, &call.tool, call.arguments.map(RawValue::get), format_args!("/calls/{at}"))
    };
    requested.into_iter().enumerate().map(add).collect()
}
