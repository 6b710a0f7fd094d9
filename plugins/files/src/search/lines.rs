//! The lines of a file that a pattern finds.

use memchr::{memchr, memchr_iter, memrchr};
use regex_automata::Input;
use regex_automata::meta::{Cache, Regex};

use super::pattern::Pattern;

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 300;

/// A line longer than this is shown by a part of it that need not be the one around the match.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// A file is paid for in parts of this size.
const PART_BYTES: usize = 256 * 1024;

/// What looking at a line once more costs, beside what its bytes do.
const LINE_COST_BYTES: usize = 64;

/// How much dearer the exact look at a line is: in ASCII, and in other text.
const EXACT_FACTORS: [usize; 2] = [2, 60];

/// Finds lines.
pub struct Lines<'p> {
    fast: Search<'p>,
    exact: Option<Search<'p>>,
    lines_before: usize,
    lines_after: usize,
}

struct Search<'p> {
    regex: &'p Regex,
    cache: Cache,
}

/// What is called while a file is searched.
pub struct Callbacks<'c> {
    /// Pays for so many bytes. Gives false when nothing is left.
    pub spend: &'c mut dyn FnMut(usize) -> bool,
    /// Takes a line that was found. Gives false to end the search.
    pub take: &'c mut dyn FnMut(Found<'_>) -> bool,
}

/// How the search of a file, or of a part of it, ended.
#[derive(Debug, PartialEq)]
pub enum Ended {
    AtEnd,
    /// The one who takes the lines wants no more.
    Taken,
    /// Nothing is left to pay with. So many lines are searched.
    Spent(u64),
}

/// A line that was found, in its file.
pub struct Found<'b> {
    /// Counted from 1.
    pub number: u64,
    bytes: &'b [u8],
    start: usize,
    end: usize,
    /// Where in the line the match ends.
    matched_to: usize,
    lines_before: usize,
    lines_after: usize,
}

impl<'p> Search<'p> {
    fn with(regex: &'p Regex) -> Self {
        Self { regex, cache: regex.create_cache() }
    }

    /// Where the first match in a part ends. That is cheaper to find than where it begins, and is in the same line.
    fn end_of_match(&mut self, bytes: &[u8], from: usize) -> Option<usize> {
        let input = Input::new(bytes).range(from..);
        Some(self.regex.search_half_with(&mut self.cache, &input)?.offset())
    }
}

impl<'p> Lines<'p> {
    pub fn of(pattern: &'p Pattern, lines_before: usize, lines_after: usize) -> Self {
        let exact = pattern.exact.as_ref().map(Search::with);
        Self { fast: Search::with(&pattern.regex), exact, lines_before, lines_after }
    }

    /// Gives each line after `after_line` that the pattern finds.
    pub fn search(&mut self, bytes: &[u8], after_line: u64, callbacks: &mut Callbacks<'_>) -> Ended {
        let mut reached = Reached { offset: 0, lines: 0, counted_to: 0 };
        if after_line > 0 {
            reached.pass_lines(bytes, after_line);
        }
        while reached.offset < bytes.len() {
            let end = end_of_part(bytes, reached.offset);
            if !(callbacks.spend)(end - reached.offset) {
                return Ended::Spent(reached.count_to(bytes, reached.offset));
            }
            match self.search_part(bytes, end, &mut reached, callbacks) {
                Ended::AtEnd => reached.offset = end,
                ended => return ended,
            }
        }
        Ended::AtEnd
    }

