//! Request paths: refused where two servers could read them in two ways (path traversal, double decoding).
//!
//! A rule is about the text of a path, and a server may percent-decode that text once or more. A path is therefore
//! validated at every level of decoding: no empty, `.` or `..` segment (nor one before a `;`, which some servers cut
//! off), no backslash, no control character, valid UTF-8. Decoding can then lead deeper into a prefix and never out of
//! it, and an encoded slash is harmless.

/// Levels of percent-encoding that a path may have. More has no legitimate use.
const MAX_DECODINGS: usize = 3;
/// Longest path of a rule, in bytes.
const RULE_PATH_BYTES: usize = 1_000;

/// Validates the path of a request; the error says what is wrong.
pub fn validate_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("the path does not begin with `/`");
    }
    if let Some(why) = path.bytes().find_map(refused_byte) {
        return Err(why);
    }
    if has_bare_percent(path) {
        return Err("a `%` in the path is not followed by two hexadecimal digits");
    }
    let mut level = path.to_owned();
    for _ in 0..=MAX_DECODINGS {
        if let Some(why) = refused_segment(&level) {
            return Err(why);
        }
        match decode(&level) {
            None => return Err("the path is not UTF-8 when it is decoded"),
            Some(text) if text == level => return Ok(()),
            Some(text) => level = text,
        }
    }
    Err("the path is percent-encoded more than three times")
}

/// Validates the path prefix of a rule: a request path of at most 1,000 bytes.
pub fn validate_rule_path(path: &str) -> Result<(), &'static str> {
    if path.len() > RULE_PATH_BYTES {
        return Err("the path has more than the 1000 bytes of a rule");
    }
    validate_path(path)
}

/// Refuses bytes that RFC 3986 does not allow in a path (`pchar` and `/`).
fn refused_byte(byte: u8) -> Option<&'static str> {
    match byte {
        b'\\' => Some("the path has a backslash, which some servers read as `/`"),
        byte if byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&byte) => None,
        _ => Some("the path has a character that must be written with `%`"),
    }
}

fn refused_segment(path: &str) -> Option<&'static str> {
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

/// Percent-decodes once; `None` if the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = escaped_byte(bytes, at);
        decoded.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).ok()
}

/// Whether a `%` is not followed by two hexadecimal digits.
pub fn has_bare_percent(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| *byte == b'%' && escaped_byte(bytes, at).is_none())
}

/// The byte encoded at `at` by `%` and two hexadecimal digits.
fn escaped_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let digit = |place: usize| char::from(*bytes.get(place)?).to_digit(16);
    if bytes.get(at) != Some(&b'%') {
        return None;
    }
    u8::try_from(digit(at + 1)? * 16 + digit(at + 2)?).ok()
}

/// Whether a path equals a rule's prefix or lies below it: `/a` covers `/a` and `/a/b`, not `/ab`; `/a/` covers what lies
/// below `/a`.
pub fn is_within(path: &str, prefix: &str) -> bool {
    match path.strip_prefix(prefix) {
        Some(rest) => rest.is_empty() || prefix.ends_with('/') || rest.starts_with('/'),
        None => false,
    }
}
