//! Metrics for operators (O5).

pub mod listener;
mod scrape;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use super::error_responses::StoreUnreadable;
use super::problem::Problem;
use super::state::App;

/// Get the metrics.
///
/// The text format of OpenMetrics where `Accept` names it, otherwise that of Prometheus (0.0.4). No tenant's name is in it, unless
/// the operator lists organizations in `metrics.organizations`. The same is served without a token at `metrics.listen`, if that is set.
#[utoipa::path(
    get, path = "/metrics", tag = "health", operation_id = "get_metrics",
    responses((status = 200, description = "The metrics.", content((String = "text/plain"), (String = "application/openmetrics-text"))), StoreUnreadable),
)]
pub async fn get(State(app): State<App>, headers: HeaderMap) -> Result<Response, Problem> {
    let (media_type, text) = scrape::scrape(app.services(), &headers).await?;
    Ok(([(header::CONTENT_TYPE, media_type)], text).into_response())
}
