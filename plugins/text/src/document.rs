//! A JSON document that came as an argument: as a value, or as text.
//!
//! A value is kept as the JSON text that the model wrote, so that each tool reads it once and in its own way.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::{self, value::RawValue};

/// Deeper nesting is no document that somebody wrote, and would exhaust the stack of those who read it. The host takes
/// results of 128 levels, ours included.
const MAX_DEPTH: usize = 100;

/// What is said where a result has texts for numbers. Half a number is none, and most readers of JSON would make that.
pub const WIDE_NUMBERS: &str = "numbers beyond 64 bits are given as text, so that no digit is lost";

/// Any JSON value, `null` included, or none at all.
#[derive(Debug, Default)]
pub struct AnyValue(Option<Box<RawValue>>);

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl JsonSchema for AnyValue {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "AnyValue".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}

impl AnyValue {
    /// The JSON text, if there is a value.
    pub fn json(&self) -> Option<&str> {
        self.0.as_deref().map(RawValue::get)
    }
}

/// The one of the two that was given.
pub fn choose<'a>(value: &'a AnyValue, text: Option<&'a str>) -> Result<&'a str, Error> {
    let json = match (value.json(), text) {
        (Some(_), Some(_)) => {
            return Err(Error::invalid("both `value` and `text` are given: give one of them"));
        }
        (None, None) => {
            return Err(Error::invalid("there is no document: give it as `value`, or as JSON `text`"));
        }
        (Some(json), None) | (None, Some(json)) => json.trim_start_matches('\u{feff}'),
    };
    check_depth(json)?;
    Ok(json)
}

/// Says where and why a text is not JSON.
pub fn explain(error: &serde_json::Error) -> Error {
    Error::invalid(format!(
        "the document is not JSON: {error}; JSON has quotes around keys and no trailing commas"
    ))
}

/// The JSON with quotes around integers that 64 bits do not hold, which its reader would round in silence.
pub fn quote_wide_integers(json: &str) -> Cow<'_, str> {
    // Shorter ones fit.
    const SURE_DIGITS: usize = 19;
    let mut quoted = String::new();
    let mut copied_to = 0;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => pass_string(&mut bytes),
            b'-' | b'0'..=b'9' => {
                let start = json.len() - bytes.len() - 1;
                let length = json[start..]
                    .find(|sign: char| !sign.is_ascii_digit() && !matches!(sign, '.' | 'e' | 'E' | '+' | '-'))
                    .unwrap_or(json.len() - start);
                let number = &json[start..start + length];
                if length >= SURE_DIGITS && is_wide_integer(number) {
                    quoted.push_str(&json[copied_to..start]);
                    quoted.push('"');
                    quoted.push_str(number);
                    quoted.push('"');
                    copied_to = start + length;
                }
                bytes = json[start + length..].bytes();
            }
            _ => {}
        }
    }
    if copied_to == 0 {
        return Cow::Borrowed(json);
    }
    quoted.push_str(&json[copied_to..]);
    Cow::Owned(quoted)
}

/// Whether it is an integer that 64 bits do not hold, neither with a sign nor without one.
pub fn is_wide_integer(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    !digits.is_empty()
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && number.parse::<i64>().is_err()
        && number.parse::<u64>().is_err()
}

fn check_depth(json: &str) -> Result<(), Error> {
    if depth(json) > MAX_DEPTH {
        return Err(Error::invalid(format!("the document is nested more than {MAX_DEPTH} deep")));
    }
    Ok(())
}

/// How deep brackets are nested. What is not JSON may give any number.
fn depth(json: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b']' | b'}' => depth = depth.saturating_sub(1),
            b'"' => pass_string(&mut bytes),
            // A comment, which `jaq` knows.
            b'#' => {
                bytes.by_ref().find(|byte| *byte == b'\n');
            }
            _ => {}
        }
    }
    deepest
}

fn pass_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => {
                bytes.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_integers_that_do_not_fit_get_quotes() {
        let wide = "123456789012345678901234567890";
        for (json, expected) in [
            (format!("[{wide}, -{wide},1]"), format!("[\"{wide}\", \"-{wide}\",1]")),
            (format!("{{\"{wide}\": \"\\\"{wide}\"}}"), format!("{{\"{wide}\": \"\\\"{wide}\"}}")),
            (format!("[{wide}.5, {wide}e3]"), format!("[{wide}.5, {wide}e3]")),
            (wide.to_owned(), format!("\"{wide}\"")),
            ("[18446744073709551615]".to_owned(), "[18446744073709551615]".to_owned()),
            ("18446744073709551616".to_owned(), "\"18446744073709551616\"".to_owned()),
            ("-9223372036854775808".to_owned(), "-9223372036854775808".to_owned()),
        ] {
            assert_eq!(quote_wide_integers(&json), expected);
        }
    }

    #[test]
    fn only_brackets_outside_strings_nest() {
        for (json, expected) in [
            ("", 0),
            ("1", 0),
            ("[]", 1),
            ("[[], {\"a\": [1]}]", 3),
            (r#""[[[\"[[""#, 0),
            (r#"["\\", []]"#, 2),
            ("# [[[\n[]", 1),
            ("]]]][", 1),
        ] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }
}
