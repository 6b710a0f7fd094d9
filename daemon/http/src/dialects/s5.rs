//! S5's dialect: one call as `tool_name`, `action` and `parameters`, and its result or error as one flat object.
//!
//! `tool_name` is a plugin's namespace and `action` its tool; both are also accepted by their original names. Without
//! `action`, `tool_name` is the wire name.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_api::error::Details;
use toolgate_api::name::read_called_name;
use toolgate_core::call::CallOutcome;
use utoipa::ToSchema;

use super::items::{Calls, MaybeText};
use toolgate_api::approval::ApprovalStamp;
use toolgate_api::call::{CallStatus, Executed};
use toolgate_api::content::ContentBlock;
use toolgate_api::error::ErrorType;

/// The call of the request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call<'a> {
    #[serde(borrow)]
    tool_name: Cow<'a, str>,
    #[serde(borrow, default)]
    action: MaybeText<'a>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
}

/// The names of the request, which the response repeats; `None` for a wire name, which the response splits.
#[derive(Debug)]
pub(crate) struct ResponseEnvelope(Option<(String, String)>);

/// Adds the call of the request.
pub(super) fn parse(call: Call<'_>, id: Option<String>, calls: &mut Calls) -> ResponseEnvelope {
    let parameters = call.parameters.map(RawValue::get);
    let place = format_args!("/tool_call");
    match call.action.0 {
        Some(action) => {
            // `weather_service` becomes a namespace by the published rule for names from other systems.
            let namespace = toolgate_api::name::derive_namespace(&call.tool_name);
            let namespace = namespace.as_deref().unwrap_or(&call.tool_name);
            calls.add(id, &format!("{namespace}/{action}"), parameters, place);
            ResponseEnvelope(Some((call.tool_name.into_owned(), action.into_owned())))
        }
        None => {
            calls.add(id, &call.tool_name, parameters, place);
            ResponseEnvelope(None)
        }
    }
}

/// The result, the error or the pending state of a call, as one flat object.
#[derive(Serialize, ToSchema)]
pub(super) struct FlatResult<'a> {
    /// The namespace as the request named it.
    #[schema(value_type = String)]
    tool_name: Cow<'a, str>,
    /// The tool's name within its namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    action: Option<Cow<'a, str>>,
    /// The status of the call: its outcome, or the state that it waits in.
    status: CallStatus,
    /// Whether guest code started to run.
    executed: Executed,
    /// The result, any JSON, if the status is `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    output: Option<&'a RawValue>,
    /// Text, images, audio and files that the tool gave beside its output.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schema(required = false)]
    content: &'a [ContentBlock],
    /// The stable error code, if the status is `error`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ErrorType, required = false)]
    error_type: Option<&'static str>,
    /// The error message, or the reason that the call is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    message: Option<&'a str>,
    /// How to resolve the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    hint: Option<&'a str>,
    /// Whether the same call can succeed later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = bool, required = false)]
    retryable: Option<bool>,
    /// Details, with a schema that depends on the `error_type`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    details: Option<&'a Details>,
    /// The payload for the client to perform, if the status is `client_required`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    payload: Option<&'a RawValue>,
    /// The pending approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value, required = false)]
    approval: Option<&'a ApprovalStamp>,
    /// Deadline for the client to post the result, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
}

/// Returns the response to the call.
pub(super) fn answer<'a>(envelope: &'a ResponseEnvelope, outcome: &'a CallOutcome) -> FlatResult<'a> {
    let (tool_name, action) = match &envelope.0 {
        Some((tool_name, action)) => (tool_name.into(), Some(action.into())),
        None => tool_names(outcome),
    };
    let error = outcome.error();
    FlatResult {
        tool_name,
        action,
        status: outcome.status(),
        executed: outcome.executed,
        output: outcome.output(),
        content: &outcome.content,
        error_type: error.map(|error| error.error_type.as_str()),
        message: error.map(|error| &*error.message).or_else(|| outcome.pending_text()),
        hint: error.map(|error| &*error.hint),
        retryable: error.map(|error| error.retryable),
        details: error.and_then(|error| error.details.as_ref()),
        payload: outcome.payload(),
        approval: outcome.approval(),
        expires_at: outcome.expires_ms(),
    }
}

/// Returns the namespace and the tool; if the called name is no valid tool name, returns that name alone.
pub(super) fn tool_names(outcome: &CallOutcome) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    match (&outcome.tool, read_called_name(&outcome.called)) {
        (Some(id), _) => (id.namespace.as_str().into(), Some(id.tool.as_str().into())),
        (None, Some(id)) => {
            (id.namespace.as_str().to_owned().into(), Some(id.tool.as_str().to_owned().into()))
        }
        (None, None) => ((*outcome.called).into(), None),
    }
}
