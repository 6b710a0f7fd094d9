//! Handlers of calls: a request becomes calls, and their outcomes become one response. The `dialects` parse and
//! render both.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts as RequestParts;
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;
use toolgate_api::call::CallResult;
use toolgate_api::error::ErrorType;
use toolgate_audit::outer_id;
use toolgate_core::approvals::ApprovalStatus;
use toolgate_core::call::CallOutcome;
use toolgate_core::dispatch::{ClientResult, Origin, ResultRefusal};
use toolgate_core::identity::{Access, Caller};
use toolgate_core::sessions::{CallState, Session};
use toolgate_core::traces::TraceParent;
use toolgate_state::clock::now_ms;
use utoipa::ToSchema;

use super::body::{self, BodyBytes, Json, JsonText};
use super::connections::Peer;
use super::dialects::{self, CallsAnswer, CallsRequest, ParsedRequest, ReplyContext};
use super::error_responses::{
    AlreadyDecided, AuditUnavailable, NoCall, NoSession, ResultMismatch, ResultTooLate, SessionEnded,
    StoreUnreadable, TooManyCalls, TooManyStreams,
};
use super::events;
use super::extract::{CallerTrace, Client, Path, trace_of};
use super::file_blocks;
use super::find_tool::Searches;
use super::guard;
use super::path_params::{CallPath, SessionPath};
use super::problem::Problem;
use super::state::App;

/// The access to sessions and their calls.
pub(super) const ACCESS: Access = Access::Orchestrate;

