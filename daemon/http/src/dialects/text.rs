//! The string form: `[[TOOL_CALL: name(argument='value', other=3)]]`, answered by
//! `[[TOOL_RESPONSE: name(…) -> …]]`.
//!
//! The string must be the whole field (requirements 9.7): a longer text that contains a call may quote a web page or
//! a user. The arguments are named JSON literals, whose strings can also be in single quotes. They become the text of
//! one JSON object, in which literals are not reformatted.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::json;
use toolgate_core::call::CallOutcome;

use super::items::{Calls, excerpt, invalid};
use crate::frame;
use crate::problem::Problem;

const OPENING: &str = "[[TOOL_CALL:";
const CLOSING: &str = "]]";
/// Deepest nesting of a literal. No policy allows deeper arguments.
const MOST_LEVELS: usize = 128;

/// The name and arguments of the call as written, which the response repeats.
#[derive(Debug)]
pub(crate) struct ResponseEnvelope {
    name: String,
    arguments: String,
}

/// Parses the string and adds its call.
pub(super) fn parse(text: &str, id: Option<String>, calls: &mut Calls) -> Result<ResponseEnvelope, Problem> {
    let mut parser = Parser { text, at: 0, levels: 0, json: String::with_capacity(text.len()) };
    match parser.call() {
        Ok(envelope) => {
            calls.add(id, &envelope.name, Some(&parser.json), format_args!("/text"));
            Ok(envelope)
        }
        Err(Unfit(expected)) => Err(parser.refusal(&expected)),
    }
}

/// Renders the response to the call.
pub(super) fn answer(envelope: &ResponseEnvelope, outcome: &CallOutcome) -> String {
    let whole = outcome.kept_in.as_deref();
    frame::tool_response(&envelope.name, &envelope.arguments, &literal(outcome), whole)
}

/// The result as a literal, with a line for each content block: texts as literals too, and notes for the rest (R11).
fn literal(outcome: &CallOutcome) -> Cow<'_, str> {
    frame::with_content(outcome, output_literal(outcome), |text| quote(text).into(), |_, _| false)
}

/// Returns the output as a literal, so that none is parsed as one of the unquoted words.
fn output_literal(outcome: &CallOutcome) -> Cow<'_, str> {
    if let Some(error) = outcome.error() {
        return format!("error {}: {} ({})", error.error_type, error.message, error.hint).into();
    }
    if let Some(text) = outcome.pending_text() {
        return format!("{}: {text}", outcome.status().as_str()).into();
    }
    let Some(output) = outcome.output() else { return outcome.status().as_str().into() };
    match serde_json::from_str::<String>(output.get()) {
        Ok(text) => quote(&text).into(),
        Err(_) => output.get().into(),
    }
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A syntax error: the token that was expected at the parser's position.
struct Unfit(Cow<'static, str>);

type Fits<T = ()> = Result<T, Unfit>;

struct Parser<'a> {
    text: &'a str,
    /// The position in bytes. INVARIANT: on a character boundary whenever a slice is taken.
    at: usize,
    levels: usize,
    /// The arguments parsed so far, as JSON text.
    json: String,
}

impl<'a> Parser<'a> {
    fn call(&mut self) -> Fits<ResponseEnvelope> {
        self.expect(OPENING)?;
        self.skip_space();
        let name = self.run(is_tool_character, "the name of a tool")?;
        self.expect("(")?;
        let start = self.at;
        self.arguments()?;
        let arguments = self.slice(start, self.at);
        self.expect(")")?;
        self.expect(CLOSING)?;
        if self.at < self.text.len() {
            return unfit("the end");
        }
        Ok(ResponseEnvelope { name: name.to_owned(), arguments: arguments.to_owned() })
    }

    fn arguments(&mut self) -> Fits {
        let mut names = HashSet::new();
        self.json.push('{');
        self.skip_space();
        while self.peek() != Some(b')') {
            if !names.is_empty() {
                self.json.push(',');
            }
            let start = self.at;
            let name = self.run(is_argument_character, "`)` or the name of an argument")?;
            if !names.insert(name) {
                self.at = start;
                return unfit(format!("an argument other than `{name}`, which is there before"));
            }
            self.json.extend(["\"", name, "\":"]);
            self.skip_space();
            self.expect("=")?;
            self.literal()?;
            self.skip_space();
            if self.peek() == Some(b')') {
                break;
            }
            self.expect_or(",", "`,` or `)`")?;
            self.skip_space();
            if self.peek() == Some(b')') {
                return unfit("the name of an argument");
            }
        }
        self.json.push('}');
        Ok(())
    }

