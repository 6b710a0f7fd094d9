//! Events over HTTP, as a stream of server-sent events (WHATWG HTML, section 9.2).
//!
//! A stream ends when the token that opened it is revoked, when the daemon stops, and that of a session or a call with the
//! session: the latter two once the last word about calls that run was told. A reader that is too slow gets an event
//! `dropped` that says how many of the organization's are gone, and goes on from there.

use std::collections::HashSet;
use std::fmt::Write;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use toolgate_admission::{CallError, ErrorType};

use super::address::{OrganizationAddress, SessionAddress};
use super::calls::answered;
use super::documents::name;
use super::extract::Path;
use super::forms::Asked;
use super::problem::Problem;
use super::refusal::{NoOrganization, NoSession, SessionEnded, TooManyStreams};
use super::{App, Authenticated};
use crate::dispatch::{Answer, Origin, RequestedCall, now_ms};
use crate::events::{EventsDropped, Heard, Reader, Scope, StreamEvent};
use crate::identity::Caller;
use crate::sessions::{CallState, Session};

/// How often a quiet stream says that it lives, so that nobody on the way takes it for dead.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Listen to everything.
///
/// Every event of every organization, from now on.
#[utoipa::path(
    get, path = "/v1/events", tag = "events", operation_id = "follow_events",
    responses((status = 200, description = "Server-sent events.", content((StreamEvent = "text/event-stream")))),
)]
pub async fn all(State(app): State<App>, Authenticated(caller): Authenticated) -> Result<Response, Problem> {
    following(&app, Scope::All, Only::Everything, caller.revoked.clone())
}

/// Listen to an organization.
///
/// Every event of its agents' calls, from now on.
#[utoipa::path(
    get, path = "/v1/orgs/{org}/events", tag = "events", operation_id = "follow_organization_events",
    params(OrganizationAddress),
    responses((status = 200, description = "Server-sent events.", content((StreamEvent = "text/event-stream"))), NoOrganization, TooManyStreams),
)]
pub async fn of_organization(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(organization): Path<String>,
) -> Result<Response, Problem> {
    let organization = name(&organization)?;
    caller.may_own(&organization)?;
    if !app.0.registry.snapshot().knows(&organization) {
        return Err(Problem::not_found("organization"));
    }
    following(&app, Scope::Organization(organization), Only::Everything, caller.revoked.clone())
}

/// Listen to a session.
///
/// Every event of its calls, from now on. The stream ends with the session.
#[utoipa::path(
    get, path = "/v1/sessions/{id}/events", tag = "events", operation_id = "follow_session_events",
    params(SessionAddress),
    responses((status = 200, description = "Server-sent events.", content((StreamEvent = "text/event-stream"))), NoSession, SessionEnded, TooManyStreams),
)]
pub async fn of_session(
    State(app): State<App>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = app.session_of(&caller, &id).await?;
    let scope = Scope::Organization(session.setup.organization.clone());
    following(&app, scope, Only::Session(session), caller.revoked.clone())
}

/// The events of these calls as they happen, and then their answer as the event `answer`. Hanging up cancels the calls.
pub(super) fn of_calls(
    app: App,
    session: Arc<Session>,
    asked: Asked,
    origin: Origin,
) -> Result<Response, Problem> {
    let Asked { form, turn, calls } = asked;
    let reader = listen(&app, Scope::Organization(session.setup.organization.clone()))?;
    let ids = calls.iter().map(|call| call.id.clone()).collect();
    let only = Only::Calls(Arc::clone(&session), ids);
    let dispatcher = app.dispatcher().clone();
    // A task of its own: a body is not polled while its reader takes nothing, and a call goes on to its deadline.
    let answering = async move {
        let answer = dispatcher.batch(&session, turn.as_deref(), calls, &origin).await;
        answered(&session, &form, turn.as_deref(), &answer)
    };
    let carrying = &app.dispatcher().parts().carrying;
    let answering = AbortOnDropHandle::new(tokio::spawn(carrying.tracked(answering)));
    let begun = Calls { reader, only, answering: Some(answering), answer: None };
    let events = stream::unfold(begun, |mut calls| async move {
        let text = calls.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), calls))
    });
    Ok(stream_of(Body::from_stream(events)))
}

/// Calls that run while their events are told.
struct Calls {
    reader: Reader,
    only: Only,
    answering: Option<AbortOnDropHandle<String>>,
    answer: Option<String>,
}

