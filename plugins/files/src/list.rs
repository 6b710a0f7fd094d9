//! `list`: what there is.

use std::fs;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::room::Room;
use crate::workspace::{Entry, Kind, MAX_DEPTH, Step, Workspace};

/// More names than this help no reader. A deeper look into one of the folders does.
const MAX_ENTRIES: usize = 1_000;

/// Lists files and folders.
///
/// Gives paths from the workspace's root, in the order of the alphabet, with the sizes of files in bytes. `tree` shows
/// many folders at a glance, `glob` finds files by their names.
#[tool(
    read_only,
    open_world = false,
    tags("file", "folder", "directory", "ls"),
    examples(
        {} => {
            "entries": [
                {"path": "log.txt", "kind": "file", "size": 19},
                {"path": "logo.png", "kind": "file", "size": 8},
                {"path": "notes.md", "kind": "file", "size": 19},
                {"path": "src", "kind": "folder"},
            ],
            "truncated": false,
        },
        {"path": "src", "depth": 3} => {
            "entries": [
                {"path": "src/lib.rs", "kind": "file", "size": 19},
                {"path": "src/main.rs", "kind": "file", "size": 37},
            ],
            "truncated": false,
        },
    )
)]
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

impl Workspace {
    pub fn list(&self, path: &str, depth: u32) -> Result<Listing, Error> {
        let folder = self.place(path)?;
        let mut entries = Vec::new();
        let mut truncated = false;
        let mut room = Room::of_an_answer();
        let unreadable = self.walk(&folder, depth.clamp(1, MAX_DEPTH), &mut |entry| {
            truncated = entries.len() == MAX_ENTRIES || !room.take(&[entry.name]);
            if truncated {
                return Step::End;
            }
            entries.push(ListedEntry::of(entry));
            Step::On
        })?;
        Ok(Listing { entries, truncated, unreadable })
    }
}

impl ListedEntry {
    fn of(entry: &Entry<'_>) -> Self {
        let size = match entry.kind {
            Kind::File => fs::symlink_metadata(entry.path).ok().map(|metadata| metadata.len()),
            _ => None,
        };
        Self { path: entry.name.to_owned(), kind: entry.kind, size }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}
