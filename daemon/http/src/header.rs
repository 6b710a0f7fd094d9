//! Header fields of requests.

use axum::http::{HeaderMap, HeaderName};
use toolgate_api::error::ErrorType;

use super::problem::Problem;

/// Limit of header fields in one request. Clients send about ten.
pub(crate) const HEADER_FIELDS: usize = 100;

/// Returns a header field as text; a repeated field or a value that is not text is an error.
pub fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    match (value.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text)),
        _ => Err(Problem::new(
            ErrorType::InvalidRequest,
            format!("the header `{name}` is there twice or is not plain text"),
            "send it once, in plain text",
        )),
    }
}
