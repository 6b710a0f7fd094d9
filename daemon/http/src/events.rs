//! Events over HTTP, as a stream of server-sent events (WHATWG HTML, section 9.2).
//!
//! A stream ends when its token ends or the daemon stops, and a stream of a session or a call when the session ends;
//! the last events of running calls come first. A subscriber that lags behind gets an event `dropped` with the number of
//! missed events, and continues from there.
//!
//! Each event of a session, of an organization or of everything has an `id`; a client that sends the last one in
//! `Last-Event-ID` gets the events after it, as far as the ring still has them, and else an event `dropped`. The stream of
//! a call cannot be resumed: the state of the call says how it ended.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::event::{Event, EventKind, EventsDropped, StreamEvent};
use toolgate_core::dispatch::{Origin, known_outcome};
use toolgate_core::events::{Received, Scope, Subscriber};
use toolgate_core::identity::Caller;
use toolgate_core::sessions::{CallState, Session, SessionSetup};
use toolgate_state::clock::now_ms;

use super::dialects::{self, ParsedRequest, ReplyContext};
use super::error_responses::{NoOrganization, NoSession, SessionEnded, TooManyStreams};
use super::extract::{Client, Path};
use super::file_blocks;
use super::find_tool::Searches;
use super::path_params::{LastEventId, OrgPath, SessionPath};
use super::problem::Problem;
use super::state::App;

const LAST_EVENT_ID: &str = "last-event-id";

/// Interval of keep-alive comments, so that proxies do not close a quiet stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Stream all events.
///
/// Streams the events of every organization, from now on or after the one in `Last-Event-ID`.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "follow_events", params(LastEventId),
    responses((status = 200, description = "Server-sent events.", content((StreamEvent = "text/event-stream")))),
)]
pub(crate) async fn all(Client { app, caller }: Client, headers: HeaderMap) -> Result<Response, Problem> {
    follow(&app, Scope::All, Filter::Everything, &caller, &headers)
}

/// Stream the events of an organization.
///
/// Streams every event of the calls of its agents, from now on or after the one in `Last-Event-ID`.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/events", tag = "events", operation_id = "follow_organization_events", params(OrgPath, LastEventId),
    responses((status = 200, description = "Server-sent events.", content((StreamEvent = "text/event-stream"))), NoOrganization, TooManyStreams),
)]
pub(crate) async fn of_organization(
    Client { app, caller }: Client,
    Path(OrgPath { organization }): Path<OrgPath>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    app.admin().expect_own(&caller, &organization)?;
    follow(&app, Scope::Organization(organization), Filter::Everything, &caller, &headers)
}

/// Stream the events of a session.
///
/// Streams every event of its calls, from now on or after the one in `Last-Event-ID`. The stream ends with the session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", tag = "events", operation_id = "follow_session_events", params(SessionPath, LastEventId),
    responses((status = 200, description = "Server-sent events.", content((StreamEvent = "text/event-stream"))), NoSession, SessionEnded, TooManyStreams),
)]
pub(crate) async fn of_session(
    Client { app, caller }: Client,
    Path(SessionPath { id }): Path<SessionPath>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let scope = Scope::Organization(session.setup.organization.clone());
    follow(&app, scope, Filter::Session(session), &caller, &headers)
}

/// Streams the events of these calls as they happen, and then the response as the event `answer`. A client that disconnects
/// ends the calls that end with their request (R6).
pub(super) fn of_calls(
    app: App,
    session: Arc<Session>,
    request: ParsedRequest,
    searches: Searches,
    origin: Origin,
) -> Result<Response, Problem> {
    let ParsedRequest { dialect, turn, calls } = request;
    let subscriber = subscribe(&app, Scope::Organization(session.setup.organization.clone()))?;
    let ids = calls.iter().map(|call| call.id.clone()).collect();
    let filter = Filter::Calls(Arc::clone(&session), ids);
    let (dispatcher, answering_app) = (app.dispatcher().clone(), app.clone());
    // Runs in a separate task: a body is not polled while its subscriber reads nothing, and a call runs until its
    // deadline.
    let answering = async move {
        let mut outcome = dispatcher.batch(&session, turn.as_deref(), calls, &origin).await;
        searches.answer(&answering_app, &session, &mut outcome.results).await;
        file_blocks::embed(&answering_app, &session, &dialect, &mut outcome.results).await;
        let context = ReplyContext::new(&session, turn.as_deref(), &outcome);
        dialects::render(&dialect, context, &outcome.results)
    };
    let detached = &app.services().detached;
    let answering = AbortOnDropHandle::new(tokio::spawn(detached.track(answering)));
    let begun = Calls { subscriber, filter, answering: Some(answering), answer: None };
    let events = stream::unfold(begun, |mut calls| async move {
        let text = calls.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), calls))
    });
    Ok(stream_of(Body::from_stream(events)))
}

