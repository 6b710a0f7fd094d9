//! Reads the form that models of OpenAI are trained to write: files between `*** Begin Patch` and `*** End Patch`.

use toolgate_sdk::Error;

use super::hunks::{FilePatch, Hunk, Line, Lines};
use super::unified::old_start;

pub const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const END_OF_FILE: &str = "*** End of File";

/// Reads the files of a patch. `path` may say what the one file in it is called, which is known already.
pub fn parse<'d>(mut lines: Lines<'d>, path: Option<&str>) -> Result<Vec<FilePatch<'d>>, Error> {
    let mut files = Vec::new();
    while let Some(line) = lines.get(lines.at).map(str::trim_end).filter(|line| *line != END) {
        let file = if let Some(name) = line.strip_prefix("*** Add File:") {
            lines.at += 1;
            new_file(&mut lines, name)
        } else if let Some(name) = line.strip_prefix("*** Delete File:") {
            lines.at += 1;
            FilePatch {
                old: name_in(name),
                has_no_lines: true,
                is_deleted_whole: true,
                ..FilePatch::default()
            }
        } else if let Some(name) = line.strip_prefix("*** Update File:") {
            lines.at += 1;
            changed_file(&mut lines, name)?
        } else if line.is_empty() {
            lines.at += 1;
            continue;
        } else {
            return Err(lines.wrong(
                "a file begins with `*** Add File: FILE`, `*** Update File: FILE` or `*** Delete File: FILE`, and the patch ends with `*** End Patch`",
            ));
        };
        files.push(file);
    }
    if files.is_empty() {
        return Err(Error::invalid("no file is named in the patch: write `*** Update File: FILE` and hunks"));
    }
    let is_path = |file: &FilePatch<'_>| file.old.as_deref().or(file.new.as_deref()) == path;
    if path.is_some() && !files.iter().all(is_path) {
        return Err(Error::invalid("a patch in this form names its files: leave `path` out"));
    }
    Ok(files)
}

fn name_in(written: &str) -> Option<String> {
    Some(written.trim().to_owned())
}

/// A file all lines of which are added.
fn new_file<'d>(lines: &mut Lines<'d>, name: &str) -> FilePatch<'d> {
    let mut hunk = Hunk { at: lines.at + 1, ..Hunk::default() };
    while let Some(text) = lines.get(lines.at).and_then(|line| line.strip_prefix('+')) {
        hunk.lines.push(Line { sign: b'+', text });
        lines.at += 1;
    }
    FilePatch { new: name_in(name), hunks: vec![hunk], ..FilePatch::default() }
}

/// A file with hunks, or another name, or both.
fn changed_file<'d>(lines: &mut Lines<'d>, name: &str) -> Result<FilePatch<'d>, Error> {
    let mut file = FilePatch { old: name_in(name), new: name_in(name), ..FilePatch::default() };
    if let Some(name) = lines.get(lines.at).and_then(|line| line.strip_prefix("*** Move to:")) {
        lines.at += 1;
        file.new = name_in(name);
        file.has_no_lines = true;
    }
    while let Some(line) = lines.get(lines.at).filter(|line| !line.starts_with("*** ")) {
        if line.trim_end().is_empty() {
            lines.at += 1;
            continue;
        }
        if !line.starts_with("@@") && lines.line_of_hunk(lines.at).is_none() {
            return Err(lines.without_sign());
        }
        file.hunks.push(hunk(lines)?);
    }
    if file.hunks.is_empty() && !file.has_no_lines {
        return Err(lines.wrong("nothing is said about the lines of the file: its changes begin with `@@`"));
    }
    Ok(file)
}

fn hunk<'d>(lines: &mut Lines<'d>) -> Result<Hunk<'d>, Error> {
    let mut hunk = Hunk { at: lines.at + 1, ..Hunk::default() };
    while let Some(anchor) = lines.get(lines.at).and_then(|line| line.strip_prefix("@@")) {
        let anchor = anchor.trim().trim_end_matches("@@").trim_end();
        // Some write the numbers of a unified diff here too.
        match old_start(anchor) {
            None if anchor.is_empty() => {}
            None => hunk.anchors.push(anchor),
            start => hunk.old_start = start,
        }
        lines.at += 1;
    }
    lines.take_hunk(&mut hunk)?;
    if lines.get(lines.at).is_some_and(|line| line.trim_end() == END_OF_FILE) {
        lines.at += 1;
        hunk.is_at_end = true;
    }
    Ok(hunk)
}