/// Call tools.
///
/// The calls of one request run concurrently. The status is 200 whenever the request itself is valid; the response
/// has the outcome of each call, with `error` for a call that was refused, failed or timed out. Calls are idempotent
/// by their id: a repeated id with the same arguments returns the recorded outcome, one with other arguments fails
/// with `CONFLICT`. When the connection closes, calls with an id of the caller's (or a provider's) go on, so that a repeated
/// request gets their outcomes; calls without one are cancelled, and all are with `"on_disconnect": "cancel"`. With
/// `Prefer: respond-async` the response comes at once, and the calls are read by their ids.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/calls", tag = "calls", operation_id = "call_tools",
    params(
        SessionPath,
        ("Prefer" = Option<String>, Header, description = "`respond-async`: answer at once (RFC 7240)."),
        ("traceparent" = Option<String>, Header, description = "The trace that the calls join (W3C Trace Context), where the daemon exports traces."),
        ("tracestate" = Option<String>, Header, description = "Further data of that trace."),
    ),
    request_body(content = CallsRequest, example = json!({"calls": [{"id": "c1", "tool": "call_arithmetic_evaluate", "arguments": {"expression": "6*7"}}]})),
    responses(
        (status = 200, description = "What became of each call. With `Accept: text/event-stream` the events of these calls come as they happen, and this answer at last as the event `answer`.", content((CallsAnswer<'static> = "application/json"), (String = "text/event-stream")),
            links(
                ("call" = (operation_id = "get_call", parameters(("id" = "$request.path.id"), ("call" = "$response.body#/results/0/id")), description = "Ask again what became of the first call.")),
                ("cancel" = (operation_id = "cancel_call", parameters(("id" = "$request.path.id"), ("call" = "$response.body#/results/0/id")), description = "Cancel the first call.")),
            )),
        (status = 202, description = "With `Prefer: respond-async`: the calls, which run.", body = CallsAnswer<'static>),
        NoSession, SessionEnded, TooManyCalls, TooManyStreams,
    ),
)]
pub(crate) async fn post(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
    WantsEvents(events): WantsEvents,
    preferred: Preferred,
    CallerTrace(trace): CallerTrace,
    JsonText(body): JsonText,
) -> Result<Response, Problem> {
    let read = ReadRequest { id, events, preferred, trace, body };
    answer_read(app, &caller, read).await
}

/// A request of calls, whose body was read.
struct ReadRequest {
    /// The session.
    id: String,
    events: bool,
    preferred: Preferred,
    trace: Option<Arc<TraceParent>>,
    body: BodyBytes,
}

/// Returns the session of a request to [`post`], if the request can be answered without the router.
pub(super) fn session_of<B>(request: &Request<B>) -> Option<&str> {
    if request.method() != Method::POST || request.uri().query().is_some() {
        return None;
    }
    let id = request.uri().path().strip_prefix("/v1/sessions/")?.strip_suffix("/calls")?;
    // The router decodes other addresses.
    let is_plain = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_plain.then_some(id)
}

/// Answers a request to [`post`]. Nearly all requests are such, so they do without the router, its boxed bodies and
/// its map of extensions.
pub(super) async fn answer(
    app: App,
    id: String,
    request: Request<Incoming>,
    peer: &Peer,
) -> Result<Response, Problem> {
    let caller = guard::admit(&app, ACCESS, request.headers(), Some(peer))?;
    let (head, body) = request.into_parts();
    body::expect_json(&head.headers)?;
    let organization = caller.organization.as_ref();
    let body = body::read(&app, organization, body, app.settings().http.body_bytes).await?;
    let events = accepts_events(&head.headers);
    let trace = trace_of(&app.services().traces, &head.headers);
    let read = ReadRequest { id, events, preferred: preferred(&head.headers), trace, body };
    answer_read(app, &caller, read).await
}

async fn answer_read(app: App, caller: &Caller, read: ReadRequest) -> Result<Response, Problem> {
    let ReadRequest { id, events, preferred, trace, body } = read;
    let session = app.session_of(caller, &id).await?;
    let turn = app.dispatcher().turn(&session.setup.organization, body.len()).await;
    let mut request = dialects::parse(&body, app.settings().calls.per_request)?;
    drop(turn);
    let searches = Searches::take_from(&mut request);
    session.touch(now_ms());
    let origin = Origin { trace, ..app.actor(caller).origin() };
    if events {
        return events::of_calls(app, session, request, searches, origin);
    }
    let ParsedRequest { dialect, turn, calls } = request;
    let mut outcome = match preferred {
        Preferred::Answer => app.dispatcher().batch(&session, turn.as_deref(), calls, &origin).await,
        Preferred::Acceptance => app.dispatcher().begin_batch(&session, turn.clone(), calls, &origin),
    };
    searches.answer(&app, &session, &mut outcome.results).await;
    file_blocks::embed(&app, &session, &dialect, &mut outcome.results).await;
    let context = ReplyContext::new(&session, turn.as_deref(), &outcome);
    let bytes =
        outcome.results.iter().filter_map(|result| result.output()).map(|json| json.get().len()).sum();
    let rendering = app.dispatcher().turn(&session.setup.organization, bytes).await;
    let answer = json(dialects::render(&dialect, context, &outcome.results));
    drop(rendering);
    Ok(match preferred {
        Preferred::Answer => answer,
        Preferred::Acceptance => {
            (StatusCode::ACCEPTED, [("preference-applied", "respond-async")], answer).into_response()
        }
    })
}

/// The event that the client waits for (`Prefer`, RFC 7240).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Preferred {
    /// The outcomes of the calls.
    Answer,
    /// That the calls were accepted (`respond-async`).
    Acceptance,
}

impl FromRequestParts<App> for Preferred {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut RequestParts, _: &App) -> Result<Self, Infallible> {
        Ok(preferred(&parts.headers))
    }
}

fn preferred(headers: &HeaderMap) -> Preferred {
    let values = headers.get_all("prefer").iter().filter_map(|value| value.to_str().ok());
    let mut preferences = values.flat_map(|value| value.split([',', ';'])).map(str::trim);
    match preferences.any(|preference| preference.eq_ignore_ascii_case("respond-async")) {
        true => Preferred::Acceptance,
        false => Preferred::Answer,
    }
}

