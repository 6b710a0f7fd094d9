//! Calls over HTTP: a request becomes calls, outcomes become one answer. What forms both can have is in `forms`.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, State};
use axum::http::header;
use axum::http::request::Parts as RequestParts;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_admission::ErrorType;
use utoipa::ToSchema;

use super::address::{CallAddress, SessionAddress};
use super::body::{Json, JsonText};
use super::extract::Path;
use super::forms::schema::RequestForm;
use super::forms::schema::answers::AnswerForm;
use super::forms::{self, Around, Asked, Form};
use super::problem::{ErrorTypeForm, Problem};
use super::refusal::{
    Decided, NoCall, NoSession, NotInTime, SessionEnded, TooManyCalls, TooManyStreams, UnfitResult,
    Unreadable, Unrecordable,
};
use super::{App, Authenticated, DOOR, events};
use crate::approvals::Stands;
use crate::dispatch::{
    Answer, ApprovalStamp, BatchAnswer, CallUsage, ClientResult, Executed, NotTaken, Origin, PluginStamp,
    RequestedCall, now_ms,
};
use crate::identity::Caller;
use crate::sessions::{CallState, Session, Status as CallStatus, Waiting};
use crate::store::ApprovalRow;

/// One call.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct CallRequest {
    /// Unique in the session; the same id answers the same call again. Made where absent.
    #[schema(min_length = 1, max_length = 128, pattern = "^[A-Za-z0-9._:-]+$", example = "c1")]
    id: Option<String>,
    /// `call_NAMESPACE_TOOL` or `namespace/tool`. What no tool can be called, also for its length, is that call's
    /// `TOOL_NOT_FOUND`; of a name of more than 256 bytes the beginning is kept.
    tool: String,
    /// An object that fits the tool's input schema; left out, an empty one. What does not fit is that call's
    /// `INVALID_ARGUMENTS`.
    #[schema(value_type = Value, required = false, example = json!({"expression": "6*7"}))]
    arguments: Option<Box<RawValue>>,
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
    /// The approval that it waits for, where the status is `approval_required`.
    #[schema(value_type = ApprovalStamp, required = false)]
    approval: Option<ApprovalStamp>,
    /// What the client is to perform, any JSON, where the status is `client_required`.
    #[schema(value_type = Value, required = false)]
    payload: Option<serde_json::Value>,
    /// Until when the client can post the result, in milliseconds since 1970.
    #[schema(value_type = u64, required = false)]
    expires_at: Option<u64>,
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
    request_body(content = RequestForm, example = json!({"calls": [{"id": "c1", "tool": "call_arithmetic_evaluate", "arguments": {"expression": "6*7"}}]})),
    responses(
        (status = 200, description = "What became of each call. With `Accept: text/event-stream` the events of these calls come as they happen, and this answer at last as the event `answer`.", content((AnswerForm = "application/json"), (String = "text/event-stream")),
            links(
                ("call" = (operation_id = "get_call", parameters(("id" = "$request.path.id"), ("call" = "$response.body#/results/0/id")), description = "Ask again what became of the first call.")),
                ("cancel" = (operation_id = "cancel_call", parameters(("id" = "$request.path.id"), ("call" = "$response.body#/results/0/id")), description = "Cancel the first call.")),
            )),
        NoSession, SessionEnded, TooManyCalls, TooManyStreams,
    ),
)]
pub async fn post(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    WantsEvents(events): WantsEvents,
    JsonText(body): JsonText,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let asked = forms::read(&body, app.settings().calls.per_request)?;
    session.touch(now_ms());
    let origin = origin(&caller);
    if events {
        return events::of_calls(app, session, asked, origin);
    }
    let Asked { form, turn, calls } = asked;
    let answer = app.dispatcher().batch(&session, turn.as_deref(), calls, &origin).await;
    Ok(json(answered(&session, &form, turn.as_deref(), &answer)))
}

