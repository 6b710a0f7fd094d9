//! Whether the daemon lives, whether it takes work, and what it serves. No token is needed, no tenant named.

use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use toolgate_admission::ErrorType;
use utoipa::ToSchema;

use super::App;
use super::problem::Problem;
use super::refusal::NotReady;
use crate::admin::audit_failure;

/// That the daemon lives.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    #[schema(pattern = "^ok$")]
    status: &'static str,
    /// The daemon's version (semver.org).
    version: &'static str,
}

const HEALTHY: Health = Health { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// That the daemon takes work.
#[derive(Serialize, ToSchema)]
pub struct Readiness {
    /// `ok`, or `sealed` where there is no root key: what needs no secret is served, what needs one is refused with
    /// `UNAVAILABLE`.
    #[schema(pattern = "^(ok|sealed)$")]
    status: &'static str,
    /// The daemon's version (semver.org).
    version: &'static str,
}

/// Tell that the daemon lives.
///
/// For a supervisor that restarts what does not answer. It looks at nothing else: a daemon that lives may
/// still take no work.
#[utoipa::path(
    get, path = "/healthz", tag = "health", operation_id = "get_health",
    responses((status = 200, description = "It lives.", body = Health)),
)]
pub async fn healthz() -> axum::Json<Health> {
    axum::Json(HEALTHY)
}

/// Tell whether the daemon takes work.
///
/// It does while its store answers and has room on its disk, its audit log has room for calls and it is not stopping. For
/// a load balancer. A daemon without its root key says so and takes work all the same: most calls need no secret.
#[utoipa::path(
    get, path = "/readyz", tag = "health", operation_id = "get_readiness",
    responses((status = 200, description = "It takes work.", body = Readiness), NotReady),
)]
pub async fn readyz(State(app): State<App>) -> Result<axum::Json<Readiness>, Problem> {
    if !app.0.serving.load(Ordering::Acquire) {
        return Err(Problem::new(ErrorType::Unavailable, "the daemon is stopping", "use another one"));
    }
    app.audit().takes_calls().map_err(|error| audit_failure(&error))?;
    app.parts().store.ready().await.map_err(toolgate_admission::CallError::from)?;
    let status = if app.parts().credentials.sealed_reason().is_some() { "sealed" } else { HEALTHY.status };
    Ok(axum::Json(Readiness { status, version: HEALTHY.version }))
}

/// Get this document.
///
/// It is made from the routes that this very daemon serves.
#[utoipa::path(
    get, path = "/openapi.json", tag = "health", operation_id = "get_openapi",
    responses((status = 200, description = "OpenAPI 3.1.", body = Object)),
)]
pub async fn openapi(State(app): State<App>) -> Response {
    let document = app.0.openapi.get().cloned().unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}
