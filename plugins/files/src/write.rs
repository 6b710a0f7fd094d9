//! `write`: a whole file.

use formats::base64;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Error, tool};

use crate::workspace::Workspace;

/// How the content of a file is written in a call.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    Text,
    /// For binary files
    Base64,
}

/// Writes a file, whole. Replaces the file if there is one, and makes the folders it needs.
///
/// To change a part of a file use `edit` or `patch`, to add to its end `append`. The file is written whole or stays as
/// it was.
#[tool(
    destructive,
    idempotent,
    open_world = false,
    tags("file", "text", "save", "create"),
    examples(
        {"path": "notes/today.md", "content": "# Today\n"} => {"path": "notes/today.md", "bytes": 8, "created": true},
        "a binary file": {"path": "logo.png", "content": "iVBORw0KGgo=", "encoding": "base64"}
            => {"path": "logo.png", "bytes": 8, "created": false},
    )
)]
pub fn write(
    /// The file, from the workspace's root
    path: String,
    /// The whole content of the file
    content: String,
    /// What `content` is
    #[default(Encoding::Text)]
    encoding: Encoding,
) -> Result<Written, Error> {
    let workspace = Workspace::of_session();
    match encoding {
        Encoding::Text => workspace.write(&path, content.as_bytes()),
        Encoding::Base64 => workspace.write(&path, &read_base64(&content)?),
    }
}

/// Reads base64 with padding or without, and over several lines.
pub fn read_base64(content: &str) -> Result<Vec<u8>, Error> {
    let packed: String = content.split_whitespace().collect();
    base64::decode(packed).map_err(|error| {
        Error::invalid(format!(
            "`content` is not base64: {error}; it has the signs A-Z, a-z, 0-9, `+` and `/`, in whole groups of four up to the last"
        ))
    })
}

/// The written file.
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
    pub fn write(&self, path: &str, content: &[u8]) -> Result<Written, Error> {
        let place = self.place_of_file(path)?;
        let created = self.replace(&place, content)?;
        Ok(Written { path: place.name, bytes: content.len() as u64, created })
    }
}
