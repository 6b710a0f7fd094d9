//! Strict JSON parser (RFC 8259): refuses text that two parsers could read in two ways.
//!
//! Duplicate keys (the first or the last wins), integers outside i64 and u64 (most parsers round them), floats that
//! overflow (some give infinity), lone surrogates (some give a question mark), text after the value. `serde_json` accepts
//! the first two, which is the reason for this parser; a property test compares both wherever both accept.
//!
//! Recursion is bounded by `max_depth`, which no layer sets above 128.

mod lenient;
mod plain;

use std::fmt;

use serde_json::{Map, Number, Value};

use crate::text::escape_for_display;

pub use lenient::parse_lenient;
pub use plain::PlainValue;

/// Keys by which `serde_json` marks its own types. Deserializing a [`Value`] whose object has such a key parses the text
/// under it again, with a depth limit of its own, so nested texts could exhaust the stack.
const RESERVED_KEYS: &str = "$serde_json::private::";

/// Longest piece of the text that a message shows, in characters.
const EXCERPT_CHARS: usize = 40;

/// A text is not strict JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct JsonError {
    /// The violation.
    pub kind: JsonErrorKind,
    /// JSON pointer of the value that was being parsed; empty for the whole.
    pub pointer: String,
    /// Position in the text, in bytes from 0.
    pub offset_bytes: usize,
    /// Line of that position, from 1.
    pub line: usize,
    /// Column of that position in characters, from 1.
    pub column: usize,
}

/// Violation of strict JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// Not JSON.
    Syntax {
        /// Token expected by the grammar.
        expected: &'static str,
        /// The next character.
        found: String,
    },
    /// A key occurs twice in one object.
    DuplicateKey(String),
    /// An integer that fits neither i64 nor u64.
    IntegerOutOfRange(String),
    /// A float that becomes another number as a double: infinite, zero, or a whole number with other digits.
    FloatOutOfRange(String),
    /// A lone surrogate, or an invalid escape.
    BadEscape(String),
    /// Nested deeper than allowed.
    TooDeep(u64),
}

impl JsonErrorKind {
    /// The expected text, in a few words.
    pub fn expected_text(&self) -> String {
        match self {
            Self::Syntax { expected, .. } => (*expected).to_owned(),
            Self::DuplicateKey(_) => "each key once".to_owned(),
            Self::IntegerOutOfRange(_) => "an integer of at most 64 bits".to_owned(),
            Self::FloatOutOfRange(_) => "a number that a double holds as it is".to_owned(),
            Self::BadEscape(_) => "a valid escape".to_owned(),
            Self::TooDeep(max_depth) => format!("at most {max_depth} levels"),
        }
    }

    /// The text found, in a few words.
    pub fn found_text(&self) -> String {
        match self {
            Self::Syntax { found, .. } => found.clone(),
            Self::DuplicateKey(key) => format!("key `{key}` twice"),
            Self::IntegerOutOfRange(text) | Self::FloatOutOfRange(text) => format!("number {text}"),
            Self::BadEscape(text) => format!("`{text}`"),
            Self::TooDeep(max_depth) => format!("level {}", max_depth.saturating_add(1)),
        }
    }

    /// The fix, as a hint.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Syntax { .. } => "send the arguments as one JSON object, with nothing before or after it",
            Self::DuplicateKey(_) => "send each key once",
            Self::IntegerOutOfRange(_) => "send a number this large as a string, if the tool takes one",
            Self::FloatOutOfRange(_) => "round it, or send it as a string, if the tool takes one",
            Self::BadEscape(_) => "write the character itself, or both halves of its surrogate pair",
            Self::TooDeep(_) => "send a flatter value",
        }
    }
}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { expected, found } => {
                write!(formatter, "malformed JSON: expected {expected}, found {found}")
            }
            Self::DuplicateKey(key) => write!(formatter, "duplicate key `{key}`"),
            Self::IntegerOutOfRange(text) => write!(formatter, "the integer {text} does not fit 64 bits"),
            Self::FloatOutOfRange(text) => write!(formatter, "the number {text} does not fit a double"),
            Self::BadEscape(text) => write!(formatter, "the escape `{text}` is not valid"),
            Self::TooDeep(max_depth) => write!(formatter, "nested deeper than {max_depth} levels"),
        }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} at line {} column {}", self.kind, self.line, self.column)?;
        if !self.pointer.is_empty() {
            write!(formatter, " (`{}`)", excerpt(&self.pointer))?;
        }
        Ok(())
    }
}

