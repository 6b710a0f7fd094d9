//! Reads a unified diff into files, hunks and lines.
//!
//! Lenient about numbers, which models get wrong, and strict about lines: one that cannot be read is an error, since a
//! patch that lost a line without a word would change something else than was meant.

use toolgate_sdk::Error;

use super::names::{common_name, drop_prefixes, heading_name};
use crate::room::shorten;

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 100;

/// What a patch does to one file. No path means that there is no file, before or after.
#[derive(Debug, PartialEq)]
pub struct FilePatch<'d> {
    pub old: Option<String>,
    pub new: Option<String>,
    pub hunks: Vec<Hunk<'d>>,
    /// Whether git says without any hunk that it is made or deleted.
    pub has_no_lines: bool,
}

/// Lines that belong together.
#[derive(Debug, Default, PartialEq)]
pub struct Hunk<'d> {
    /// The line of the patch where it begins, counted from 1.
    pub at: usize,
    /// The line of the file where it says to begin, counted from 1.
    pub old_start: Option<usize>,
    pub lines: Vec<Line<'d>>,
    /// Whether its last new line ends without a line feed.
    pub ends_without_newline: bool,
}

/// A line of a hunk, without its line feed. A carriage return before that is part of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Line<'d> {
    Context(&'d str),
    Delete(&'d str),
    Insert(&'d str),
}

impl FilePatch<'_> {
    fn of(name: &str, change: Option<Change>, has_no_lines: bool) -> Self {
        let side = |is_missing: bool| (!is_missing).then(|| name.to_owned());
        Self {
            old: side(change == Some(Change::Created)),
            new: side(change == Some(Change::Deleted)),
            hunks: Vec::new(),
            has_no_lines,
        }
    }
}

impl<'d> Line<'d> {
    pub fn text(&self) -> &'d str {
        match self {
            Self::Context(text) | Self::Delete(text) | Self::Insert(text) => text,
        }
    }
}

/// Lines that may stand after a hunk, or before a file.
const BETWEEN: [&str; 15] = [
    "diff ",
    "index ",
    "Index: ",
    "===",
    "old mode ",
    "new mode ",
    "new file mode ",
    "deleted file mode ",
    "similarity ",
    "dissimilarity ",
    "rename ",
    "copy ",
    "```",
    "***",
    "From ",
];

/// Reads a diff. `path` stands for the names in it.
pub fn parse<'d>(diff: &'d str, path: Option<&'d str>) -> Result<Vec<FilePatch<'d>>, Error> {
    let mut lines: Vec<&str> = diff.split('\n').collect();
    // Where the headings end so too, it is how the diff is written and says nothing of the files.
    if lines.split_last().is_some_and(|(_, lines)| lines.iter().all(|line| line.ends_with('\r'))) {
        lines.iter_mut().for_each(|line| *line = without_return(line));
    }
    let mut reader = Reader { lines, at: 0, path, files: Vec::new(), section: None, is_among_hunks: false };
    reader.read()?;
    let files = reader.files;
    if files.is_empty() {
        return Err(Error::invalid(
            "no unified diff is in `diff`: it has `--- a/FILE`, `+++ b/FILE`, `@@ -1,2 +1,2 @@` and lines that begin with a space, `-` or `+`",
        ));
    }
    if let Some(empty) = files.iter().find(|file| file.hunks.is_empty() && !file.has_no_lines) {
        let name = empty.new.as_ref().or(empty.old.as_ref()).map_or("", String::as_str);
        return Err(Error::invalid(format!(
            "nothing is said about the lines of `{name}`: its changes begin with `@@ -1,2 +1,2 @@`"
        )));
    }
    Ok(files)
}

struct Reader<'d> {
    lines: Vec<&'d str>,
    at: usize,
    /// Stands for the names in the diff.
    path: Option<&'d str>,
    files: Vec<FilePatch<'d>>,
    /// What is said of a file whose `---` and `+++` have not come yet, if they do.
    section: Option<Section<'d>>,
    /// Whether a line that cannot be read may be a line of a hunk that lost its sign.
    is_among_hunks: bool,
}

