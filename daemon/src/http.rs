//! HTTP API: converts requests into calls and administrative actions, and their outcomes into responses.
//!
//! This layer makes no policy decisions. The guard of a route asks `identity` whether the caller's role has the
//! access; the handler checks whether the resource is the caller's, delegates to the module that does the work, and
//! serializes the result. The OpenAPI document is generated from the same guards and handlers. Every request's host
//! is validated, because a web page can make a browser send requests to loopback (DNS rebinding).

mod path_params;
mod agents;
mod approvals;
mod audit;
mod body;
mod calls;
mod credentials;
mod custom;
mod document;
mod documents;
mod events;
mod explain;
mod extract;
mod files;
mod dialects;
mod grants;
mod guard;
mod health;
pub mod listener;
mod oauth;
mod organizations;
mod parameters;
mod plugins;
mod policies;
mod preview;
mod problem;
mod error_responses;
mod root_key;
mod schema;
mod sessions;
mod service;
mod tokens;
mod tools;
mod test_call;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_admission::{CallError, ErrorType, Name};
use utoipa_axum::routes;

use crate::admin::{Actor, Admin, AdminParts, audit_failure};
use crate::audit::Audit;
use crate::call::CallOutcome;
use crate::clock::now_ms;
use crate::config::Config;
use crate::dispatch::Dispatcher;
use crate::identity::{Access, Caller};
use crate::sessions::Session;
use guard::{Authenticated, Routes};
use problem::Problem;

pub use documents::DocumentWarning;
pub use problem::ErrorTypeForm;
pub use service::RootService;

/// Time that running changes get after the drain deadline: the same as the last responses.
const LAST_CHANGES: Duration = listener::LAST_ANSWERS;

/// Source of this API's actions in the audit log.
const DOOR: &str = "http";

/// Shared state of all handlers; cheap to clone.
#[derive(Clone)]
pub struct App(Arc<AppParts>);

/// Components of the HTTP API.
pub struct AppParts {
    /// The configuration.
    pub config: Config,
    /// The administration layer, with the components that it administers.
    pub admin: Admin,
    /// Whether new work is accepted; cleared when shutdown begins.
    pub serving: AtomicBool,
    /// Background tasks that outlive their requests.
    pub background: TaskTracker,
    /// The OpenAPI document as JSON text; set when the routes are built.
    pub openapi: OnceLock<String>,
}

impl App {
    /// Creates the API from its components.
    pub fn new(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Makes `/readyz` fail and ends event streams after the last events of running calls. Returns the drain
    /// deadline.
    pub fn stop_serving(&self) -> Instant {
        self.0.serving.store(false, Ordering::Release);
        self.dispatcher().parts().events.pending().close();
        Instant::now() + Duration::from_secs(self.settings().drain_seconds)
    }

    /// Builds every route, with the OpenAPI document.
    pub fn into_service(self) -> RootService {
        let (router, document) = routes(&self).into_parts();
        self.0.openapi.get_or_init(|| document::text(document));
        let hosts = self.settings().hosts();
        let router = router.fallback(no_address).method_not_allowed_fallback(wrong_method).with_state(self);
        RootService::new(router, hosts)
    }

    /// Waits for running tasks, then closes the store. Changes may run until `drained` and `LAST_CHANGES` longer.
    pub async fn close(&self, drained: Instant) {
        let (background, detached) = (&self.0.background, &self.parts().dispatcher.parts().detached);
        background.close();
        if !end_in_time(background, drained, detached.shutdown()).await {
            let left = background.len();
            tracing::warn!(left, "changes were still being made when the time to drain ended");
        }
        detached.close().await;
        self.parts().credentials.close().await;
        self.parts().store.close().await;
    }

    fn settings(&self) -> &Config {
        &self.0.config
    }

    fn admin(&self) -> &Admin {
        &self.0.admin
    }

    fn parts(&self) -> &AdminParts {
        self.0.admin.parts()
    }

    fn dispatcher(&self) -> &Dispatcher {
        &self.parts().dispatcher
    }

    fn audit(&self) -> &Audit {
        &self.dispatcher().parts().audit
    }

    /// Returns the session. An unknown session and another caller's session get the same response.
    async fn session_of(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, Problem> {
        let Some(session) = self.parts().sessions.find(id) else {
            return Err(self.no_session(caller, id).await);
        };
        caller.may_use_session(id, Some((&session.setup.organization, &session.setup.agent)))?;
        let idle_ms = now_ms().saturating_sub(session.last_used_ms());
        if idle_ms > self.settings().sessions.idle_seconds.saturating_mul(1000) {
            return Err(session_ended("was not used for too long and has ended"));
        }
        Ok(session)
    }

    /// Returns the error for a missing session. An ended session is remembered for a limited time and reported as
    /// ended to callers that may know of it.
    async fn no_session(&self, caller: &Caller, id: &str) -> Problem {
        let row = self.parts().store.session(id).await;
        let agent = row.as_ref().ok().map(|row| (&row.organization, &row.agent));
        match (caller.may_use_session(id, agent), row) {
            (Err(refused), _) => refused.into(),
            (Ok(()), _) => session_ended("has ended"),
        }
    }

    /// Reads the outcome of a call of an earlier daemon run from the audit log.
    async fn outcome_from_audit(&self, session: &Session, call: &str) -> Result<CallOutcome, Problem> {
        let found = self
            .audit()
            .lookup(&session.setup.id, session.setup.created_ms, call)
            .await
            .map_err(|error| audit_failure(&error))?;
        let row = found.ok_or_else(|| Problem::not_found("call"))?;
        let called = row.call.as_ref().map_or("", |intent| &intent.wire_name).into();
        Ok(CallOutcome::from_audit(call, &called, &row))
    }

    /// Spawns a task that runs to completion, even if the client disconnects.
    async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        self.0.background.spawn(work).await.map_err(|_| {
            Problem::new(
                ErrorType::Internal,
                "the request ended early",
                "look at what it changed before you try again",
            )
        })
    }

    /// Performs an administrative action of the caller and records its outcome.
    async fn act<T>(
        &self,
        caller: &Caller,
        organization: Option<&Name>,
        action: &'static str,
        target: &str,
        act: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, Problem> {
        let action = self.actor(caller).action(organization, action, target);
        Ok(self.admin().audited(action, act).await?)
    }

    /// Converts the caller to the administration layer's type.
    fn actor<'a>(&self, caller: &'a Caller) -> Actor<'a> {
        Actor { caller, source: DOOR }
    }
}

