//! Names of a server's tools in our grammar: `getCurrentWeather` is `get_current_weather`.
//!
//! Words are split where a capital begins one and at every sign that is no ASCII letter or digit, and joined by
//! underscores. A name that is too long for a wire name ends in a hash of the original. Of several tools whose names become
//! the same none is mounted (requirements 9.4): a server could otherwise move what somebody allowed to another tool.

use std::collections::BTreeMap;

/// `call_NAMESPACE_NAME` has at most so many bytes.
const WIRE_BYTES: usize = 64;
/// What a wire name has beside the namespace and the tool's name.
const WIRE_SIGNS: usize = "call__".len();
/// Longest name of a tool.
const NAME_BYTES: usize = 58;
/// Digits of the hash in a shortened name.
const HASH_DIGITS: usize = 6;

/// The name of a tool in the plugin of that namespace.
pub fn map(namespace: &str, original: &str) -> String {
    let room = WIRE_BYTES.saturating_sub(WIRE_SIGNS + namespace.len()).min(NAME_BYTES);
    shorten(&words(original), original, room)
}

/// Names that another one becomes the same as, each with what they become.
pub fn collisions<'a>(originals: impl IntoIterator<Item = &'a str>) -> BTreeMap<&'a str, String> {
    let mut by_name: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for original in originals {
        by_name.entry(words(original)).or_default().push(original);
    }
    let colliding = by_name.into_iter().filter(|(_, originals)| originals.len() > 1);
    colliding
        .flat_map(|(name, originals)| originals.into_iter().map(move |original| (original, name.clone())))
        .collect()
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

/// FNV-1a, which is the same everywhere and for ever. It keeps names apart and guards nothing.
fn hash(text: &str) -> String {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    format!("{hash:016x}").chars().take(HASH_DIGITS).collect()
}
