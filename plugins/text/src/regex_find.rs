//! `regex_find`: what a pattern matches, and where.

use formats::pattern::{self, Cursor};
use regex::{Captures, Regex};
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::size::{Page, in_json};

/// Bytes of an entry beside its texts: the names of its fields, and numbers.
const ENTRY_BYTES: usize = 80;

/// Finds all matches of a regular expression, with their groups and places.
///
/// - The syntax is that of Rust's `regex`: no look-around, no back-references, always linear time. `(?m)` at the start lets `^` and `$` match at each line, `(?s)` lets `.` match line breaks, `(?i)` ignores case.
/// - Places count characters from 0; `end` is behind the last one. Lines count from 1.
/// - `groups` holds what `(…)` and `(?<name>…)` matched, without the groups that had no part in the match.
/// - `total` counts all matches; if there are more than are given, `next_offset` is the `offset` of the next call.
#[tool(
    read_only,
    tags("text", "regexp", "pattern", "extract", "search", "grep"),
    examples(
        {"text": "Ada: 36\nBob: 41", "pattern": r"(?m)^(?<name>\w+): (\d+)$", "limit": 1} => {
            "matches": [{
                "text": "Ada: 36", "start": 0, "end": 7, "line": 1,
                "groups": [
                    {"number": 1, "name": "name", "text": "Ada", "start": 0, "end": 3},
                    {"number": 2, "text": "36", "start": 5, "end": 7}
                ]
            }],
            "total": 2, "next_offset": 1
        },
        "without groups": {"text": "no digits", "pattern": r"\d+"} => {"matches": [], "total": 0},
    )
)]
pub fn regex_find(
    /// The text to search
    text: String,
    /// The regular expression
    pattern: String,
    /// Whether `a` finds `A` too
    #[default]
    ignore_case: bool,
    /// How many matches to pass over
    #[default]
    offset: u32,
    /// How many matches to give at most
    #[default(100)]
    #[schemars(range(min = 1))]
    limit: u32,
) -> Result<Matches, Error> {
    let pattern = pattern::compile(&pattern, ignore_case)?;
    let mut page = Page::new(offset, limit);
    if pattern.captures_len() == 1 {
        find(&pattern, &text, &mut page);
    } else {
        find_groups(&pattern, &text, &mut page);
    }
    Ok(Matches { next_offset: page.next("match")?, total: page.total, matches: page.entries })
}

/// The matches of a pattern.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Matches {
    pub matches: Vec<Match>,
    /// How many matches there are
    pub total: usize,
    /// Match at which the next call goes on, if there are more
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}

/// One match of the whole pattern.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Match {
    /// The matched text
    pub text: String,
    /// The place of its first character, from 0
    pub start: usize,
    /// The place behind its last character
    pub end: usize,
    /// The line that it begins in, from 1
    pub line: usize,
    /// Matches of its groups
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub groups: Vec<Group>,
}

/// The match of a group.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Group {
    /// Its place among the groups of the pattern, from 1
    pub number: usize,
    /// Its name, if the pattern gives it one
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub text: String,
    pub start: usize,
    pub end: usize,
}

/// Without groups to tell apart, the search is several times as fast.
fn find(pattern: &Regex, text: &str, page: &mut Page<Match>) {
    let mut cursor = Cursor::new(text);
    for hit in pattern.find_iter(text) {
        if page.is_open() {
            let found = read_match(hit, Vec::new(), &mut cursor);
            page.add(found, ENTRY_BYTES + in_json(hit.as_str()));
        } else {
            page.pass();
        }
    }
}

fn find_groups(pattern: &Regex, text: &str, page: &mut Page<Match>) {
    let mut cursor = Cursor::new(text);
    for captures in pattern.captures_iter(text) {
        let Some(hit) = captures.get(0).filter(|_| page.is_open()) else {
            page.pass();
            continue;
        };
        let bytes = size_of_groups(pattern, &captures);
        // Nested groups may say the same text many times: what does not fit is not made at all.
        let groups =
            if bytes <= MAX_GROUPS_BYTES { read_groups(pattern, &captures, &mut cursor) } else { Vec::new() };
        page.add(read_match(hit, groups, &mut cursor), ENTRY_BYTES + in_json(hit.as_str()) + bytes);
    }
}

/// More than any page takes.
const MAX_GROUPS_BYTES: usize = 1024 * 1024;

fn size_of_groups(pattern: &Regex, captures: &Captures<'_>) -> usize {
    let names = pattern.capture_names().flatten().map(str::len).sum::<usize>();
    let texts = captures.iter().skip(1).flatten().map(|group| ENTRY_BYTES + in_json(group.as_str()));
    names + texts.sum::<usize>()
}

fn read_match(hit: regex::Match<'_>, groups: Vec<Group>, cursor: &mut Cursor<'_>) -> Match {
    Match {
        text: hit.as_str().to_owned(),
        start: cursor.character_at(hit.start()),
        line: cursor.line_at(hit.start()),
        end: cursor.character_at(hit.end()),
        groups,
    }
}

fn read_groups(pattern: &Regex, captures: &Captures<'_>, cursor: &mut Cursor<'_>) -> Vec<Group> {
    let Some(hit) = captures.get(0) else { return Vec::new() };
    let start = cursor.character_at(hit.start());
    let names = pattern.capture_names().enumerate().skip(1);
    names
        .filter_map(|(number, name)| {
            let group = captures.get(number)?;
            // A group lies within its match, whose place is known.
            let before = group.start().checked_sub(hit.start())?;
            let start = start + hit.as_str().get(..before)?.chars().count();
            let end = start + group.as_str().chars().count();
            Some(Group { number, name: name.map(str::to_owned), text: group.as_str().to_owned(), start, end })
        })
        .collect()
}
