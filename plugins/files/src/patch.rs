//! `patch`: a unified diff, or a patch between `*** Begin Patch` and `*** End Patch`, whole or not at all.
//!
//! All files are changed in memory first, then written beside the old ones, and only then do they take their names. The
//! patch is read and fitted here and not by a crate: models miscount lines, which `diffy` refuses or drops, `mpatch` passes
//! over hunks that it cannot read, and a hunk that does not fit must be told line by line.

mod envelope;
mod fit;
mod hunks;
mod names;
mod unified;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::workspace::{Place, Workspace};

use hunks::FilePatch;

/// Each file is held open until all are written.
const MAX_FILES: usize = 50;

/// A call has 64 MiB of memory, and all files are in it at once.
const MAX_TOTAL_BYTES: usize = 16 * 1024 * 1024;

/// Applies a unified diff, as `diff -u` and `git diff` write it, to one or more files. The form `*** Begin Patch` … `*** End Patch` is known too.
///
/// - Each hunk must fit exactly, by its context and its deleted lines; where it stands is found by them, so line numbers and counts in `@@ … @@` may be off. `@@ @@` alone will do where the lines are found only once.
/// - `--- /dev/null` makes a file, `+++ /dev/null` deletes one. `a/` and `b/` before the paths are dropped.
/// - A diff without `\r` fits a file whose lines all end in CRLF, and what it adds there ends so too. Otherwise a line must end in the diff as it does in the file, and is written as it stands there.
/// - Of what `git diff` writes without lines, empty files are made and deleted. Links, submodules, binary files, copies, and a rename or another mode alone are refused. Files have no modes here: one that comes with lines is passed over.
/// - Between `*** Begin Patch` and `*** End Patch`: `*** Add File: FILE` with `+` lines, `*** Delete File: FILE`, `*** Update File: FILE` with `*** Move to: FILE` after it where the name changes. A hunk there follows `@@`, or `@@ LINE` for its first place behind that line; `*** End of File` after a hunk says that its lines are the last.
/// - All of it is applied or nothing. For a single small change `edit` is simpler.
#[tool(
    destructive,
    open_world = false,
    tags("file", "text", "diff", "change", "apply"),
    examples(
        {"diff": "--- a/src/main.rs\n+++ b/src/main.rs\n@@ -2,2 +2,2 @@\n fn main() {\n-    answer()\n+    answer();\n"}
            => {"files": [{"path": "src/main.rs", "change": "changed", "added": 1, "removed": 1, "bytes": 38}]},
        "without file names, for one file": {"path": "notes.md", "diff": "@@ @@\n # Notes\n+- call Ada\n"}
            => {"files": [{"path": "notes.md", "change": "changed", "added": 1, "removed": 0, "bytes": 30}]},
        "in the other form": {"diff": "*** Begin Patch\n*** Update File: src/main.rs\n@@ fn main() {\n-    answer()\n+    answer();\n*** End Patch\n"}
            => {"files": [{"path": "src/main.rs", "change": "changed", "added": 1, "removed": 1, "bytes": 38}]},
    )
)]
pub fn patch(
    /// The patch; a line of a hunk begins with a space, `+` or `-`
    diff: String,
    /// The file to change, where the diff is about one file; the diff then needs no `---` and `+++` lines
    path: Option<String>,
) -> Result<Patched, Error> {
    Workspace::of_session().patch(&diff, path.as_deref())
}

/// The changed files.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Patched {
    pub files: Vec<PatchedFile>,
}

/// A file that was changed.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct PatchedFile {
    /// The file, from the workspace's root
    pub path: String,
    pub change: ChangeKind,
    /// How many lines were added
    pub added: u64,
    /// How many lines were removed
    pub removed: u64,
    /// How many bytes it has now
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    Changed,
    Created,
    Deleted,
    /// Changed, and under another path now
    Moved,
}

/// A file as it will be.
struct Planned {
    source: Option<Place>,
    target: Option<Place>,
    text: String,
    outcome: PatchedFile,
}