    /// Searches up to `end`, where a line ends too.
    fn search_part(
        &mut self,
        bytes: &[u8],
        end: usize,
        reached: &mut Reached,
        callbacks: &mut Callbacks<'_>,
    ) -> Ended {
        let part = &bytes[..end];
        let mut at = reached.offset;
        while at < end {
            let Some(mut matched_to) = self.fast.end_of_match(part, at) else { break };
            let start = memrchr(b'\n', &part[..matched_to]).map_or(0, |before| before + 1);
            if start == end {
                break;
            }
            let line_end = memchr(b'\n', &part[matched_to..]).map_or(end, |length| matched_to + length);
            at = line_end + 1;
            if let Some(exact) = &mut self.exact {
                let line = &part[start..line_end];
                if !(callbacks.spend)(cost_of_exact(line)) {
                    return Ended::Spent(reached.count_to(bytes, start));
                }
                match exact.end_of_match(line, 0) {
                    Some(end) => matched_to = start + end,
                    None => continue,
                }
            }
            let found = Found {
                number: reached.count_to(bytes, start) + 1,
                bytes,
                start,
                end: line_end,
                matched_to,
                lines_before: self.lines_before,
                lines_after: self.lines_after,
            };
            if !(callbacks.take)(found) {
                return Ended::Taken;
            }
        }
        Ended::AtEnd
    }
}

fn cost_of_exact(line: &[u8]) -> usize {
    (line.len() + LINE_COST_BYTES) * EXACT_FACTORS[usize::from(!line.is_ascii())]
}

/// How far a search came. Lines are counted only where somebody asks for their number.
struct Reached {
    offset: usize,
    /// How many lines end before `counted_to`.
    lines: u64,
    counted_to: usize,
}

impl Reached {
    fn count_to(&mut self, bytes: &[u8], offset: usize) -> u64 {
        self.lines += memchr_iter(b'\n', &bytes[self.counted_to..offset]).count() as u64;
        self.counted_to = offset;
        self.lines
    }

    fn pass_lines(&mut self, bytes: &[u8], lines: u64) {
        let last = usize::try_from(lines - 1).unwrap_or(usize::MAX);
        self.offset = memchr_iter(b'\n', bytes).nth(last).map_or(bytes.len(), |end| end + 1);
        self.counted_to = self.offset;
        self.lines = lines;
    }
}

/// The end of the part of a file that is searched at once: of its last line.
fn end_of_part(bytes: &[u8], from: usize) -> usize {
    match bytes.get(from + PART_BYTES..) {
        Some(rest) => memchr(b'\n', rest).map_or(bytes.len(), |length| from + PART_BYTES + length + 1),
        None => bytes.len(),
    }
}

impl Found<'_> {
    /// The line, or so much of it before and after the match that a reader knows it.
    pub fn text(&self) -> String {
        let line = without_return(&self.bytes[self.start..self.end]);
        let matched_to = (self.matched_to - self.start).min(line.len());
        around(line, matched_to)
    }

    pub fn before(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut end = self.start;
        while end > 0 && lines.len() < self.lines_before {
            let start = memrchr(b'\n', &self.bytes[..end - 1]).map_or(0, |before| before + 1);
            lines.push(around(without_return(&self.bytes[start..end - 1]), 0));
            end = start;
        }
        lines.reverse();
        lines
    }

    pub fn after(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut start = self.end + 1;
        while start < self.bytes.len() && lines.len() < self.lines_after {
            let rest = &self.bytes[start..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            lines.push(around(without_return(&rest[..length]), 0));
            start += length + 1;
        }
        lines
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The line, or the part of it around a place.
fn around(line: &[u8], place: usize) -> String {
    if line.len() <= MAX_LINE_CHARACTERS {
        return String::from_utf8_lossy(line).into_owned();
    }
    // A line can be as long as its file; only what is near the place is made a text.
    let from = place.saturating_sub(MAX_LINE_BYTES / 2);
    let to = line.len().min(from + MAX_LINE_BYTES);
    let before = String::from_utf8_lossy(&line[from..place]);
    let after = String::from_utf8_lossy(&line[place..to]);
    // Of the part before, so much that two thirds of what is shown are the match and what precedes it.
    let wanted = MAX_LINE_CHARACTERS * 2 / 3;
    let start = before.char_indices().rev().take(wanted).last().map_or(before.len(), |(at, _)| at);
    let before = &before[start..];
    let left = MAX_LINE_CHARACTERS - before.chars().count();
    let end = after.char_indices().nth(left).map_or(after.len(), |(at, _)| at);
    let head = if from > 0 || start > 0 { "…" } else { "" };
    let tail = if end < after.len() || to < line.len() { "…" } else { "" };
    format!("{head}{before}{}{tail}", &after[..end])
}