/// What stands above the `---` and `+++` of a file. Where git has no lines to show, it is all there is.
struct Section<'d> {
    /// The line where it begins, counted from 0.
    at: usize,
    /// Both names, as `diff --git` has them.
    names: Option<&'d str>,
    change: Option<Change>,
}

/// What git says becomes of a file, beside its lines.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Created,
    Deleted,
    Renamed,
    Mode,
}

impl Change {
    fn of_line(line: &str) -> Option<Self> {
        let changes = [
            ("new file mode ", Self::Created),
            ("deleted file mode ", Self::Deleted),
            ("rename from ", Self::Renamed),
            ("old mode ", Self::Mode),
        ];
        changes.into_iter().find_map(|(sign, change)| line.starts_with(sign).then_some(change))
    }
}

impl<'d> Reader<'d> {
    fn read(&mut self) -> Result<(), Error> {
        while let Some(&line) = self.lines.get(self.at) {
            if self.is_heading() {
                self.read_heading()?;
            } else if line.starts_with("@@") {
                self.read_hunk()?;
            } else {
                self.pass_over(without_return(line))?;
            }
        }
        self.end_section()
    }

    /// Whether a file begins here: two lines, since either alone may be a line of a hunk.
    fn is_heading(&self) -> bool {
        self.is_heading_at(self.at)
    }

    fn is_heading_at(&self, at: usize) -> bool {
        let begins = |at: usize, sign| self.lines.get(at).is_some_and(|line: &&str| line.starts_with(sign));
        begins(at, "--- ") && begins(at + 1, "+++ ")
    }

    fn read_heading(&mut self) -> Result<(), Error> {
        let mut old = self.name_in(self.lines[self.at])?;
        let mut new = self.name_in(self.lines[self.at + 1])?;
        self.is_among_hunks = false;
        if old.is_none() && new.is_none() {
            return Err(self.wrong("both sides are `/dev/null`: name a file"));
        }
        if self.path.is_none() {
            drop_prefixes(&mut old, &mut new);
        }
        self.take_change()?;
        self.begin_file(FilePatch { old, new, hunks: Vec::new(), has_no_lines: false })?;
        self.at += 2;
        Ok(())
    }

    /// The name in a `---` or `+++` line. None for `/dev/null`.
    fn name_in(&self, line: &str) -> Result<Option<String>, Error> {
        let name = heading_name(without_return(&line[4..]));
        match (name.as_deref(), self.path) {
            (Some("/dev/null"), _) => Ok(None),
            (_, Some(path)) => Ok(Some(path.to_owned())),
            (Some(""), _) => Err(self.wrong("the name of the file is missing")),
            (None, _) => Err(self.wrong("the name in quotes cannot be read: give the file as `path`")),
            _ => Ok(name),
        }
    }

    fn begin_file(&mut self, file: FilePatch<'d>) -> Result<(), Error> {
        if self.path.is_some() && !self.files.is_empty() {
            return Err(self.wrong("the patch is about several files: leave `path` out"));
        }
        self.files.push(file);
        Ok(())
    }

    /// Begins the file of a hunk that has no `---` and `+++` above it.
    fn begin_file_at_path(&mut self) -> Result<(), Error> {
        let Some(path) = self.path else {
            return Err(self.wrong(
                "a hunk stands before any file: write `--- a/FILE` and `+++ b/FILE`, or give `path`",
            ));
        };
        let change = self.take_change()?;
        self.begin_file(FilePatch::of(path, change, false))
    }

    /// Ends the section, whose file begins here.
    fn take_change(&mut self) -> Result<Option<Change>, Error> {
        let change = self.section.take().and_then(|section| section.change);
        if self.path.is_some() && change == Some(Change::Renamed) {
            return Err(self.wrong("the patch renames the file: leave `path` out"));
        }
        Ok(change)
    }

