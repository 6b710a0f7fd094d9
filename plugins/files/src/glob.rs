//! `glob`: files by their names.
//!
//! The crate that knows what a glob means makes an expression about bytes of it, in which `?` is half of an `é`. It is
//! written anew here as one about characters.

use globset::GlobBuilder;
use regex_automata::meta::Regex;
use regex_automata::util::syntax;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::output_budget::OutputBudget;
use crate::workspace::{Kind, MAX_DEPTH, Place, Step, Workspace, is_zero};

/// A glob longer than this is a mistake, or an attack.
const MAX_GLOB_BYTES: usize = 1_000;

/// A compiled glob larger than this is a mistake, or an attack.
const MAX_COMPILED_BYTES: usize = 2 * 1024 * 1024;

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
    /// Form of the paths: `*`, `**`, `?`, `[a-z]` and `{a,b}`
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
    /// Value of `after` for the next page, if there is one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Why nothing was found, where it is known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many folders could not be looked into, and names that cannot be shown
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub unreadable: u32,
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
        let mut budget = OutputBudget::of_an_answer();
        let mut note = None;
        found.unreadable = self.walk(&folder, MAX_DEPTH, after, &mut |entry| {
            if after == Some(entry.name) || !names.match_path(&folder, entry.name) {
                return Step::On;
            }
            if entry.kind != Kind::File {
                note = note.take().or_else(|| is_no_file(entry.name, entry.kind, "pattern"));
                return Step::On;
            }
            if found.paths.len() == max_results.clamp(1, 1_000) as usize || !budget.take(&[entry.name]) {
                found.next = found.paths.last().cloned();
                return Step::End;
            }
            found.paths.push(entry.name.to_owned());
            Step::On
        })?;
        found.note = note.filter(|_| found.paths.is_empty() && after.is_none());
        Ok(found)
    }
}

/// The advice where a glob names a folder, and no file.
pub fn is_no_file(name: &str, kind: Kind, parameter: &str) -> Option<String> {
    (kind == Kind::Folder).then(|| {
        format!("`{name}` is a folder, and only files are found: give it as `path`, with `{parameter}` `*`")
    })
}

/// A compiled glob.
#[derive(Debug)]
pub struct Names {
    matcher: Regex,
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
        if let Some(reason) = finds_nothing(trimmed) {
            return Err(Error::invalid(format!("`{parameter}` {reason}")));
        }
        let no_glob = |reason: &str| {
            Error::invalid(format!("`{parameter}` is not a glob: {reason}; write as in `src/**/*.rs`"))
        };
        let compiled =
            GlobBuilder::new(trimmed).literal_separator(true).case_insensitive(ignore_case).build();
        let compiled = compiled.map_err(|error| no_glob(&error.kind().to_string()))?;
        let matcher = about_characters(compiled.regex()).and_then(|expression| build(&expression));
        let matcher = matcher.ok_or_else(|| no_glob("it is too large"))?;
        Ok(Self { matcher, is_about_name: !trimmed.contains('/') })
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

/// The reason why a glob cannot find a file in any workspace.
fn finds_nothing(glob: &str) -> Option<&'static str> {
    if matches!(glob, "" | ".") {
        Some("is empty: `*` finds every file")
    } else if glob.split('/').any(|part| part == "..") {
        Some("may not contain `..`: write it from the folder in `path`, as in `src/**/*.rs`")
    } else if glob.starts_with('/') {
        Some("may not begin with `/`: write it from the folder in `path`, as in `src/**/*.rs`")
    } else if glob.ends_with('/') {
        Some("ends in `/`, and only files are found: put `**` after it for all that is in a folder")
    } else {
        None
    }
}

fn build(expression: &str) -> Option<Regex> {
    let syntax = syntax::Config::new().dot_matches_new_line(true);
    let config = Regex::config().nfa_size_limit(Some(MAX_COMPILED_BYTES));
    Regex::builder().syntax(syntax).configure(config).build(expression).ok()
}

/// Writes an expression of `globset` as one about characters. There each byte of one beyond ASCII is a `\xc3`.
fn about_characters(expression: &str) -> Option<String> {
    let mut written = expression.strip_prefix("(?-u)")?.bytes();
    let mut bytes = Vec::with_capacity(expression.len());
    while let Some(byte) = written.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match written.next()? {
            b'x' => {
                let digits = [written.next()?, written.next()?];
                bytes.push(u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            escaped => bytes.extend([b'\\', escaped]),
        }
    }
    String::from_utf8(bytes).ok()
}
