//! `split`: a text into its parts.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{Error, tool};

use crate::size::{Page, in_json};

/// Splits a text at a separator, or into its lines.
///
/// The separator is literal; `regex_find` finds parts by a pattern. `total` counts all parts; if there are more than are
/// given, `next_offset` is the `offset` of the next call.
#[tool(
    read_only,
    tags("text", "lines", "separate"),
    examples(
        {"text": "a, b,,c", "separator": ",", "trim": true, "skip_empty": true} => {"parts": ["a", "b", "c"], "total": 3},
        "lines": {"text": "one\ntwo\n"} => {"parts": ["one", "two"], "total": 2},
        "a page": {"text": "a b c d", "separator": " ", "offset": 1, "limit": 2} => {"parts": ["b", "c"], "total": 4, "next_offset": 3},
    )
)]
pub fn split(
    /// The text
    text: String,
    /// Text to split at; left out, the text is split into lines, be their ends `\n`, `\r\n` or `\r`
    separator: Option<String>,
    /// Whether to take white space off both ends of each part
    #[default]
    trim: bool,
    /// Whether to leave out parts that are empty
    #[default]
    skip_empty: bool,
    /// How many parts to pass over
    #[default]
    offset: u32,
    /// How many parts to give at most
    #[default(10000)]
    #[schemars(range(min = 1))]
    limit: u32,
) -> Result<Split, Error> {
    let mut page = Page::new(offset, limit);
    let mut add = |part: &str| {
        let part = if trim { part.trim() } else { part };
        if part.is_empty() && skip_empty {
            return;
        }
        if page.is_open() { page.add(part.to_owned(), in_json(part) + 1) } else { page.pass() }
    };
    match separator.as_deref() {
        Some("") => {
            return Err(Error::invalid(
                "`separator` is empty: give one, or leave it out to split into lines",
            ));
        }
        Some(separator) => text.split(separator).for_each(&mut add),
        None => lines(&text).for_each(&mut add),
    }
    Ok(Split { next_offset: page.next("part")?, total: page.total, parts: page.entries })
}

/// The lines, which end with `\n`, `\r\n` or `\r`. An end at the end of the text begins no further line.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text).filter(|text| !text.is_empty());
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.find(['\n', '\r']).unwrap_or(text.len());
        let (line, after) = text.split_at(end);
        let after = after.strip_prefix("\r\n").or_else(|| after.get(1..)).unwrap_or_default();
        rest = Some(after).filter(|after| !after.is_empty());
        Some(line)
    })
}

/// The parts of a text.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
pub struct Split {
    pub parts: Vec<String>,
    /// How many parts the text has
    pub total: usize,
    /// Part at which the next call goes on, if there are more
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_offset: Option<usize>,
}