    /// Ends the section, whose file has no hunks.
    fn end_section(&mut self) -> Result<(), Error> {
        let Some(section) = self.section.take() else { return Ok(()) };
        let wrong = |message| Err(wrong_at(section.at, message));
        match section.change {
            Some(Change::Created | Change::Deleted) => {
                let name = self.path.map(str::to_owned).or_else(|| section.names.and_then(common_name));
                match name {
                    Some(name) => self.begin_file(FilePatch::of(&name, section.change, true)),
                    None => wrong(
                        "the name of the file cannot be read: write `diff --git a/FILE b/FILE`, or give it as `path`",
                    ),
                }
            }
            Some(Change::Renamed) => wrong("a file is renamed and not changed: use `move` for it"),
            // With hunks it is passed over. Alone it is all that was asked for, and `ok` would say that it was done.
            Some(Change::Mode) => wrong(
                "a file gets another mode and no other lines, and files have no modes here: leave its part out",
            ),
            None if section.names.is_some() => wrong(
                "a file is named and nothing said of it: leave its part out, or write its `---`, `+++` and hunks",
            ),
            None => Ok(()),
        }
    }

    fn pass_over(&mut self, line: &'d str) -> Result<(), Error> {
        if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
            return Err(self.wrong("the patch is about a binary file: use `write` for it"));
        }
        self.read_section(line)?;
        let ends_hunks = BETWEEN.iter().any(|sign| line.starts_with(sign)) || line == "-- ";
        if ends_hunks {
            self.is_among_hunks = false;
        } else if self.is_among_hunks && !line.is_empty() && !line.starts_with('\\') {
            return Err(self.without_sign());
        }
        self.at += 1;
        Ok(())
    }

    /// The refusal of a line within a hunk that does not say what becomes of it.
    fn without_sign(&self) -> Error {
        let line = self.lines.get(self.at).map_or("", |line| without_return(line));
        self.wrong(&format!(
            "`{}` begins with neither a space, nor `+`, nor `-`: put a space before a line that stays as it is",
            shorten(line, MAX_LINE_CHARACTERS)
        ))
    }

    /// Whether a line of a hunk comes here that lost its sign: other lines of it follow. Of what may stand between files it
    /// can still be one, as `===` under a heading.
    fn has_lost_sign(&self) -> bool {
        let Some(line) = self.lines.get(self.at) else { return false };
        if line.is_empty()
            || line.starts_with([' ', '+', '-', '@', '\\', '`'])
            || self.is_heading_at(self.at + 1)
        {
            return false;
        }
        self.lines.get(self.at + 1).is_some_and(|next| next.starts_with([' ', '+', '-']) && *next != "-- ")
    }

    /// Takes what a line says of the file whose hunks may follow.
    fn read_section(&mut self, line: &'d str) -> Result<(), Error> {
        if line.starts_with("diff ") {
            self.end_section()?;
            let names = line.strip_prefix("diff --git ");
            self.section = Some(Section { at: self.at, names, change: None });
        }
        if let Some(change) = Change::of_line(line) {
            let section = Section { at: self.at, names: None, change: None };
            self.section.get_or_insert(section).change = Some(change);
        }
        match refusal(line).filter(|_| self.section.is_some()) {
            Some(reason) => Err(self.wrong(reason)),
            None => Ok(()),
        }
    }

    fn read_hunk(&mut self) -> Result<(), Error> {
        if self.section.is_some() || self.files.is_empty() {
            self.begin_file_at_path()?;
        }
        let (old, new) = ranges(self.lines[self.at]);
        let mut hunk = Hunk { at: self.at + 1, old_start: old.map(|range| range.0), ..Hunk::default() };
        let mut left = old.zip(new).map(|(old, new)| (old.1, new.1));
        self.at += 1;
        while let Some(line) = self.hunk_line(left) {
            match (line, &mut left) {
                (Line::Context(_), Some((old, new))) => {
                    (*old, *new) = (old.saturating_sub(1), new.saturating_sub(1))
                }
                (Line::Delete(_), Some((old, _))) => *old = old.saturating_sub(1),
                (Line::Insert(_), Some((_, new))) => *new = new.saturating_sub(1),
                (_, None) => {}
            }
            hunk.lines.push(line);
            self.at += 1;
            if self.lines.get(self.at).is_some_and(|line| line.starts_with('\\')) {
                hunk.ends_without_newline = !matches!(line, Line::Delete(_));
                self.at += 1;
            }
        }
        self.is_among_hunks = true;
        if self.has_lost_sign() {
            return Err(self.without_sign());
        }
        if !hunk.lines.iter().any(|line| !matches!(line, Line::Context(_))) {
            self.at = hunk.at - 1;
            return Err(self.wrong("the hunk changes nothing: it has no line with `+` or `-`"));
        }
        if let Some(file) = self.files.last_mut() {
            file.hunks.push(hunk);
        }
        Ok(())
    }

    /// The next line, if it belongs to the hunk, of which this many old and new lines are left by its own count.
    fn hunk_line(&self, left: Option<(usize, usize)>) -> Option<Line<'d>> {
        let line = *self.lines.get(self.at)?;
        let is_over = left == Some((0, 0));
        if self.is_heading() || (is_over && without_return(line) == "-- ") {
            return None;
        }
        match line.as_bytes().first() {
            Some(b' ') => Some(Line::Context(&line[1..])),
            Some(b'+') => Some(Line::Insert(&line[1..])),
            Some(b'-') => Some(Line::Delete(&line[1..])),
            // Editors drop the one space of an empty line. At the end it is just the end of the text.
            _ if without_return(line).is_empty() => self.goes_on(is_over).then_some(Line::Context(line)),
            _ => None,
        }
    }

    /// Whether the hunk goes on after an empty line: by its own count, or because another line of it follows.
    fn goes_on(&self, is_over: bool) -> bool {
        let next =
            self.lines[self.at..].iter().map(|line| without_return(line)).find(|line| !line.is_empty());
        match next {
            Some(line) if line.starts_with("--- ") || line == "-- " => false,
            Some(line) if line.starts_with([' ', '+', '-']) => true,
            Some(line) => !is_over && line.starts_with("@@"),
            None => false,
        }
    }

    fn wrong(&self, message: &str) -> Error {
        wrong_at(self.at, message)
    }
}

