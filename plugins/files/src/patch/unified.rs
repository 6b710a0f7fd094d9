//! Reads a unified diff, as `diff -u`, `git diff` and models write it: lenient about numbers, which models get wrong.

use toolgate_sdk::Error;

use super::ChangeKind;
use super::hunks::{FilePatch, Hunk, Lines, without_return, wrong_at};
use super::names::{common_name, drop_prefixes, heading_name};

/// What git says of the mode of a file.
const MODES: [&str; 4] = ["old mode ", "new mode ", "new file mode ", "deleted file mode "];

/// Lines that may stand after a hunk, or before a file, beside modes.
const BETWEEN: [&str; 10] =
    ["diff ", "index ", "Index: ", "===", "similar", "dissimi", "rename ", "```", "***", "From "];

/// Reads a diff. `path` stands for the names in it.
pub fn parse<'d>(lines: Lines<'d>, path: Option<&str>) -> Result<Vec<FilePatch<'d>>, Error> {
    let mut reader = Reader { lines, path, files: Vec::new(), section: None, is_among_hunks: false };
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

/// The line of the file where a hunk says to begin, in `@@ -1,2 +3,4 @@`.
pub fn old_start(header: &str) -> Option<usize> {
    let old = header.trim_start_matches('@').trim_start().strip_prefix('-')?;
    old.split([',', ' ']).next()?.parse().ok()
}

struct Reader<'d, 'p> {
    lines: Lines<'d>,
    path: Option<&'p str>,
    files: Vec<FilePatch<'d>>,
    /// The words about a file whose `---` and `+++` have not come yet, if they do.
    section: Option<Section<'d>>,
    /// Whether a line that cannot be read may be a line of a hunk that lost its sign.
    is_among_hunks: bool,
}

/// The lines above the `---` and `+++` of a file. Where git has no lines to show, they are all there is.
struct Section<'d> {
    /// The line where it begins, counted from 0.
    at: usize,
    /// Both names, as `diff --git` has them.
    names: Option<&'d str>,
    /// Whether the file is made or deleted.
    change: Option<ChangeKind>,
}

