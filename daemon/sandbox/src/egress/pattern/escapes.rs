//! Unescapes text from URLs, JSON and HTML, joins the lines of Base64, and maps each byte to its position in the original.
//!
//! Encoders disagree about which characters to escape and how, even within one string: `+` as it is and `=` as
//! `\u003d`. So secrets are not searched in every spelling; the text is unescaped instead.

use memchr::{memchr, memchr3};
use zeroize::Zeroizing;

/// Length of the longest supported escape: `&#x0026;`.
const LONGEST: usize = 8;

/// Longest indentation of a line that is joined. Without a limit, a response of white space would be held back whole.
const INDENT_BYTES: usize = 64;

/// A text without its escapes.
pub(super) struct Unescaped {
    pub(super) text: Zeroizing<Vec<u8>>,
    runs: Vec<Run>,
    /// Start of a truncated escape at the end of the original.
    pub(super) truncated_at: usize,
}

/// A run of unescaped bytes, or one escaped byte.
#[derive(Clone, Copy)]
struct Run {
    at: usize,
    original: usize,
}

/// The escape at a position.
enum Escape {
    /// A byte and the length of its escape.
    Byte(u8, usize),
    /// No escape.
    None,
    /// Truncated: the text ends within the escape.
    Truncated,
}

impl Unescaped {
    /// Returns `None` if the text has no escapes.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut found = next_escape(bytes, 0)?;
        let mut unescaped = Self {
            text: Zeroizing::new(Vec::with_capacity(bytes.len())),
            runs: Vec::new(),
            truncated_at: bytes.len(),
        };
        // Start of the bytes since the last escape.
        let mut plain = 0;
        loop {
            match escape(&bytes[found..]) {
                Escape::Byte(byte, length) => {
                    unescaped.push(plain, &bytes[plain..found]);
                    unescaped.push(found, &[byte]);
                    plain = found + length;
                    found = plain;
                }
                Escape::None => found += 1,
                Escape::Truncated => {
                    unescaped.truncated_at = found;
                    break;
                }
            }
            match next_escape(bytes, found) {
                Some(at) => found = at,
                None => break,
            }
        }
        if plain == 0 && unescaped.truncated_at == bytes.len() {
            return None;
        }
        unescaped.push(plain, &bytes[plain..unescaped.truncated_at]);
        let (at, original) = (unescaped.text.len(), unescaped.truncated_at);
        unescaped.runs.push(Run { at, original });
        Some(unescaped)
    }

    /// Joins lines without the white space at their beginning: MIME and PEM break Base64 after 64 or 76 letters. An empty
    /// line ends Base64 and stays. Returns `None` if no lines were joined.
    pub(super) fn join_lines(bytes: &[u8]) -> Option<Self> {
        let mut joined =
            Self { text: Zeroizing::new(Vec::new()), runs: Vec::new(), truncated_at: bytes.len() };
        // Start of the bytes since the last break, and the place to look for the next.
        let (mut plain, mut from) = (0, 0);
        while let Some((line_end, next)) = next_break(bytes, plain, &mut from) {
            if joined.runs.is_empty() {
                joined.text.reserve_exact(bytes.len());
            }
            joined.push(plain, &bytes[plain..line_end]);
            (plain, from) = (next, next);
        }
        if joined.runs.is_empty() {
            return None;
        }
        joined.push(plain, &bytes[plain..]);
        let (at, original) = (joined.text.len(), bytes.len());
        joined.runs.push(Run { at, original });
        Some(joined)
    }

    /// Maps the end of a range to the original: behind the last byte, and not behind a line break that follows it.
    pub(super) fn original_end(&self, end: usize) -> usize {
        self.original_position(end.saturating_sub(1)) + 1
    }

    /// Maps a position, or the end, to the original.
    pub(super) fn original_position(&self, at: usize) -> usize {
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

/// The end of the next line that may be of Base64, and the beginning of the line after it. The line begins at `plain`,
/// and breaks before `from` were looked at.
fn next_break(bytes: &[u8], plain: usize, from: &mut usize) -> Option<(usize, usize)> {
    let is_letter =
        |byte: Option<&u8>| byte.is_none_or(|byte| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte));
    // A CR at the end may be the first half of a break.
    while let Some(feed) = memchr(b'\n', &bytes[*from..])
        .map(|at| *from + at)
        .or_else(|| bytes.len().checked_sub(1).filter(|last| *last >= *from && bytes[*last] == b'\r'))
    {
        *from = feed + 1;
        let line_end = feed - usize::from(bytes[plain..feed].ends_with(b"\r"));
        let blank = bytes[*from..].iter().take(INDENT_BYTES + 1);
        let next = *from + blank.take_while(|byte| b" \t".contains(byte)).count();
        let is_indent = next - *from <= INDENT_BYTES;
        if is_indent && line_end > plain && is_letter(bytes[..line_end].last()) && is_letter(bytes.get(next))
        {
            return Some((line_end, next));
        }
    }
    None
}

fn next_escape(bytes: &[u8], from: usize) -> Option<usize> {
    memchr3(b'%', b'\\', b'&', &bytes[from..]).map(|at| from + at)
}

fn escape(bytes: &[u8]) -> Escape {
    match bytes {
        [b'%', digits @ ..] => hex(digits, 2, 1),
        [b'\\'] => Escape::Truncated,
        [b'\\', b'x', digits @ ..] => hex(digits, 2, 2),
        [b'\\', b'u', digits @ ..] => match digits {
            [b'0', b'0', digits @ ..] => hex(digits, 2, 4),
            [] | [b'0'] => Escape::Truncated,
            _ => Escape::None,
        },
        [b'\\', letter, ..] => match letter {
            b'"' | b'\'' | b'\\' | b'/' => Escape::Byte(*letter, 2),
            b'n' => Escape::Byte(b'\n', 2),
            b'r' => Escape::Byte(b'\r', 2),
            b't' => Escape::Byte(b'\t', 2),
            b'b' => Escape::Byte(8, 2),
            b'f' => Escape::Byte(12, 2),
            _ => Escape::None,
        },
        [b'&', ..] => entity(bytes),
        _ => Escape::None,
    }
}

/// A byte in hexadecimal digits, after `before` characters of the escape. Above ASCII only `%` stands for a byte; the
/// other escapes stand for a character.
fn hex(digits: &[u8], count: usize, before: usize) -> Escape {
    let digits = &digits[..digits.len().min(count)];
    let Ok(text) = std::str::from_utf8(digits) else { return Escape::None };
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return Escape::None;
    }
    match u8::from_str_radix(text, 16) {
        _ if digits.len() < count => Escape::Truncated,
        Ok(byte) if before == 1 || byte.is_ascii() => Escape::Byte(byte, before + count),
        _ => Escape::None,
    }
}

/// `&amp;`, `&#43;`, `&#x2B;`.
fn entity(bytes: &[u8]) -> Escape {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let Some(end) = bytes.iter().position(|byte| *byte == b';') else {
        let can_go_on = bytes.iter().skip(1).all(|byte| byte.is_ascii_alphanumeric() || *byte == b'#');
        return if can_go_on && bytes.len() < LONGEST { Escape::Truncated } else { Escape::None };
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
    number.filter(u8::is_ascii).map_or(Escape::None, |byte| Escape::Byte(byte, end + 1))
}
