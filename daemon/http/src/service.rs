//! The HTTP service of a connection: every route, behind the check of the `Host` and `Origin` headers.
//!
//! The check is not a tower layer around the routes: an axum layer allocates for each request, and this one would
//! cover every route.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use toolgate_api::error::{CallError, ErrorType};
use tower::ServiceExt;

use super::calls;
use super::connections::Peer;
use super::header::header;
use super::problem::Problem;
use super::state::App;

/// When a client may send again that comes while the daemon starts, in milliseconds.
const RETRY_AFTER_MS: u64 = 1_000;

/// The API, for the hosts that the daemon serves. Cheap to clone.
#[derive(Clone)]
pub struct RootService(Arc<Shared>);

struct Shared {
    /// Empty while the daemon starts.
    api: OnceLock<(App, Router)>,
    hosts: Vec<String>,
}

impl RootService {
    /// A service that answers liveness probes alone until [`serve`](Self::serve) gives it an API.
    pub fn starting(hosts: Vec<String>) -> Self {
        Self(Arc::new(Shared { api: OnceLock::new(), hosts }))
    }

    /// Serves every route of the API from now on.
    pub fn serve(&self, app: App) {
        // It is set once.
        let _ = self.0.api.set((app.clone(), super::router(app)));
    }

    /// Returns the response to a request.
    pub(super) async fn answer(self, request: Request<Incoming>, peer: Peer) -> Response {
        if let Err(problem) = expect_host(&request, &self.0.hosts) {
            return problem.into_response();
        }
        let Some((app, router)) = self.0.api.get() else { return answer_while_starting(&request) };
        if let Some(session) = calls::session_of(&request) {
            let session = session.to_owned();
            let answer = calls::answer(app.clone(), session, request, &peer).await;
            return answer.unwrap_or_else(IntoResponse::into_response);
        }
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer);
        let Ok(response) = router.clone().oneshot(request).await;
        response
    }
}

fn answer_while_starting<B>(request: &Request<B>) -> Response {
    if request.method() == Method::GET && request.uri().path() == "/healthz" {
        return super::health::body().into_response();
    }
    let error = CallError::new(ErrorType::Unavailable, super::health::STARTING, "send it again in a moment");
    Problem::from(error.with_retry_after_ms(RETRY_AFTER_MS)).into_response()
}

/// Refuses a request for a foreign host (DNS rebinding), and a request from a web page of another origin.
fn expect_host<B>(request: &Request<B>, hosts: &[String]) -> Result<(), Problem> {
    expect_named(request, hosts)?;
    let origin = header(request.headers(), &ORIGIN)?;
    match origin.is_none_or(|origin| is_our_origin(origin, hosts)) {
        true => Ok(()),
        false => Err(Problem::new(
            ErrorType::Forbidden,
            "the request was made by a web page of another origin",
            "call the interface from a program, or from a page that the daemon itself serves",
        )),
    }
}

/// Checks the authority of the request target and the `Host` header. Both are checked where both are present, since a
/// proxy may have routed by either.
fn expect_named<B>(request: &Request<B>, hosts: &[String]) -> Result<(), Problem> {
    let field = header(request.headers(), &HOST)?;
    let target = request.uri().authority().map(Authority::as_str);
    let mut named = target.into_iter().chain(field).peekable();
    if named.peek().is_none() {
        return Err(no_host());
    }
    named.find(|named| !is_ours(named, hosts)).map_or(Ok(()), |other| Err(not_our_host(other)))
}

/// Whether `HOST` or `HOST:PORT` names one of these hosts.
fn is_ours(named: &str, hosts: &[String]) -> bool {
    without_port(named).is_some_and(|host| hosts.iter().any(|ours| ours.eq_ignore_ascii_case(host)))
}

fn is_our_origin(origin: &str, hosts: &[String]) -> bool {
    origin.split_once("://").is_some_and(|(_, named)| is_ours(named, hosts))
}

/// `127.0.0.1:7300` → `127.0.0.1`, `[::1]:7300` → `[::1]`. `None` if the text after the host is not a port: in
/// `localhost:x@example.com` the host comes last.
fn without_port(named: &str) -> Option<&str> {
    let end = match named.find(']') {
        Some(end) => end + 1,
        None => named.find(':').unwrap_or(named.len()),
    };
    let (host, rest) = named.split_at_checked(end)?;
    let port = rest.strip_prefix(':').unwrap_or(rest);
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    let is_port = port.is_empty() || digits && port.parse::<u16>().is_ok();
    (is_port && (rest.is_empty() || rest.starts_with(':'))).then_some(host)
}

/// A request without a host (RFC 9112, section 3.2).
fn no_host() -> Problem {
    Problem::new(
        ErrorType::InvalidRequest,
        "the request does not say which host it is for",
        "send the header `Host` with the address that the daemon listens at",
    )
}

fn not_our_host(host: &str) -> Problem {
    let host: String = host.chars().filter(|character| character.is_ascii_graphic()).take(100).collect();
    Problem::new(
        ErrorType::Forbidden,
        format!("the request asks for host `{host}`, which this daemon does not serve"),
        "use the address that it listens at, or set `allowed_hosts` to all hosts that it serves, this one with them",
    )
}
