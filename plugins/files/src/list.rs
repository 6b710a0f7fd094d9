//! `list`: what there is.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::output_budget::OutputBudget;
use crate::workspace::{Entry, Kind, MAX_DEPTH, Step, Workspace, bytes_of, is_zero};

/// More names than this help no reader. A deeper look into one of the folders does.
const MAX_ENTRIES: usize = 1_000;

/// Lists files and folders.
///
/// Gives paths from the workspace's root, in the order of the alphabet, with the sizes of files in bytes: at most 1,000;
/// `next` goes into `after` for the next page. `tree` shows many folders at a glance, `glob` finds files by their names.
/// Names that are not UTF-8 cannot be given and are left out.
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
        "the next page": {"after": "notes.md"} => {
            "entries": [{"path": "src", "kind": "folder"}],
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
    /// The last path of the page before
    after: Option<String>,
) -> Result<Listing, Error> {
    Workspace::of_session().list(&path, depth, after.as_deref())
}

/// Files and folders.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Listing {
    pub entries: Vec<ListedEntry>,
    /// Whether there is more than is listed: go on at `next`, list one of the folders, or search
    pub truncated: bool,
    /// Value of `after` for the next page, if there is one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// How many folders could not be looked into, and names that cannot be shown
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
    pub fn list(&self, path: &str, depth: u32, after: Option<&str>) -> Result<Listing, Error> {
        let folder = self.place(path)?;
        let mut entries: Vec<ListedEntry> = Vec::new();
        let mut truncated = false;
        let mut budget = OutputBudget::of_an_answer();
        let unreadable = self.walk(&folder, depth.clamp(1, MAX_DEPTH), after, &mut |entry| {
            if after == Some(entry.name) {
                return Step::On;
            }
            truncated = entries.len() == MAX_ENTRIES || !budget.take(&[entry.name]);
            if truncated {
                return Step::End;
            }
            entries.push(ListedEntry::of(entry));
            Step::On
        })?;
        let next = entries.last().filter(|_| truncated).map(|entry| entry.path.clone());
        Ok(Listing { entries, truncated, next, unreadable })
    }
}

impl ListedEntry {
    fn of(entry: &Entry<'_>) -> Self {
        let size = (entry.kind == Kind::File).then(|| bytes_of(entry.path));
        Self { path: entry.name.to_owned(), kind: entry.kind, size }
    }
}
