//! Derives our names from foreign names (requirements 9.4): `getCurrentWeather` becomes `get_current_weather`.
//!
//! The rule applies to actions of a definition, operations of an OpenAPI document and tools of an MCP server:
//!
//! 1. A word ends at every character that is no ASCII letter or digit, and before a capital that starts a word
//!    (`parseJSONFile` has three words).
//! 2. Words are lower-cased and joined by underscores. A name that starts with a digit gets the prefix `tool_`; a name
//!    without any word becomes `tool_` and a hash of the original.
//! 3. A name that is too long for a wire name is cut, between words if most of it remains, and ends in a hash of the original.
//!
//! A valid name of ours is unchanged. The callers refuse all names of a collision: which of them was allowed earlier is
//! unknown, and a later one could otherwise take a name over.

use std::collections::BTreeMap;

use super::{NAMESPACE_BYTES, TOOL_BYTES, WIRE_BYTES, WIRE_PREFIX};

/// Letters of a hash: 31 bits distinguish a thousand names.
const HASH_LETTERS: usize = 6;

/// Derives the name of a tool in the plugin with that namespace.
pub fn derive_tool_name(namespace: &str, original: &str) -> String {
    let fixed_bytes = WIRE_PREFIX.len() + namespace.len() + "_".len();
    let max_bytes = WIRE_BYTES.saturating_sub(fixed_bytes).min(TOOL_BYTES);
    shorten(full_name(original), original, max_bytes)
}

/// Derives a namespace from a display name: `Weather Service` becomes `weather-service`. A capital does not start a word
/// here, since namespaces ignore case. `None` if no word starts with a letter.
pub fn derive_namespace(original: &str) -> Option<String> {
    let words = words(&original.to_ascii_lowercase(), '-');
    let mut name = words.trim_start_matches(|first: char| !first.is_ascii_lowercase());
    if name.len() > NAMESPACE_BYTES {
        name = name.get(..NAMESPACE_BYTES)?;
        name = name.rsplit_once('-').map_or(name, |(whole, _)| whole);
    }
    Some(name.trim_end_matches('-')).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Returns the originals whose derived names collide, each with that name before it is shortened, which depends on the
/// namespace.
pub fn name_collisions<'a>(originals: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for original in originals {
        by_name.entry(full_name(original)).or_default().push(original);
    }
    let colliding = by_name.into_iter().filter(|(_, originals)| originals.len() > 1);
    colliding
        .flat_map(|(name, originals)| originals.into_iter().map(move |original| (original, name.clone())))
        .collect()
}

/// The name before it is shortened.
fn full_name(original: &str) -> String {
    match words(original, '_') {
        none if none.is_empty() => format!("tool_{}", hash(original)),
        words if words.starts_with(|first: char| first.is_ascii_digit()) => format!("tool_{words}"),
        words => words,
    }
}

/// The words of `original` in lower case, separated by single `joint`s.
fn words(original: &str, joint: char) -> String {
    let letters: Vec<char> = original.chars().collect();
    let mut name = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let begins = letter.is_ascii_uppercase() && begins_word(&letters, at);
        if (!letter.is_ascii_alphanumeric() || begins) && !name.is_empty() && !name.ends_with(joint) {
            name.push(joint);
        }
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_lowercase());
        }
    }
    name.truncate(name.trim_end_matches(joint).len());
    name
}

/// True for the `J` and the `F` of `parseJSONFile`.
fn begins_word(letters: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| letters.get(before));
    let ends_capitals = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
    before.is_some_and(|before| !before.is_ascii_uppercase() || ends_capitals)
}

fn shorten(name: String, original: &str, max_bytes: usize) -> String {
    if name.len() <= max_bytes {
        return name;
    }
    let start = name.get(..max_bytes.saturating_sub(HASH_LETTERS + 1)).unwrap_or_default();
    let at_word = start.rfind('_').filter(|at| *at > max_bytes / 2);
    let start = at_word.and_then(|at| start.get(..at)).unwrap_or(start);
    format!("{}_{}", start.trim_end_matches('_'), hash(original))
}

/// FNV-1a in base 36. It is stable across versions and only distinguishes names; it protects nothing.
fn hash(text: &str) -> String {
    let mut hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut letters = String::new();
    for _ in 0..HASH_LETTERS {
        letters.extend(char::from_digit(u32::try_from(hash % 36).unwrap_or_default(), 36));
        hash /= 36;
    }
    letters
}

#[cfg(test)]
mod tests;
