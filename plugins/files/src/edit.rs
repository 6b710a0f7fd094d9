//! `edit`: one text in a file for another.

use memchr::memmem;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::output_budget::shorten;
use crate::similarity::{MAX_LOOKED_AT_BYTES, fold_look_alikes, nearest_line, without_number};
use crate::text::{end_in_crlf, without_mark};
use crate::workspace::{Place, Workspace};

/// Enough places to see which one is meant.
const MAX_PLACES: usize = 10;

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 200;

/// More lines than this take too much fuel to be compared without their spaces.
const MAX_COMPARED_LINES: usize = 100_000;

/// Beyond this an edit is no slip of one who writes.
const MAX_RESULT_BYTES: usize = 16 * 1024 * 1024;

/// Replaces a text in a file by another, exactly.
///
/// `old` is found as it is written, with its spaces and line feeds, and must be in the file exactly once: take enough of
/// what is around it, as `read` gave it. `all` replaces it wherever it is. Nothing is changed where it is not found.
/// For several changes at once use `patch`.
///
/// In a file whose lines all end in CRLF, `\n` in `old` and `new` means `\r\n`, unless either has an `\r`. Otherwise ends
/// of lines are taken as they are written.
#[tool(
    destructive,
    open_world = false,
    tags("file", "text", "replace", "change"),
    examples(
        {"path": "src/main.rs", "old": "    answer()", "new": "    answer();"}
            => {"path": "src/main.rs", "replaced": 1, "lines": [3], "bytes": 38},
        "everywhere": {"path": "log.txt", "old": "t", "new": "T", "all": true}
            => {"path": "log.txt", "replaced": 2, "lines": [2, 3], "bytes": 19},
    )
)]
pub fn edit(
    /// The file, from the workspace's root
    path: String,
    /// The text that is there
    old: String,
    /// The text to put in its place; empty to take it out
    new: String,
    /// Whether to replace it wherever it is found
    #[default]
    all: bool,
) -> Result<Edited, Error> {
    Workspace::of_session().edit(&path, &old, &new, all)
}

/// The changed lines.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Edited {
    /// The file, from the workspace's root
    pub path: String,
    /// How often the text was replaced
    pub replaced: u64,
    /// The lines in which it began before, the first ten
    pub lines: Vec<u64>,
    /// How many bytes the file has now
    pub bytes: u64,
}

impl Workspace {
    pub fn edit(&self, path: &str, old: &str, new: &str, all: bool) -> Result<Edited, Error> {
        if old.is_empty() {
            return Err(Error::invalid(
                "`old` is empty: `append` adds to the end of a file, `write` writes it whole",
            ));
        }
        if old == new {
            return Err(Error::invalid("`old` and `new` are the same: there is nothing to change"));
        }
        let place = self.place(path)?;
        let text = self.load_text(&place)?;
        let has = |sign| old.contains(sign) || new.contains(sign);
        let means_crlf = has('\n') && !has('\r') && end_in_crlf(text.split_inclusive('\n'));
        let as_meant = |written: &str| match means_crlf {
            true => written.replace('\n', "\r\n"),
            false => written.to_owned(),
        };
        let (old_meant, new) = (as_meant(old), as_meant(new));
        let places: Vec<usize> = memmem::find_iter(text.as_bytes(), &old_meant).collect();
        match places.len() {
            0 => return Err(not_found(&text, &old_meant, &place)),
            1 => {}
            _ if all => {}
            _ => return Err(ambiguous(&text, &places, &place)),
        }
        let kept = text.len() - places.len() * old_meant.len();
        let length = places.len().saturating_mul(new.len()).saturating_add(kept);
        if length > MAX_RESULT_BYTES {
            return Err(Error::invalid(format!(
                "the file would have {length} bytes: more than is changed in place; make a smaller change"
            )));
        }
        self.replace(&place, text.replace(&old_meant, &new).as_bytes())?;
        Ok(Edited {
            path: place.name,
            replaced: places.len() as u64,
            lines: lines_of(&text, &places),
            bytes: length as u64,
        })
    }
}

/// The lines in which the first of the places are.
fn lines_of(text: &str, places: &[usize]) -> Vec<u64> {
    let (mut line, mut counted_to) = (1, 0);
    let numbers = places.iter().take(MAX_PLACES).map(|place| {
        line += memchr::memchr_iter(b'\n', &text.as_bytes()[counted_to..*place]).count() as u64;
        counted_to = *place;
        line
    });
    numbers.collect()
}

fn ambiguous(text: &str, places: &[usize], place: &Place) -> Error {
    let lines: Vec<String> = lines_of(text, places).iter().map(u64::to_string).collect();
    let more = if places.len() > MAX_PLACES { " and more" } else { "" };
    Error::new(format!(
        "`old` is {} times in `{}`, in lines {}{more}: add what is around the one that is meant, or set `all`",
        places.len(),
        place.name,
        lines.join(", ")
    ))
}

