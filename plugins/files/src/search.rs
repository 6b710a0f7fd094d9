//! `search`: files by name, lines by a regular expression.
//!
//! The regular expressions run in linear time, so no pattern can hang a call. Files that are too large or not text are
//! passed over, and named.

use std::fs;

use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::workspace::{Entry, MAX_DEPTH, Place, Workspace};

/// A file is searched as a whole in memory, of which a call has 64 MiB.
const MAX_FILE_BYTES: u64 = 8 * 1024 * 1024;

/// A compiled pattern larger than this is a mistake, or an attack.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 300;

/// Enough names to see why something was not found.
const MAX_SKIPPED: usize = 20;

/// Finds files by name, and lines in them by a regular expression.
///
/// - `glob` alone finds files: `*.rs` anywhere, `src/**/*.rs` under `src`.
/// - `pattern` finds lines, in all text files or in those that `glob` names. It has the syntax of Rust's `regex`: no look-around, no back-references.
#[tool(read_only, tags("file", "find", "grep"), examples({"glob": "*.md"}, {"pattern": "TODO|FIXME", "glob": "*.rs", "path": "src"}))]
pub fn search(
    /// A regular expression for the lines to find
    pattern: Option<String>,
    /// Which files: `*`, `**`, `?`, `[a-z]` and `{a,b}`
    glob: Option<String>,
    /// The folder to search, from the workspace's root
    #[default(".")]
    path: String,
    /// Whether `a` finds `A` too
    #[default]
    ignore_case: bool,
    /// How many results to give at most
    #[default(100)]
    #[schemars(range(min = 1, max = 1000))]
    max_results: u32,
) -> Result<Found, Error> {
    let query = Query::compile(pattern.as_deref(), glob.as_deref(), ignore_case, max_results)?;
    Workspace::of_session().search(&path, &query)
}

/// What to look for.
#[derive(Debug)]
pub struct Query {
    pattern: Option<Regex>,
    glob: Option<Glob>,
    max_results: usize,
}

#[derive(Debug)]
struct Glob {
    matcher: GlobMatcher,
    /// A glob without a slash is about the name alone.
    is_about_name: bool,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    pub results: Vec<Match>,
    /// Whether there may be more than is given: narrow the search
    pub truncated: bool,
    /// Files that were passed over, and why; the first of them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub skipped: Vec<Skipped>,
}

/// A file, or a line in it.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Match {
    /// The file, from the workspace's root
    pub path: String,
    /// The number of the line, counted from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The line, or the part of it around what was found
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A file that was not searched.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Skipped {
    pub path: String,
    pub reason: String,
}

impl Query {
    pub fn compile(
        pattern: Option<&str>,
        glob: Option<&str>,
        ignore_case: bool,
        max_results: u32,
    ) -> Result<Self, Error> {
        if pattern.is_none() && glob.is_none() {
            return Err(Error::invalid(
                "nothing to search for: give `glob` to find files, `pattern` to find lines, or both",
            ));
        }
        Ok(Self {
            pattern: pattern.map(|pattern| compile_pattern(pattern, ignore_case)).transpose()?,
            glob: glob.map(|glob| compile_glob(glob, ignore_case)).transpose()?,
            max_results: max_results.clamp(1, 1_000) as usize,
        })
    }

    fn names(&self, folder: &Place, place: &Place) -> bool {
        let Some(glob) = &self.glob else { return true };
        let inside = match place.name.strip_prefix(&folder.name) {
            Some(rest) if rest.starts_with('/') => &rest[1..],
            _ => &place.name,
        };
        let name = if glob.is_about_name { inside.rsplit('/').next().unwrap_or(inside) } else { inside };
        glob.matcher.is_match(name)
    }
}

impl Workspace {
    pub fn search(&self, path: &str, query: &Query) -> Result<Found, Error> {
        let folder = self.place(path)?;
        let mut found = Found::default();
        self.walk(&folder, MAX_DEPTH, &mut |entry| {
            if entry.metadata.is_file() && query.names(&folder, &entry.place) {
                found.look_into(&entry, query);
            }
            !found.truncated
        })?;
        Ok(found)
    }
}

impl Found {
    fn look_into(&mut self, entry: &Entry, query: &Query) {
        let path = &entry.place.name;
        let Some(pattern) = &query.pattern else {
            return self.add(Match { path: path.clone(), line: None, text: None }, query);
        };
        match text_of(entry) {
            Ok(text) => self.look_for_lines(path, &text, pattern, query),
            Err(reason) if self.skipped.len() < MAX_SKIPPED => {
                self.skipped.push(Skipped { path: path.clone(), reason })
            }
            Err(_) => {}
        }
    }

    fn look_for_lines(&mut self, path: &str, text: &str, pattern: &Regex, query: &Query) {
        for (index, line) in text.lines().enumerate() {
            let Some(hit) = pattern.find(line) else { continue };
            let text = around(line, hit.start());
            self.add(Match { path: path.to_owned(), line: Some(index as u64 + 1), text: Some(text) }, query);
            if self.truncated {
                return;
            }
        }
    }

    fn add(&mut self, found: Match, query: &Query) {
        self.truncated = self.results.len() == query.max_results;
        if !self.truncated {
            self.results.push(found);
        }
    }
}

fn compile_pattern(pattern: &str, ignore_case: bool) -> Result<Regex, Error> {
    let compiled =
        RegexBuilder::new(pattern).case_insensitive(ignore_case).size_limit(MAX_PATTERN_BYTES).build();
    compiled.map_err(|error| {
        // The message draws the pattern on lines of its own; the last one says what is wrong with it.
        let message = error.to_string();
        let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        Error::invalid(format!(
            "`pattern` is no regular expression: {reason}; put `\\` before a sign that is meant as it is"
        ))
    })
}

fn compile_glob(glob: &str, ignore_case: bool) -> Result<Glob, Error> {
    let trimmed = glob.trim_start_matches("/workspace/").trim_start_matches("./");
    let compiled = GlobBuilder::new(trimmed).literal_separator(true).case_insensitive(ignore_case).build();
    let compiled = compiled.map_err(|error| {
        Error::invalid(format!("`glob` is not one: {}; write as in `src/**/*.rs`", error.kind()))
    })?;
    Ok(Glob { matcher: compiled.compile_matcher(), is_about_name: !trimmed.contains('/') })
}

fn text_of(entry: &Entry) -> Result<String, String> {
    if entry.metadata.len() > MAX_FILE_BYTES {
        return Err(format!("larger than {} MiB", MAX_FILE_BYTES / 1024 / 1024));
    }
    let bytes = fs::read(&entry.place.path).map_err(|_| "cannot be read".to_owned())?;
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err("not a text file in UTF-8".to_owned()),
    }
}

/// The line, or so much of it around a place that a reader knows it.
fn around(line: &str, place: usize) -> String {
    if line.chars().count() <= MAX_LINE_CHARACTERS {
        return line.to_owned();
    }
    let before = line[..place].chars().count().min(MAX_LINE_CHARACTERS / 3);
    let start =
        line[..place].char_indices().rev().nth(before.saturating_sub(1)).map_or(place, |(start, _)| start);
    let part: String = line[start..].chars().take(MAX_LINE_CHARACTERS).collect();
    let (head, tail) =
        (if start > 0 { "…" } else { "" }, if start + part.len() < line.len() { "…" } else { "" });
    format!("{head}{part}{tail}")
}
