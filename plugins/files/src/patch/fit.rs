//! Finds where each hunk of a patch belongs in a text, and makes the new text.
//!
//! The ends of lines go by the rule of `text`: a diff without carriage returns takes those of a file whose lines all have
//! them, and everywhere else an end must be the same and is given as it is. The byte order mark before a text stays, unless
//! the diff has it too.

use memchr::{memchr_iter, memmem};
use toolgate_sdk::Error;

use super::hunks::Hunk;
use crate::output_budget::shorten;
use crate::similarity::{nearest_line, slip};
use crate::text::{BYTE_ORDER_MARK, end_in_crlf};

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 160;

/// In a file of more lines it takes too much fuel to find those that are like a hunk.
const MAX_EXPLAINED_LINES: usize = 500_000;

/// A text after a patch.
#[derive(Debug, Default)]
pub struct Applied {
    pub text: String,
    pub added: u64,
    pub removed: u64,
}

/// Applies the hunks of a patch to the text of a file.
pub fn apply(text: &str, hunks: &[Hunk<'_>], name: &str) -> Result<Applied, Error> {
    let lines_of_diff = || hunks.iter().flat_map(|hunk| &hunk.lines).map(|line| line.text);
    let marked = text.strip_prefix(BYTE_ORDER_MARK);
    let marked = marked.filter(|_| !lines_of_diff().any(|line| line.starts_with(BYTE_ORDER_MARK)));
    let text = marked.unwrap_or(text);
    let has_returns = lines_of_diff().any(|line| line.ends_with('\r'));
    let is_crlf = !has_returns && end_in_crlf(text.split_inclusive('\n'));
    let newline = if is_crlf { "\r\n" } else { "\n" };
    // A last line without an end gets one, which it loses again where it stays the last.
    let is_open = !text.is_empty() && !text.ends_with('\n');
    let mut fitting = Fitting {
        text: &[text, if is_open { newline } else { "" }].concat(),
        newline,
        taken: 0,
        shift: 0,
        keeps_last: true,
        applied: Applied { text: String::with_capacity(text.len()), ..Applied::default() },
    };
    for (index, hunk) in hunks.iter().enumerate() {
        fitting.apply(hunk).map_err(|reason| {
            let (number, at) = (index + 1, hunk.at);
            Error::new(format!(
                "hunk {number} for `{name}` (line {at} of the diff) does not fit: {reason}. Nothing was changed"
            ))
        })?;
    }
    fitting.copy_to(fitting.text.len());
    let mut applied = fitting.applied;
    if is_open && fitting.keeps_last {
        applied.text.truncate(applied.text.len() - newline.len());
    }
    if marked.is_some() && !applied.text.is_empty() {
        applied.text.insert_str(0, BYTE_ORDER_MARK);
    }
    Ok(applied)
}

struct Fitting<'t> {
    text: &'t str,
    /// The end of an added line, and of a line of the file that the diff does not say.
    newline: &'static str,
    /// How many bytes of the text are in the new text already, or dropped.
    taken: usize,
    /// How many lines further down than it says the last hunk was found.
    shift: isize,
    /// Whether the last line of the text is the last of the new one.
    keeps_last: bool,
    applied: Applied,
}

