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