fn wrong_at(at: usize, message: &str) -> Error {
    Error::invalid(format!("line {} of the diff: {message}", at + 1))
}

/// Why a patch is refused that has this line above a file.
fn refusal(line: &str) -> Option<&'static str> {
    if line.starts_with("copy from ") {
        return Some("a file is copied: use `copy` for it, and then patch the copy");
    }
    let signs = ["index ", "old mode ", "new mode ", "new file mode ", "deleted file mode "];
    let mode = line.rsplit(' ').next().filter(|_| signs.iter().any(|sign| line.starts_with(sign)));
    match mode {
        Some("120000") => Some("a symbolic link is no file, and only files are patched: leave its part out"),
        Some("160000") => Some("a submodule is no file, and only files are patched: leave its part out"),
        _ => None,
    }
}

/// A line without the carriage return that it may end in.
pub fn without_return(line: &str) -> &str {
    line.strip_suffix('\r').unwrap_or(line)
}

/// Where a side of a hunk starts, and how many lines it has.
type Range = (usize, usize);

/// The start and the count of both sides of `@@ -1,2 +3,4 @@`, as far as they can be read.
fn ranges(header: &str) -> (Option<Range>, Option<Range>) {
    let range = |sign: char| {
        let written = header
            .trim_start_matches('@')
            .split_whitespace()
            .take(2)
            .find_map(|part| part.strip_prefix(sign))?;
        let (start, count) = written.split_once(',').unwrap_or((written, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    (range('-'), range('+'))
}
