//! `count`: how long a text is, in every unit.

use formats::pattern;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::split;

/// Counts the characters, words, lines and bytes of a text, and how often another text occurs in it.
///
/// Words are what white space separates, so Chinese and Japanese count as few. Occurrences do not overlap: `aa` occurs
/// once in `aaa`.
#[tool(
    read_only,
    tags("text", "length", "wc", "statistics"),
    examples(
        {"text": "To be, or\nnot to be", "find": "to be", "ignore_case": true} => {"characters": 19, "words": 6, "lines": 2, "bytes": 19, "occurrences": 2},
        {"text": "naïve 😀"} => {"characters": 7, "words": 2, "lines": 1, "bytes": 11},
    )
)]
pub fn count(
    /// The text
    text: String,
    /// A text whose occurrences to count, literally
    find: Option<String>,
    /// Whether `a` finds `A` too
    #[default]
    ignore_case: bool,
) -> Result<Counts, Error> {
    let occurrences = find
        .map(|find| pattern::compile_literal(&find, ignore_case).map(|find| find.find_iter(&text).count()))
        .transpose()?;
    Ok(Counts {
        characters: text.chars().count(),
        words: text.split_whitespace().count(),
        lines: split::lines(&text).count(),
        bytes: text.len(),
        occurrences,
    })
}

/// How long a text is.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Counts {
    /// Unicode code points; some signs, as flags, are several
    pub characters: usize,
    /// What white space separates
    pub words: usize,
    /// The lines that `split` gives; the last one counts even if no line break ends it
    pub lines: usize,
    /// In UTF-8
    pub bytes: usize,
    /// How often `find` occurs, if it was given
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrences: Option<usize>,
}
