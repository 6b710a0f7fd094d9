//! Texts as they are meant: what URLs, JSON and HTML write otherwise is put back, with the place where each byte came from.
//!
//! Encoders disagree about what to escape and how, within one string even: `+` as it is and `=` as `\u003d`. So secrets are
//! not written in all the ways that there are; what comes back is read instead.

use memchr::memchr3;
use zeroize::Zeroizing;

/// Longest escape that is known: `&#x0026;`.
const LONGEST: usize = 8;

/// A text without its escapes.
pub(super) struct Unescaped {
    pub(super) text: Zeroizing<Vec<u8>>,
    runs: Vec<Run>,
    /// Where an escape begins in the original that the end cuts off.
    pub(super) cut_off: usize,
}

/// Bytes that stand in the original as they stand here, or one that is escaped there.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    original: usize,
}

/// What stands where an escape can begin.
enum Escape {
    /// This byte, written with so many.
    Of(u8, usize),
    /// No escape.
    None,
    /// The text ends before it can be told.
    CutOff,
}

impl Unescaped {
    /// None where nothing is escaped.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let mut found = next(bytes, 0)?;
        let mut unescaped = Self {
            text: Zeroizing::new(Vec::with_capacity(bytes.len())),
            runs: Vec::new(),
            cut_off: bytes.len(),
        };
        // What lies from here to the next escape is as it is.
        let mut plain = 0;
        loop {
            match escape(&bytes[found..]) {
                Escape::Of(byte, length) => {
                    unescaped.push(plain, &bytes[plain..found]);
                    unescaped.push(found, &[byte]);
                    plain = found + length;
                    found = plain;
                }
                Escape::None => found += 1,
                Escape::CutOff => {
                    unescaped.cut_off = found;
                    break;
                }
            }
            match next(bytes, found) {
                Some(at) => found = at,
                None => break,
            }
        }
        if plain == 0 && unescaped.cut_off == bytes.len() {
            return None;
        }
        unescaped.push(plain, &bytes[plain..unescaped.cut_off]);
        let (at, original) = (unescaped.text.len(), unescaped.cut_off);
        unescaped.runs.push(Run { at, original });
        Some(unescaped)
    }

    /// Where a byte, or the end, stands in the original.
    pub(super) fn original(&self, at: usize) -> usize {
        let behind = self.runs.partition_point(|run| run.at <= at);
        let run = self.runs[behind - 1];
        run.original + (at - run.at)
    }

    fn push(&mut self, original: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.runs.push(Run { at: self.text.len(), original });
            self.text.extend_from_slice(bytes);
        }
    }
}

fn next(bytes: &[u8], from: usize) -> Option<usize> {
    memchr3(b'%', b'\\', b'&', &bytes[from..]).map(|at| from + at)
}

fn escape(bytes: &[u8]) -> Escape {
    match bytes {
        [b'%', digits @ ..] => hex(digits, 2, 1),
        [b'\\'] => Escape::CutOff,
        [b'\\', b'x', digits @ ..] => hex(digits, 2, 2),
        [b'\\', b'u', digits @ ..] => match digits {
            [b'0', b'0', digits @ ..] => hex(digits, 2, 4),
            [] | [b'0'] => Escape::CutOff,
            _ => Escape::None,
        },
        [b'\\', letter, ..] => match letter {
            b'"' | b'\'' | b'\\' | b'/' => Escape::Of(*letter, 2),
            b'n' => Escape::Of(b'\n', 2),
            b'r' => Escape::Of(b'\r', 2),
            b't' => Escape::Of(b'\t', 2),
            b'b' => Escape::Of(8, 2),
            b'f' => Escape::Of(12, 2),
            _ => Escape::None,
        },
        [b'&', ..] => entity(bytes),
        _ => Escape::None,
    }
}

/// A byte in hexadecimal digits, behind so many letters of the escape. Beyond ASCII an escape is a character and no byte, but
/// for `%`, which writes bytes.
fn hex(digits: &[u8], count: usize, before: usize) -> Escape {
    let digits = &digits[..digits.len().min(count)];
    let Ok(text) = std::str::from_utf8(digits) else { return Escape::None };
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Escape::None;
    }
    match u8::from_str_radix(text, 16) {
        _ if digits.len() < count => Escape::CutOff,
        Ok(byte) if before == 1 || byte.is_ascii() => Escape::Of(byte, before + count),
        _ => Escape::None,
    }
}

/// `&amp;`, `&#43;`, `&#x2B;`.
fn entity(bytes: &[u8]) -> Escape {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let Some(end) = bytes.iter().position(|byte| *byte == b';') else {
        let can_go_on = bytes.iter().skip(1).all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#');
        return if can_go_on && bytes.len() < LONGEST { Escape::CutOff } else { Escape::None };
    };
    let name = std::str::from_utf8(&bytes[1..end]).unwrap_or_default();
    let number = match name.strip_prefix('#') {
        Some(digits) => match digits.strip_prefix(['x', 'X']) {
            Some(digits) => u8::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        },
        None => match name {
            "amp" => Some(b'&'),
            "lt" => Some(b'<'),
            "gt" => Some(b'>'),
            "quot" => Some(b'"'),
            "apos" => Some(b'\''),
            _ => None,
        },
    };
    number.filter(u8::is_ascii).map_or(Escape::None, |byte| Escape::Of(byte, end + 1))
}
