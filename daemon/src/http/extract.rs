//! Addresses and queries as types, with refusals in the interface's own form.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use toolgate_admission::ErrorType;

use super::App;
use super::problem::Problem;

/// The variable parts of an address.
pub struct Path<T>(pub T);

/// What stands behind the `?` of an address.
pub struct Query<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for Path<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let read = axum::extract::Path::from_request_parts(parts, app).await;
        let axum::extract::Path(value) =
            read.map_err(|refused| unreadable("address", refused.body_text()))?;
        Ok(Self(value))
    }
}

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let read = axum::extract::Query::from_request_parts(parts, app).await;
        let axum::extract::Query(value) = read.map_err(|refused| unreadable("query", refused.body_text()))?;
        Ok(Self(value))
    }
}

fn unreadable(what: &str, why: String) -> Problem {
    Problem::new(
        ErrorType::InvalidRequest,
        format!("the {what} is not what this route takes: {why}"),
        "compare it with `/openapi.json`",
    )
}