impl Calls {
    async fn next(&mut self) -> Option<String> {
        loop {
            let Some(answering) = &mut self.answering else {
                // What happened before the answer is told before it.
                return match self.reader.try_next() {
                    Some(heard) => match self.only.told(heard) {
                        Some(text) => Some(text),
                        None => continue,
                    },
                    None => self.answer.take().map(|answer| format!("event: answer\ndata: {answer}\n\n")),
                };
            };
            tokio::select! {
                biased;
                heard = timeout(KEEP_ALIVE, self.reader.next()) => {
                    if let Some(text) = self.only.told_in_time(heard) {
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

/// The events of a call that was made before, from now on to its end, and then its answer as the event `answer`.
pub(super) fn of_call(
    app: &App,
    session: Arc<Session>,
    call: String,
    caller: &Caller,
) -> Result<Response, Problem> {
    let events = &app.dispatcher().parts().events;
    let reader = listen(app, Scope::Organization(session.setup.organization.clone()))?;
    let (revoked, telling) = (caller.revoked.clone(), events.telling().clone());
    let only = Only::Calls(Arc::clone(&session), HashSet::from([call.clone()]));
    let follower = Follower { reader, only, revoked, telling, session, call, is_over: false };
    let told = stream::unfold(follower, |mut follower| async move {
        let text = follower.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), follower))
    });
    Ok(stream_of(Body::from_stream(told)))
}

/// Somebody who waits for the end of one call.
struct Follower {
    reader: Reader,
    only: Only,
    revoked: CancellationToken,
    telling: TaskTracker,
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
            // Waited for before it is looked at, so that no end is missed.
            let mut next_end = pin!(self.session.calls.next_end());
            next_end.as_mut().enable();
            let state = self.session.calls.find(&self.call, now_ms());
            let goes_on = matches!(
                state,
                Some(CallState::Running { .. } | CallState::Waiting(_) | CallState::Client(_))
            );
            if !goes_on && !self.reader.has_more() {
                self.is_over = true;
                // Nothing is known of one that was taken back: it may be made again.
                return state.map(|state| answer_of(&self.call, &state));
            }
            let text = tokio::select! {
                biased;
                () = self.revoked.cancelled() => return None,
                heard = timeout(KEEP_ALIVE, self.reader.next()) => self.only.told_in_time(heard),
                () = next_end => None,
                () = self.only.last_word(&self.telling) => match self.reader.try_next() {
                    Some(heard) => self.only.told(heard),
                    None => return None,
                },
            };
            if text.is_some() {
                return text;
            }
        }
    }
}

fn answer_of(call: &str, state: &CallState) -> String {
    let json = match state {
        CallState::Ended(recorded) => recorded.json.clone(),
        state => Answer::of_known(state).json(&RequestedCall::unnamed(call.to_owned())),
    };
    format!("event: answer\ndata: {json}\n\n")
}

/// What of its scope a reader is told.
enum Only {
    Everything,
    Session(Arc<Session>),
    Calls(Arc<Session>, HashSet<String>),
}

impl Only {
    /// The same of what came in time; a stream that is quiet says that it lives.
    fn told_in_time(&self, heard: Result<Heard, Elapsed>) -> Option<String> {
        heard.map_or_else(|_| Some(": alive\n\n".to_owned()), |heard| self.told(heard))
    }

    /// When nothing more will be told that is meant. `telling` are the calls of all sessions.
    async fn last_word(&self, telling: &TaskTracker) {
        let of_session = async {
            match self {
                Self::Everything => std::future::pending().await,
                Self::Session(session) | Self::Calls(session, _) => session.telling().wait().await,
            }
        };
        tokio::select! {
            () = of_session => {}
            () = telling.wait() => {}
        }
    }

    fn told(&self, heard: Heard) -> Option<String> {
        let event = match heard {
            Heard::Event(event) => event,
            Heard::Missed(missed) => {
                let body = serde_json::to_string(&EventsDropped { dropped: missed }).unwrap_or_default();
                return Some(format!("event: dropped\ndata: {body}\n\n"));
            }
        };
        let is_meant = match self {
            Self::Everything => true,
            Self::Session(session) => *event.session == *session.setup.id,
            Self::Calls(session, ids) => *event.session == *session.setup.id && ids.contains(&*event.call),
        };
        is_meant.then(|| {
            let mut text = String::with_capacity(event.json.len() + 32);
            // JSON text has no line ends, so one line holds it. Writing to a string cannot fail.
            let _ = write!(text, "event: {}\ndata: {}\n\n", event.kind.as_str(), event.json);
            text
        })
    }
}

/// Events from now on, until their reader may not read them any more or the last word was told.
fn following(app: &App, scope: Scope, only: Only, revoked: CancellationToken) -> Result<Response, Problem> {
    let (reader, telling) = (listen(app, scope)?, app.dispatcher().parts().events.telling().clone());
    let told = stream::unfold((reader, only), move |(mut reader, only)| {
        let (revoked, telling) = (revoked.clone(), telling.clone());
        async move {
            loop {
                let text = tokio::select! {
                    biased;
                    () = revoked.cancelled() => return None,
                    heard = timeout(KEEP_ALIVE, reader.next()) => only.told_in_time(heard),
                    () = only.last_word(&telling) => match reader.try_next() {
                        Some(heard) => only.told(heard),
                        None => return None,
                    },
                };
                if let Some(text) = text {
                    return Some((Ok::<_, std::convert::Infallible>(text), (reader, only)));
                }
            }
        }
    });
    // A first line at once, so that a reader knows that it listens.
    let opened = stream::once(async { Ok(": listening\n\n".to_owned()) });
    Ok(stream_of(Body::from_stream(futures_util::StreamExt::chain(opened, told))))
}

fn listen(app: &App, scope: Scope) -> Result<Reader, Problem> {
    let too_many = || {
        CallError::new(
            ErrorType::QuotaExceeded,
            "the organization follows as many streams of events as it may",
            "close one; a stream of the organization tells of all its sessions",
        )
    };
    Ok(app.dispatcher().parts().events.listen(scope).ok_or_else(too_many)?)
}

fn stream_of(body: Body) -> Response {
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    (headers, body).into_response()
}