    /// Parses a JSON value, with strings in single or double quotes.
    fn literal(&mut self) -> Fits {
        self.skip_space();
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.string(quote),
            Some(b'{') => self.parse_nested(b'}', |reader| {
                reader.key()?;
                reader.skip_space();
                reader.copy(":")?;
                reader.literal()
            }),
            Some(b'[') => self.parse_nested(b']', Self::literal),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    /// Parses an object or an array: `item` parses each element, with commas between.
    fn parse_nested(&mut self, closing: u8, item: fn(&mut Self) -> Fits) -> Fits {
        if self.levels >= MOST_LEVELS {
            return unfit(format!("at most {MOST_LEVELS} levels"));
        }
        self.levels += 1;
        self.copy_byte();
        self.skip_space();
        if self.peek() != Some(closing) {
            loop {
                item(self)?;
                self.skip_space();
                if self.peek() != Some(b',') {
                    break;
                }
                self.copy_byte();
            }
        }
        if self.peek() != Some(closing) {
            return unfit(format!("`,` or `{}`", char::from(closing)));
        }
        self.copy_byte();
        self.levels -= 1;
        Ok(())
    }

    fn key(&mut self) -> Fits {
        self.skip_space();
        match self.peek() {
            Some(quote @ (b'"' | b'\'')) => self.string(quote),
            _ => unfit("a key in quotes"),
        }
    }

    fn string(&mut self, quote: u8) -> Fits {
        self.at += 1;
        self.json.push('"');
        loop {
            let start = self.at;
            while self.peek().is_some_and(|byte| byte != quote && !matches!(byte, b'"' | b'\\' | 0..=0x1f)) {
                self.at += 1;
            }
            self.json.push_str(self.slice(start, self.at));
            match self.peek() {
                Some(byte) if byte == quote => {
                    self.at += 1;
                    self.json.push('"');
                    return Ok(());
                }
                Some(b'"') => {
                    self.at += 1;
                    self.json.push_str("\\\"");
                }
                Some(b'\\') => self.escape(quote)?,
                Some(_) => return unfit("an escape in place of a control character"),
                None => return unfit("the closing quote"),
            }
        }
    }

    /// Parses an escape: those of JSON are copied unchanged; an escaped single quote is allowed within single quotes.
    fn escape(&mut self, quote: u8) -> Fits {
        let rest = self.text.as_bytes().get(self.at + 1..).unwrap_or_default();
        let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
        let length = match rest {
            [b'\'', ..] if quote == b'\'' => {
                self.at += 2;
                self.json.push('\'');
                return Ok(());
            }
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', digits @ ..] if digits.get(..4).is_some_and(is_hex) => 6,
            _ => return unfit("an escape that JSON has"),
        };
        self.json.push_str(self.slice(self.at, self.at + length));
        self.at += length;
        Ok(())
    }

    fn number(&mut self) -> Fits {
        let start = self.at;
        self.skip(|byte| byte == b'-');
        if !self.skip(|byte| byte == b'0') {
            self.digits()?;
        }
        if self.skip(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.skip(|byte| matches!(byte, b'e' | b'E')) {
            self.skip(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        self.json.push_str(self.slice(start, self.at));
        Ok(())
    }

    fn digits(&mut self) -> Fits {
        if !self.skip(|byte| byte.is_ascii_digit()) {
            return unfit("a digit");
        }
        while self.skip(|byte| byte.is_ascii_digit()) {}
        Ok(())
    }

    fn word(&mut self) -> Fits {
        let known = ["true", "false", "null"];
        match known.into_iter().find(|word| self.rest().starts_with(word)) {
            Some(word) => self.copy(word),
            None => unfit("a JSON literal, with a string in single or double quotes"),
        }
    }

    fn expect(&mut self, text: &'static str) -> Fits {
        self.expect_or(text, format!("`{text}`"))
    }

    fn expect_or(&mut self, text: &str, expected: impl Into<Cow<'static, str>>) -> Fits {
        if !self.rest().starts_with(text) {
            return unfit(expected);
        }
        self.at += text.len();
        Ok(())
    }

    /// Expects `text` and copies it to the arguments.
    fn copy(&mut self, text: &'static str) -> Fits {
        self.expect(text)?;
        self.json.push_str(text);
        Ok(())
    }

    /// Copies an ASCII byte to the arguments.
    fn copy_byte(&mut self) {
        self.json.push_str(self.slice(self.at, self.at + 1));
        self.at += 1;
    }

    /// Parses one or more characters of a class.
    fn run(&mut self, is_of_it: fn(char) -> bool, expected: &'static str) -> Fits<&'a str> {
        let rest = self.rest();
        let end = rest.find(|letter| !is_of_it(letter)).unwrap_or(rest.len());
        if end == 0 {
            return unfit(expected);
        }
        let start = self.at;
        self.at += end;
        Ok(self.slice(start, self.at))
    }

    fn rest(&self) -> &'a str {
        self.slice(self.at, self.text.len())
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip(&mut self, is_skipped: impl Fn(u8) -> bool) -> bool {
        let skipped = self.peek().is_some_and(is_skipped);
        self.at += usize::from(skipped);
        skipped
    }

    fn skip_space(&mut self) {
        while self.skip(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {}
    }

    fn slice(&self, from: usize, to: usize) -> &'a str {
        self.text.get(from..to).unwrap_or_default()
    }

    fn refusal(&self, expected: &str) -> Problem {
        let found = match self.rest().chars().next() {
            Some(next) => format!("`{}`", excerpt(next.encode_utf8(&mut [0; 4]))),
            None => "the end".to_owned(),
        };
        let character = self.slice(0, self.at).chars().count() + 1;
        let message =
            format!("`text` is not a tool call: expected {expected} at character {character}, found {found}");
        let hint = "write `[[TOOL_CALL: name(argument='value', other=3)]]` and nothing around it; the arguments are \
                    named JSON literals";
        let refusal = invalid(message, hint).0;
        refusal.with_details(json!({"pointer": "/text", "character": character})).into()
    }
}

fn unfit<T>(expected: impl Into<Cow<'static, str>>) -> Fits<T> {
    Err(Unfit(expected.into()))
}

/// Returns true for the characters of wire names, of `namespace/tool`, and of tool names from other systems.
fn is_tool_character(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '/' | '.')
}

fn is_argument_character(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '$' | '@')
}
