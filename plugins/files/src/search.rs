//! `search`: files by name, lines by a regular expression.
//!
//! A file is searched as a whole, and only a line that is found is looked at as one: no work is done for the lines and
//! files in between but the search itself. Files that are too large or binary are passed over, and named.

mod contents;
mod lines;
mod pattern;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::glob::{Names, is_no_file};
use crate::output_budget::OutputBudget;
use crate::workspace::{Entry, Kind, MAX_DEPTH, Place, Step, Workspace, is_zero, order};

use contents::Contents;
use lines::Lines;
pub use pattern::Pattern;

/// Enough names to see why something was not found.
const MAX_SKIPPED: usize = 20;

/// More lines around a match than this are a file to read.
const MAX_CONTEXT: u32 = 20;

/// How much one call searches. It has fuel for 1,000 million instructions, and a byte takes up to 40.
const MAX_SEARCHED_BYTES: usize = 20 * 1024 * 1024;

/// How many files one call searches. It may ask the host 100,000 times, and a file takes four.
const MAX_SEARCHED_FILES: u32 = 15_000;

/// What opening a file costs, in bytes that could be searched meanwhile.
const FILE_COST_BYTES: usize = 300;

/// Finds files by name, and lines in them by a regular expression.
///
/// - `pattern` finds lines, in all text files or in those that `glob` names. It has the syntax of Rust's `regex`: no
///   look-around, no back-references, and a match is within one line. `literal` takes it as plain text.
/// - `glob` alone finds files: `*.rs` anywhere, `src/**/*.rs` under `src`.
/// - A file in UTF-16 with a byte order mark is searched as text. No mark is a part of the first line.
/// - Where `truncated` is true there may be more: narrow the search, or give `next` as `after`.
#[tool(
    read_only,
    open_world = false,
    tags("file", "find", "grep", "text"),
    examples(
        {"glob": "*.md"} => {"results": [{"path": "notes.md"}], "truncated": false},
        {"pattern": "fn \\w+", "glob": "*.rs", "path": "src"} => {
            "results": [
                {"path": "src/lib.rs", "line": 1, "text": "pub fn answer() {}"},
                {"path": "src/main.rs", "line": 2, "text": "fn main() {"},
            ],
            "truncated": false,
        },
        "with a line after each": {"pattern": "main()", "literal": true, "lines_after": 1} => {
            "results": [{"path": "src/main.rs", "line": 2, "text": "fn main() {", "after": ["    answer()"]}],
            "truncated": false,
        },
    )
)]
#[expect(clippy::too_many_arguments, reason = "each is a parameter that a model knows from `grep`")]
pub fn search(
    /// A regular expression for the lines to find
    pattern: Option<String>,
    /// Which files: `*`, `**`, `?`, `[a-z]` and `{a,b}`
    glob: Option<String>,
    /// The folder or the file to search, from the workspace's root
    #[default(".")]
    path: String,
    /// Whether `a` finds `A` too
    #[default]
    ignore_case: bool,
    /// Whether `pattern` is plain text, in which no sign has a meaning
    #[default]
    literal: bool,
    /// How many lines before each match to give
    #[default(0)]
    #[schemars(range(max = 20))]
    lines_before: u32,
    /// How many lines after each match to give
    #[default(0)]
    #[schemars(range(max = 20))]
    lines_after: u32,
    /// How many results to give at most
    #[default(100)]
    #[schemars(range(min = 1, max = 1000))]
    max_results: u32,
    /// `next` of the answer before, to go on after it
    after: Option<String>,
) -> Result<Found, Error> {
    let query = Query {
        pattern: pattern.map(|pattern| Pattern::compile(&pattern, literal, ignore_case)).transpose()?,
        names: glob.map(|glob| Names::compile(&glob, "glob", ignore_case)).transpose()?,
        lines_before: lines_before.min(MAX_CONTEXT) as usize,
        lines_after: lines_after.min(MAX_CONTEXT) as usize,
        max_results: max_results.clamp(1, 1_000) as usize,
        after: after.map(|after| Mark::read(&after)).transpose()?,
    };
    Workspace::of_session().search(&path, &query)
}

/// The compiled query of a search.
#[derive(Debug, Default)]
pub struct Query {
    pub pattern: Option<Pattern>,
    pub names: Option<Names>,
    pub lines_before: usize,
    pub lines_after: usize,
    pub max_results: usize,
    pub after: Option<Mark>,
}

/// The matches of a search.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Found {
    pub results: Vec<Match>,
    /// Whether there may be more than is given: narrow the search, or go on at `next`
    pub truncated: bool,
    /// Value of `after` to go on, if there may be more
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Files that were passed over, and why; the first of them
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub skipped: Vec<Skipped>,
    /// How many more files were passed over
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub skipped_more: u32,
    /// Why nothing was found, where it is known
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// How many folders could not be looked into, and names that cannot be shown
    #[serde(skip_serializing_if = "is_zero")]
    #[schemars(default)]
    pub unreadable: u32,
}

/// A file, or a line in it.
#[derive(Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Match {
    /// The file, from the workspace's root
    pub path: String,
    /// The number of the line, counted from 1
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The line, or the part of it around what was found
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The lines before it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub before: Vec<String>,
    /// The lines after it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub after: Vec<String>,
}

/// A file that was not searched.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Skipped {
    pub path: String,
    pub reason: String,
}

/// How far a search came: `12:src/main.rs` is after a line, `*:src/main.rs` after a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    line: u64,
    path: String,
}

