//! Errors of the HTTP interface as `application/problem+json` (RFC 9457).
//!
//! The outcome of a call is not a problem: it is part of a 200 response. A problem reports a request that was
//! invalid, not allowed, or refused in the daemon's current state.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use toolgate_api::error::{CallError, Details, ErrorType};
use toolgate_api::text::escape_for_display;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// Longest `detail` of a problem, in characters.
const DETAIL_CHARS: usize = 2_000;

/// A refused request.
#[derive(Debug)]
pub struct Problem(pub CallError);

/// Why a request was refused (RFC 9457).
#[derive(Serialize, ToSchema)]
#[schema(as = Problem, examples(json!({
    "type": "urn:toolgate:error:NOT_FOUND",
    "title": "not found",
    "status": 404,
    "detail": "no agent `acme/support`",
    "error_type": "NOT_FOUND",
    "hint": "check the name, and that it was made before",
    "retryable": false,
})))]
pub struct ProblemBody {
    /// A URN that ends with the `error_type`.
    #[serde(rename = "type")]
    #[schema(pattern = "^urn:toolgate:error:[A-Z_]+$")]
    kind: String,
    /// The `error_type` in lower case words.
    title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    status: u16,
    /// The message, for a person or a model. Its wording can change; programs use `error_type`.
    detail: String,
    /// The stable code.
    #[schema(value_type = ErrorTypeForm)]
    error_type: &'static str,
    /// How to resolve the error.
    hint: String,
    /// Whether the same request can succeed later without a change.
    retryable: bool,
    /// Details, with a schema that depends on the `error_type`: `pointer` into an invalid document, `precondition`
    /// (`required` or `failed`), `retry_after_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    details: Option<Details>,
}

/// The closed list of error types.
pub struct ErrorTypeForm;

impl PartialSchema for ErrorTypeForm {
    fn schema() -> RefOr<Schema> {
        let meanings: Vec<String> = ErrorType::ALL
            .iter()
            .map(|error_type| format!("- `{error_type}`, HTTP {}", error_type.http_status()))
            .collect();
        let description = format!(
            "What went wrong, as a stable code. The list is closed. The HTTP status is that of a refused request; an \
             error of a call is in a 200.\n\n{}",
            meanings.join("\n")
        );
        ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(ErrorType::ALL.iter().map(|error_type| error_type.as_str())))
            .description(Some(description))
            .into()
    }
}

impl ToSchema for ErrorTypeForm {
    fn name() -> std::borrow::Cow<'static, str> {
        "ErrorType".into()
    }
}

impl Problem {
    /// Creates a problem with a hint on how to resolve it.
    pub fn new(error_type: ErrorType, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self(CallError::new(error_type, message, hint))
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
        let error_type = self.0.error_type.as_str();
        let retry_after_ms = self.0.retry_after_ms();
        let body = ProblemBody {
            kind: format!("urn:toolgate:error:{error_type}"),
            title: error_type.to_ascii_lowercase().replace('_', " "),
            status: status.as_u16(),
            // The message can quote the request, and people read it in terminals.
            detail: escape_for_display(&self.0.message, DETAIL_CHARS),
            error_type,
            hint: self.0.hint,
            retryable: self.0.retryable,
            details: self.0.details,
        };
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