/// Waits for running changes until `drained` or until `over`, plus `LAST_CHANGES`; returns whether they ended.
///
/// The extra time is for `over`: it is cancelled by a second signal, and by the listener when connections used up the
/// drain time. A change that one of those connections requested is usually about to end and would otherwise be
/// aborted.
async fn end_in_time(changes: &TaskTracker, drained: Instant, over: &CancellationToken) -> bool {
    let patience = async {
        let _ = timeout_at(drained, over.cancelled()).await;
        sleep(LAST_CHANGES).await;
    };
    tokio::select! {
        () = changes.wait() => true,
        () = patience => false,
    }
}

/// INVARIANT: every route has a guard, except the health routes and the OAuth2 callback. The guard stores the caller
/// in the request's extensions.
fn routes(app: &App) -> Routes {
    use Access::{Audit as ReadAudit, Operate, Orchestrate, Own, Verify};
    Routes::new(app.clone(), document::outline())
        .open(routes!(health::healthz))
        .open(routes!(health::readyz))
        .open(routes!(health::openapi))
        .open_to_providers(routes!(oauth::callback))
        .guarded(Operate, routes!(plugins::list))
        .guarded(Operate, routes!(plugins::get, plugins::put, plugins::delete))
        .guarded(Operate, routes!(plugins::rollback))
        .guarded(Operate, routes!(plugins::disable))
        .guarded(Operate, routes!(plugins::enable))
        .guarded(Operate, routes!(grants::get, grants::put))
        .guarded(Operate, routes!(organizations::list))
        .guarded(Operate, routes!(organizations::get, organizations::put, organizations::delete))
        .guarded(Operate, routes!(policies::get_platform, policies::put_platform))
        .guarded(Operate, routes!(policies::platform_warnings))
        .guarded(Own, routes!(policies::get, policies::put))
        .guarded(Own, routes!(policies::warnings))
        .guarded(Own, routes!(agents::list))
        .guarded(Own, routes!(agents::get, agents::put, agents::delete))
        .guarded(Own, routes!(agents::warnings))
        .guarded(Own, routes!(explain::get))
        .guarded(Operate, routes!(preview::platform))
        .guarded(Own, routes!(preview::organization))
        .guarded(Own, routes!(preview::agent))
        .guarded(Own, routes!(custom::list))
        .guarded(Own, routes!(custom::import::post))
        .guarded(Own, routes!(custom::get, custom::put, custom::delete))
        .guarded(Own, routes!(custom::refresh))
        .guarded(Own, routes!(custom::approve))
        .guarded(Operate, routes!(custom::grant::get, custom::grant::put))
        .guarded_calls(Own, routes!(test_call::post))
        .guarded(Own, routes!(credentials::list))
        .guarded(Own, routes!(credentials::get, credentials::put, credentials::delete))
        .guarded(Own, routes!(credentials::rotate))
        .guarded(Own, routes!(oauth::connect))
        .guarded(Operate, routes!(root_key::rotate))
        .guarded(Operate, routes!(root_key::unseal))
        .guarded(Own, routes!(tokens::list, tokens::post))
        .guarded(Own, routes!(tokens::delete))
        .guarded(Orchestrate, routes!(sessions::post))
        .guarded(Orchestrate, routes!(sessions::get, sessions::delete))
        .guarded(Orchestrate, routes!(tools::list))
        .guarded(Orchestrate, routes!(tools::select))
        .guarded(Orchestrate, routes!(tools::switch))
        .guarded_calls(Orchestrate, routes!(calls::post))
        .guarded(Orchestrate, routes!(calls::get, calls::delete))
        .guarded(Orchestrate, routes!(calls::result))
        .guarded(Orchestrate, routes!(events::of_session))
        .guarded(Own, routes!(events::of_organization))
        .guarded(Operate, routes!(events::all))
        .guarded(Own, routes!(approvals::list))
        .guarded(Own, routes!(approvals::get, approvals::post))
        .guarded(Orchestrate, routes!(files::list))
        .guarded(Orchestrate, routes!(files::get, files::put, files::delete))
        .guarded(ReadAudit, routes!(audit::search))
        .guarded(Verify, routes!(audit::verify))
}

