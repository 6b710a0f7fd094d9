//! The HTTP service of a connection: every route, behind the check of the `Host` and `Origin` headers.
//!
//! The check is not a tower layer around the routes: an axum layer allocates for each request, and this one would
//! cover every route.

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use toolgate_api::error::{CallError, ErrorType};
use tower::ServiceExt;

use super::calls;
use super::connections::Peer;
use super::host_check::{ServedHosts, expect_host};
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
    hosts: ServedHosts,
}

impl RootService {
    /// A service that answers liveness probes alone until [`serve`](Self::serve) gives it an API.
    pub fn starting(hosts: ServedHosts) -> Self {
        Self(Arc::new(Shared { api: OnceLock::new(), hosts }))
    }

    /// Serves every route of the API from now on.
    pub fn serve(&self, app: App) {
        // It is set once.
        let _ = self.0.api.set((app.clone(), super::router(app)));
    }

    /// Returns the response to a request.
    pub(super) async fn answer(self, request: Request<Incoming>, peer: Peer) -> Response {
        if let Err(problem) = expect_host(&request, &self.0.hosts.current()) {
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
