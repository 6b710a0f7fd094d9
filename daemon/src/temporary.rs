//! Folders that are thrown away with whatever made them.

use tempfile::TempDir;
use toolgate_admission::{CallError, ErrorType};

/// An empty folder, removed when it is dropped.
pub fn folder() -> Result<TempDir, CallError> {
    tempfile::tempdir().map_err(|error| {
        CallError::new(
            ErrorType::Unavailable,
            format!("no temporary folder can be made: {error}"),
            "name a folder that this user may write in the variable `TMPDIR`",
        )
    })
}