impl Mark {
    pub fn read(written: &str) -> Result<Self, Error> {
        let read = written.split_once(':').and_then(|(line, path)| {
            let line = if line == "*" { u64::MAX } else { line.parse().ok()? };
            Some(Self { line, path: path.to_owned() })
        });
        read.ok_or_else(|| Error::invalid("`after` is not from an answer before: give its `next` as it is"))
    }

    fn write(&self) -> String {
        match self.line {
            u64::MAX => format!("*:{}", self.path),
            line => format!("{line}:{}", self.path),
        }
    }
}

impl Workspace {
    pub fn search(&self, path: &str, query: &Query) -> Result<Found, Error> {
        if query.pattern.is_none() && query.names.is_none() {
            return Err(Error::invalid(
                "nothing to search for: give `glob` to find files, `pattern` to find lines, or both",
            ));
        }
        let place = self.place(path)?;
        let mut search = Search {
            query,
            left_bytes: MAX_SEARCHED_BYTES,
            left_files: MAX_SEARCHED_FILES,
            note: None,
            has_seen_file: false,
            spent_at: None,
            budget: OutputBudget::of_an_answer(),
            found: Found::default(),
        };
        let mut text = query.pattern.as_ref().map(|pattern| Text {
            lines: Lines::of(pattern, query.lines_before, query.lines_after),
            contents: Contents::default(),
        });
        if self.look(&place)?.is_file() {
            let entry = Entry { name: &place.name, path: &place.path, kind: Kind::File, depth: 1 };
            search.look_at(&entry, text.as_mut());
        } else {
            let from = query.after.as_ref().map(|after| after.path.as_str());
            let visit = &mut |entry: &Entry<'_>| search.pass(&place, entry, text.as_mut());
            search.found.unreadable = self.walk(&place, MAX_DEPTH, from, visit)?;
        }
        search.found.note = search.note.filter(|_| !search.has_seen_file && query.after.is_none());
        Ok(search.found)
    }
}

/// A search under way.
struct Search<'q> {
    query: &'q Query,
    left_bytes: usize,
    left_files: u32,
    /// Advice where no file was looked at, by its name at least.
    note: Option<String>,
    has_seen_file: bool,
    /// The file after which nothing is left to search with.
    spent_at: Option<Mark>,
    budget: OutputBudget,
    found: Found,
}

/// How lines are found, and the file in which.
struct Text<'q> {
    lines: Lines<'q>,
    contents: Contents,
}

impl Search<'_> {
    fn pass(&mut self, folder: &Place, entry: &Entry<'_>, text: Option<&mut Text<'_>>) -> Step {
        if self.query.names.as_ref().is_some_and(|names| !names.match_path(folder, entry.name)) {
            return Step::On;
        }
        if entry.kind == Kind::File {
            return self.look_at(entry, text);
        }
        if self.query.names.is_some() {
            self.note = self.note.take().or_else(|| is_no_file(entry.name, entry.kind, "glob"));
        }
        Step::On
    }

    fn look_at(&mut self, entry: &Entry<'_>, text: Option<&mut Text<'_>>) -> Step {
        self.has_seen_file = true;
        let after_line = match &self.query.after {
            Some(after) if order(entry.name, &after.path).is_lt() => return Step::On,
            Some(after) if entry.name == after.path => after.line,
            _ => 0,
        };
        if after_line == u64::MAX {
            return Step::On;
        }
        let path = entry.name.to_owned();
        let Some(Text { lines, contents }) = text else {
            return if self.add(Match { path, ..Match::default() }) { Step::On } else { Step::End };
        };
        if let Some(mark) = self.spent_at.take() {
            return self.end_at(&mark);
        }
        self.left_files -= 1;
        let mut left = self.left_bytes.saturating_sub(FILE_COST_BYTES);
        match contents.load(entry.path, &mut left) {
            Ok(bytes) => {
                let add = &mut |found| self.add(Match { path: path.clone(), ..found });
                if let Some(line) = lines.search(bytes, after_line, &mut left, add) {
                    self.end_at(&Mark { line, path: path.clone() });
                }
            }
            Err(reason) => self.skip(entry.name, reason),
        }
        self.left_bytes = left;
        if left == 0 || self.left_files == 0 {
            // Whether there is more is for the next file to tell, if there is one.
            self.spent_at = Some(Mark { line: u64::MAX, path });
        }
        if self.found.truncated { Step::End } else { Step::On }
    }

    fn skip(&mut self, path: &str, reason: &str) {
        if self.found.skipped.len() < MAX_SKIPPED && self.budget.take(&[path]) {
            self.found.skipped.push(Skipped { path: path.to_owned(), reason: reason.to_owned() });
        } else {
            self.found.skipped_more += 1;
        }
    }

    /// Adds a result. Gives false when the answer has no space for it.
    fn add(&mut self, found: Match) -> bool {
        let around = found.before.iter().chain(&found.after);
        let texts: Vec<&str> =
            std::iter::once(&found.path).chain(&found.text).chain(around).map(String::as_str).collect();
        if self.found.results.len() < self.query.max_results && self.budget.take(&texts) {
            self.found.results.push(found);
            return true;
        }
        if let Some(last) = self.found.results.last() {
            let mark = Mark { line: last.line.unwrap_or(u64::MAX), path: last.path.clone() };
            self.end_at(&mark);
        }
        false
    }

    fn end_at(&mut self, mark: &Mark) -> Step {
        self.found.truncated = true;
        self.found.next = Some(mark.write());
        Step::End
    }
}