/// The stream of running calls: their events, then the response.
struct Calls {
    subscriber: Subscriber,
    filter: Filter,
    answering: Option<AbortOnDropHandle<String>>,
    answer: Option<String>,
}

impl Calls {
    async fn next(&mut self) -> Option<String> {
        loop {
            let Some(answering) = &mut self.answering else {
                // Events from before the response are sent first.
                return match self.subscriber.try_next() {
                    Some(received) => match self.filter.text(received) {
                        Some(text) => Some(text),
                        None => continue,
                    },
                    None => self.answer.take().map(|answer| format!("event: answer\ndata: {answer}\n\n")),
                };
            };
            tokio::select! {
                biased;
                received = timeout(KEEP_ALIVE, self.subscriber.next()) => {
                    if let Some(text) = self.filter.text_or_keep_alive(received) {
                        return Some(text);
                    }
                }
                answer = answering => {
                    self.answering = None;
                    self.answer = answer.ok();
                }
            }
        }
    }
}

/// Streams the events of an earlier call from now until it ends, and then the response as the event `answer`.
pub(super) fn of_call(
    app: &App,
    session: Arc<Session>,
    call: String,
    caller: &Caller,
) -> Result<Response, Problem> {
    let events = &app.services().events;
    let subscriber = subscribe(app, Scope::Organization(session.setup.organization.clone()))?;
    let (revoked, pending) = (caller.revoked.clone(), events.pending().clone());
    let filter = Filter::Calls(Arc::clone(&session), HashSet::from([call.clone()]));
    let follower = Follower { subscriber, filter, revoked, pending, session, call, is_over: false };
    let events = stream::unfold(follower, |mut follower| async move {
        let text = follower.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), follower))
    });
    Ok(stream_of(Body::from_stream(events)))
}

/// The stream of one call: its events until it ends, then the response.
struct Follower {
    subscriber: Subscriber,
    filter: Filter,
    revoked: CancellationToken,
    pending: TaskTracker,
    session: Arc<Session>,
    call: String,
    is_over: bool,
}

impl Follower {
    async fn next(&mut self) -> Option<String> {
        loop {
            if self.is_over {
                return None;
            }
            // Enabled before the look-up, so that the end of a call is not missed.
            let mut next_end = pin!(self.session.calls.next_end());
            next_end.as_mut().enable();
            let state = self.session.calls.find(&self.call, now_ms());
            let goes_on = matches!(state, Some(CallState::Running { .. } | CallState::Pending(_)));
            if !goes_on && !self.subscriber.has_more() {
                self.is_over = true;
                // A withdrawn call is unknown: its id may be used again.
                return state.map(|state| answer_of(&self.session, &self.call, &state));
            }
            let text = tokio::select! {
                biased;
                () = self.revoked.cancelled() => return None,
                received = timeout(KEEP_ALIVE, self.subscriber.next()) => self.filter.text_or_keep_alive(received),
                () = next_end => None,
                () = self.filter.last_event(&self.pending) => match self.subscriber.try_next() {
                    Some(received) => self.filter.text(received),
                    None => return None,
                },
            };
            if text.is_some() {
                return text;
            }
        }
    }
}

fn answer_of(session: &Session, call: &str, state: &CallState) -> String {
    let json = dialects::render_one(session, &known_outcome(call, &"".into(), state));
    format!("event: answer\ndata: {json}\n\n")
}

/// The filter of a stream, within its scope.
enum Filter {
    Everything,
    Session(Arc<Session>),
    Calls(Arc<Session>, HashSet<String>),
}

