//! `write`: a whole text file.

use std::fs;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::workspace::{Workspace, explain};

/// Writes a text file, whole. Replaces the file if there is one, and makes the folders it needs.
///
/// To change a part of a file, read it first and write it whole.
#[tool(destructive, idempotent, tags("file", "text", "save", "create"), examples({"path": "notes/today.md", "content": "# Today\n"}))]
pub fn write(
    /// The file, from the workspace's root
    path: String,
    /// The whole text of the file
    content: String,
) -> Result<Written, Error> {
    Workspace::of_session().write(&path, &content)
}

/// What was written.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Written {
    /// The file, from the workspace's root
    pub path: String,
    /// How many bytes it has now
    pub bytes: u64,
    /// Whether there was no such file before
    pub created: bool,
}

impl Workspace {
    pub fn write(&self, path: &str, content: &str) -> Result<Written, Error> {
        let place = self.place(path)?;
        if place.name == "." || path.ends_with('/') {
            return Err(Error::invalid(format!(
                "`{path}` is a folder: write the path of a file, as `notes/today.md`"
            )));
        }
        if let Some(folder) = place.path.parent() {
            fs::create_dir_all(folder).map_err(|error| explain(&error, &place, "written"))?;
        }
        let created = !fs::exists(&place.path).unwrap_or(false);
        fs::write(&place.path, content).map_err(|error| explain(&error, &place, "written"))?;
        Ok(Written { path: place.name, bytes: content.len() as u64, created })
    }
}
