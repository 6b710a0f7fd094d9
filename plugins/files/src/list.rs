//! `list`: what there is.

use std::fs::Metadata;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::workspace::{Entry, MAX_DEPTH, Workspace};

/// More names than this help no reader. A deeper look into one of the folders does.
const MAX_ENTRIES: usize = 1_000;

/// Lists files and folders.
///
/// Gives paths from the workspace's root, in the order of the alphabet, with the sizes of files in bytes.
#[tool(read_only, tags("file", "folder", "directory"), examples({}, {"path": "src", "depth": 3}))]
pub fn list(
    /// The folder, from the workspace's root
    #[default(".")]
    path: String,
    /// How deep to go: 1 is the folder itself
    #[default(1)]
    #[schemars(range(min = 1, max = 64))]
    depth: u32,
) -> Result<Listing, Error> {
    Workspace::of_session().list(&path, depth)
}

/// Files and folders.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Listing {
    pub entries: Vec<ListedEntry>,
    /// Whether there is more than is listed: list one of the folders, or search
    pub truncated: bool,
    /// How many entries have names that cannot be shown
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub unreadable: u32,
}

/// A file or a folder.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct ListedEntry {
    /// The path, from the workspace's root
    pub path: String,
    pub kind: Kind,
    /// The size in bytes, of a file
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    File,
    Folder,
    Link,
    Other,
}

impl Workspace {
    pub fn list(&self, path: &str, depth: u32) -> Result<Listing, Error> {
        let folder = self.place(path)?;
        let mut entries = Vec::new();
        let mut truncated = false;
        let unreadable = self.walk(&folder, depth.clamp(1, MAX_DEPTH), &mut |entry| {
            truncated = entries.len() == MAX_ENTRIES;
            if !truncated {
                entries.push(ListedEntry::from(entry));
            }
            !truncated
        })?;
        Ok(Listing { entries, truncated, unreadable })
    }
}

impl From<Entry> for ListedEntry {
    fn from(Entry { place, metadata, .. }: Entry) -> Self {
        let kind = Kind::of(&metadata);
        let size = (kind == Kind::File).then_some(metadata.len());
        Self { path: place.name, kind, size }
    }
}

impl Kind {
    fn of(metadata: &Metadata) -> Self {
        if metadata.is_file() {
            Self::File
        } else if metadata.is_dir() {
            Self::Folder
        } else if metadata.is_symlink() {
            Self::Link
        } else {
            Self::Other
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
