//! Whether the daemon lives, whether it takes work, and what it serves. No token is needed, no tenant named.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use toolgate_admission::ErrorType;
use utoipa::ToSchema;

use super::App;
use super::problem::{Problem, ProblemBody};

/// That the daemon lives.
#[derive(Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    status: &'static str,
    /// The daemon's version.
    version: &'static str,
}

const HEALTHY: Health = Health { status: "ok", version: env!("CARGO_PKG_VERSION") };

/// Whether the daemon lives.
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, description = "It lives", body = Health)))]
pub async fn healthz() -> axum::Json<Health> {
    axum::Json(HEALTHY)
}

/// Whether the daemon takes work: the store answers, and it is not stopping.
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses(
        (status = 200, description = "It takes work", body = Health),
        (status = 503, description = "It does not", body = ProblemBody, content_type = "application/problem+json"),
    ),
)]
pub async fn readyz(State(app): State<App>) -> Result<axum::Json<Health>, Problem> {
    if !app.0.serving.load(Ordering::Acquire) {
        return Err(Problem::new(ErrorType::Unavailable, "the daemon is stopping", "use another one"));
    }
    app.0.store.ready().await.map_err(toolgate_admission::CallError::from)?;
    Ok(axum::Json(HEALTHY))
}

/// The OpenAPI document, made from the handlers.
pub async fn openapi(document: Arc<str>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document.to_string()).into_response()
}
