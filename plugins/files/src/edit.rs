//! `edit`: one text in a file for another.

use memchr::memmem;
use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::likeness::nearest_line;
use crate::room::shorten;
use crate::text::{end_in_crlf, without_mark};
use crate::workspace::{Place, Workspace};

/// Enough places to see which one is meant.
const MAX_PLACES: usize = 10;

/// Enough of a line to know it by.
const MAX_LINE_CHARACTERS: usize = 200;

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

/// What was changed.
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
        let change = Change::find(&text, old, new);
        match change.places.len() {
            0 => return Err(not_found(&text, old, &place)),
            1 => {}
            _ if all => {}
            _ => return Err(ambiguous(&text, &change.places, &place)),
        }
        let changed = change.apply(&text)?;
        self.replace(&place, changed.as_bytes())?;
        Ok(Edited {
            path: place.name,
            replaced: change.places.len() as u64,
            lines: lines_of(&text, &change.places),
            bytes: changed.len() as u64,
        })
    }
}

/// What is replaced by what, and where.
struct Change {
    old: String,
    new: String,
    places: Vec<usize>,
}

impl Change {
    fn find(text: &str, old: &str, new: &str) -> Self {
        let has = |sign| old.contains(sign) || new.contains(sign);
        let means_crlf = has('\n') && !has('\r') && end_in_crlf(text.split_inclusive('\n'));
        let as_meant = |written: &str| {
            if means_crlf { written.replace('\n', "\r\n") } else { written.to_owned() }
        };
        let (old, new) = (as_meant(old), as_meant(new));
        let places = memmem::find_iter(text.as_bytes(), &old).collect();
        Self { old, new, places }
    }

    fn apply(&self, text: &str) -> Result<String, Error> {
        let kept = text.len() - self.places.len() * self.old.len();
        let length = self.places.len().saturating_mul(self.new.len()).saturating_add(kept);
        if length > MAX_RESULT_BYTES {
            return Err(Error::invalid(format!(
                "the file would have {length} bytes: more than is changed in place; make a smaller change"
            )));
        }
        let mut changed = String::with_capacity(length);
        let mut copied_to = 0;
        for place in &self.places {
            changed.push_str(&text[copied_to..*place]);
            changed.push_str(&self.new);
            copied_to = place + self.old.len();
        }
        changed.push_str(&text[copied_to..]);
        Ok(changed)
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
    let in_line_feeds = old.replace("\r\n", "\n");
    let otherwise = [in_line_feeds.replace('\n', "\r\n"), in_line_feeds];
    if otherwise.iter().any(|old| memmem::find(text.as_bytes(), old.as_bytes()).is_some()) {
        return Error::new(format!(
            "`old` is in `{name}` but for the ends of its lines, where one has `\\n` and the other `\\r\\n`: take them as `read` gives them"
        ));
    }
    let wanted = old.lines().find(|line| !line.trim().is_empty()).unwrap_or(old);
    Error::new(match nearest_line(text, wanted) {
        Some((number, line)) if line.contains(wanted) && old.contains('\n') => format!(
            "`old` is not in `{name}`. Its line `{}` is there, in line {number}, but not all that comes with it: read the file from there and take the text as it is",
            shorten(wanted, MAX_LINE_CHARACTERS)
        ),
        Some((number, line)) if line.trim() == wanted.trim() => format!(
            "`old` is not in `{name}`. Line {number} differs only in its spaces: `{}`",
            shorten(line, MAX_LINE_CHARACTERS)
        ),
        Some((number, line)) => format!(
            "`old` is not in `{name}`. The nearest line is {number}: `{}`",
            shorten(line, MAX_LINE_CHARACTERS)
        ),
        None => {
            format!("`old` is not in `{name}`, nor is any line like it: read the file, or `search` for it")
        }
    })
}
