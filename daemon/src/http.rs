//! The HTTP interface: requests become calls and acts, outcomes become responses.
//!
//! Nothing is decided here. The guard of a route asks `identity` whether the caller's role may, and the handler
//! whether this thing is the caller's; then it hands on to the room that does it, and puts the result into wire
//! form. The OpenAPI document is made from these very guards and handlers. Every route checks the host it was asked for: a web page can make a browser reach loopback.

mod address;
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
mod refusal;
mod root_key;
mod schema;
mod sessions;
mod site;
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
pub use site::Site;

/// How long changes may take to end when the time to drain is over: as long as the last answers.
const LAST_CHANGES: Duration = listener::LAST_ANSWERS;

/// The name of this door in the audit log.
const DOOR: &str = "http";

/// Everything that handlers reach. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<AppParts>);

/// What the interface is made of.
pub struct AppParts {
    /// The settings.
    pub config: Config,
    /// The administration layer, with the parts that it administers.
    pub admin: Admin,
    /// Whether new work is taken; cleared when stopping begins.
    pub serving: AtomicBool,
    /// Work that no request waits for.
    pub background: TaskTracker,
    /// The OpenAPI document, as JSON text; made with the routes.
    pub openapi: OnceLock<String>,
}

impl App {
    /// An interface over these parts.
    pub fn new(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Makes `/readyz` fail, and ends streams after the last events of running calls. Returns the end of the time to drain.
    pub fn stop_serving(&self) -> Instant {
        self.0.serving.store(false, Ordering::Release);
        self.dispatcher().parts().events.pending().close();
        Instant::now() + Duration::from_secs(self.settings().drain_seconds)
    }

    /// Every route, with its document.
    pub fn site(self) -> Site {
        let (router, document) = routes(&self).into_parts();
        self.0.openapi.get_or_init(|| document::text(document));
        let hosts = self.settings().hosts();
        let router = router.fallback(no_address).method_not_allowed_fallback(wrong_method).with_state(self);
        Site::new(router, hosts)
    }

    /// Waits for what is under way and closes the state. Changes may take until `drained` and not much longer.
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

    /// The session, if it is there and the caller may use it; both get the same answer.
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

    /// Why there is no such session: one that is over is remembered for a while, for whoever may know of it.
    async fn no_session(&self, caller: &Caller, id: &str) -> Problem {
        let row = self.parts().store.session(id).await;
        let agent = row.as_ref().ok().map(|row| (&row.organization, &row.agent));
        match (caller.may_use_session(id, agent), row) {
            (Err(refused), _) => refused.into(),
            (Ok(()), _) => session_ended("has ended"),
        }
    }

    /// The outcome of a call of an earlier run of the daemon, from the audit log.
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

    /// Runs work to completion, also where the caller disconnects.
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

    /// Performs an act of the caller and records its outcome.
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

    /// The caller, as the administration layer takes it.
    fn actor<'a>(&self, caller: &'a Caller) -> Actor<'a> {
        Actor { caller, source: DOOR }
    }
}

/// Waits for changes to end, and answers whether they did: until `drained` or until `over`, and for a moment after.
///
/// The moment is for `over`, which is said by a second signal, but also by the listener when connections took all of the
/// time to drain: a change that one of them asked for would be given up before it could end, and is most often about to.
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

/// INVARIANT: every route but those of health, and the one that browsers come back to, has a guard. Whoever has one finds the caller in it.
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

/// One header field as text; twice, or not text, is an error rather than a guess.
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

/// What lists are paged by.
#[derive(serde::Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Page {
    /// The `next_cursor` of the page before.
    cursor: Option<String>,
    /// Entries on a page.
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
    /// What to send as `cursor` for the next page; null on the last one.
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

    /// Longer than any wait in here may last.
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
