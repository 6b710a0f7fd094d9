//! Finds where each hunk of a patch belongs in a text, and makes the new text.
//!
//! The ends of lines go by the rule of `text`: a diff without carriage returns takes those of a file whose lines all have
//! them, and everywhere else an end must be the same and is given as it is. The byte order mark before a text stays, unless
//! the diff has it too.

use toolgate_sdk::Error;

use super::unified::{Hunk, Line, without_return};
use crate::likeness::nearest_line;
use crate::room::shorten;
use crate::text::{BYTE_ORDER_MARK, end_in_crlf};

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 160;

/// How many lines are compared for one file at most. Only texts that repeat themselves without end need more.
const MAX_COMPARISONS: usize = 10_000_000;

/// A text after a patch.
#[derive(Debug)]
pub struct Applied {
    pub text: String,
    pub added: u64,
    pub removed: u64,
}

/// Applies the hunks of a patch to the text of a file.
pub fn apply(text: &str, hunks: &[Hunk<'_>], name: &str) -> Result<Applied, Error> {
    let mut lines = hunks.iter().flat_map(|hunk| &hunk.lines);
    if lines.any(|line| line.text().starts_with(BYTE_ORDER_MARK)) {
        return apply_to(text, hunks, name);
    }
    let marked = text.strip_prefix(BYTE_ORDER_MARK);
    let mut applied = apply_to(marked.unwrap_or(text), hunks, name)?;
    if marked.is_some() && !applied.text.is_empty() {
        applied.text.insert_str(0, BYTE_ORDER_MARK);
    }
    Ok(applied)
}

fn apply_to(text: &str, hunks: &[Hunk<'_>], name: &str) -> Result<Applied, Error> {
    let lines_of_diff = || hunks.iter().flat_map(|hunk| &hunk.lines);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let is_crlf = end_in_crlf(lines.iter().copied());
    let means_crlf = is_crlf && !lines_of_diff().any(|line| line.text().ends_with('\r'));
    let mut fitting = Fitting {
        source: text,
        lines,
        newline: if means_crlf { "\r\n" } else { "\n" },
        missing_end: if is_crlf { "\r\n" } else { "\n" },
        taken: 0,
        taken_bytes: 0,
        shift: 0,
        comparisons_left: MAX_COMPARISONS,
        applied: Applied { text: String::with_capacity(text.len()), added: 0, removed: 0 },
    };
    for (index, hunk) in hunks.iter().enumerate() {
        fitting.apply(hunk).map_err(|reason| {
            Error::new(format!(
                "hunk {} for `{name}` (line {} of the diff) does not fit: {reason}. Nothing was changed",
                index + 1,
                hunk.at
            ))
        })?;
    }
    Ok(fitting.finish())
}

struct Fitting<'t> {
    source: &'t str,
    /// With their ends.
    lines: Vec<&'t str>,
    /// What ends a line of the file beyond what the diff says of it, and a line that is added.
    newline: &'static str,
    /// What a last line without an end gets, where another follows.
    missing_end: &'static str,
    /// How many lines of the text are in the new text already, or dropped.
    taken: usize,
    taken_bytes: usize,
    /// How much further down than it says the last hunk was found.
    shift: isize,
    comparisons_left: usize,
    applied: Applied,
}

impl<'t> Fitting<'t> {
    fn apply(&mut self, hunk: &Hunk<'_>) -> Result<(), String> {
        let place = self.find(hunk)?;
        self.copy_to(place);
        for (index, line) in hunk.lines.iter().enumerate() {
            match line {
                Line::Context(_) => self.copy_to(self.taken + 1),
                Line::Delete(_) => {
                    self.pass_to(self.taken + 1);
                    self.applied.removed += 1;
                }
                Line::Insert(text) => {
                    let is_last = index + 1 == hunk.lines.len();
                    let newline = if is_last && hunk.ends_without_newline { "" } else { self.newline };
                    self.end_line();
                    self.applied.text.push_str(text);
                    self.applied.text.push_str(newline);
                    self.applied.added += 1;
                }
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Applied {
        self.copy_to(self.lines.len());
        self.applied
    }

    /// Takes over the lines up to one.
    fn copy_to(&mut self, end: usize) {
        if end > self.taken {
            self.end_line();
            let from = self.taken_bytes;
            self.pass_to(end);
            self.applied.text.push_str(&self.source[from..self.taken_bytes]);
        }
    }

    /// Leaves the lines up to one behind.
    fn pass_to(&mut self, end: usize) {
        self.taken_bytes += self.lines[self.taken..end].iter().map(|line| line.len()).sum::<usize>();
        self.taken = end;
    }

    /// A last line may have no end, and gets one where another follows.
    fn end_line(&mut self) {
        let text = &mut self.applied.text;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push_str(self.missing_end);
        }
    }

    /// The line at which the hunk belongs, counted from 0.
    fn find(&mut self, hunk: &Hunk<'_>) -> Result<usize, String> {
        let old: Vec<&str> = hunk.lines.iter().filter_map(old_line).collect();
        let stated = hunk.old_start.map(|start| {
            // Of nothing the place is after the line, of something it is the line.
            let start = if old.is_empty() { start } else { start.saturating_sub(1) };
            start.saturating_add_signed(self.shift).min(self.lines.len())
        });
        if old.is_empty() {
            return match stated {
                _ if self.lines.is_empty() => Ok(0),
                Some(stated) if stated >= self.taken => Ok(stated),
                _ => Err("it only adds lines, and does not say where: begin it with the line before them"
                    .to_owned()),
            };
        }
        let found = match stated {
            Some(stated) if stated >= self.taken && self.matches(stated, &old) => stated,
            _ => self.find_only(&old)?,
        };
        if let Some(start) = hunk.old_start {
            self.shift = signed(found) - signed(start.saturating_sub(1));
        }
        Ok(found)
    }

    /// The one place where these lines are.
    fn find_only(&mut self, old: &[&str]) -> Result<usize, String> {
        let last = self.lines.len().saturating_sub(old.len());
        let places: Vec<usize> =
            (self.taken..=last).filter(|place| self.matches(*place, old)).take(2).collect();
        if self.comparisons_left == 0 {
            return Err(
                "the file repeats the same lines too often: write the number of its first line".to_owned()
            );
        }
        match places[..] {
            [place] => Ok(place),
            [first, second] => Err(format!(
                "its lines are in the file more than once, first at {} and {}: add lines of context, or the right number in `@@`",
                first + 1,
                second + 1
            )),
            _ => Err(self.why_nowhere(old)),
        }
    }

    fn matches(&mut self, place: usize, old: &[&str]) -> bool {
        self.matching_lines(place, old) == old.len()
    }

    /// How many of the lines are at a place, up to the first that is not.
    fn matching_lines(&mut self, place: usize, old: &[&str]) -> usize {
        let here = self.lines[place.min(self.lines.len())..].iter();
        let count = here.zip(old).take_while(|(line, old)| self.without_end(line) == **old).count();
        self.comparisons_left = self.comparisons_left.saturating_sub(count + 1);
        // Once there is no time left nothing is found any more.
        if self.comparisons_left == 0 { 0 } else { count }
    }

    fn why_nowhere(&mut self, old: &[&str]) -> String {
        let best = (0..self.lines.len()).map(|place| (self.matching_lines(place, old), place)).max_by_key(
            // Of those that are equally near the first.
            |(count, place)| (*count, std::cmp::Reverse(*place)),
        );
        match best {
            Some((count, place))
                if count == old.len() && place < self.taken && place + count > self.taken =>
            {
                format!(
                    "its lines begin at {}, within those of the hunk before it, which end at {}: leave those up to there out, or \
                     make one hunk of both",
                    place + 1,
                    self.taken
                )
            }
            Some((count, place)) if count == old.len() && place < self.taken => format!(
                "its lines are in the file only before those of the hunk before it, at {}: put the hunks in order",
                place + 1
            ),
            // An empty line says nothing of the place.
            Some((count, place)) if old[..count].iter().any(|line| !line.trim().is_empty()) => {
                let wanted = old[count.min(old.len() - 1)];
                if let Some(why) = self.differs_in_its_end(place + count, wanted) {
                    return why;
                }
                let wanted = shown(wanted);
                match self.lines.get(place + count) {
                    Some(line) => format!(
                        "line {} of the file is `{}`, and the diff has `{wanted}`",
                        place + count + 1,
                        shown(line)
                    ),
                    None => format!(
                        "the file ends at line {}, and the diff goes on with `{wanted}`",
                        self.lines.len()
                    ),
                }
            }
            _ => self.nearest_to(old),
        }
    }

    fn nearest_to(&self, old: &[&str]) -> String {
        let wanted = old.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
        let nearest = nearest_line(self.source, wanted);
        let differs = nearest.and_then(|(number, _)| self.differs_in_its_end(number - 1, wanted));
        let wanted = shown(wanted);
        match nearest {
            _ if differs.is_some() => differs.unwrap_or_default(),
            Some((number, line)) => {
                format!("no line of the file is `{wanted}`; the nearest is {number}: `{}`", shown(line))
            }
            None => format!("no line of the file is `{wanted}`, or like it: read the file again"),
        }
    }

    /// Says so where a line of the file is the one that is wanted, and only ends otherwise.
    fn differs_in_its_end(&self, index: usize, wanted: &str) -> Option<String> {
        let line = self.without_end(self.lines.get(index)?);
        let end = |line: &str| if line.ends_with('\r') { "`\\r\\n`" } else { "`\\n`" };
        let is_it = line != wanted && without_return(line) == without_return(wanted);
        is_it.then(|| {
            format!(
                "line {} of the file ends in {}, and in the diff it ends in {}: end each line of the diff as the file does",
                index + 1,
                end(line),
                end(wanted)
            )
        })
    }

    /// A line of the file as the diff has it.
    fn without_end<'l>(&self, line: &'l str) -> &'l str {
        line.strip_suffix(self.newline).unwrap_or(line)
    }
}

fn old_line<'d>(line: &Line<'d>) -> Option<&'d str> {
    match line {
        Line::Context(text) | Line::Delete(text) => Some(text),
        Line::Insert(_) => None,
    }
}

/// A line for a message, on one line of it.
fn shown(line: &str) -> String {
    shorten(line.trim_end_matches(['\n', '\r']), MAX_LINE_CHARACTERS)
}

fn signed(number: usize) -> isize {
    isize::try_from(number).unwrap_or(isize::MAX)
}
