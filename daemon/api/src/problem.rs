//! The body of a refused request.

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::error::{CallError, Details, ErrorType};
use crate::text::escape_for_display;

/// Longest `detail` of a problem, in characters.
const DETAIL_CHARS: usize = 2_000;

/// Why a request was refused (RFC 9457).
#[optional_fields]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(examples(json!({
    "type": "urn:toolgate:error:NOT_FOUND",
    "title": "not found",
    "status": 404,
    "detail": "no agent `acme/support`",
    "error_type": "NOT_FOUND",
    "hint": "check the name, and that it was made before",
    "retryable": false,
})))]
pub struct Problem {
    /// A URN that ends with the `error_type`.
    #[serde(rename = "type")]
    #[schema(pattern = "^urn:toolgate:error:[A-Z_]+$")]
    pub urn: String,
    /// The `error_type` in lower case words.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// The message, for a person or a model. Its wording can change; programs use `error_type`.
    pub detail: String,
    /// The stable code.
    pub error_type: ErrorType,
    /// How to resolve the error.
    pub hint: String,
    /// Whether the same request can succeed later without a change.
    pub retryable: bool,
    /// Details, with a schema that depends on the `error_type`: `pointer` into an invalid document, `precondition`
    /// (`required` or `failed`), `retry_after_ms`.
    #[schema(value_type = Object)]
    pub details: Option<Details>,
}

impl Problem {
    /// The problem of an error, with this HTTP status.
    pub fn new(error: CallError, status: u16) -> Self {
        let error_type = error.error_type;
        Self {
            urn: format!("urn:toolgate:error:{error_type}"),
            title: error_type.as_str().to_ascii_lowercase().replace('_', " "),
            status,
            // The message can quote the request, and people read it in terminals.
            detail: escape_for_display(&error.message, DETAIL_CHARS),
            error_type,
            hint: error.hint,
            retryable: error.retryable,
            details: error.details,
        }
    }
}