/// Whether the client accepts an event stream (`Accept: text/event-stream`).
pub(crate) struct WantsEvents(bool);

impl FromRequestParts<App> for WantsEvents {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut RequestParts, _: &App) -> Result<Self, Infallible> {
        Ok(Self(accepts_events(&parts.headers)))
    }
}

fn accepts_events(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("");
    let mut kinds = accept.split(',').map(|kind| kind.split(';').next().unwrap_or("").trim());
    kinds.any(|kind| kind == "text/event-stream")
}

/// Get the outcome of a call.
///
/// With `Accept: text/event-stream` the response is a stream of the call's events, followed by the outcome. The
/// `status` of an unfinished call is `running`. Outcomes are kept for a limited time, also across a restart of the
/// daemon; after that, only the fact that the call ended is known, and the outcome is the error `EXPIRED`.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/calls/{call}", tag = "calls", operation_id = "get_call", params(CallPath),
    responses((status = 200, description = "The outcome of the call, or its present state.", content((CallResult<'static> = "application/json"), (String = "text/event-stream"))), NoCall, SessionEnded, StoreUnreadable, TooManyStreams),
)]
pub(crate) async fn get(
    Client { app, caller }: Client,
    Path(CallPath { id, call }): Path<CallPath>,
    WantsEvents(events): WantsEvents,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let call = id_of_path(&session, call);
    let state = session.calls.find(&call, now_ms());
    if events && !matches!(state, None | Some(CallState::Forgotten)) {
        return events::of_call(&app, session, call, &caller);
    }
    match state {
        None => {
            let outcome = app.outcome_from_audit(&session, &call).await?;
            Ok(json(dialects::render_one(&session, &outcome)))
        }
        Some(_) => {
            app.dispatcher().end_expired(&session);
            let outcome = present_outcome(&app, &session, &call).await?;
            Ok(json(dialects::render_one(&session, &outcome)))
        }
    }
}

/// Returns the id under which the call of a path is kept. Ids of a script's inner calls have a form of their own.
fn id_of_path(session: &Session, call: String) -> String {
    let kept = dialects::kept_id(&call);
    match outer_id(&call).is_some() && !session.calls.has(&kept) {
        true => call,
        false => kept.into_owned(),
    }
}

/// Returns the outcome of a call, or its current state with the state of its approval.
async fn present_outcome(app: &App, session: &Arc<Session>, call: &str) -> Result<Arc<CallOutcome>, Problem> {
    let find = || session.calls.find(call, now_ms()).ok_or_else(|| Problem::not_found("call"));
    let state = find()?;
    if let CallState::Pending(pending) = &state
        && let Some(approval) = pending.approval()
    {
        match app.services().approvals.status(approval, now_ms()).await? {
            ApprovalStatus::Over(state, why) => {
                app.dispatcher().apply_decision(session, approval, state, Some(&why));
            }
            ApprovalStatus::Open(row) => {
                // The call may have ended while the store was read.
                if matches!(find()?, CallState::Pending(_)) {
                    let called = &pending.outcome.called;
                    return Ok(Arc::new(CallOutcome::awaiting_approval(call, called, &row)));
                }
            }
        }
    }
    Ok(app.dispatcher().known_outcome(session, call, &"".into(), &find()?).await)
}

/// The client's result of a call.
#[derive(ToSchema)]
#[schema(as = ClientResult)]
#[serde(untagged)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(crate) enum ClientResultForm {
    /// The client performed the call.
    Done(ClientDone),
    /// The client failed to perform the call.
    Failed(ClientFailed),
}

/// Result of a call that the client performed.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(crate) struct ClientDone {
    /// `ok`.
    #[schema(pattern = "^ok$", example = "ok")]
    status: String,
    /// The output; it must match the tool's output schema.
    output: serde_json::Value,
}

