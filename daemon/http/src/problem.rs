//! Errors of the HTTP interface as `application/problem+json` (RFC 9457).
//!
//! The outcome of a call is not a problem: it is part of a 200 response. A problem reports a request that was
//! invalid, not allowed, or refused in the daemon's current state.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Name;
use toolgate_audit::AuditError;
use toolgate_state::documents::DocumentKey;
use toolgate_state::store::StoreError;

/// A refused request.
#[derive(Debug)]
pub struct Problem(pub CallError);

impl Problem {
    /// Creates a problem with a hint on how to resolve it.
    pub fn new(error_type: ErrorType, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self(CallError::new(error_type, message, hint))
    }

    /// Returns the error of an agent that does not exist, or that the caller may not see.
    pub fn no_agent(organization: &Name, agent: &Name) -> Self {
        StoreError::not_found(DocumentKey::agent(organization, agent).to_string()).into()
    }

    /// Returns the same error for a missing resource and for a resource of another organization (requirements 9.5).
    pub fn not_found(what: &str) -> Self {
        Self::new(
            ErrorType::NotFound,
            format!("there is no such {what}"),
            "check the name and the token; what belongs to another organization does not exist here",
        )
    }
}

impl From<AuditError> for Problem {
    fn from(error: AuditError) -> Self {
        CallError::from(error).into()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        CallError::from(error).into()
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.http_status());
        self.with_status(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

impl Problem {
    /// Returns the response with the given status, which can be one that the closed list of error types does not use.
    pub fn with_status(self, status: StatusCode) -> Response {
        let retry_after_ms = self.0.retry_after_ms();
        let body = toolgate_api::problem::Problem::new(self.0, status.as_u16());
        let mut response = (status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(milliseconds) = retry_after_ms {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(milliseconds.div_ceil(1000)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
