//! `diff`: what changed between two texts.

use schemars::JsonSchema;
use serde::Serialize;
use similar::{Algorithm, DiffTag, TextDiff};
use toolgate_sdk::{Error, tool};

use crate::size;

/// Compares two texts line by line, as a unified diff.
///
/// `diff` is empty if the texts are the same. A line with `-` is only in `old`, one with `+` only in `new`. It is what
/// `diff -u` and `git diff` write, and `patch` reads. A line ends with `\n`; an `\r` is a part of it. Large texts should have most lines in common: those that differ in
/// tens of thousands of lines are too much for one call.
#[tool(
    read_only,
    tags("text", "compare", "patch", "changes"),
    examples(
        {"old": "a\nb\nc\n", "new": "a\nB\nc\n"} => {"diff": "--- old\n+++ new\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", "added": 1, "removed": 1},
        {"old": "same", "new": "same"} => {"diff": "", "added": 0, "removed": 0},
    )
)]
pub fn diff(
    /// The text before
    old: String,
    /// The text after
    new: String,
    /// How many unchanged lines to show around each change
    #[default(3)]
    #[schemars(range(max = 1000))]
    context: u16,
) -> Result<Diff, Error> {
    // Its search is bounded as that of git is: of texts with little in common, the diff may be longer than the shortest.
    let (old, new): (Vec<&str>, Vec<&str>) =
        (old.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let changes = TextDiff::configure().algorithm(Algorithm::Myers).diff_slices(&old, &new);
    let changed = || changes.ops().iter().filter(|operation| operation.tag() != DiffTag::Equal);
    let added = changed().map(|operation| operation.new_range().len()).sum();
    let removed = changed().map(|operation| operation.old_range().len()).sum();
    Ok(Diff { diff: size::whole(write(&changes, context.into()))?, added, removed })
}

/// Writes the changes as `patch` reads them, for which only a line feed ends a line.
fn write(changes: &TextDiff<'_, '_, str>, context: usize) -> String {
    let mut diff = String::new();
    for hunk in changes.unified_diff().context_radius(context).iter_hunks() {
        if diff.is_empty() {
            diff.push_str("--- old\n+++ new\n");
        }
        diff.push_str(&format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            diff.push_str(&format!("{}{}", change.tag(), change.value()));
            if !change.value().ends_with('\n') {
                diff.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    diff
}

/// What changed.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Diff {
    /// The unified diff
    pub diff: String,
    /// How many lines are only in `new`
    pub added: usize,
    /// How many lines are only in `old`
    pub removed: usize,
}
