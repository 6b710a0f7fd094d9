//! `glob`: files by their names.

use globset::{GlobBuilder, GlobMatcher};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::room::Room;
use crate::workspace::{Kind, MAX_DEPTH, Place, Step, Workspace, order};

/// A glob longer than this is a mistake, or an attack.
const MAX_GLOB_BYTES: usize = 1_000;

/// Finds files by a pattern for their paths.
///
/// `*.rs` finds files of this name in every folder, `src/*.rs` those directly in `src`, `src/**/*.rs` those anywhere
/// under it. Gives sorted paths from the workspace's root; `next` goes into `after` for the next page.
#[tool(
    read_only,
    open_world = false,
    tags("file", "find", "name", "pattern"),
    examples(
        {"pattern": "*.rs"} => {"paths": ["src/lib.rs", "src/main.rs"]},
        "the next page": {"pattern": "*.{md,txt}", "max_results": 1, "after": "log.txt"} => {"paths": ["notes.md"]},
    )
)]
pub fn glob(
    /// What the paths look like: `*`, `**`, `?`, `[a-z]` and `{a,b}`
    pattern: String,
    /// The folder to look in, from the workspace's root
    #[default(".")]
    path: String,
    /// How many paths to give at most
    #[default(200)]
    #[schemars(range(min = 1, max = 1000))]
    max_results: u32,
    /// The last path of the page before
    after: Option<String>,
) -> Result<Paths, Error> {
    Workspace::of_session().glob(&pattern, &path, max_results, after.as_deref())
}

/// Files that were found.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Paths {
    /// The files, from the workspace's root
    pub paths: Vec<String>,
    /// What to give as `after` for the next page, if there is one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl Workspace {
    pub fn glob(
        &self,
        pattern: &str,
        path: &str,
        max_results: u32,
        after: Option<&str>,
    ) -> Result<Paths, Error> {
        let names = Names::compile(pattern, "pattern", false)?;
        let folder = self.place(path)?;
        let mut found = Paths::default();
        let mut room = Room::of_an_answer();
        self.walk(&folder, MAX_DEPTH, &mut |entry| {
            if entry.kind != Kind::File || !names.match_path(&folder, entry.name) {
                return Step::On;
            }
            if after.is_some_and(|after| order(entry.name, after).is_le()) {
                return Step::On;
            }
            if found.paths.len() == max_results.clamp(1, 1_000) as usize || !room.take(&[entry.name]) {
                found.next = found.paths.last().cloned();
                return Step::End;
            }
            found.paths.push(entry.name.to_owned());
            Step::On
        })?;
        Ok(found)
    }
}

/// A compiled glob.
#[derive(Debug)]
pub struct Names {
    matcher: GlobMatcher,
    /// A glob without a slash is about the name alone.
    is_about_name: bool,
}

impl Names {
    /// Compiles a glob. `parameter` is what the model called it.
    pub fn compile(glob: &str, parameter: &str, ignore_case: bool) -> Result<Self, Error> {
        if glob.len() > MAX_GLOB_BYTES {
            return Err(Error::invalid(format!("`{parameter}` is longer than {MAX_GLOB_BYTES} bytes")));
        }
        let trimmed = glob.trim_start_matches("/workspace/").trim_start_matches("./");
        let compiled =
            GlobBuilder::new(trimmed).literal_separator(true).case_insensitive(ignore_case).build();
        let compiled = compiled.map_err(|error| {
            Error::invalid(format!(
                "`{parameter}` is not a glob: {}; write as in `src/**/*.rs`",
                error.kind()
            ))
        })?;
        Ok(Self { matcher: compiled.compile_matcher(), is_about_name: !trimmed.contains('/') })
    }

    /// Whether a path from the workspace's root is meant, in a search of `folder`.
    pub fn match_path(&self, folder: &Place, path: &str) -> bool {
        let inside = match path.strip_prefix(&folder.name) {
            Some(rest) if rest.starts_with('/') => &rest[1..],
            _ => path,
        };
        let name = if self.is_about_name { inside.rsplit('/').next().unwrap_or(inside) } else { inside };
        self.matcher.is_match(name)
    }
}