/// Result of a call that the client failed to perform.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "read by the derive alone")]
pub(crate) struct ClientFailed {
    /// `error`.
    #[schema(pattern = "^error$", example = "error")]
    status: String,
    /// The error message, for the model.
    #[schema(min_length = 1)]
    message: String,
}

/// Both results, as they are deserialized.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClientResultRequest {
    status: ClientStatus,
    /// `null` is a valid output.
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
/// Applies to calls with the status `client_required`. The output is validated against the tool's output schema; an
/// invalid output is refused and the call stays open. The request is idempotent: the same result gets the same
/// response.
#[utoipa::path(
    post, path = "/v1/sessions/{id}/calls/{call}/result", tag = "calls", operation_id = "post_client_result", params(CallPath),
    request_body(content = ClientResultForm, example = json!({"status": "ok", "output": {"done": true}})),
    responses((status = 200, description = "The call as it ended.", body = CallResult<'static>), NoCall, AlreadyDecided, ResultTooLate, ResultMismatch, AuditUnavailable),
)]
pub(crate) async fn result(
    Client { app, caller }: Client,
    Path(CallPath { id, call }): Path<CallPath>,
    Json(request): Json<ClientResultRequest>,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let call = id_of_path(&session, call);
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
    match app.dispatcher().take_result(&session, &call, result, &app.actor(&caller).origin()).await {
        Ok(outcome) => Ok(json(dialects::render_one(&session, &outcome))),
        Err(ResultRefusal::NotForClient) => match session.calls.find(&call, now_ms()) {
            Some(_) => Err(Problem::new(
                ErrorType::Conflict,
                "the call does not wait for a client's result",
                "read the call to see its status",
            )),
            None => match app.outcome_from_audit(&session, &call).await {
                Ok(_) => Err(Problem::new(
                    ErrorType::Expired,
                    "the call does not wait for a client's result any more",
                    "use a new id to call again",
                )),
                Err(problem) => Err(problem),
            },
        },
        Err(ResultRefusal::Refused(error)) => Err(error.into()),
    }
}

/// Cancel a call.
///
/// A running call is stopped; a call that waits for an approval or for its client stops waiting. Both end with
/// `CANCELLED`. A call that has ended keeps its outcome.
#[utoipa::path(
    delete, path = "/v1/sessions/{id}/calls/{call}", tag = "calls", operation_id = "cancel_call", params(CallPath),
    responses((status = 204, description = "It does not run any more."), NoCall, SessionEnded, AuditUnavailable),
)]
pub(crate) async fn delete(
    Client { app, caller }: Client,
    Path(CallPath { id, call }): Path<CallPath>,
) -> Result<StatusCode, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let call = id_of_path(&session, call);
    app.dispatcher().restore_waiting(&session, &call).await?;
    if !session.calls.has(&call) {
        // A call that ended in an earlier run of the daemon; any other is not found.
        app.outcome_from_audit(&session, &call).await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    app.dispatcher().cancel(&session, &call, &app.actor(&caller).origin()).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn json(body: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_requests_that_do_without_the_router_are_those_to_call_tools_with_a_plain_address() {
        let session = |method: Method, address: &str| {
            let request = Request::builder().method(method).uri(address).body(()).expect("a request");
            session_of(&request).map(str::to_owned)
        };
        assert_eq!(session(Method::POST, "/v1/sessions/s_1/calls").as_deref(), Some("s_1"));
        assert_eq!(session(Method::POST, "http://host/v1/sessions/s_1/calls").as_deref(), Some("s_1"));
        assert_eq!(session(Method::GET, "/v1/sessions/s_1/calls"), None);
        for address in
            ["//calls", "/s_1/calls?x=1", "/s%31/calls", "/s_1/calls/", "/s_1/x/calls", "/s_1/callx"]
        {
            assert_eq!(session(Method::POST, &format!("/v1/sessions{address}")), None, "{address}");
        }
    }
}
