//! Extractors of the caller and of path and query parameters, which reject with a problem response.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::extract::path::ErrorKind;
use axum::extract::rejection::PathRejection;
use axum::http::HeaderMap;
use axum::http::header::{IF_MATCH, IF_NONE_MATCH};
use axum::http::request::Parts;
use serde::de::{self, Deserialize, DeserializeOwned, Deserializer};
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_core::admin::Actor;
use toolgate_core::identity::Caller;
use toolgate_core::traces::{TraceParent, Traces};
use toolgate_state::documents::Precondition;

use super::header::header;
use super::problem::Problem;
use super::schema::SAFE_INTEGER;
use super::state::App;

/// The caller behind a valid token, whose role has the access that the route needs.
pub struct Authenticated(pub Arc<Caller>);

/// The same caller, and the app that serves it.
pub struct Client {
    /// The app.
    pub app: App,
    /// The caller.
    pub caller: Arc<Caller>,
}

impl Client {
    /// The caller as the administration layer takes it.
    pub fn actor(&self) -> Actor<'_> {
        self.app.actor(&self.caller)
    }

    /// Checks that an organization exists and is the caller's; the platform is, since its routes have a guard.
    pub fn expect_own(&self, organization: Option<&Name>) -> Result<(), Problem> {
        let admin = self.app.admin();
        Ok(organization.map_or(Ok(()), |organization| admin.expect_own(&self.caller, organization))?)
    }
}

/// The preconditions in `If-Match` and `If-None-Match`. The write itself requires one, or does without.
pub struct Tags(pub Precondition);

/// The trace of the caller (`traceparent`), where calls have traces.
pub struct CallerTrace(pub Option<Arc<TraceParent>>);

/// The path parameters.
pub struct Path<T>(pub T);

/// The query parameters.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, app).await;
        let axum::extract::Path(value) = read.map_err(|refused| match refused {
            PathRejection::FailedToDeserializePathParams(refused) => match refused.into_kind() {
                ErrorKind::DeserializeError { message, .. } | ErrorKind::Message(message) => {
                    unreadable("address", &message)
                }
                kind => unreadable("address", &kind.to_string()),
            },
            refused => unreadable("address", &refused.to_string()),
        })?;
        Ok(Self(value))
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, app).await;
        let axum::extract::Query(value) =
            read.map_err(|refused| unreadable("query", &innermost(&refused).to_string()))?;
        Ok(Self(value))
    }
}

impl FromRequestParts<App> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Arc<Caller>>();
        caller.map(|caller| Self(Arc::clone(caller))).ok_or_else(|| {
            tracing::error!(path = parts.uri.path(), "a route that asks who is calling has no guard");
            Problem::new(ErrorType::Internal, "the daemon does not know who is calling", "tell the operator")
        })
    }
}

impl FromRequestParts<App> for Client {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let Authenticated(caller) = Authenticated::from_request_parts(parts, app).await?;
        Ok(Self { app: app.clone(), caller })
    }
}

impl FromRequestParts<App> for Tags {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let tags = |name| header(&parts.headers, name);
        Ok(Self(Precondition::from_headers(tags(&IF_MATCH)?, tags(&IF_NONE_MATCH)?)?))
    }
}

impl FromRequestParts<App> for CallerTrace {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(Self(trace_of(&app.services().traces, &parts.headers)))
    }
}

/// The trace in the fields of a request. A repeated `traceparent` is not valid.
pub(super) fn trace_of(traces: &Traces, headers: &HeaderMap) -> Option<Arc<TraceParent>> {
    if traces.are_off() {
        return None;
    }
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next()?.to_str().ok().filter(|_| parents.next().is_none());
    // Lines of one field are one list (RFC 9110, 5.3).
    let states = headers.get_all("tracestate").iter().filter_map(|state| state.to_str().ok());
    traces.parent(parent, Some(&states.collect::<Vec<_>>().join(",")))
}

/// The innermost error, which names the parameter; the outer errors name steps of the library.
fn innermost(error: &dyn Error) -> &dyn Error {
    error.source().map_or(error, innermost)
}

/// A name that is none brings its hint in a second line (`toolgate_api::read`).
fn unreadable(what: &str, why: &str) -> Problem {
    match why.split_once('\n') {
        Some((message, hint)) => Problem::new(ErrorType::InvalidRequest, message, hint),
        None => Problem::new(
            ErrorType::InvalidRequest,
            format!("the {what} is invalid: {why}"),
            "compare it with `/openapi.json`",
        ),
    }
}

/// Parses a time in milliseconds since 1970, at most the greatest integer that every JSON parser keeps exactly.
pub(super) fn time_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    match u64::deserialize(from)? {
        time if time <= SAFE_INTEGER => Ok(Some(time)),
        time => Err(de::Error::custom(format!("{time} is no time in milliseconds since 1970"))),
    }
}