/// Returns a header field as text; a repeated field or a value that is not text is an error.
fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(Problem::new(
            ErrorType::InvalidRequest,
            format!("the header `{name}` is there twice or is not plain text"),
            "send it once, in plain text",
        )),
    }
}

async fn no_address() -> Problem {
    Problem::new(
        ErrorType::NotFound,
        "there is no such address",
        "see `/openapi.json` for those that there are; a path has one spelling",
    )
}

async fn wrong_method() -> Response {
    Problem::new(
        ErrorType::InvalidRequest,
        "this address does not take that method",
        "see `/openapi.json` for what it takes",
    )
    .with_status(axum::http::StatusCode::METHOD_NOT_ALLOWED)
}

/// Pagination parameters of a list.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// The `next_cursor` of the previous page.
    cursor: Option<String>,
    /// Maximum number of entries on a page.
    #[serde(default, deserialize_with = "extract::page_limit::<1000, _>")]
    #[param(minimum = 1, maximum = 1000, default = 100)]
    limit: Option<u32>,
}

impl Page {
    fn limit(&self) -> u32 {
        self.limit.unwrap_or(100)
    }
}

/// A page of a list.
#[derive(serde::Serialize, utoipa::ToSchema)]
struct List<T> {
    /// The entries.
    items: Vec<T>,
    /// The `cursor` of the next page; null on the last page.
    #[schema(required)]
    next_cursor: Option<String>,
}

fn session_ended(how: &str) -> Problem {
    Problem::new(ErrorType::Expired, format!("the session {how}"), "open a new session")
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    /// Longer than any timeout in these tests.
    const LONG: Duration = Duration::from_secs(600);

    fn change(work: impl Future<Output = ()> + Send + 'static) -> TaskTracker {
        let changes = TaskTracker::new();
        changes.spawn(work);
        changes.close();
        changes
    }

    #[tokio::test]
    async fn a_stop_does_not_wait_for_changes_when_it_is_over_or_drained() {
        let changes = change(pending());
        let (over, running) = (CancellationToken::new(), CancellationToken::new());
        over.cancel();
        let now = Instant::now();
        let waits = async {
            tokio::join!(end_in_time(&changes, now + LONG, &over), end_in_time(&changes, now, &running))
        };
        assert_eq!(timeout(LAST_CHANGES * 10, waits).await, Ok((false, false)));
    }

    #[tokio::test]
    async fn a_change_that_is_about_to_end_is_waited_for() {
        for (is_over, left) in [(false, LONG), (true, LONG), (false, Duration::ZERO)] {
            let (end, ended) = oneshot::channel();
            let changes = change(async { ended.await.unwrap() });
            let over = CancellationToken::new();
            if is_over {
                over.cancel();
            }
            let mut waiting = Box::pin(end_in_time(&changes, Instant::now() + left, &over));
            assert!(futures_util::poll!(&mut waiting).is_pending());
            end.send(()).unwrap();
            assert!(waiting.await, "over: {is_over}, left: {left:?}");
        }
    }
}
