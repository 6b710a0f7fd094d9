//! The path of a request: refused where two servers could read it in two ways.
//!
//! A rule speaks about the text of a path, and the server may decode that text, once or more, before it looks. So a path
//! is held to this at every level of decoding: no empty, `.` or `..` segment (nor one in front of a `;`, which some
//! servers cut off), no backslash, no control character, whole UTF-8. Then decoding can lead deeper into a prefix and
//! never out of it, and an encoded slash does no harm.

/// How often a path may be decoded until nothing is left to decode. Deeper nesting has no honest use.
const DECODINGS: usize = 3;

/// Why the path cannot be used; `None` where it can.
pub(super) fn refused(path: &str) -> Option<&'static str> {
    if !path.starts_with('/') {
        return Some("the path does not begin with `/`");
    }
    if let Some(why) = path.bytes().find_map(refused_byte) {
        return Some(why);
    }
    if has_bare_percent(path) {
        return Some("a `%` in the path stands for nothing");
    }
    let mut level = path.to_owned();
    for _ in 0..=DECODINGS {
        if let Some(why) = refused_segments(&level) {
            return Some(why);
        }
        match decode(&level) {
            Decoded::Same => return None,
            Decoded::Text(text) => level = text,
            Decoded::NotText => return Some("the path is not UTF-8 when it is decoded"),
        }
    }
    Some("the path is encoded over and over")
}

/// What can stand in a path as it is sent (RFC 3986, `pchar` and `/`).
fn refused_byte(byte: u8) -> Option<&'static str> {
    match byte {
        b'\\' => Some("the path has a backslash, which some servers read as `/`"),
        byte if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&byte) => None,
        _ => Some("the path has a character that must be written with `%`"),
    }
}

fn refused_segments(path: &str) -> Option<&'static str> {
    if path.chars().any(|letter| letter.is_control() || letter == '\\') {
        return Some("the path has a control character or a backslash");
    }
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let plain = segment.split(';').next().unwrap_or(segment);
        let is_last = segments.peek().is_none();
        if plain == "." || plain == ".." {
            return Some("the path has a `.` or `..` segment");
        }
        if plain.is_empty() && !(is_last && segment.is_empty()) {
            return Some("the path has an empty segment");
        }
    }
    None
}

enum Decoded {
    Same,
    Text(String),
    NotText,
}

fn decode(text: &str) -> Decoded {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        match escaped(bytes, at) {
            Some(meant) => {
                decoded.push(meant);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    if decoded.len() == bytes.len() {
        return Decoded::Same;
    }
    String::from_utf8(decoded).map_or(Decoded::NotText, Decoded::Text)
}

fn has_bare_percent(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'%' && escaped(bytes, at).is_none())
}

/// The byte that `%` and two digits stand for.
fn escaped(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |place: usize| char::from(*bytes.get(place)?).to_digit(16);
    if bytes.get(at) != Some(&b'%') {
        return None;
    }
    u8::try_from(digit(at + 1)? * 16 + digit(at + 2)?).ok()
}

/// Whether a path is the prefix of a rule or lies below it. `/a` is `/a` and `/a/b`, not `/ab`; `/a/` is what lies
/// below `/a`.
pub(crate) fn is_within(path: &str, prefix: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}