impl Workspace {
    pub fn patch(&self, diff: &str, path: Option<&str>) -> Result<Patched, Error> {
        let patches = hunks::parse(diff, path)?;
        if patches.len() > MAX_FILES {
            return Err(Error::invalid(format!(
                "the patch is about more than {MAX_FILES} files: cut it in parts"
            )));
        }
        let mut planned: Vec<Planned> = Vec::new();
        let mut names = BTreeSet::new();
        let mut total = 0;
        for patch in &patches {
            let plan = self.plan(patch)?;
            let places = [&plan.source, &plan.target].into_iter().flatten();
            let of_plan: BTreeSet<String> = places.map(|place| place.name.clone()).collect();
            if !names.is_disjoint(&of_plan) {
                return Err(Error::invalid(format!(
                    "`{}` is in the patch twice: put its hunks under one heading",
                    plan.outcome.path
                )));
            }
            names.extend(of_plan);
            total += plan.text.len();
            if total > MAX_TOTAL_BYTES {
                return Err(Error::invalid("the files of the patch are too large together: cut it in parts"));
            }
            planned.push(plan);
        }
        self.carry_out(&planned)?;
        Ok(Patched { files: planned.into_iter().map(|plan| plan.outcome).collect() })
    }

    /// Works out what becomes of one file.
    fn plan(&self, patch: &FilePatch<'_>) -> Result<Planned, Error> {
        let place = |path: &Option<String>| path.as_deref().map(|path| self.place_of_file(path)).transpose();
        let (source, target) = (place(&patch.old)?, place(&patch.new)?);
        let change = match (&source, &target) {
            (None, _) => ChangeKind::Created,
            (_, None) => ChangeKind::Deleted,
            (Some(source), Some(target)) if source.name != target.name => ChangeKind::Moved,
            _ => ChangeKind::Changed,
        };
        let is_new = matches!(change, ChangeKind::Created | ChangeKind::Moved);
        if let Some(target) =
            target.as_ref().filter(|target| is_new && target.path.symlink_metadata().is_ok())
        {
            return Err(Error::new(format!("the patch makes `{}`, which is there already", target.name)));
        }
        let text = source.as_ref().map(|source| self.load_text(source)).transpose()?.unwrap_or_default();
        let name = target.as_ref().or(source.as_ref()).map(|place| place.name.clone()).unwrap_or_default();
        let applied = if patch.is_deleted_whole {
            fit::Applied { removed: text.lines().count() as u64, ..fit::Applied::default() }
        } else {
            fit::apply(&text, &patch.hunks, &name)?
        };
        if change == ChangeKind::Deleted && !applied.text.is_empty() {
            return Err(Error::new(format!(
                "the patch deletes `{name}` but not all of its lines: use `delete` for the file, or write `+++ b/{name}`"
            )));
        }
        if change == ChangeKind::Changed && applied.text == text {
            return Err(Error::invalid(format!(
                "the patch changes nothing in `{name}`: the lines that it adds are those that it deletes. Nothing was changed"
            )));
        }
        let outcome = PatchedFile {
            path: name,
            change,
            added: applied.added,
            removed: applied.removed,
            bytes: applied.text.len() as u64,
        };
        Ok(Planned { source, target, text: applied.text, outcome })
    }

    /// Writes all files beside the old ones, and then gives them their names.
    fn carry_out(&self, planned: &[Planned]) -> Result<(), Error> {
        let mut staged = Vec::new();
        for plan in planned {
            let Some(target) = &plan.target else { continue };
            let mut file = self.stage(target)?;
            file.file
                .write_all(plan.text.as_bytes())
                .map_err(|error| self.explain(&error, target, "written"))?;
            staged.push(file);
        }
        for file in staged {
            self.put(file)?;
        }
        for plan in planned {
            let Some(source) = &plan.source else { continue };
            if matches!(plan.outcome.change, ChangeKind::Deleted | ChangeKind::Moved) {
                fs::remove_file(&source.path).map_err(|error| self.explain(&error, source, "deleted"))?;
            }
        }
        Ok(())
    }
}
