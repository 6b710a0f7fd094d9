//! The error of a tool, which a model reads.
//!
//! Like `anyhow::Error`, the type converts from any error with `?`, and therefore does not implement `std::error::Error`
//! itself. If a failed HTTP request is among the causes, the error says whether the same call can succeed later.

use std::{fmt, io};

use serde::Serialize;
use serde_json::Value;

/// Replaces an empty message, which would tell a model nothing.
const NO_MESSAGE: &str = "the tool failed and does not say why: try it with other arguments";

/// The result of a tool that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error for the model to read: what went wrong, and what to do next.
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
    /// The tool tried and failed: `TOOL_FAILED`.
    pub fn new(message: impl Into<String>) -> Self {
        let message = Some(message.into()).filter(|message| !message.trim().is_empty());
        let message = message.unwrap_or_else(|| NO_MESSAGE.to_owned());
        Self { code: "TOOL_FAILED", message, retryable: false, details: None }
    }

    /// The arguments match their schema but are not valid: `INVALID_ARGUMENTS`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self { code: "INVALID_ARGUMENTS", ..Self::new(message) }
    }

    /// Marks the error as temporary: the same call can succeed later, unchanged.
    pub fn retryable(self) -> Self {
        Self { retryable: true, ..self }
    }

    /// Adds details for a program. A value that cannot be serialized is omitted.
    pub fn with_details(self, details: impl Serialize) -> Self {
        Self { details: serde_json::to_value(details).ok(), ..self }
    }

    /// Returns `TOOL_FAILED` or `INVALID_ARGUMENTS`.
    pub fn code(&self) -> &str {
        self.code
    }

    /// Returns the message for a model. It is never empty.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns whether the same call can succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// Returns the details for a program. If arguments do not match their types, they have `pointer`, the JSON pointer of the
    /// argument.
    pub fn details(&self) -> Option<&Value> {
        self.details.as_ref()
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let causes = || std::iter::successors(Some(&error as &Cause), |cause| cause.source());
        let texts = causes().map(cause_text).filter(|text| !text.is_empty());
        let failure = Self::new(texts.collect::<Vec<_>>().join(": "));
        #[cfg(feature = "http")]
        if let Some(error) = causes().find_map(|cause| cause.downcast_ref::<crate::http::Error>()) {
            return error.annotate(failure);
        }
        failure
    }
}

type Cause = dyn std::error::Error + 'static;

/// The text of an error. An error number of the operating system is replaced: it means nothing to a model.
fn cause_text(cause: &Cause) -> String {
    let text = cause.to_string();
    let Some(number) = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) else {
        return text;
    };
    match io_error_text(io::Error::from_raw_os_error(number).kind()) {
        _ if cfg!(target_os = "wasi") && number == NOT_CAPABLE => OUTSIDE.to_owned(),
        Some(text) => text.to_owned(),
        None => text.split(" (os error").next().unwrap_or_default().to_owned(),
    }
}

/// WASI's error number for a path outside the preopened folders.
const NOT_CAPABLE: i32 = 76;

const OUTSIDE: &str = "that is not allowed, or outside the workspace: use a path inside it";

/// WASI refuses a socket with the same error as a path.
const NOT_ALLOWED: &str = "that is not allowed: a path must be inside the workspace, and sockets are not available (a plugin sends requests with `toolgate_sdk::http`)";

fn io_error_text(kind: io::ErrorKind) -> Option<&'static str> {
    use io::ErrorKind as Kind;
    Some(match kind {
        Kind::NotFound => "file not found: list the workspace to see what exists",
        Kind::PermissionDenied => NOT_ALLOWED,
        Kind::AlreadyExists => "that exists already: choose another name",
        Kind::NotADirectory => "a part of the path is a file, not a folder",
        Kind::IsADirectory => "that is a folder, not a file",
        Kind::DirectoryNotEmpty => "the folder is not empty",
        Kind::ReadOnlyFilesystem => "the workspace is read-only",
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
            "the workspace is full: write less, or delete files that are no longer needed"
        }
        Kind::InvalidFilename => "the name is too long or not valid for a file",
        _ => return None,
    })
}

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
    fn any_error_becomes_a_failure_with_its_causes() {
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
    fn t2_an_operating_system_error_is_replaced_by_plain_text() {
        let missing = std::fs::read("/no/such/file").unwrap_err();
        assert!(missing.to_string().contains("os error"));
        let expected = "file not found: list the workspace to see what exists";
        assert_eq!(Error::from(missing).message(), expected);

        let folder = std::fs::write(std::env::temp_dir(), "").unwrap_err();
        assert_eq!(Error::from(folder).message(), "that is a folder, not a file");

        // Other messages stay as they are, and an unknown error loses its number.
        assert_eq!(Error::from(io::Error::other("the header is cut")).message(), "the header is cut");
        let other = Error::from(io::Error::from_raw_os_error(32));
        assert!(!other.message().contains("os error") && !other.message().is_empty(), "{other}");
    }

    #[test]
    fn t2_a_failure_always_has_a_message() {
        for error in [Error::new(""), Error::invalid(" \n"), Error::from(io::Error::other(""))] {
            assert!(error.message().starts_with("the tool failed and does not say why"), "{error}");
        }
        assert_eq!(Error::new("no").message(), "no");
    }

    #[test]
    fn a_failure_keeps_code_retryable_and_details() {
        let error = Error::invalid("no such page").retryable().with_details(["a", "b"]);

        assert_eq!(error.code(), "INVALID_ARGUMENTS");
        assert!(error.is_retryable());
        assert_eq!(format!("{error:?}"), r#"INVALID_ARGUMENTS: no such page ["a","b"]"#);
    }
}