/// The answer to a request, in the form in which its calls came.
pub(super) fn answered(session: &Session, form: &Form, turn: Option<&str>, answer: &BatchAnswer) -> String {
    let results: Vec<&str> = answer.results.iter().map(|result| &*result.json).collect();
    let around = Around {
        session: &session.setup.id,
        conversation: session.setup.conversation.as_deref(),
        turn,
        next: answer.next().as_str(),
    };
    forms::write(form, &around, &results)
}

pub(super) fn origin(caller: &Caller) -> Origin {
    Origin { principal: Arc::clone(&caller.token_id), door: DOOR, revoked: caller.revoked.clone() }
}

/// Whether events are asked for, and not the answer alone.
pub struct WantsEvents(bool);

impl FromRequestParts<App> for WantsEvents {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut RequestParts, _: &App) -> Result<Self, Infallible> {
        let accept = parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
        let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
        Ok(Self(kinds.any(|kind| kind == "text/event-stream")))
    }
}

/// Ask what became of a call.
///
/// With `Accept: text/event-stream` its events come as they happen, and at last the answer. While it runs its `status` is `running`. Answers are kept for a time; after that, and after a restart of the
/// daemon, what is known is whether it ended, and the answer is `EXPIRED`.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/calls/{call}", tag = "calls", operation_id = "get_call",
    params(CallAddress),
    responses((status = 200, description = "What is known of the call.", content((CallResult = "application/json"), (String = "text/event-stream"))), NoCall, SessionEnded, Unreadable, TooManyStreams),
)]
pub async fn get(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((id, call)): Path<(String, String)>,
    WantsEvents(events): WantsEvents,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id).await?;
    if events && session.calls.knows(&call) {
        return events::of_call(&app, session, call, &caller);
    }
    match session.calls.find(&call, now_ms()) {
        None => app.call_of_an_earlier_run(&session, &call).await,
        Some(CallState::Waiting(waiting)) => waiting_for(&app, &session, &call, &waiting).await,
        Some(_) => {
            app.dispatcher().end_expired(&session);
            as_it_stands(&session, &call, None)
        }
    }
}

/// A call that waits for approval, as the approval stands now.
async fn waiting_for(
    app: &App,
    session: &Arc<Session>,
    call: &str,
    waiting: &Waiting,
) -> Result<Response, Problem> {
    match app.dispatcher().parts().approvals.stands(&waiting.approval, now_ms()).await? {
        Stands::Over(state, why) => {
            app.dispatcher().decided(session, &waiting.approval, state, &Some(why));
            as_it_stands(session, call, None)
        }
        Stands::Open(row) => as_it_stands(session, call, Some(&row)),
    }
}

/// A call as it is by now: where it still waits for a person, under this approval.
fn as_it_stands(session: &Session, call: &str, row: Option<&ApprovalRow>) -> Result<Response, Problem> {
    let text = match (session.calls.find(call, now_ms()), row) {
        (Some(CallState::Waiting(waiting)), Some(row)) => {
            let tool = Arc::clone(&waiting.called);
            Answer::waiting(row).json(&RequestedCall { tool, ..RequestedCall::unnamed(call.to_owned()) })
        }
        (Some(CallState::Waiting(waiting)), None) => waiting.answer.json.clone(),
        (Some(CallState::Client(client)), _) => client.answer.json.clone(),
        (Some(CallState::Ended(recorded)), _) => recorded.json.clone(),
        (Some(state), _) => {
            let mut asked = RequestedCall::unnamed(call.to_owned());
            if let CallState::Running { called, .. } = &state {
                asked.tool = Arc::clone(called);
            }
            Answer::of_known(&state).json(&asked)
        }
        (None, _) => return Err(Problem::not_found("call")),
    };
    Ok(json(text.into()))
}

/// What a client says came of its part of a call.
#[derive(ToSchema)]
#[schema(as = ClientResult)]
#[serde(untagged)]
#[allow(dead_code, reason = "read by the derive alone")]
pub enum ClientResultForm {
    /// It was done.
    Done(ClientDone),
    /// It could not be done.
    Failed(ClientFailed),
}

