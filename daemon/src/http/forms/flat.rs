//! S5's form: one call as `tool_name`, `action` and `parameters`, and its result or error as one flat object.
//!
//! `tool_name` is a plugin's namespace and `action` its tool, both also as they are called where they come from, or
//! `tool_name` alone is a name that a model calls.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Form;
use super::envelope::{Calls, MaybeText};
use super::outcome::Outcome;
use crate::http::problem::Problem;

/// The call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Call<'a> {
    #[serde(borrow)]
    tool_name: Cow<'a, str>,
    #[serde(borrow, default)]
    action: MaybeText<'a>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

/// The names as they were called; none where a wire name was called, which the answer takes apart.
#[derive(Debug)]
pub struct Echo(Option<(String, String)>);

/// Adds the call.
pub fn read(call: Call<'_>, id: Option<String>, calls: &mut Calls) -> Result<Form, Problem> {
    let parameters = call.parameters.map(RawValue::get);
    let echo = match call.action.0 {
        Some(action) => {
            // `weather_service`: made into a namespace by the rule that made one of it.
            let namespace = toolgate_naming::namespace(&call.tool_name);
            let namespace = namespace.as_deref().unwrap_or(&call.tool_name);
            calls.add(id, &format!("{namespace}/{action}"), parameters)?;
            Echo(Some((call.tool_name.into_owned(), action.into_owned())))
        }
        None => {
            calls.add(id, &call.tool_name, parameters)?;
            Echo(None)
        }
    };
    Ok(Form::Flat(echo))
}

/// The result, or the error, or what the call waits for.
#[derive(Serialize)]
pub struct Flat<'a> {
    tool_name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<&'a str>,
    status: &'a str,
    executed: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    approval: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<&'a RawValue>,
}

/// The one call's answer.
pub fn answer<'a>(echo: &'a Echo, outcomes: &'a [Outcome<'_>]) -> Option<Flat<'a>> {
    let outcome = outcomes.first()?;
    let (tool_name, action) = match &echo.0 {
        Some((tool_name, action)) => (&**tool_name, Some(&**action)),
        None => (&*outcome.tool_name, outcome.action.as_deref()),
    };
    let error = outcome.error.as_ref();
    let message = error.map(|error| &*error.message).or_else(|| outcome.pending_words());
    Some(Flat {
        tool_name,
        action,
        status: &outcome.status,
        executed: &outcome.executed,
        output: outcome.output,
        error_type: error.map(|error| &*error.error_type),
        message: message.map(Cow::Borrowed),
        hint: error.map(|error| &*error.hint),
        retryable: error.map(|error| error.retryable),
        details: error.and_then(|error| error.details),
        payload: outcome.payload,
        approval: outcome.approval,
        expires_at: outcome.expires_at,
    })
}
