//! Why a tool could not do what it was asked to do.
//!
//! A failure is an answer that a model reads. Like `anyhow::Error`, the type takes any error through `?`, and for that
//! reason is not a `std::error::Error` itself. Where a failed request is the cause, or among the causes, the failure says
//! whether the same call can succeed later.

use std::{fmt, io};

use serde::Serialize;
use serde_json::Value;

/// Stands for a message that is empty, which a model could make nothing of.
const WITHOUT_MESSAGE: &str = "the tool failed and does not say why: try it with other arguments";

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
        let message = Some(message.into()).filter(|message| !message.trim().is_empty());
        let message = message.unwrap_or_else(|| WITHOUT_MESSAGE.to_owned());
        Self { code: "TOOL_FAILED", message, retryable: false, details: None }
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

    /// What went wrong and what to do next, in words for a model. Never empty.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Whether the same call can succeed later, unchanged.
    pub fn is_retryable(&self) -> bool {
        self.retryable
    }

    /// Detail for a program, where there is any. Of arguments that do not fit their types an object with `pointer`, the JSON
    /// pointer of the place.
    pub fn details(&self) -> Option<&Value> {
        self.details.as_ref()
    }
}

impl<E: std::error::Error + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        let causes = || std::iter::successors(Some(&error as &Cause), |cause| cause.source());
        let message = causes().map(words_of).filter(|words| !words.is_empty()).collect::<Vec<_>>().join(": ");
        let failure = Self::new(message);
        #[cfg(feature = "http")]
        if let Some(error) = causes().find_map(|cause| cause.downcast_ref::<crate::http::Error>()) {
            return error.mark(failure);
        }
        failure
    }
}

type Cause = dyn std::error::Error + 'static;

/// What an error says. Of one of the operating system the number says nothing to a model.
fn words_of(cause: &Cause) -> String {
    let text = cause.to_string();
    let Some(number) = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error) else {
        return text;
    };
    let kind = io::Error::from_raw_os_error(number).kind();
    match words_of_kind(kind) {
        _ if cfg!(target_os = "wasi") && number == NOT_CAPABLE => OUTSIDE.to_owned(),
        Some(words) => words.to_owned(),
        None => text.split(" (os error").next().unwrap_or_default().to_owned(),
    }
}

/// The error of WASI for a path that leads out of the folders that a component was given.
const NOT_CAPABLE: i32 = 76;

const OUTSIDE: &str = "that is not allowed, or outside of the workspace: name a path in it";

fn words_of_kind(kind: io::ErrorKind) -> Option<&'static str> {
    use io::ErrorKind as Kind;
    Some(match kind {
        Kind::NotFound => "there is no such file or folder: look at what there is",
        Kind::PermissionDenied => OUTSIDE,
        Kind::AlreadyExists => "that is there already: choose another name",
        Kind::NotADirectory => "a part of the path is a file and no folder",
        Kind::IsADirectory => "that is a folder and no file",
        Kind::DirectoryNotEmpty => "the folder is not empty",
        Kind::ReadOnlyFilesystem => "the workspace can only be read",
        Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => {
            "the workspace is full: write less, or delete files that are no longer needed"
        }
        Kind::InvalidFilename => "the name is too long, or none that a file can have",
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
    fn t2_an_error_of_the_system_is_told_in_words() {
        let missing = std::fs::read("/no/such/file").unwrap_err();
        assert!(missing.to_string().contains("os error"));
        assert_eq!(Error::from(missing).message(), "there is no such file or folder: look at what there is");

        let folder = std::fs::write(std::env::temp_dir(), "").unwrap_err();
        assert_eq!(Error::from(folder).message(), "that is a folder and no file");

        // What somebody else said stays as it is, and what has no words of ours loses its number.
        assert_eq!(Error::from(io::Error::other("the header is cut")).message(), "the header is cut");
        let other = Error::from(io::Error::from_raw_os_error(32));
        assert!(!other.message().contains("os error") && !other.message().is_empty(), "{other}");
    }

    #[test]
    fn t2_a_failure_never_says_nothing() {
        for error in [Error::new(""), Error::invalid(" \n"), Error::from(io::Error::other(""))] {
            assert!(error.message().starts_with("the tool failed and does not say why"), "{error}");
        }
        assert_eq!(Error::new("no").message(), "no");
    }

    #[test]
    fn a_failure_carries_what_it_was_given() {
        let error = Error::invalid("no such page").retryable().with_details(["a", "b"]);

        assert_eq!(error.code(), "INVALID_ARGUMENTS");
        assert!(error.is_retryable());
        assert_eq!(format!("{error:?}"), r#"INVALID_ARGUMENTS: no such page ["a","b"]"#);
    }
}