fn not_found(text: &str, old: &str, place: &Place) -> Error {
    let name = &place.name;
    let text = without_mark(text);
    if text.is_empty() {
        return Error::new(format!("`old` is not in `{name}`, which is empty"));
    }
    let slip = find_open_end(text, old).or_else(|| find_slip(text, old));
    let slip = slip.map(|(line, slip)| (line, slip.to_owned()));
    if let Some((line, slip)) = slip.or_else(|| find_look_alike(text, old)) {
        return Error::new(format!(
            "`old` is in `{name}` from line {line}, but for {slip}: take the text as `read` gives it"
        ));
    }
    let wanted = old.lines().find(|line| !line.trim().is_empty()).unwrap_or(old);
    let Some((index, line)) = nearest_line(text.lines(), wanted) else {
        return Error::new(format!(
            "`old` is not in `{name}`, nor is any line like it{}: read the file, or `search` for it",
            if text.len() > MAX_LOOKED_AT_BYTES { " in its first MiB" } else { "" }
        ));
    };
    let (number, line_shown) = (index + 1, shorten(line, MAX_LINE_CHARACTERS));
    Error::new(if line.contains(wanted) && old.contains('\n') {
        format!(
            "`old` is not in `{name}`. Its line `{}` is there, in line {number}, but not all that comes with it: read the file from there and take the text as it is",
            shorten(wanted, MAX_LINE_CHARACTERS)
        )
    } else {
        format!("`old` is not in `{name}`. The nearest line is {number}: `{line_shown}`")
    })
}

/// The line where the text is, at the end of a file whose last line has no end.
fn find_open_end(text: &str, old: &str) -> Option<(usize, &'static str)> {
    let wanted = old.trim_end_matches(['\r', '\n']);
    let before = text.strip_suffix(wanted).filter(|_| !wanted.is_empty() && old.ends_with('\n'))?;
    Some((before.matches('\n').count() + 1, "the line end after it, since the file ends without one"))
}

/// The part of a line that is compared.
type Part = fn(&str) -> &str;

/// The line where the text is but for what models get wrong, and what that is.
fn find_slip(text: &str, old: &str) -> Option<(usize, &'static str)> {
    let ends_line = old.ends_with('\n');
    let unnumbered: Option<Vec<&str>> = old.lines().map(without_number).collect();
    let unnumbered = unnumbered.map(|lines| lines.join("\n"));
    let text = &text[..text.floor_char_boundary(MAX_LOOKED_AT_BYTES)];
    if memchr::memchr_iter(b'\n', text.as_bytes()).count() > MAX_COMPARED_LINES {
        return None;
    }
    let slips: [(_, Part, _); 4] = [
        (Some(old), |line| line, "the ends of its lines, where one has `\\n` and the other `\\r\\n`"),
        (Some(old), str::trim_end, "spaces at the ends of its lines"),
        (Some(old), str::trim, "the spaces or tabs that its lines begin with"),
        (unnumbered.as_deref(), str::trim, "the numbers before its lines, which are no part of the file"),
    ];
    slips.into_iter().find_map(|(old, part, slip)| {
        let text = each_line(text, part) + "\n";
        let mut old = each_line(old?, part);
        // A line end after the text is a part of it, or the beginning of a longer line would be it.
        old.push_str(if ends_line { "\n" } else { "" });
        let place = memmem::find(text.as_bytes(), old.as_bytes()).filter(|_| !old.trim().is_empty())?;
        Some((text[..place].matches('\n').count() + 1, slip))
    })
}

/// The line where the text is but for signs that look alike, and the first of them.
fn find_look_alike(text: &str, old: &str) -> Option<(usize, String)> {
    let text = &text[..text.floor_char_boundary(MAX_LOOKED_AT_BYTES)];
    let (folded, wanted) = (fold_look_alikes(text), fold_look_alikes(old));
    let place = memmem::find(folded.as_bytes(), wanted.as_bytes()).filter(|_| !wanted.trim().is_empty())?;
    let index = folded[..place].matches('\n').count();
    let found: Vec<&str> = text.lines().skip(index).take(old.lines().count()).collect();
    let only_in =
        |text: &str, other: &str| text.chars().find(|sign| !sign.is_ascii() && !other.contains(*sign));
    let in_file = found.iter().find_map(|line| only_in(line, old)).map(|sign| ("the file", sign));
    let slip = match in_file.or_else(|| only_in(old, &found.concat()).map(|sign| ("`old`", sign))) {
        Some((holder, sign)) => {
            let shown = sign.escape_debug();
            format!("signs that look alike, as `{shown}` (U+{:04X}) of {holder}", u32::from(sign))
        }
        None => "the spaces or tabs within its lines".to_owned(),
    };
    Some((index + 1, slip))
}

/// A part of each line of a text, joined by line feeds.
fn each_line(text: &str, part: Part) -> String {
    let mut parts = String::with_capacity(text.len());
    for (index, line) in text.lines().enumerate() {
        parts.push_str(if index > 0 { "\n" } else { "" });
        parts.push_str(part(line));
    }
    parts
}
