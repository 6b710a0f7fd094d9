//! The one rule by which names from elsewhere become names of tools (requirements 9.4): `getCurrentWeather` is
//! `get_current_weather`.
//!
//! It holds for the actions of a definition, the operations of an OpenAPI document and the tools of an MCP server, in
//! components and in the daemon alike, so it stands in a crate without dependencies that both are made with:
//!
//! 1. Words end at every sign that is no ASCII letter or digit, and where a capital begins a word (`parseJSONFile` has three).
//! 2. They are put in lower case and joined by underscores. What then begins with a digit has `tool_` in front of it; what is
//!    left without any word is `tool_` and a hash of the original.
//! 3. What is too long for a wire name is cut, between words where that keeps most of it, and ends in a hash of the original.
//!
//! A name that is one of ours already stays as it is. Names that become the same are all refused by whoever asks here: which
//! of them somebody allowed is not to be guessed, and whoever comes later could otherwise take a name over.

use std::collections::BTreeMap;

/// Longest wire name, `call_NAMESPACE_TOOL`, in bytes: the least of what providers of models allow.
const WIRE_BYTES: usize = 64;
/// What a wire name has beside namespace and tool.
const WIRE_SIGNS: usize = "call__".len();
/// Longest name of a tool, in bytes.
const TOOL_BYTES: usize = 58;
/// Longest namespace, in bytes.
const NAMESPACE_BYTES: usize = 40;
/// Letters of a hash: 31 bits tell a thousand names apart.
const HASH_LETTERS: usize = 6;

/// The name of a tool in the plugin of that namespace.
pub fn tool(namespace: &str, original: &str) -> String {
    let room = WIRE_BYTES.saturating_sub(WIRE_SIGNS + namespace.len()).min(TOOL_BYTES);
    shorten(whole(original), original, room)
}

/// The namespace that a name for people makes: `Weather Service` is `weather-service`. Capitals begin no word here, since
/// namespaces are called in either case of letters. None where no word of it begins with a letter.
pub fn namespace(original: &str) -> Option<String> {
    let words = words(&original.to_ascii_lowercase(), '-');
    let mut name = words.trim_start_matches(|first: char| !first.is_ascii_lowercase());
    if name.len() > NAMESPACE_BYTES {
        name = name.get(..NAMESPACE_BYTES)?;
        name = name.rsplit_once('-').map_or(name, |(whole, _)| whole);
    }
    Some(name.trim_end_matches('-')).filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Those of some names that others become the same as, each with what they become before anything is cut, which depends on
/// the namespace.
pub fn collisions<'a>(originals: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for original in originals {
        by_name.entry(whole(original)).or_default().push(original);
    }
    let colliding = by_name.into_iter().filter(|(_, originals)| originals.len() > 1);
    colliding
        .flat_map(|(name, originals)| originals.into_iter().map(move |original| (original, name.clone())))
        .collect()
}

/// The name before it is cut.
fn whole(original: &str) -> String {
    match words(original, '_') {
        none if none.is_empty() => format!("tool_{}", hash(original)),
        words if words.starts_with(|first: char| first.is_ascii_digit()) => format!("tool_{words}"),
        words => words,
    }
}

/// Words in lower case with one joint between each two.
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

/// In `parseJSONFile` at the `J` and the `F`.
fn begins_word(letters: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| letters.get(before));
    let ends_capitals = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
    before.is_some_and(|before| !before.is_ascii_uppercase() || ends_capitals)
}

fn shorten(name: String, original: &str, room: usize) -> String {
    if name.len() <= room {
        return name;
    }
    let start = name.get(..room.saturating_sub(HASH_LETTERS + 1)).unwrap_or_default();
    let at_word = start.rfind('_').filter(|at| *at > room / 2);
    let start = at_word.and_then(|at| start.get(..at)).unwrap_or(start);
    format!("{}_{}", start.trim_end_matches('_'), hash(original))
}

/// FNV-1a in letters and digits, which is the same everywhere and for good. It keeps names apart and guards nothing.
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
