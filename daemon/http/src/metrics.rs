//! Metrics for operators (O5).

pub mod listener;
mod scrape;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::error_responses::StoreUnreadable;
use super::problem::Problem;
use super::state::App;
use scrape::CONTENT_TYPE;

/// Get the metrics.
///
/// The text format of OpenMetrics, for Prometheus. No tenant's name is in it, unless the operator lists organizations in
/// `metrics.organizations`. The same is served without a token at `metrics.listen`, if that is set.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "get_metrics",
    responses((status = 200, description = "The metrics.", body = String, content_type = "application/openmetrics-text"), StoreUnreadable),
)]
pub async fn get(State(app): State<App>) -> Result<Response, Problem> {
    let text = scrape::scrape(app.services()).await?;
    Ok(([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response())
}
