//! `tree`: folders at a glance, as an indented listing.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::output_budget::{OutputBudget, shorten};
use crate::workspace::{Entry, Kind, MAX_DEPTH, Step, Workspace, bytes_of, is_zero};

/// More lines than this are no glance.
const MAX_ENTRIES: u64 = 1_000;

/// Shows a folder and what is in it as an indented listing with sizes.
///
/// For a first look at a workspace. A folder ends in `/`; one that is not entered, because of `depth`, is followed by
/// `…`. At most 1,000 lines; use `list` or `glob` where a program reads the answer.
#[tool(
    read_only,
    open_world = false,
    tags("folder", "directory", "overview", "structure"),
    examples(
        {"path": "."} => {
            "tree": "log.txt  19 B\nlogo.png  8 B\nnotes.md  19 B\nsrc/\n  lib.rs  19 B\n  main.rs  37 B\n",
            "files": 5,
            "folders": 1,
            "bytes": 102,
            "truncated": false,
        },
    )
)]
pub fn tree(
    /// The folder, from the workspace's root
    #[default(".")]
    path: String,
    /// How deep to go: 1 is the folder itself
    #[default(4)]
    #[schemars(range(min = 1, max = 64))]
    depth: u32,
) -> Result<Tree, Error> {
    Workspace::of_session().tree(&path, depth)
}

/// A folder at a glance.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Tree {
    /// A line for each file and folder, indented by two spaces for each folder it is in
    pub tree: String,
    /// How many files are shown
    pub files: u64,
    /// How many folders are shown
    pub folders: u64,
    /// The size of the files that are shown
    pub bytes: u64,
    /// Whether there is more than is shown: look at one of the folders
    pub truncated: bool,
    /// How many folders could not be looked into, and names that cannot be shown
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub unreadable: u32,
}

impl Workspace {
    pub fn tree(&self, path: &str, depth: u32) -> Result<Tree, Error> {
        let folder = self.place(path)?;
        let depth = depth.clamp(1, MAX_DEPTH);
        let mut tree = Tree::default();
        let mut budget = OutputBudget::of_an_answer();
        let unreadable = self.walk(&folder, depth, None, &mut |entry| {
            tree.truncated = tree.files + tree.folders == MAX_ENTRIES || !budget.take(&[entry.name]);
            if tree.truncated {
                return Step::End;
            }
            tree.add(entry, depth);
            Step::On
        })?;
        Ok(Tree { unreadable, ..tree })
    }
}

impl Tree {
    fn add(&mut self, entry: &Entry<'_>, depth: u32) {
        self.tree.extend((1..entry.depth).map(|_| "  "));
        // A name must not look like two lines.
        let name = entry.name.rsplit('/').next().unwrap_or_default();
        self.tree.push_str(&shorten(name, usize::MAX));
        match entry.kind {
            Kind::Folder => {
                self.folders += 1;
                self.tree.push_str(if entry.depth == depth { "/ …" } else { "/" });
            }
            Kind::Link => self.tree.push_str("  (link)"),
            Kind::Other => self.tree.push_str("  (no usual file)"),
            Kind::File => {
                let bytes = bytes_of(entry.path);
                self.files += 1;
                self.bytes += bytes;
                self.tree.extend(["  ", &size(bytes)]);
            }
        }
        self.tree.push('\n');
    }
}

/// A size in the largest unit in which it is one or more.
fn size(bytes: u64) -> String {
    let unit = (bytes.max(1).ilog2() / 10).min(3);
    // Rounded down, so that a file is never shown larger than it is.
    let tenths = (u128::from(bytes) * 10) >> (10 * unit);
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{}.{} {}iB", tenths / 10, tenths % 10, ["K", "M", "G"][unit as usize - 1]),
    }
}
