//! The error of a file that is not served as a plugin.

use toolgate_api::error::{CallError, ErrorType};

/// The reason why a file is not served as a plugin.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct LoadError {
    /// The defect of the file, on one line.
    pub message: String,
    /// The fix, addressed to the plugin's author.
    pub hint: String,
    /// The import at fault, if one is.
    pub import: Option<String>,
}

impl LoadError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into(), import: None }
    }

    pub(crate) fn import(import: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { import: Some(import.to_owned()), ..Self::new(message, hint) }
    }
}

impl From<wasmtime::Error> for LoadError {
    fn from(error: wasmtime::Error) -> Self {
        Self::new(one_line(&error), "build the plugin again and upload the whole file")
    }
}

impl From<wasmparser::Error> for LoadError {
    fn from(error: wasmparser::Error) -> Self {
        Self::new(error.to_string(), "build the plugin again and upload the whole file")
    }
}

impl From<LoadError> for CallError {
    fn from(error: LoadError) -> Self {
        CallError::new(ErrorType::InvalidPlugin, error.message, error.hint)
    }
}

/// Formats an engine error with its causes on one line.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    let text = format!("{error:#}");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