impl Filter {
    /// The text of an item; a keep-alive comment after a quiet interval.
    fn text_or_keep_alive(&self, received: Result<Received, Elapsed>) -> Option<String> {
        received.map_or_else(|_| Some(": alive\n\n".to_owned()), |received| self.text(received))
    }

    /// Resolves after the last event that passes. `pending` are the calls of all sessions.
    async fn last_event(&self, pending: &TaskTracker) {
        let of_session = async {
            match self {
                Self::Everything => std::future::pending().await,
                Self::Session(session) | Self::Calls(session, _) => session.pending_events().wait().await,
            }
        };
        tokio::select! {
            () = of_session => {}
            () = pending.wait() => {}
        }
    }

    fn text(&self, received: Received) -> Option<String> {
        let event = match received {
            Received::Event(event) => event,
            Received::Missed(missed) => {
                return Some(dropped_text(EventsDropped { dropped: missed, unknown: false }));
            }
            Received::Gap => return Some(dropped_text(EventsDropped { dropped: 0, unknown: true })),
        };
        let passes = match self {
            Self::Everything => true,
            Self::Session(session) => {
                *event.session == *session.setup.id || is_message_to(&event, &session.setup)
            }
            Self::Calls(session, ids) => *event.session == *session.setup.id && ids.contains(&*event.call),
        };
        passes.then(|| {
            // JSON text has no line breaks, so it fits one `data` line. Strings and numbers always serialize.
            let json = serde_json::to_string(&*event).unwrap_or_default();
            format!("event: {}\ndata: {json}\n\n", event.event.as_str())
        })
    }
}

/// Whether the event tells of a message to the session's agent, which is of no session (T12).
fn is_message_to(event: &Event, setup: &SessionSetup) -> bool {
    event.event == EventKind::Message && *event.agent == *setup.agent.as_str()
}

fn dropped_text(dropped: EventsDropped) -> String {
    let body = serde_json::to_string(&dropped).unwrap_or_default();
    format!("event: dropped\ndata: {body}\n\n")
}

/// Streams events until the token ends or the last event was sent: from now on, or after the last one that the client
/// received.
fn follow(
    app: &App,
    scope: Scope,
    filter: Filter,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let events = &app.services().events;
    let last = headers.get(LAST_EVENT_ID).map(|id| id.to_str().unwrap_or_default());
    // An empty id is that of a client that received no event (WHATWG HTML, section 9.2.4).
    let subscriber = events.resume(scope, last.filter(|id| !id.is_empty())).ok_or_else(too_many_streams)?;
    let pending = events.pending().clone();
    // Sent at once, so that the client knows that the subscription has started, and may resume before the first event.
    let opened = with_position(&subscriber, ": listening\n\n");
    let events = stream::unfold((subscriber, filter), move |(mut subscriber, filter)| {
        let pending = pending.clone();
        async move {
            loop {
                let text = tokio::select! {
                    biased;
                    received = timeout(KEEP_ALIVE, subscriber.next()) => filter.text_or_keep_alive(received),
                    () = filter.last_event(&pending) => match subscriber.try_next() {
                        Some(received) => filter.text(received),
                        None => return None,
                    },
                };
                if let Some(text) = text {
                    let text = with_position(&subscriber, &text);
                    return Some((Ok::<_, std::convert::Infallible>(text), (subscriber, filter)));
                }
            }
        }
    });
    let opened = stream::once(async { Ok(opened) });
    Ok(stream_of(Body::from_stream(opened.chain(events.take_until(caller.wait_for_end())))))
}

/// Adds the position. A keep-alive comment has one too: the events before it may all have been of other sessions, and
/// without it a quiet client would resume far behind.
fn with_position(subscriber: &Subscriber, text: &str) -> String {
    format!("id: {}\n{text}", subscriber.position())
}

fn subscribe(app: &App, scope: Scope) -> Result<Subscriber, Problem> {
    Ok(app.services().events.subscribe(scope).ok_or_else(too_many_streams)?)
}

fn too_many_streams() -> CallError {
    CallError::new(
        ErrorType::QuotaExceeded,
        "the organization has as many open event streams as it may have",
        "close one; a stream of the organization tells of all its sessions",
    )
    .with_retry_after_ms(1_000)
}

fn stream_of(body: Body) -> Response {
    // Without the last, nginx keeps events back until its buffer is full.
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, body).into_response()
}