impl Fitting<'_> {
    fn apply(&mut self, hunk: &Hunk<'_>) -> Result<(), String> {
        let old: Vec<&str> = hunk.lines_without(b'+').collect();
        let place = self.find(&old, hunk)?;
        self.copy_to(place);
        self.taken += self.block(&old).len();
        let new: Vec<&str> = hunk.lines_without(b'-').collect();
        let mut block = self.block(&new);
        if hunk.ends_without_newline && hunk.lines.last().is_some_and(|line| line.sign == b'+') {
            block.truncate(block.len() - self.newline.len());
        }
        self.add(&block);
        if self.taken == self.text.len() {
            self.keeps_last = hunk.lines.last().is_some_and(|line| line.sign == b' ');
        }
        self.applied.added += (hunk.lines.len() - old.len()) as u64;
        self.applied.removed += (hunk.lines.len() - new.len()) as u64;
        Ok(())
    }

    /// Takes over the text up to a place.
    fn copy_to(&mut self, place: usize) {
        self.add(&self.text[self.taken..place]);
        self.taken = place;
    }

    /// Adds lines. One before them may have no end, and gets one.
    fn add(&mut self, lines: &str) {
        let text = &mut self.applied.text;
        if !text.is_empty() && !text.ends_with('\n') && !lines.is_empty() {
            text.push_str(self.newline);
        }
        text.push_str(lines);
    }

    /// Lines as they stand in the text.
    fn block(&self, lines: &[&str]) -> String {
        lines.iter().flat_map(|line| [*line, self.newline]).collect()
    }

    /// Finds the place of the hunk in the text, in bytes.
    fn find(&mut self, old: &[&str], hunk: &Hunk<'_>) -> Result<usize, String> {
        let (block, from) = (self.block(old), self.behind(&hunk.anchors)?);
        let stated = match hunk.old_start {
            _ if hunk.is_at_end => self.text.len().checked_sub(block.len()),
            // Of nothing the place is after the line, of something it is the line.
            start => start.map(|start| {
                let before = if old.is_empty() { start } else { start.saturating_sub(1) };
                self.behind_lines(before.saturating_add_signed(self.shift))
            }),
        };
        let stated = stated.filter(|stated| *stated >= from);
        if old.is_empty() {
            let place = stated.or((self.text.is_empty() || !hunk.anchors.is_empty()).then_some(from));
            return place.ok_or_else(|| {
                "it only adds lines, and does not say where: begin it with the line before them".to_owned()
            });
        }
        let found = match stated.filter(|stated| self.is_at(*stated, &block)) {
            Some(stated) => stated,
            None => self.find_only(old, from, hunk)?,
        };
        if let Some(start) = hunk.old_start {
            self.shift = (self.line_at(found) - 1).cast_signed() - start.saturating_sub(1).cast_signed();
        }
        Ok(found)
    }

    /// The first place that may belong to a hunk: behind its anchors, which may leave out the spaces around them.
    fn behind(&self, anchors: &[&str]) -> Result<usize, String> {
        anchors.iter().try_fold(self.taken, |from, anchor| {
            let mut place = from;
            let mut lines = self.text[from..].split_inclusive('\n').inspect(|line| place += line.len());
            let is_there = lines.any(|line| line.trim() == *anchor);
            drop(lines);
            is_there.then_some(place).ok_or_else(|| {
                let (anchor, line) = (excerpt(anchor), self.line_at(from));
                format!("no line is `{anchor}` from line {line} of the file on: after `@@` stands a whole line, or nothing")
            })
        })
    }

    /// The one place where these lines are. Behind anchors it is the first.
    fn find_only(&self, old: &[&str], from: usize, hunk: &Hunk<'_>) -> Result<usize, String> {
        let block = self.block(old);
        let Some(place) = self.first(from, &block).filter(|_| !hunk.is_at_end) else {
            return Err(self.why_nowhere(old, from, hunk.is_at_end));
        };
        match self.next(place, &block).filter(|_| hunk.anchors.is_empty()) {
            None => Ok(place),
            Some(second) => Err(format!(
                "its lines are in the file more than once, first at {} and {}: add lines of context, or the right number in `@@`",
                self.line_at(place),
                self.line_at(second)
            )),
        }
    }

    /// Whether lines begin at a place.
    fn is_at(&self, place: usize, block: &str) -> bool {
        let (before, behind) = self.text.as_bytes().split_at(place);
        behind.starts_with(block.as_bytes()) && before.last().is_none_or(|last| *last == b'\n')
    }

    /// The first place from `place` on at which lines begin.
    fn first(&self, place: usize, block: &str) -> Option<usize> {
        if self.is_at(place, block) { Some(place) } else { self.next(place, block) }
    }

    /// The next place behind `place` at which lines begin.
    fn next(&self, place: usize, block: &str) -> Option<usize> {
        let found = memmem::find(&self.text.as_bytes()[place..], format!("\n{block}").as_bytes())?;
        Some(place + found + 1)
    }

    fn why_nowhere(&self, old: &[&str], from: usize, is_at_end: bool) -> String {
        if self.line_at(self.text.len()) > MAX_EXPLAINED_LINES {
            return "its lines are not in the file, which has too many to say what is like them: `search` for one".to_owned();
        }
        let (count, place) = self.find_most(old);
        let line = self.line_at(place);
        if count == old.len() && is_at_end {
            return format!("its lines are at {line}, and not at the end of the file");
        }
        if count == old.len() {
            return format!(
                "its lines begin at {line}, and those of the hunk before it, or its own `@@`, end at {}: put the hunks in order, \
                 and leave out what an earlier one has",
                self.line_at(from) - 1
            );
        }
        // An empty line says nothing of the place.
        if old[..count].iter().any(|line| !line.trim().is_empty()) {
            return self.difference(line - 1 + count, old[count]);
        }
        let wanted = old.iter().find(|line| !line.trim().is_empty()).copied().unwrap_or_default();
        match nearest_line(self.lines(), wanted) {
            Some((index, line)) if line == wanted => format!(
                "line {} of the file is `{}`, but the lines before it are not those of the diff",
                index + 1,
                excerpt(line)
            ),
            Some((index, line)) if slip(line, wanted).is_some() => self.difference(index, wanted),
            Some((index, line)) => format!(
                "no line of the file is `{}`; the nearest is {}: `{}`",
                excerpt(wanted),
                index + 1,
                excerpt(line)
            ),
            None => format!("no line of the file is `{}`, or like it: read the file again", excerpt(wanted)),
        }
    }

    /// The most of the first lines that are somewhere: their count, and the place.
    fn find_most(&self, old: &[&str]) -> (usize, usize) {
        let (mut count, mut place, mut too_many) = (0, 0, old.len() + 1);
        while count + 1 < too_many {
            let middle = usize::midpoint(count, too_many);
            match self.first(0, &self.block(&old[..middle])) {
                Some(found) => (count, place) = (middle, found),
                None => too_many = middle,
            }
        }
        (count, place)
    }

    /// Says how a line of the file is not the one that is wanted.
    fn difference(&self, index: usize, wanted: &str) -> String {
        let diff = excerpt(wanted);
        let Some(line) = self.lines().nth(index) else {
            return format!("the file ends at line {index}, and the diff goes on with `{diff}`");
        };
        let told =
            format!("line {} of the file is `{}`, and the diff has `{diff}`", index + 1, excerpt(line));
        slip(line, wanted).map_or(told.clone(), |slip| format!("{told}: {slip}"))
    }

    /// The lines of the file as the diff has them.
    fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.split_inclusive('\n').map(|line| line.strip_suffix(self.newline).unwrap_or(line))
    }

    /// The number of the line that begins at a place.
    fn line_at(&self, place: usize) -> usize {
        memchr_iter(b'\n', &self.text.as_bytes()[..place]).count() + 1
    }

    fn behind_lines(&self, lines: usize) -> usize {
        let Some(last) = lines.checked_sub(1) else { return 0 };
        memchr_iter(b'\n', self.text.as_bytes()).nth(last).map_or(self.text.len(), |end| end + 1)
    }
}

/// A line for a message, on one line of it.
fn excerpt(line: &str) -> String {
    shorten(line.trim_end_matches('\n'), MAX_LINE_CHARACTERS)
}
