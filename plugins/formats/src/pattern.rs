//! Regular expressions, and the places in a text where they match.
//!
//! The expressions run in linear time, so no pattern can hang a call. Places are counted in characters, which is how a
//! reader and most languages count, and not in the bytes that Rust counts.

use regex::{Regex, RegexBuilder};
use toolgate_sdk::Error;

use crate::lone_braces::escape_lone_braces;

/// A compiled pattern larger than this is a mistake, or an attack.
const MAX_PATTERN_BYTES: usize = 1024 * 1024;

/// Compiles a pattern that a model wrote.
pub fn compile(pattern: &str, ignore_case: bool) -> Result<Regex, Error> {
    let build = |pattern: &str| {
        RegexBuilder::new(pattern).case_insensitive(ignore_case).size_limit(MAX_PATTERN_BYTES).build()
    };
    build(pattern).or_else(|error| {
        let relaxed = escape_lone_braces(pattern).and_then(|pattern| build(&pattern).ok());
        relaxed.ok_or_else(|| Error::invalid(explain(&error)))
    })
}

/// Compiles a pattern that matches a text as it is.
pub fn compile_literal(text: &str, ignore_case: bool) -> Result<Regex, Error> {
    if text.is_empty() {
        return Err(Error::invalid("`find` is empty: give the text to look for"));
    }
    let compiled = RegexBuilder::new(&regex::escape(text))
        .case_insensitive(ignore_case)
        .size_limit(MAX_PATTERN_BYTES)
        .build();
    compiled.map_err(|_| {
        Error::invalid(
            "`find` is too long to be looked for without regard to case: set `ignore_case` to false",
        )
    })
}

/// Says what is wrong with a pattern, and what to do.
fn explain(error: &regex::Error) -> String {
    // The message draws the pattern on lines of its own; the last one says what is wrong with it.
    let message = error.to_string();
    let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
    let way_out = if reason.contains("look-around") || reason.contains("backreferences") {
        "match more than is needed, and put a group around the part"
    } else if reason.contains("size limit") {
        "use smaller repetitions"
    } else {
        "put `\\` before a sign that is meant as it is"
    };
    format!("`pattern` is no regular expression: {reason}; {way_out}")
}

/// Counts characters and lines up to places that only go forward, so that all of them together cost one pass.
pub struct Cursor<'t> {
    text: &'t str,
    byte: usize,
    character: usize,
    line: usize,
}

impl<'t> Cursor<'t> {
    pub fn new(text: &'t str) -> Self {
        Self { text, byte: 0, character: 0, line: 1 }
    }

    /// The place of a byte as characters from the start of the text.
    pub fn character_at(&mut self, byte: usize) -> usize {
        self.go_to(byte);
        self.character
    }

    /// The number of the line that a byte is in.
    pub fn line_at(&mut self, byte: usize) -> usize {
        self.go_to(byte);
        self.line
    }

    fn go_to(&mut self, byte: usize) {
        if let Some(passed) = self.text.get(self.byte..byte) {
            self.character += passed.chars().count();
            self.line += passed.bytes().filter(|byte| *byte == b'\n').count();
            self.byte = byte;
        }
    }
}
