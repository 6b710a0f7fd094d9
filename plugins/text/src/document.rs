//! JSON documents as arguments, as values or as text, and as results.
//!
//! A value stays the JSON text that the model wrote, so that each tool reads it once and with all its digits.

use std::borrow::Cow;

use formats::jq::nesting;
use regex::{Captures, Regex};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::{self, Value, value::RawValue};

use crate::size;
use crate::tree::Tree;

/// Deeper nesting would exhaust the stack of readers. The host takes results of 128 levels.
const MAX_DEPTH: usize = 100;

/// The note on a result with texts for numbers that most readers of JSON would round.
pub const WIDE_NUMBERS: &str = "numbers beyond 64 bits are given as text, so that no digit is lost";

/// Any JSON value, `null` included, or none at all.
#[derive(Debug, Default, Serialize, JsonSchema)]
#[schemars(transparent)]
pub struct AnyValue(#[schemars(with = "Value")] Option<Box<RawValue>>);

impl<'de> Deserialize<'de> for AnyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(|value| Self(Some(value)))
    }
}

impl AnyValue {
    /// Writes a result, which fails if it is too large for one.
    pub fn write(document: &impl Serialize) -> Result<Self, Error> {
        let json = serde_json::value::to_raw_value(document)?;
        size::check(json.get().len())?;
        Ok(Self(Some(json)))
    }

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
    if nesting(json.as_bytes()) > MAX_DEPTH {
        return Err(Error::invalid(format!("the document is nested more than {MAX_DEPTH} deep")));
    }
    Ok(json)
}

/// Says where and why a text is not JSON.
pub fn explain(error: &serde_json::Error) -> Error {
    Error::invalid(format!(
        "the document is not JSON: {error}; JSON has quotes around keys and no trailing commas"
    ))
}

/// Reads JSON for a format whose integers have 64 bits: those that do not fit become texts.
pub fn read_tree(json: &str, fits: fn(&str) -> bool) -> Result<Tree, Error> {
    serde_json::from_str(&quote_integers(json, fits)?).map_err(|error| explain(&error))
}

/// Returns the JSON with quotes around integers that do not fit, which its reader would round.
fn quote_integers(json: &str, fits: fn(&str) -> bool) -> Result<Cow<'_, str>, Error> {
    // Numbers of 18 digits fit. Most documents have no longer one, and a regular expression is expensive to compile.
    if json.split(|sign: char| !sign.is_ascii_digit()).all(|digits| digits.len() <= 18) {
        return Ok(Cow::Borrowed(json));
    }
    let tokens = Regex::new(r#""(?:[^"\\]|\\.)*"|[-\d][-+.eE\d]*"#)?;
    Ok(tokens.replace_all(json, |found: &Captures<'_>| {
        let token = found[0].to_owned();
        if is_integer(&token) && !fits(&token) { format!("\"{token}\"") } else { token }
    }))
}

/// Returns whether the number is an integer that 64 bits do not hold, neither with a sign nor without one.
pub fn is_wide_integer(number: &str) -> bool {
    is_integer(number) && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
}

fn is_integer(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
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
            assert_eq!(quote_integers(&json, |number| !is_wide_integer(number)).unwrap(), expected);
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
            assert_eq!(nesting(json.as_bytes()), expected, "{json}");
        }
    }
}
