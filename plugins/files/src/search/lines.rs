//! The lines of a file that a pattern finds.

use memchr::{memchr, memchr_iter, memrchr};
use regex_automata::Input;
use regex_automata::meta::{Cache, Regex};

use super::Match;
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

impl<'p> Search<'p> {
    fn with(regex: &'p Regex) -> Self {
        Self { regex, cache: regex.create_cache() }
    }

    /// The end of the first match in a part. That is cheaper to find than its beginning, and is in the same line.
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

    /// Gives each line after `after_line` that the pattern finds to `take`, as long as that gives true.
    ///
    /// Pays for what is searched. Where nothing is left to pay with, gives how many lines are searched.
    pub fn search(
        &mut self,
        bytes: &[u8],
        after_line: u64,
        left_bytes: &mut usize,
        take: &mut dyn FnMut(Match) -> bool,
    ) -> Option<u64> {
        let mut reached = Reached::after(bytes, after_line);
        let (mut at, mut part) = (reached.counted_to, &bytes[..0]);
        while at < bytes.len() {
            if at >= part.len() {
                part = &bytes[..end_of_part(bytes, at)];
                if !spend(left_bytes, part.len() - at) {
                    return Some(reached.count_to(bytes, at));
                }
            }
            let found = self.fast.end_of_match(part, at);
            // An empty match may be behind the last line.
            let Some(mut matched_to) = found.filter(|end| *end < part.len() || !part.ends_with(b"\n")) else {
                at = part.len();
                continue;
            };
            let start = memrchr(b'\n', &part[..matched_to]).map_or(0, |before| before + 1);
            let end = memchr(b'\n', &part[matched_to..]).map_or(part.len(), |length| matched_to + length);
            at = end + 1;
            if let Some(exact) = &mut self.exact {
                let line = &part[start..end];
                if !spend(left_bytes, cost_of_exact(line)) {
                    return Some(reached.count_to(bytes, start));
                }
                let Some(end) = exact.end_of_match(line, 0) else { continue };
                matched_to = start + end;
            }
            let found = Match {
                line: Some(reached.count_to(bytes, start) + 1),
                text: Some(around(&part[start..end], matched_to - start)),
                before: self.lines_before(&bytes[..start]),
                after: self.lines_after(bytes.get(end + 1..).unwrap_or_default()),
                ..Match::default()
            };
            if !take(found) {
                return None;
            }
        }
        None
    }

    fn lines_before(&self, bytes: &[u8]) -> Vec<String> {
        let Some(bytes) = bytes.strip_suffix(b"\n") else { return Vec::new() };
        let lines = bytes.rsplit(|byte| *byte == b'\n').take(self.lines_before);
        let mut lines: Vec<String> = lines.map(|line| around(line, 0)).collect();
        lines.reverse();
        lines
    }

    fn lines_after(&self, bytes: &[u8]) -> Vec<String> {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').take(self.lines_after);
        lines.map(|line| around(line.strip_suffix(b"\n").unwrap_or(line), 0)).collect()
    }
}

/// Pays, perhaps with more than is left. Gives false when nothing is.
fn spend(left_bytes: &mut usize, bytes: usize) -> bool {
    let is_left = *left_bytes > 0;
    *left_bytes = left_bytes.saturating_sub(bytes);
    is_left
}

fn cost_of_exact(line: &[u8]) -> usize {
    (line.len() + LINE_COST_BYTES) * EXACT_FACTORS[usize::from(!line.is_ascii())]
}

/// How far lines are counted. They are only where their number is asked for.
struct Reached {
    /// How many lines end before `counted_to`.
    lines: u64,
    counted_to: usize,
}

impl Reached {
    /// Behind so many lines.
    fn after(bytes: &[u8], lines: u64) -> Self {
        let Some(last) = lines.checked_sub(1) else { return Self { lines: 0, counted_to: 0 } };
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        let counted_to = memchr_iter(b'\n', bytes).nth(last).map_or(bytes.len(), |end| end + 1);
        Self { lines, counted_to }
    }

    fn count_to(&mut self, bytes: &[u8], offset: usize) -> u64 {
        self.lines += memchr_iter(b'\n', &bytes[self.counted_to..offset]).count() as u64;
        self.counted_to = offset;
        self.lines
    }
}

/// The end of the part of a file that is searched at once: of its last line.
fn end_of_part(bytes: &[u8], from: usize) -> usize {
    match bytes.get(from + PART_BYTES..) {
        Some(rest) => memchr(b'\n', rest).map_or(bytes.len(), |length| from + PART_BYTES + length + 1),
        None => bytes.len(),
    }
}

/// A line without a carriage return at its end, or the part of it around a place.
fn around(line: &[u8], place: usize) -> String {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= MAX_LINE_CHARACTERS {
        return String::from_utf8_lossy(line).into_owned();
    }
    // A line can be as long as its file; only what is near the place is made a text.
    let place = place.min(line.len());
    let from = place.saturating_sub(MAX_LINE_BYTES / 2);
    let to = line.len().min(from + MAX_LINE_BYTES);
    let before = String::from_utf8_lossy(&line[from..place]);
    let after = String::from_utf8_lossy(&line[place..to]);
    // Enough of the part before that two thirds of the shown text are the match and what precedes it.
    let wanted = MAX_LINE_CHARACTERS * 2 / 3;
    let start = before.char_indices().rev().take(wanted).last().map_or(before.len(), |(at, _)| at);
    let before = &before[start..];
    let left = MAX_LINE_CHARACTERS - before.chars().count();
    let end = after.char_indices().nth(left).map_or(after.len(), |(at, _)| at);
    let head = if from > 0 || start > 0 { "…" } else { "" };
    let tail = if end < after.len() || to < line.len() { "…" } else { "" };
    format!("{head}{before}{}{tail}", &after[..end])
}
