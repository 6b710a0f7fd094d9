//! Calls over HTTP: a request becomes calls, outcomes become one answer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_admission::ErrorType;
use utoipa::ToSchema;

use super::address::{CallAddress, SessionAddress};
use super::body::Json;
use super::extract::Path;
use super::problem::{ErrorTypeForm, Problem};
use super::refusal::{NoCall, NoSession, SessionEnded, Unreadable};
use super::{App, Authenticated, DOOR};
use crate::dispatch::{
    Answer, BatchAnswer, CallStatus, CallUsage, Executed, Origin, PluginStamp, RequestedCall, now_ms,
};
use crate::identifier;
use crate::sessions::{CallState, Session};

/// Longest id that a caller may give a call, in bytes.
const CALL_ID_BYTES: usize = 128;

/// Calls to carry out, in our own form.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallsRequest {
    /// The model's turn; until rounds are limited it is only kept.
    #[serde(default)]
    #[allow(dead_code, reason = "accepted because the published form has it")]
    turn: Option<String>,
    /// The calls, at most 32 unless the operator allows more. They run at the same time.
    #[schema(min_items = 1)]
    calls: Vec<CallRequest>,
}

/// One call.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CallRequest {
    /// Unique in the session; the same id answers the same call again. Made where absent.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$", example = "c1")]
    id: Option<String>,
    /// `call_NAMESPACE_TOOL` or `namespace/tool`.
    tool: String,
    /// An object that fits the tool's input schema; left out, an empty one. What does not fit is that call's
    /// `INVALID_ARGUMENTS`.
    #[schema(value_type = Value, required = false, example = json!({"expression": "6*7"}))]
    arguments: Option<Box<RawValue>>,
}

/// What became of the calls.
#[derive(serde::Serialize, ToSchema)]
pub struct CallsAnswer {
    /// The session.
    session: String,
    /// The orchestrator's conversation, where the session has one.
    #[schema(value_type = String, required = false)]
    conversation: Option<String>,
    /// One result a call, in the order of the request.
    results: Vec<CallResult>,
    /// What the orchestrator does next: `model` is to give the results to the model.
    #[schema(pattern = "^model$")]
    next: String,
}

/// What became of one call.
#[derive(serde::Serialize, ToSchema)]
pub struct CallResult {
    /// The call's id.
    id: String,
    /// The tool as it was called.
    tool: String,
    /// The namespace; the tool as it was called, where that is no name of a tool.
    tool_name: String,
    /// The tool in its namespace.
    #[schema(value_type = String, required = false)]
    action: Option<String>,
    /// How it ended, or that it has not.
    status: CallStatus,
    /// Whether guest code began.
    executed: Executed,
    /// The result, any JSON, where the status is `ok`.
    #[schema(value_type = Value, required = false)]
    output: Option<serde_json::Value>,
    /// Why not, where the status is `error`.
    #[schema(value_type = CallResultError, required = false)]
    error: Option<CallResultError>,
    /// The result as text for a model's context, marked as data.
    text: String,
    /// What the call used.
    usage: CallUsage,
    /// The plugin that ran, or would have.
    #[schema(value_type = PluginStamp, required = false)]
    plugin: Option<PluginStamp>,
}

/// Why a call has no result.
#[derive(serde::Serialize, ToSchema)]
pub struct CallResultError {
    /// The stable code.
    #[schema(value_type = ErrorTypeForm)]
    error_type: String,
    /// What happened, for a model.
    message: String,
    /// What to do about it.
    hint: String,
    /// Whether the same call can succeed later.
    retryable: bool,
    /// More, in a form that depends on the `error_type`.
    #[schema(value_type = Object, required = false)]
    details: Option<serde_json::Value>,
}

/// Call tools.
///
/// The calls of one request run at the same time. Whatever becomes of each is in the answer, which is 200
/// whenever the request itself was sound: a call that was refused, failed or took too long has `error` there.
/// An id that was used before in the session is not run again: the same arguments get the recorded answer,
/// others `CONFLICT`. Hanging up cancels what still runs.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/calls", tag = "calls", operation_id = "call_tools",
    params(SessionAddress),
    request_body(content = CallsRequest, example = json!({"calls": [{"id": "c1", "tool": "call_arithmetic_evaluate", "arguments": {"expression": "6*7"}}]})),
    responses(
        (status = 200, description = "What became of each call.", body = CallsAnswer,
            links(
                ("call" = (operation_id = "get_call", parameters(("id" = "$request.path.id"), ("call" = "$response.body#/results/0/id")), description = "Ask again what became of the first call.")),
                ("cancel" = (operation_id = "cancel_call", parameters(("id" = "$request.path.id"), ("call" = "$response.body#/results/0/id")), description = "Cancel the first call.")),
            )),
        NoSession, SessionEnded,
    ),
)]
pub async fn post(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Json(request): Json<CallsRequest>,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id)?;
    let calls = requested(request, app.settings().calls.per_request)?;
    session.touch(now_ms());
    let origin =
        Origin { principal: Arc::clone(&caller.token_id), door: DOOR, revoked: caller.revoked.clone() };
    let answer = app.dispatcher().batch(&session, calls, &origin).await;
    Ok(answered(&session, &answer))
}

