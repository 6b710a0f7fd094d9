//! Files of the workspace, with errors that name them.
//!
//! `std::fs` works as well. Its errors do not have the path, so a model reads that a file is missing, and not which one.

use std::io;
use std::path::Path;

use crate::{Error, Result};

/// Reads a file.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    std::fs::read(path).map_err(|error| file_error(path, error))
}

/// Reads a file as text.
pub fn read_to_string(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    std::fs::read_to_string(path).map_err(|error| file_error(path, error))
}

/// Writes a file, and replaces one that exists. The folder must exist.
pub fn write(path: impl AsRef<Path>, contents: impl AsRef<[u8]>) -> Result<()> {
    let path = path.as_ref();
    std::fs::write(path, contents).map_err(|error| file_error(path, error))
}

/// The error for a model, with the path relative to the workspace, as the file tools have it.
fn file_error(path: &Path, error: io::Error) -> Error {
    let shown = path.strip_prefix("/workspace").unwrap_or(path).display().to_string();
    match error.kind() {
        io::ErrorKind::NotFound => {
            Error::new(format!("file not found: `{shown}`; list the workspace to see what exists"))
        }
        _ => Error::new(format!("`{shown}`: {}", Error::from(error).message())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_file_is_named_relative_to_the_workspace() {
        let error = read("/workspace/sub/x.csv").unwrap_err();
        assert_eq!(error.message(), "file not found: `sub/x.csv`; list the workspace to see what exists");
        let error = read_to_string("/no/such/file").unwrap_err();
        assert!(error.message().contains("`/no/such/file`"), "{error}");
    }

    #[test]
    fn another_error_has_the_path_before_it() {
        let folder = std::env::temp_dir();
        let error = write(&folder, "").unwrap_err();
        assert_eq!(error.message(), format!("`{}`: that is a folder, not a file", folder.display()));
    }
}