/// A client's part of a call that was done.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct ClientDone {
    /// `ok`.
    #[schema(pattern = "^ok$", example = "ok")]
    status: String,
    /// What came out; it must fit the tool's output schema.
    output: serde_json::Value,
}

/// A client's part of a call that could not be done.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub struct ClientFailed {
    /// `error`.
    #[schema(pattern = "^error$", example = "error")]
    status: String,
    /// Why not, for the model.
    #[schema(min_length = 1)]
    message: String,
}

/// Both of these, as they are read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientResultRequest {
    status: ClientStatus,
    /// `null` is an output like any other.
    #[serde(default, deserialize_with = "some_json")]
    output: Option<Box<RawValue>>,
    message: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ClientStatus {
    Ok,
    Error,
}

fn some_json<'de, D: serde::Deserializer<'de>>(json: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Deserialize::deserialize(json).map(Some)
}

/// Post the result of a call that the client performs.
///
/// For calls that were answered with `client_required`. The output is held against the tool's output schema; one that
/// does not fit is refused, and the call stays open. The same result posted again is answered the same.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/calls/{call}/result", tag = "calls", operation_id = "post_client_result",
    params(CallAddress),
    request_body(content = ClientResultForm, example = json!({"status": "ok", "output": {"done": true}})),
    responses(
        (status = 200, description = "The call as it ended.", body = CallResult),
        NoCall, Decided, NotInTime, UnfitResult, Unrecordable,
    ),
)]
pub async fn result(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((id, call)): Path<(String, String)>,
    Json(request): Json<ClientResultRequest>,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id).await?;
    session.touch(now_ms());
    let result = match (request.status, request.output, request.message) {
        (ClientStatus::Ok, Some(output), None) => ClientResult::Output(output.get().into()),
        (ClientStatus::Error, None, Some(message)) if !message.is_empty() => ClientResult::Failed(message),
        _ => {
            let message = "the result is neither an output nor a failure";
            let hint =
                "send `{\"status\":\"ok\",\"output\":…}` or `{\"status\":\"error\",\"message\":\"…\"}`";
            return Err(Problem::new(ErrorType::InvalidRequest, message, hint));
        }
    };
    match app.dispatcher().take_result(&session, &call, result, &origin(&caller)).await {
        Ok(recorded) => Ok(json(recorded.json.to_string())),
        Err(NotTaken::NotClients) => match session.calls.find(&call, now_ms()) {
            Some(_) => Err(Problem::new(
                ErrorType::Conflict,
                "the call does not wait for a client's result",
                "ask for the call to see how it stands",
            )),
            None => match app.call_of_an_earlier_run(&session, &call).await {
                Ok(_) => Err(Problem::new(
                    ErrorType::Expired,
                    "the daemon was started again since the call, and takes no result of it any more",
                    "use a new id to call again",
                )),
                Err(problem) => Err(problem),
            },
        },
        Err(NotTaken::Refused(error)) => Err(error.into()),
    }
}

/// Cancel a call.
///
/// One that runs is stopped, and one that waits for a person or for its client waits no longer: it ends with `CANCELLED`.
/// One that has ended stays as it ended.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/calls/{call}", tag = "calls", operation_id = "cancel_call",
    params(CallAddress),
    responses((status = 204, description = "It does not run any more."), NoCall, SessionEnded, Unrecordable),
)]
pub async fn delete(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path((id, call)): Path<(String, String)>,
) -> Result<axum::http::StatusCode, Problem> {
    let session = app.session_of(&caller, &id).await?;
    if !session.calls.knows(&call) {
        return Err(Problem::not_found("call"));
    }
    app.dispatcher().cancel(&session, &call, &origin(&caller)).await?;
    Ok(axum::http::StatusCode::NO_CONTENT)
}

pub(super) fn json(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}
