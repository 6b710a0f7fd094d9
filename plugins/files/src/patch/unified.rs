//! Reads a unified diff into files, hunks and lines.
//!
//! Lenient about numbers, which models get wrong, and strict about lines: one that cannot be read is an error, since a
//! patch that lost a line without a word would change something else than was meant.

use toolgate_sdk::Error;

use crate::room::shorten;

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 100;

/// What a patch does to one file. No path means that there is no file, before or after.
#[derive(Debug, PartialEq)]
pub struct FilePatch<'d> {
    pub old: Option<String>,
    pub new: Option<String>,
    pub hunks: Vec<Hunk<'d>>,
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
pub fn parse<'d>(diff: &'d str, path: Option<&str>) -> Result<Vec<FilePatch<'d>>, Error> {
    let mut lines: Vec<&str> = diff.split('\n').collect();
    // Where the headings end so too, it is how the diff is written and says nothing of the files.
    if lines.split_last().is_some_and(|(_, lines)| lines.iter().all(|line| line.ends_with('\r'))) {
        lines.iter_mut().for_each(|line| *line = without_return(line));
    }
    let mut reader = Reader { lines, at: 0, files: Vec::new(), is_among_hunks: false, renamed_at: None };
    if let Some(path) = path {
        reader.files.push(FilePatch {
            old: Some(path.to_owned()),
            new: Some(path.to_owned()),
            hunks: Vec::new(),
        });
    }
    reader.read(path.is_some())?;
    let mut files = reader.files;
    if files.is_empty() {
        return Err(Error::invalid(
            "no unified diff is in `diff`: it has `--- a/FILE`, `+++ b/FILE`, `@@ -1,2 +1,2 @@` and lines that begin with a space, `-` or `+`",
        ));
    }
    files.iter_mut().for_each(drop_prefixes);
    if let Some(empty) = files.iter().find(|file| file.hunks.is_empty()) {
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
    files: Vec<FilePatch<'d>>,
    /// Whether a line that cannot be read may be a line of a hunk that lost its sign.
    is_among_hunks: bool,
    renamed_at: Option<usize>,
}

impl<'d> Reader<'d> {
    fn read(&mut self, path_is_given: bool) -> Result<(), Error> {
        while let Some(&line) = self.lines.get(self.at) {
            if self.is_heading() {
                self.read_heading(path_is_given)?;
            } else if line.starts_with("@@") {
                self.read_hunk()?;
            } else {
                self.pass_over(without_return(line))?;
            }
        }
        self.check_rename()
    }

    /// Whether a file begins here: two lines, since either alone may be a line of a hunk.
    fn is_heading(&self) -> bool {
        let begins = |offset: usize, sign| {
            self.lines.get(self.at + offset).is_some_and(|line: &&str| line.starts_with(sign))
        };
        begins(0, "--- ") && begins(1, "+++ ")
    }

    fn read_heading(&mut self, path_is_given: bool) -> Result<(), Error> {
        let old = self.path_in(self.lines[self.at])?;
        let new = self.path_in(self.lines[self.at + 1])?;
        self.renamed_at = None;
        self.is_among_hunks = false;
        if old.is_none() && new.is_none() {
            return Err(self.wrong("both sides are `/dev/null`: name a file"));
        }
        if !path_is_given {
            self.files.push(FilePatch { old, new, hunks: Vec::new() });
        } else if let Some(file) = self.files.last_mut().filter(|file| file.hunks.is_empty()) {
            // What is made or deleted stays so, under the name that was given.
            file.old = file.old.take().filter(|_| old.is_some());
            file.new = file.new.take().filter(|_| new.is_some());
        } else {
            return Err(self.wrong("the patch is about several files: leave `path` out"));
        }
        self.at += 2;
        Ok(())
    }

    /// The path of a `---` or `+++` line, which may be followed by a time. None for `/dev/null`.
    fn path_in(&self, line: &str) -> Result<Option<String>, Error> {
        let path = line[4..].split('\t').next().unwrap_or_default().trim_end();
        match path {
            "/dev/null" => Ok(None),
            "" => Err(self.wrong("the name of the file is missing")),
            _ if path.starts_with('"') => {
                Err(self.wrong("a name in quotes is not read here: give the file as `path`"))
            }
            _ => Ok(Some(path.to_owned())),
        }
    }

    fn pass_over(&mut self, line: &str) -> Result<(), Error> {
        if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
            return Err(self.wrong("the patch is about a binary file: use `write` for it"));
        }
        if line.starts_with("diff ") {
            self.check_rename()?;
        }
        if line.starts_with("rename from ") {
            self.renamed_at = Some(self.at);
        }
        let ends_hunks = BETWEEN.iter().any(|sign| line.starts_with(sign)) || line == "-- ";
        if ends_hunks {
            self.is_among_hunks = false;
        } else if self.is_among_hunks && !line.is_empty() && !line.starts_with('\\') {
            return Err(self.wrong(&format!(
                "`{}` begins with neither a space, nor `+`, nor `-`: put a space before a line that stays as it is",
                shorten(line, MAX_LINE_CHARACTERS)
            )));
        }
        self.at += 1;
        Ok(())
    }

    fn check_rename(&self) -> Result<(), Error> {
        match self.renamed_at {
            Some(_) => Err(self.wrong("a file is renamed and not changed: use `move` for it")),
            None => Ok(()),
        }
    }

    fn read_hunk(&mut self) -> Result<(), Error> {
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
        if !hunk.lines.iter().any(|line| !matches!(line, Line::Context(_))) {
            self.at = hunk.at - 1;
            return Err(self.wrong("the hunk changes nothing: it has no line with `+` or `-`"));
        }
        match self.files.last_mut() {
            Some(file) => {
                file.hunks.push(hunk);
                Ok(())
            }
            None => {
                self.at = hunk.at - 1;
                Err(self.wrong(
                    "a hunk stands before any file: write `--- a/FILE` and `+++ b/FILE`, or give `path`",
                ))
            }
        }
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
        Error::invalid(format!("line {} of the diff: {message}", self.at + 1))
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

/// Drops `a/` and `b/`, where both sides have them.
fn drop_prefixes(file: &mut FilePatch<'_>) {
    let has = |path: &Option<String>, prefix| path.as_ref().is_none_or(|path| path.starts_with(prefix));
    if has(&file.old, "a/") && has(&file.new, "b/") {
        for path in [&mut file.old, &mut file.new].into_iter().flatten() {
            path.drain(..2);
        }
    }
}