/// Parses one JSON value of at most `max_depth` levels; a scalar has none, `{}` has one.
pub fn parse_strict(raw: &str, max_depth: u64) -> Result<Value, JsonError> {
    let mut parser = Parser { text: raw, at: 0, depth: 0, max_depth, path: Vec::new() };
    parser.document().map_err(|kind| parser.locate(kind))
}

struct Parser<'a> {
    text: &'a str,
    /// INVARIANT: on a character boundary whenever a slice is taken.
    at: usize,
    depth: u64,
    max_depth: u64,
    /// Path of an error, innermost key first: filled while the error propagates, so that a valid text costs nothing.
    path: Vec<String>,
}

type Parsed<T> = Result<T, JsonErrorKind>;

impl<'a> Parser<'a> {
    fn document(&mut self) -> Parsed<Value> {
        let value = self.value()?;
        self.skip_space();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.syntax_error("the end")),
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.parse_nested(Self::object),
            Some(b'[') => self.parse_nested(Self::array),
            Some(b'"') => self.string().map(Value::String),
            Some(b'-' | b'0'..=b'9') => self.number().map(Value::Number),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            _ => Err(self.syntax_error("a value")),
        }
    }

    fn parse_nested(&mut self, inner: fn(&mut Self) -> Parsed<Value>) -> Parsed<Value> {
        if self.depth >= self.max_depth {
            return Err(JsonErrorKind::TooDeep(self.max_depth));
        }
        self.depth += 1;
        self.at += 1;
        let value = inner(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn object(&mut self) -> Parsed<Value> {
        let mut map = Map::new();
        if self.skip_to(b'}') {
            return Ok(Value::Object(map));
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.syntax_error("a key in double quotes"));
            }
            let key_at = self.at;
            let key = self.string()?;
            if key.starts_with(RESERVED_KEYS) {
                self.at = key_at;
                return Err(self.syntax_error("a key that is not reserved"));
            }
            if map.contains_key(&key) {
                self.at = key_at;
                let shown = excerpt(&key);
                self.path.push(key);
                return Err(JsonErrorKind::DuplicateKey(shown));
            }
            if !self.skip_to(b':') {
                return Err(self.syntax_error("`:`"));
            }
            match self.value() {
                Ok(value) => map.insert(key, value),
                Err(kind) => {
                    self.path.push(key);
                    return Err(kind);
                }
            };
            if self.skip_to(b'}') {
                return Ok(Value::Object(map));
            }
            if !self.skip_to(b',') {
                return Err(self.syntax_error("`,` or `}`"));
            }
        }
    }

    fn array(&mut self) -> Parsed<Value> {
        let mut items = Vec::new();
        if self.skip_to(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            match self.value() {
                Ok(value) => items.push(value),
                Err(kind) => {
                    self.path.push(items.len().to_string());
                    return Err(kind);
                }
            }
            if self.skip_to(b']') {
                return Ok(Value::Array(items));
            }
            if !self.skip_to(b',') {
                return Err(self.syntax_error("`,` or `]`"));
            }
        }
    }

    fn string(&mut self) -> Parsed<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| !matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            text.push_str(self.slice(start, self.at));
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.syntax_error("an escape in place of a control character")),
                None => return Err(self.syntax_error("the closing quote")),
            }
        }
    }

    fn escape(&mut self) -> Parsed<char> {
        let start = self.at;
        self.at += 2;
        let plain = match self.text.as_bytes().get(start + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(start),
            _ => return Err(self.bad_escape(start)),
        };
        Ok(plain)
    }

    fn unicode_escape(&mut self, start: usize) -> Parsed<char> {
        let unit = self.hex_unit().ok_or_else(|| self.bad_escape(start))?;
        let low_follows = self.text.as_bytes().get(self.at..self.at + 2) == Some(b"\\u");
        let scalar = match unit {
            0xd800..=0xdbff if low_follows => {
                self.at += 2;
                match self.hex_unit() {
                    Some(low @ 0xdc00..=0xdfff) => 0x1_0000 + ((unit - 0xd800) << 10) + (low - 0xdc00),
                    _ => return Err(self.bad_escape(start)),
                }
            }
            other => other,
        };
        char::from_u32(scalar).ok_or_else(|| self.bad_escape(start))
    }

    fn hex_unit(&mut self) -> Option<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4)?;
        let unit =
            digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))?;
        self.at += 4;
        Some(unit)
    }

    fn number(&mut self) -> Parsed<Number> {
        let start = self.at;
        self.skip(|byte| byte == b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.syntax_error("a digit")),
        }
        let mut integral = true;
        if self.skip(|byte| byte == b'.') {
            integral = false;
            self.digits_or_fail()?;
        }
        if self.skip(|byte| matches!(byte, b'e' | b'E')) {
            integral = false;
            self.skip(|byte| matches!(byte, b'+' | b'-'));
            self.digits_or_fail()?;
        }
        let text = self.slice(start, self.at);
        let number = if integral { integer(text) } else { float(text) };
        number.inspect_err(|_| self.at = start)
    }

    fn digits_or_fail(&mut self) -> Parsed<()> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            return Err(self.syntax_error("a digit"));
        }
        self.digits();
        Ok(())
    }

    fn digits(&mut self) {
        while self.skip(|byte| byte.is_ascii_digit()) {}
    }

    fn word(&mut self, word: &str, value: Value) -> Parsed<Value> {
        if !self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(word.as_bytes())) {
            return Err(self.syntax_error("a value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, matches: impl Fn(u8) -> bool) -> bool {
        let skipped = self.peek().is_some_and(matches);
        self.at += usize::from(skipped);
        skipped
    }

    fn skip_space(&mut self) {
        while self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {}
    }

    /// Skips space, and then `byte` if it is next.
    fn skip_to(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.skip(|next| next == byte)
    }

    fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    fn syntax_error(&self, expected: &'static str) -> JsonErrorKind {
        let found = match self.text.get(self.at..).and_then(|rest| rest.chars().next()) {
            Some(next) => format!("`{}`", excerpt(next.encode_utf8(&mut [0; 4]))),
            None => "the end".to_owned(),
        };
        JsonErrorKind::Syntax { expected, found }
    }

    fn bad_escape(&mut self, start: usize) -> JsonErrorKind {
        self.at = start;
        let text: String = self.text.get(start..).unwrap_or_default().chars().take(6).collect();
        let end = text
            .char_indices()
            .skip(1)
            .find(|(_, letter)| matches!(letter, '"' | '\n'))
            .map(|(index, _)| index);
        JsonErrorKind::BadEscape(excerpt(text.get(..end.unwrap_or(text.len())).unwrap_or_default()))
    }

    fn locate(&self, kind: JsonErrorKind) -> JsonError {
        let offset_bytes = self.at.min(self.text.len());
        let before = self.slice(0, offset_bytes);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        JsonError {
            kind,
            pointer: self.path.iter().rev().map(|segment| format!("/{}", escape_segment(segment))).collect(),
            offset_bytes,
            line: before.matches('\n').count() + 1,
            column: self.slice(line_start, offset_bytes).chars().count() + 1,
        }
    }
}

fn integer(text: &str) -> Parsed<Number> {
    if text == "-0" {
        // As `serde_json` has it: the sign of zero is not lost.
        return float(text);
    }
    let signed = || text.parse::<i64>().map(Number::from);
    text.parse::<u64>()
        .map(Number::from)
        .or_else(|_| signed())
        .map_err(|_| JsonErrorKind::IntegerOutOfRange(excerpt(text)))
}

fn float(text: &str) -> Parsed<Number> {
    let parsed = text.parse().ok().filter(|double| !becomes_another(text, *double));
    parsed.and_then(Number::from_f64).ok_or_else(|| JsonErrorKind::FloatOutOfRange(excerpt(text)))
}

/// Below it a double holds each integer.
const INTEGERS_OF_DOUBLES: f64 = 9_007_199_254_740_992.0;

/// Whether a nonzero number becomes zero, or an integer gets other digits, which programs do not expect. Fractions
/// are exempt: `0.1` is not exact as a double either, which is common knowledge.
fn becomes_another(text: &str, double: f64) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    if double == 0.0 {
        return mantissa.bytes().any(|digit| (b'1'..=b'9').contains(&digit));
    }
    if double.abs() < INTEGERS_OF_DOUBLES {
        return false;
    }
    let Some((whole, fraction)) = text.split_once('.') else { return false };
    if fraction.bytes().any(|digit| digit != b'0') {
        return false;
    }
    // As programs print doubles: with the digits that tell it from others, and zeros behind them.
    whole.parse::<i128>().is_ok_and(|whole| format!("{double:.0}") != whole.to_string())
        && format!("{double}") != whole
}

fn escape_segment(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

fn excerpt(text: &str) -> String {
    escape_for_display(text, EXCERPT_CHARS)
}

#[cfg(test)]
mod tests;
