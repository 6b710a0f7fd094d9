//! Names of a server's tools in our grammar: `getCurrentWeather` is `get_current_weather`.
//!
//! Words are split where a capital begins one and at every sign that is no ASCII letter or digit, and joined by
//! underscores. A name that is too long for a wire name ends in a hash of the original. A name that needs no change is
//! never given to another tool, so that a server cannot move a tool that somebody allowed to another one by adding a tool;
//! of the others the first by name keeps it, and the next ones get `_2`, `_3`.

use std::collections::BTreeSet;

/// `call_NAMESPACE_NAME` has at most so many bytes.
const WIRE_BYTES: usize = 64;
/// What a wire name has beside the namespace and the tool's name.
const WIRE_SIGNS: usize = "call__".len();
/// Longest name of a tool.
const NAME_BYTES: usize = 58;
/// Digits of the hash in a shortened name.
const HASH_DIGITS: usize = 6;

/// Names tools, each once, in the order of the answers of `map`.
pub fn map<'a>(namespace: &str, originals: &[&'a str]) -> Vec<(&'a str, String)> {
    let room = WIRE_BYTES.saturating_sub(WIRE_SIGNS + namespace.len()).min(NAME_BYTES);
    let mut sorted: Vec<&str> = originals.to_vec();
    sorted.sort_unstable();
    let mut wanted: Vec<(&str, String)> =
        sorted.into_iter().map(|original| (original, shorten(&words(original), original, room))).collect();
    // Stable: by name among those that change, and among those that do not.
    wanted.sort_by_key(|(original, name)| original != name);
    let mut taken = BTreeSet::new();
    let mut names: Vec<_> = wanted
        .into_iter()
        .map(|(original, name)| {
            let name = free(&name, room, &taken);
            taken.insert(name.clone());
            (original, name)
        })
        .collect();
    names.sort_unstable();
    names
}

/// Lower-case words joined by underscores.
fn words(original: &str) -> String {
    let letters: Vec<char> = original.chars().collect();
    let mut name = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let begins = letter.is_ascii_uppercase() && begins_word(&letters, at);
        if (!letter.is_ascii_alphanumeric() || begins) && !name.is_empty() && !name.ends_with('_') {
            name.push('_');
        }
        if letter.is_ascii_alphanumeric() {
            name.push(letter.to_ascii_lowercase());
        }
    }
    let name = name.trim_end_matches('_');
    match name.bytes().next() {
        Some(first) if first.is_ascii_lowercase() => name.to_owned(),
        Some(_) => format!("tool_{name}"),
        None => format!("tool_{}", hash(original)),
    }
}

/// In `parseJSONFile` at the `J` and the `F`.
fn begins_word(letters: &[char], at: usize) -> bool {
    let before = at.checked_sub(1).and_then(|before| letters.get(before));
    let ends_capitals = letters.get(at + 1).is_some_and(char::is_ascii_lowercase);
    before.is_some_and(|before| !before.is_ascii_uppercase() || ends_capitals)
}

fn shorten(name: &str, original: &str, room: usize) -> String {
    if name.len() <= room {
        return name.to_owned();
    }
    let kept: String = name.chars().take(room.saturating_sub(HASH_DIGITS + 1)).collect();
    format!("{}_{}", kept.trim_end_matches('_'), hash(original))
}

/// The name, or the first of `name_2`, `name_3` that nobody has.
fn free(name: &str, room: usize, taken: &BTreeSet<String>) -> String {
    let numbered = |number: usize| {
        let suffix = format!("_{number}");
        let kept: String = name.chars().take(room.saturating_sub(suffix.len())).collect();
        format!("{}{suffix}", kept.trim_end_matches('_'))
    };
    let candidates = std::iter::once(name.to_owned()).chain((2..).map(numbered));
    candidates.into_iter().find(|candidate| !taken.contains(candidate)).unwrap_or_default()
}

/// FNV-1a, which is the same everywhere and for ever. It keeps names apart and guards nothing.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}").chars().take(HASH_DIGITS).collect()
}
