//! State that all handlers share: the components of the API, the lookup of sessions, and shutdown.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::response::Response;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_audit::Audit;
use toolgate_core::admin::{Actor, Admin, CredentialKey};
use toolgate_core::call::CallOutcome;
use toolgate_core::dispatch::Dispatcher;
use toolgate_core::identity::{AccessTokens, Caller, PersonSignIn};
use toolgate_core::plugins::{OrganizationRegistries, Registries};
use toolgate_core::services::Services;
use toolgate_core::sessions::Session;
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::config::Config;

use super::body_memory::BodyMemory;
use super::problem::Problem;

/// Time after the drain deadline for running changes, and for the responses of cancelled calls.
pub(super) const AFTER_DRAIN: Duration = Duration::from_secs(2);

/// Source of this API's actions in the audit log.
pub(super) const AUDIT_SOURCE: &str = "http";

/// Shared state of all handlers; cheap to clone.
#[derive(Clone)]
pub struct App(pub(super) Arc<AppParts>);

/// Components of the HTTP API.
pub struct AppParts {
    /// The configuration.
    pub config: Config,
    /// The administration layer, with the components that it administers.
    pub admin: Admin,
    /// Whether new work is accepted; cleared when shutdown begins.
    pub serving: AtomicBool,
    /// The memory for request bodies.
    pub bodies: BodyMemory,
    /// The access tokens of authorization servers, if there are any.
    pub access_tokens: Option<AccessTokens>,
    /// The sign-in of people by OpenID Connect, if the settings have one.
    pub person_sign_in: Option<PersonSignIn>,
    /// The registries that plugins may be loaded from.
    pub registries: Registries,
    /// The registries that organizations may load plugins from; none where they cannot.
    pub organization_registries: Option<OrganizationRegistries>,
    /// The console.
    pub pages: Pages,
    /// Cancelled when the daemon stops, which ends streams.
    pub stop: CancellationToken,
    /// Background tasks that outlive their requests.
    pub background: TaskTracker,
    /// The OpenAPI document as JSON text; set when the routes are built. Anyone may get it, so responses share its bytes.
    pub openapi: OnceLock<Bytes>,
}

/// The pages for people, which another crate hands in: the HTTP interface links to them and knows nothing of their content.
#[derive(Clone, Copy)]
pub struct Pages {
    /// Returns the routes under `/console`; none if the console is off.
    pub routes: fn(&App) -> Router<App>,
    /// Source of the console's actions in the audit log.
    pub audit_source: &'static str,
    /// Returns the page of a finished OAuth2 connection, or of one that was refused.
    pub connection_page: fn(&CredentialKey, Option<&CallError>) -> Response,
}

#[boxed]
impl App {
    /// Creates the API from its components.
    pub fn new(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Makes `/readyz` fail and ends event streams after the last events of running calls. Returns the drain
    /// deadline.
    pub fn stop_serving(&self) -> Instant {
        self.0.serving.store(false, Ordering::Release);
        self.services().events.pending().close();
        Instant::now() + Duration::from_secs(self.settings().drain_seconds)
    }

    /// Waits for running tasks, then closes the store. Changes may run until `drained` and `AFTER_DRAIN` longer.
    pub async fn close(&self, drained: Instant) {
        let (background, detached) = (&self.0.background, &self.services().detached);
        background.close();
        if !end_in_time(background, drained, detached.shutdown()).await {
            let left = background.len();
            tracing::warn!(left, "changes were still being made when the time to drain ended");
        }
        detached.close().await;
        self.admin().record_counted_refusals(None).await;
        self.dispatcher().store_quota_use().await;
        self.services().sessions.answers().close().await;
        self.services().credentials.close().await;
        self.services().store.close().await;
    }

    /// The sign-in of people by OpenID Connect, if the settings have one.
    pub fn person_sign_in(&self) -> Option<&PersonSignIn> {
        self.0.person_sign_in.as_ref()
    }

    pub fn settings(&self) -> &Config {
        &self.0.config
    }

    pub fn admin(&self) -> &Admin {
        &self.0.admin
    }

    pub fn services(&self) -> &Services {
        self.0.admin.services()
    }

    pub(super) fn dispatcher(&self) -> &Dispatcher {
        self.0.admin.dispatcher()
    }

    pub fn audit(&self) -> &Audit {
        &self.services().audit
    }

    /// Returns the session. An unknown session and another caller's session get the same response.
    pub async fn session_of(&self, caller: &Caller, id: &str) -> Result<Arc<Session>, Problem> {
        let Some(session) = self.services().sessions.find(id) else {
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
        let row = self.services().store.session(id).await;
        let agent = row.as_ref().ok().map(|row| (&row.organization, &row.agent));
        match (caller.may_use_session(id, agent), row) {
            (Err(refused), _) => refused.into(),
            (Ok(()), _) => session_ended("has ended"),
        }
    }

    /// Reads the outcome of a call of an earlier daemon run: the stored one, or what the audit log knows.
    pub(super) async fn outcome_from_audit(
        &self,
        session: &Session,
        call: &str,
    ) -> Result<Arc<CallOutcome>, Problem> {
        let found = self.audit().lookup(&session.setup.id, session.setup.created_ms, call).await?;
        let Some(row) = found else {
            let stored = self.dispatcher().unrecorded_outcome(session, call).await;
            return stored.ok_or_else(|| Problem::not_found("call"));
        };
        if let Some(stored) = self.dispatcher().stored_outcome(session, call, &row).await {
            return Ok(stored);
        }
        let called = row.call.as_ref().map_or("", |intent| &intent.wire_name).into();
        Ok(Arc::new(CallOutcome::from_audit(call, &called, &row)))
    }

    /// Spawns a task that runs to completion, even if the client disconnects.
    pub async fn run_to_completion<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Problem> {
        let (send, done) = oneshot::channel();
        // In a box, so that tokio's code of a task is compiled once, and not for each operation.
        let work: BoxFuture<'static, ()> = Box::pin(async move {
            let _ = send.send(work.await);
        });
        self.0.background.spawn(work);
        done.await.map_err(|_| {
            Problem::new(
                ErrorType::Internal,
                "the request ended early",
                "look at what it changed before you try again",
            )
        })
    }

    /// Converts the caller to the administration layer's type.
    pub(super) fn actor<'a>(&self, caller: &'a Caller) -> Actor<'a> {
        Actor { caller, source: AUDIT_SOURCE }
    }
}

/// Waits for running changes until `drained` or until `over`, plus `AFTER_DRAIN`; returns whether they ended.
///
/// The extra time is for `over`: it is cancelled by a second signal, and by the listener when connections used up the
/// drain time. A change that one of those connections requested is usually about to end and would otherwise be
/// aborted.
async fn end_in_time(changes: &TaskTracker, drained: Instant, over: &CancellationToken) -> bool {
    let patience = async {
        let _ = timeout_at(drained, over.cancelled()).await;
        sleep(AFTER_DRAIN).await;
    };
    tokio::select! {
        biased;
        () = changes.wait() => true,
        () = patience => false,
    }
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
        assert_eq!(timeout(AFTER_DRAIN * 10, waits).await, Ok((false, false)));
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
            while !changes.is_empty() {
                tokio::task::yield_now().await;
            }
            assert!(waiting.await, "over: {is_over}, left: {left:?}");
        }
    }
}
