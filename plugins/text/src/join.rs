//! `join`: parts into a text.

use toolgate_sdk::{Error, tool};

use crate::size;

/// Joins parts to one text, with a separator between them.
#[tool(
    read_only,
    tags("text", "concatenate"),
    examples(
        {"parts": ["2024", "05", "17"], "separator": "-"} => "2024-05-17",
        "lines": {"parts": ["one", "two"]} => "one\ntwo",
    )
)]
pub fn join(
    /// The parts, in order
    parts: Vec<String>,
    /// Text between two parts; a line break unless given
    #[default("\n".to_owned())]
    separator: String,
) -> Result<String, Error> {
    let separators = parts.len().saturating_sub(1).saturating_mul(size::in_json(&separator) - 2);
    let bytes = parts.iter().map(|part| size::in_json(part) - 2).sum::<usize>().saturating_add(separators);
    size::check(bytes)?;
    Ok(parts.join(&separator))
}
