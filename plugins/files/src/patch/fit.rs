//! Finds where each hunk of a patch belongs in a text, and makes the new text.

use toolgate_sdk::Error;

use super::unified::{Hunk, Line};
use crate::likeness::nearest_line;
use crate::room::shorten;

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
    let mut fitting = Fitting {
        source: text,
        lines: text.split_inclusive('\n').collect(),
        newline: if text.split_inclusive('\n').next().is_some_and(|line| line.ends_with("\r\n")) {
            "\r\n"
        } else {
            "\n"
        },
        taken: 0,
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
    /// What ends a line that is added.
    newline: &'static str,
    /// How many lines of the text are in the new text already, or dropped.
    taken: usize,
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
                    self.taken += 1;
                    self.applied.removed += 1;
                }
                Line::Insert(text) => {
                    let is_last = index + 1 == hunk.lines.len();
                    let newline = if is_last && hunk.ends_without_newline { "" } else { self.newline };
                    end_line(&mut self.applied.text, self.newline);
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
        for line in &self.lines[self.taken..end] {
            end_line(&mut self.applied.text, self.newline);
            self.applied.text.push_str(line);
        }
        self.taken = end;
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
        let count = here.zip(old).take_while(|(line, old)| without_end(line) == **old).count();
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
            Some((count, place)) if count == old.len() && place < self.taken => format!(
                "its lines are in the file only before those of the hunk before it, at {}: put the hunks in order",
                place + 1
            ),
            // An empty line says nothing of the place.
            Some((count, place)) if old[..count].iter().any(|line| !line.trim().is_empty()) => {
                let wanted = shorten(old[count.min(old.len() - 1)], MAX_LINE_CHARACTERS);
                match self.lines.get(place + count) {
                    Some(line) => format!(
                        "line {} of the file is `{}`, and the diff has `{wanted}`",
                        place + count + 1,
                        shorten(without_end(line), MAX_LINE_CHARACTERS)
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
        let shown = shorten(wanted, MAX_LINE_CHARACTERS);
        match nearest_line(self.source, wanted) {
            Some((number, line)) => format!(
                "no line of the file is `{shown}`; the nearest is {number}: `{}`",
                shorten(line, MAX_LINE_CHARACTERS)
            ),
            None => format!("no line of the file is `{shown}`, or like it: read the file again"),
        }
    }
}

/// A last line may have no end, and gets one where another follows.
fn end_line(text: &mut String, newline: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push_str(newline);
    }
}

fn old_line<'d>(line: &Line<'d>) -> Option<&'d str> {
    match line {
        Line::Context(text) | Line::Delete(text) => Some(text),
        Line::Insert(_) => None,
    }
}

/// A line without its end: the diff does not tell which kind the file has.
fn without_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

fn signed(number: usize) -> isize {
    isize::try_from(number).unwrap_or(isize::MAX)
}
