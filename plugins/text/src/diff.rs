//! `diff`: what changed between two texts.

use formats::diff::hunks;
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
    let hunks: String = hunks(&old, &new, changes.ops().to_vec(), context.into()).collect();
    let diff = if hunks.is_empty() { hunks } else { format!("--- old\n+++ new\n{hunks}") };
    Ok(Diff { diff: size::whole(diff)?, added, removed })
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
