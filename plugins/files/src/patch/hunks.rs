//! A patch as its two forms have it in common: files, hunks and lines.
//!
//! Strict about lines: one that cannot be read is an error, since a patch that lost a line without a word would change
//! something else than was meant.

use toolgate_sdk::Error;

use super::{envelope, unified};
use crate::output_budget::shorten;

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 100;

/// The change of one file by a patch. No path means that there is no file, before or after.
#[derive(Debug, Default)]
pub struct FilePatch<'d> {
    pub old: Option<String>,
    pub new: Option<String>,
    pub hunks: Vec<Hunk<'d>>,
    /// Whether it needs no hunks: it is made empty, moved or deleted.
    pub has_no_lines: bool,
    /// Whether it is deleted with all lines that it has.
    pub is_deleted_whole: bool,
}

/// Lines that belong together.
#[derive(Debug, Default)]
pub struct Hunk<'d> {
    /// The line of the patch where it begins, counted from 1.
    pub at: usize,
    /// The line of the file where it says to begin, counted from 1.
    pub old_start: Option<usize>,
    /// Lines of the file, one after another, behind which it is.
    pub anchors: Vec<&'d str>,
    /// Whether its lines are the last of the file.
    pub is_at_end: bool,
    pub lines: Vec<Line<'d>>,
    /// Whether its last new line ends without a line feed.
    pub ends_without_newline: bool,
}

/// A line of a hunk, without its line feed. A carriage return before that is part of it.
#[derive(Clone, Copy, Debug)]
pub struct Line<'d> {
    /// A space, `+` or `-`.
    pub sign: u8,
    pub text: &'d str,
}

/// Reads a patch in either form. `path` stands for the names in it.
pub fn parse<'d>(patch: &'d str, path: Option<&str>) -> Result<Vec<FilePatch<'d>>, Error> {
    let mut lines: Vec<&str> = patch.split('\n').collect();
    // Headings that end in a carriage return too show how the patch was written, and say nothing of the files.
    if lines.split_last().is_some_and(|(_, lines)| lines.iter().all(|line| line.ends_with('\r'))) {
        lines.iter_mut().for_each(|line| *line = without_return(line));
    }
    let begin = lines.iter().position(|line| line.trim_end() == envelope::BEGIN);
    let lines = Lines { lines, at: begin.map_or(0, |at| at + 1) };
    if begin.is_some() { envelope::parse(lines, path) } else { unified::parse(lines, path) }
}

/// The lines of a patch, while they are read.
pub struct Lines<'d> {
    lines: Vec<&'d str>,
    pub at: usize,
}

impl<'d> Lines<'d> {
    pub fn get(&self, at: usize) -> Option<&'d str> {
        self.lines.get(at).copied()
    }

    /// Takes the lines that belong to a hunk.
    pub fn take_hunk(&mut self, hunk: &mut Hunk<'d>) -> Result<(), Error> {
        while let Some(line) = self.line_of_hunk(self.at) {
            hunk.lines.push(line);
            self.at += 1;
            if self.get(self.at).is_some_and(|line| line.starts_with('\\')) {
                hunk.ends_without_newline = line.sign != b'-';
                self.at += 1;
            }
        }
        // Editors drop the one space of an empty line. At the end of a hunk it may as well stand between two, and is not
        // needed unless the hunk has nothing else to be found by.
        let is_last = self.get(self.at).is_none_or(|line| !line.starts_with("@@"));
        while without_return(self.lines[self.at - 1]).is_empty()
            && (is_last || hunk.lines_without(b'+').count() > 1)
        {
            hunk.lines.pop();
            self.at -= 1;
        }
        if hunk.lines.iter().any(|line| line.sign != b' ') {
            return Ok(());
        }
        let is_line = self.get(self.at).is_some_and(|line| !line.is_empty() && !line.starts_with('@'));
        let next = self.line_of_hunk(self.at + 1).filter(|next| !next.text.is_empty());
        if is_line && !self.is_heading(self.at) && next.is_some() {
            return Err(self.without_sign());
        }
        Err(wrong_at(hunk.at - 1, "the hunk changes nothing: it has no line with `+` or `-`"))
    }

    /// The line of a hunk that is here, if it is one.
    pub fn line_of_hunk(&self, at: usize) -> Option<Line<'d>> {
        let line = self.get(at)?;
        if self.is_heading(at) || self.is_signature(at) {
            return None;
        }
        match line.as_bytes().first() {
            Some(sign @ (b' ' | b'+' | b'-')) => Some(Line { sign: *sign, text: &line[1..] }),
            _ if without_return(line).is_empty() => Some(Line { sign: b' ', text: line }),
            _ => None,
        }
    }

    /// Whether a file of a unified diff begins here: two lines, since either alone may be a line of a hunk.
    pub fn is_heading(&self, at: usize) -> bool {
        let begins = |at, sign| self.get(at).is_some_and(|line| line.starts_with(sign));
        begins(at, "--- ") && begins(at + 1, "+++ ")
    }

    /// Whether git ends a patch here: with `-- ` and its version.
    fn is_signature(&self, at: usize) -> bool {
        let version = self.get(at + 1).map_or("", str::trim_end);
        self.get(at).is_some_and(|line| without_return(line) == "-- ")
            && version.starts_with(|first: char| first.is_ascii_digit())
    }

    /// The refusal of a line within a hunk that does not say what becomes of it.
    pub fn without_sign(&self) -> Error {
        let line = self.get(self.at).map_or("", without_return);
        self.wrong(&format!(
            "`{}` begins with neither a space, nor `+`, nor `-`: put a space before a line that stays as it is",
            shorten(line, MAX_LINE_CHARACTERS)
        ))
    }

    pub fn wrong(&self, message: &str) -> Error {
        wrong_at(self.at, message)
    }
}

pub fn wrong_at(at: usize, message: &str) -> Error {
    Error::invalid(format!("line {} of the diff: {message}", at + 1))
}

/// A line without the carriage return that it may end in.
pub fn without_return(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

impl<'d> Hunk<'d> {
    /// The lines before the patch, or with `-` those after it.
    pub fn lines_without(&self, sign: u8) -> impl Iterator<Item = &'d str> {
        self.lines.iter().filter(move |line| line.sign != sign).map(|line| line.text)
    }
}
