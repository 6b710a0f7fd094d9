//! Unified diffs, as `diff -u` and `git diff` write them and `patch` reads them.

use std::ops::Range;

use similar::{DiffOp, DiffTag, group_diff_ops};

/// Writes each hunk of the changes between two texts, whose lines have their line feeds.
pub fn hunks<'t, L: AsRef<str>>(
    old: &'t [L],
    new: &'t [L],
    changes: Vec<DiffOp>,
    context: usize,
) -> impl Iterator<Item = String> + 't {
    let groups = group_diff_ops(changes, context).into_iter();
    groups.filter_map(move |group| {
        let (first, last) = (group.first()?, group.last()?);
        let of_old = range(&(first.old_range().start..last.old_range().end));
        let of_new = range(&(first.new_range().start..last.new_range().end));
        let mut hunk = format!("@@ -{of_old} +{of_new} @@\n");
        let mut add = |sign, lines: &[L]| hunk.extend(lines.iter().map(|text| line(sign, text.as_ref())));
        for change in &group {
            if change.tag() == DiffTag::Equal {
                add(" ", &old[change.old_range()]);
            } else {
                add("-", &old[change.old_range()]);
                add("+", &new[change.new_range()]);
            }
        }
        Some(hunk)
    })
}

/// Returns a line of a diff: its sign, its text, and a note where the text has no line feed.
pub fn line(sign: &str, text: &str) -> String {
    let end = if text.ends_with('\n') { "" } else { "\n\\ No newline at end of file\n" };
    format!("{sign}{text}{end}")
}

fn range(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}