impl<'d> Reader<'d, '_> {
    fn read(&mut self) -> Result<(), Error> {
        while let Some(line) = self.lines.get(self.lines.at) {
            if self.lines.is_heading(self.lines.at) {
                self.read_heading()?;
            } else if line.starts_with("@@") {
                self.read_hunk()?;
            } else {
                self.pass_over(without_return(line))?;
                self.lines.at += 1;
            }
        }
        self.end_section()
    }

    fn read_heading(&mut self) -> Result<(), Error> {
        let (mut old, mut new) = (self.take_name()?, self.take_name()?);
        self.is_among_hunks = false;
        self.section = None;
        if old.is_none() && new.is_none() {
            return Err(self.lines.wrong("both sides are `/dev/null`: name a file"));
        }
        if self.path.is_none() {
            drop_prefixes(&mut old, &mut new);
        }
        self.begin_file(FilePatch { old, new, ..FilePatch::default() })
    }

    /// Takes the name in a `---` or `+++` line. None for `/dev/null`.
    fn take_name(&mut self) -> Result<Option<String>, Error> {
        let line = self.lines.get(self.lines.at).unwrap_or_default();
        let name = match heading_name(without_return(line).get(4..).unwrap_or_default()).as_deref() {
            Some("/dev/null") => None,
            _ if self.path.is_some() => self.path.map(str::to_owned),
            Some("") => return Err(self.lines.wrong("the name of the file is missing")),
            None => {
                return Err(self.lines.wrong("the name in quotes cannot be read: give the file as `path`"));
            }
            Some(name) => Some(name.to_owned()),
        };
        self.lines.at += 1;
        Ok(name)
    }

    fn begin_file(&mut self, file: FilePatch<'d>) -> Result<(), Error> {
        if self.path.is_some() && !self.files.is_empty() {
            return Err(self.lines.wrong("the patch is about several files: leave `path` out"));
        }
        self.files.push(file);
        Ok(())
    }

    fn read_hunk(&mut self) -> Result<(), Error> {
        if self.section.is_some() || self.files.is_empty() {
            let Some(path) = self.path else {
                return Err(self.lines.wrong(
                    "a hunk stands before any file: write `--- a/FILE` and `+++ b/FILE`, or give `path`",
                ));
            };
            let change = self.section.take().and_then(|section| section.change);
            self.begin_file(file_of(path, change))?;
        }
        let at = self.lines.at;
        let old_start = self.lines.get(at).and_then(old_start);
        let mut hunk = Hunk { at: at + 1, old_start, ..Hunk::default() };
        self.lines.at += 1;
        self.lines.take_hunk(&mut hunk)?;
        self.is_among_hunks = true;
        if let Some(file) = self.files.last_mut() {
            file.hunks.push(hunk);
        }
        Ok(())
    }

    /// Takes what a line between hunks and files says.
    fn pass_over(&mut self, line: &'d str) -> Result<(), Error> {
        if line.starts_with("Binary files ") || line.starts_with("GIT binary patch") {
            return Err(self.lines.wrong("the patch is about a binary file: use `write` for it"));
        }
        if self.is_among_hunks && !line.is_empty() && !line.starts_with('\\') {
            // Of what may stand between files it can still be a line of the hunk, as `===` under a heading.
            let next = self.lines.line_of_hunk(self.lines.at + 1).filter(|next| !next.text.is_empty());
            let is_between = BETWEEN.iter().chain(&MODES).any(|sign| line.starts_with(sign));
            if line != "-- " && (!is_between || (next.is_some() && !line.starts_with('`'))) {
                return Err(self.lines.without_sign());
            }
            self.is_among_hunks = false;
        }
        self.read_section(line)
    }

    /// Takes what a line says of the file whose hunks may follow.
    fn read_section(&mut self, line: &'d str) -> Result<(), Error> {
        let at = self.lines.at;
        if line.starts_with("diff ") {
            self.end_section()?;
            self.section = Some(Section { at, names: line.strip_prefix("diff --git "), change: None });
        }
        let change = match line {
            _ if line.starts_with("new file mode ") => Some(ChangeKind::Created),
            _ if line.starts_with("deleted file mode ") => Some(ChangeKind::Deleted),
            _ => None,
        };
        if change.is_some() {
            self.section.get_or_insert(Section { at, names: None, change }).change = change;
        }
        let is_mode = line.starts_with("index ") || MODES.iter().any(|sign| line.starts_with(sign));
        let mode = line.rsplit(' ').next().filter(|_| is_mode);
        let reason = match mode {
            _ if self.section.is_none() => return Ok(()),
            _ if line.starts_with("copy from ") => {
                "a file is copied: use `copy` for it, and then patch the copy"
            }
            _ if line.starts_with("rename from ") && self.path.is_some() => {
                "the patch renames the file: leave `path` out"
            }
            Some("120000") => "a symbolic link is no file, and only files are patched: leave its part out",
            Some("160000") => "a submodule is no file, and only files are patched: leave its part out",
            _ => return Ok(()),
        };
        Err(self.lines.wrong(reason))
    }

    /// Ends the section, whose file has no hunks.
    fn end_section(&mut self) -> Result<(), Error> {
        let Some(section) = self.section.take() else { return Ok(()) };
        let name = self.path.map(str::to_owned).or_else(|| section.names.and_then(common_name));
        let reason = match (section.change, name) {
            (Some(_), Some(name)) => {
                return self.begin_file(FilePatch { has_no_lines: true, ..file_of(&name, section.change) });
            }
            (Some(_), None) => {
                "the name of the file cannot be read: write `diff --git a/FILE b/FILE`, or give it as `path`"
            }
            // Passed over, `ok` would say that it was done.
            (None, _) if section.names.is_some() => {
                "a file is named, and none of its lines change: leave its part out; use `move` to rename a file, and files have no modes here"
            }
            (None, _) => return Ok(()),
        };
        Err(wrong_at(section.at, reason))
    }
}

fn file_of<'d>(name: &str, change: Option<ChangeKind>) -> FilePatch<'d> {
    let side = |missing| (change != Some(missing)).then(|| name.to_owned());
    FilePatch { old: side(ChangeKind::Created), new: side(ChangeKind::Deleted), ..FilePatch::default() }
}
