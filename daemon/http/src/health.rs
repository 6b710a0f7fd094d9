//! Liveness, readiness and the OpenAPI document. These routes need no token and name no tenant.

use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;
use toolgate_api::error::ErrorType;
use toolgate_api::health::{Health, Readiness};
use toolgate_macros::boxed;

use super::error_responses::ShuttingDown;
use super::problem::Problem;
use super::state::App;

/// Interval of the looks at what `/readyz` would answer.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);

const OK: &str = "ok";
const SEALED: &str = "sealed";
/// Messages of a daemon that takes no work. `docs/operations.md` has a runbook for each reason.
pub(super) const STARTING: &str = "the daemon is starting";
const STOPPING: &str = "the daemon is stopping";
const COMPILING: &str = "the daemon is compiling plugins";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Liveness check.
///
/// Liveness probe for a supervisor that restarts a process without a response. Nothing else is checked: a live daemon
/// may still be unable to take work.
#[utoipa::path(
    get, path = "/healthz", tag = "health", operation_id = "get_health",
    responses((status = 200, description = "It lives.", body = Health)),
)]
pub async fn healthz() -> axum::Json<Health> {
    body()
}

/// The answer to a liveness probe.
pub(super) fn body() -> axum::Json<Health> {
    axum::Json(Health { status: OK.into(), version: VERSION.into() })
}

/// Readiness check.
///
/// Readiness probe for a load balancer. The daemon takes work while its store responds and has space on its disk, its
/// audit log has space for calls, and it is not stopping. At the first start it takes work while built-in plugins are
/// compiled: calls of their tools and sessions of agents that may have them wait. With `ready_when_compiled` it does not. A daemon without its root key reports `sealed` and takes
/// work all the same, since most calls need no secret.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "get_readiness",
    responses((status = 200, description = "It takes work.", body = Readiness), ShuttingDown),
)]
pub async fn readyz(State(app): State<App>) -> Result<axum::Json<Readiness>, Problem> {
    readiness(&app).await.map(axum::Json)
}

/// Notes whether the daemon takes work, and logs when it stops to take some and when it goes on, until `stop`.
#[boxed]
pub async fn watch(app: App, stop: CancellationToken) {
    let (mut looks, mut was_ready) = (tokio::time::interval(LOOK_INTERVAL), true);
    while stop.run_until_cancelled(looks.tick()).await.is_some() {
        let ready = readiness(&app).await;
        app.services().metrics.observed.is_ready.store(ready.is_ok(), Ordering::Relaxed);
        match ready {
            Ok(_) if !was_ready => tracing::info!(event = "work_resumed", "the daemon takes work again"),
            Err(Problem(error)) if was_ready => {
                let (reason, hint) = (error.message, error.hint);
                tracing::error!(event = "work_stopped", reason, hint, "the daemon takes no work");
                was_ready = false;
                continue;
            }
            Ok(_) => {}
            Err(_) => continue,
        }
        was_ready = true;
    }
}

async fn readiness(app: &App) -> Result<Readiness, Problem> {
    if !app.0.serving.load(Ordering::Acquire) {
        return Err(Problem::new(ErrorType::Unavailable, STOPPING, "use another one"));
    }
    app.audit().takes_calls()?;
    app.services().store.ready().await.map_err(toolgate_api::error::CallError::from)?;
    let status = if app.services().credentials.sealed_reason().is_some() { SEALED } else { OK };
    let snapshot = app.services().registry.snapshot();
    let detail = snapshot.compiling_text();
    if let (Some(detail), true) = (&detail, app.0.config.ready_when_compiled) {
        let hint = "wait, prepare the code with `toolgate compile`, or set `ready_when_compiled = false`: calls of other tools are served";
        return Err(Problem::new(ErrorType::Unavailable, format!("{COMPILING}: {detail}"), hint));
    }
    let compiling = snapshot.compiling().iter().map(ToString::to_string).collect();
    let audit_lost = app.audit().has_lost_records();
    Ok(Readiness { status: status.into(), version: VERSION.into(), compiling, detail, audit_lost })
}

/// Get the OpenAPI document.
///
/// The document is generated from the routes that this daemon serves.
#[utoipa::path(
    get, path = "/openapi.json", tag = "health", operation_id = "get_openapi",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
)]
pub async fn openapi(State(app): State<App>) -> Response {
    let document = app.0.openapi.get().cloned().unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use toolgate_audit::AuditError;
    use toolgate_state::store::UnavailableReason;

    const RUNBOOKS: &str = include_str!("../../docs/operations.md");

    /// Returns the reasons that the readiness probe can give, without the part that differs.
    fn reasons() -> BTreeSet<String> {
        let audit = [
            AuditError::Full { reason: "…".into() },
            AuditError::Failed { reason: "…".into() },
            AuditError::Closed,
        ];
        let audit = audit.iter().map(ToString::to_string);
        let store = UnavailableReason::ALL.iter().map(|reason| reason.message().to_owned());
        let own = [STARTING, STOPPING, COMPILING, SEALED].map(str::to_owned);
        audit.chain(store).chain(own).map(|text| text.trim_end_matches(": …").to_owned()).collect()
    }

    #[test]
    fn every_reason_has_a_runbook_and_every_runbook_a_reason() {
        let (_, runbooks) = RUNBOOKS.split_once("\n## Runbooks\n").expect("the section");
        let headings = runbooks.lines().filter_map(|line| line.strip_prefix("### ")).map(str::to_owned);
        assert_eq!(headings.collect::<BTreeSet<_>>(), reasons());
        // The last reason is in the list, so all before it are, by their number.
        assert_eq!(UnavailableReason::ALL.len(), UnavailableReason::Other as usize + 1);
    }
}
