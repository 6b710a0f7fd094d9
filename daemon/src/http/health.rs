//! Liveness, readiness and the OpenAPI document. These routes need no token and name no tenant.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use toolgate_api::error::ErrorType;
use toolgate_api::health::{Health, Readiness};

use super::error_responses::ShuttingDown;
use super::problem::Problem;
use super::state::App;
use crate::admin::audit_failure;

const OK: &str = "ok";
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
/// compiled: calls of their tools and sessions of agents that may have them wait. A daemon without its root key reports `sealed` and takes
/// work all the same, since most calls need no secret.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "get_readiness",
    responses((status = 200, description = "It takes work.", body = Readiness), ShuttingDown),
)]
pub async fn readyz(State(app): State<App>) -> Result<axum::Json<Readiness>, Problem> {
    if !app.0.serving.load(Ordering::Acquire) {
        return Err(Problem::new(ErrorType::Unavailable, "the daemon is stopping", "use another one"));
    }
    app.audit().takes_calls().map_err(|error| audit_failure(&error))?;
    app.parts().store.ready().await.map_err(toolgate_api::error::CallError::from)?;
    let status = if app.parts().credentials.sealed_reason().is_some() { "sealed" } else { OK };
    let compiling = app.parts().registry.snapshot().compiling().iter().map(ToString::to_string).collect();
    Ok(axum::Json(Readiness { status: status.into(), version: VERSION.into(), compiling }))
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
