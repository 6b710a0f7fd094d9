//! Why a tool could not do what it was asked to do.
//!
//! A failure is an answer that a model reads. Like `anyhow::Error`, the type takes any error through `?`, and for that
//! reason is not a `std::error::Error` itself. Where a failed request is the cause, or among the causes, the failure says
//! whether the same call can succeed later.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

/// The result of a tool that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure for the model to read: what went wrong, and what to do next.
///
/// ```
/// use toolgate_sdk::Error;
///
/// fn divide(a: f64, b: f64) -> Result<f64, Error> {
///     if b == 0.0 {
///         return Err(Error::invalid("`b` is zero: give a divisor that is not"));
///     }
///     Ok(a / b)
/// }
/// # assert!(divide(1.0, 0.0).is_err());
/// ```
#[derive(Clone, PartialEq)]
pub struct Error {
    code: &'static str,
    message: String,
    retryable: bool,
    details: Option<Value>,
}

impl Error {
    /// The tool tried and could not: `TOOL_FAILED`.
    pub fn new(message: impl Into<String>) -> Self {
        Self { code: "TOOL_FAILED", message: message.into(), retryable: false, details: None }
    }

    /// The arguments fit their schema and still make no sense: `INVALID_ARGUMENTS`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: "INVALID_ARGUMENTS", ..Self::new(message) }
    }

    /// Says that the same call can succeed later, unchanged.
    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// Adds detail for a program to read. What cannot be written as JSON is left out.
    pub fn with_details(self, details: impl Serialize) -> Self {
        Self { details: serde_json::to_value(details).ok(), ..self }
    }

    /// `TOOL_FAILED` or `INVALID_ARGUMENTS`.
    pub fn code(&self) -> &str {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    pub fn details(&self) -> Option<&Value> {
        self.details.as_ref()
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let causes = || std::iter::successors(Some(&error as &Cause), |cause| cause.source());
        let message = causes().map(ToString::to_string).collect::<Vec<_>>().join(": ");
        let failure = Self::new(message);
        #[cfg(feature = "http")]
        if let Some(error) = causes().find_map(|cause| cause.downcast_ref::<crate::http::Error>()) {
            return error.mark(failure);
        }
        failure
    }
}

type Cause = dyn std::error::Error + 'static;

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.code, self.message)?;
        match &self.details {
            Some(details) => write!(formatter, " {details}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_error_becomes_a_failure_that_tells_its_causes() {
        #[derive(Debug)]
        struct Outer(std::num::ParseIntError);
        impl fmt::Display for Outer {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("bad page number")
            }
        }
        impl std::error::Error for Outer {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }

        let error = Error::from(Outer("x".parse::<i32>().unwrap_err()));

        assert_eq!(error.code(), "TOOL_FAILED");
        assert_eq!(error.message(), "bad page number: invalid digit found in string");
        assert!(!error.is_retryable());
    }

    #[test]
    fn a_failure_carries_what_it_was_given() {
        let error = Error::invalid("no such page").retryable().with_details(["a", "b"]);

        assert_eq!(error.code(), "INVALID_ARGUMENTS");
        assert!(error.is_retryable());
        assert_eq!(format!("{error:?}"), r#"INVALID_ARGUMENTS: no such page ["a","b"]"#);
    }
}