/// Ask what became of a call.
///
/// While it runs its `status` is `running`. Answers are kept for a time; after that, and after a restart of the
/// daemon, what is known is whether it ended, and the answer is `EXPIRED`.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/calls/{call}", tag = "calls", operation_id = "get_call",
    params(CallAddress),
    responses((status = 200, description = "What is known of the call.", body = CallResult), NoCall, SessionEnded, Unreadable),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((id, call)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id)?;
    match session.calls.find(&call, now_ms()) {
        Some(CallState::Ended(recorded)) => Ok(json(recorded.json.to_string())),
        Some(state) => Ok(json(Answer::of_known(&state).json(&RequestedCall::unnamed(call)).into())),
        None => app.call_of_an_earlier_run(&session, &call).await,
    }
}

/// Cancel a running call.
///
/// It ends with `CANCELLED`. One that has ended stays as it ended.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/calls/{call}", tag = "calls", operation_id = "cancel_call",
    params(CallAddress),
    responses((status = 204, description = "It does not run any more."), NoCall, SessionEnded),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((id, call)): Path<(String, String)>,
) -> Result<axum::http::StatusCode, Problem> {
    let session = app.session_of(&caller, &id)?;
    match session.calls.find(&call, now_ms()) {
        Some(CallState::Running(stop)) => stop.cancel(),
        Some(_) => {}
        None => return Err(Problem::not_found("call")),
    }
    Ok(axum::http::StatusCode::NO_CONTENT)
}

fn requested(request: CallsRequest, most: u64) -> Result<Vec<RequestedCall>, Problem> {
    let count = request.calls.len() as u64;
    if count == 0 || count > most {
        return Err(Problem::new(
            ErrorType::InvalidRequest,
            format!("the request has {count} calls"),
            format!("send 1 to {most} calls in a request"),
        ));
    }
    let mut ids = std::collections::HashSet::new();
    let mut calls = Vec::with_capacity(request.calls.len());
    for call in request.calls {
        let id_is_new = call.id.is_none();
        let id = match call.id {
            Some(id) => sound_id(id)?,
            None => identifier::fresh("c"),
        };
        if !ids.insert(id.clone()) {
            return Err(Problem::new(
                ErrorType::InvalidRequest,
                format!("two calls of the request have the id `{id}`"),
                "give every call an id of its own",
            ));
        }
        let arguments = call.arguments.map_or_else(|| "{}".into(), |json| json.get().into());
        calls.push(RequestedCall { id, tool: call.tool.into(), arguments, id_is_new });
    }
    Ok(calls)
}

/// Ids go into paths, logs and the audit, so they are short and plain.
fn sound_id(id: String) -> Result<String, Problem> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    if !id.is_empty() && id.len() <= CALL_ID_BYTES && id.bytes().all(plain) {
        return Ok(id);
    }
    Err(Problem::new(
        ErrorType::InvalidRequest,
        "a call's id is empty, too long, or has characters that ids do not have",
        format!("use 1 to {CALL_ID_BYTES} letters, digits, `-`, `_`, `.` and `:`"),
    ))
}

/// Results are JSON text already; they are put side by side, not parsed and written again.
fn answered(session: &Session, answer: &BatchAnswer) -> Response {
    let length: usize = answer.results.iter().map(|result| result.json.len() + 1).sum();
    let mut body = String::with_capacity(length + 256);
    body.push_str("{\"session\":");
    push_string(&mut body, &session.setup.id);
    if let Some(conversation) = &session.setup.conversation {
        body.push_str(",\"conversation\":");
        push_string(&mut body, conversation);
    }
    body.push_str(",\"results\":[");
    for (at, result) in answer.results.iter().enumerate() {
        if at > 0 {
            body.push(',');
        }
        body.push_str(&result.json);
    }
    body.push_str("],\"next\":\"model\"}");
    json(body)
}

fn push_string(body: &mut String, text: &str) {
    // A string always serializes.
    body.push_str(&serde_json::to_string(text).unwrap_or_default());
}

pub(super) fn json(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
