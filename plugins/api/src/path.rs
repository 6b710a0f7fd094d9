//! What a path must be so that every server reads it as the same one, and how a value becomes a part of it.
//!
//! A value is written with percent signs, so that nothing in it is a slash or the end of the path. A server may decode more
//! often than it should, and then read `..`: so the finished path is looked at in every way in which it can be decoded. The
//! host of the plugin looks again, by the same rule; here the model gets an answer that names the argument.

use std::fmt::Write;

/// How often a path may be decoded until nothing is left to decode. Deeper nesting has no honest use.
const DECODINGS: usize = 3;

/// Appends text with everything but letters, digits and `-._~` encoded (RFC 3986, 2.3).
pub fn encode_into(encoded: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
}

/// Why a path cannot be sent; none where it can.
pub fn refused(path: &str) -> Option<&'static str> {
    if !path.is_empty() && !path.starts_with('/') {
        return Some("it does not begin with `/`");
    }
    if !path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@%".contains(&byte)) {
        return Some("it has a character that must be written with `%`");
    }
    if has_bare_percent(path) {
        return Some("it has a `%` that stands for nothing");
    }
    let mut level = path.to_owned();
    for _ in 0..=DECODINGS {
        if let Some(why) = refused_segments(&level) {
            return Some(why);
        }
        match decode(&level) {
            Some(decoded) if decoded == level => return None,
            Some(decoded) => level = decoded,
            None => return Some("it is no text when it is decoded"),
        }
    }
    Some("it is encoded over and over")
}

fn refused_segments(path: &str) -> Option<&'static str> {
    if path.chars().any(|sign| sign.is_control() || sign == '\\') {
        return Some("it has a control character or a backslash");
    }
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        // Some servers cut off what follows a `;`.
        let plain = segment.split(';').next().unwrap_or(segment);
        let is_last = segments.peek().is_none();
        if plain == "." || plain == ".." {
            return Some("it has a part `.` or `..`, which leads elsewhere");
        }
        if plain.is_empty() && !(is_last && segment.is_empty()) {
            return Some("it has an empty part");
        }
    }
    None
}

/// What servers make of it, or none where that is no text.
fn decode(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let meant = escaped(bytes, at);
        decoded.push(meant.unwrap_or(byte));
        at += if meant.is_some() { 3 } else { 1 };
    }
    String::from_utf8(decoded).ok()
}

/// Whether a `%` stands in front of something else than two digits.
pub fn has_bare_percent(text: &str) -> bool {
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
