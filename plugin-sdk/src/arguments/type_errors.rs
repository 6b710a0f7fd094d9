//! Errors for arguments that match their schema but not the types of the tool's parameters.
//!
//! serde's own message names Rust types and a column, but no path. These messages have the form of the host's validation
//! errors: the argument, the expected type, and what was sent. Only a failed call pays for parsing again with the path.

use serde::de::DeserializeOwned;
use serde_json::json;
use serde_path_to_error::{Path, Segment};

use crate::Error;

/// The error of arguments that cannot be parsed; none if they can.
pub(super) fn explain<T: DeserializeOwned>(text: &str) -> Option<Error> {
    let error =
        serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_str(text)).err()?;
    Some(to_error(error.inner(), &pointer(error.path())))
}

/// The path as a JSON pointer. It ends where serde buffers values (flattened structs, tagged enums).
fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => push(&mut pointer, &index.to_string()),
            Segment::Map { key: name } | Segment::Enum { variant: name } => push(&mut pointer, name),
            Segment::Unknown => break,
        }
    }
    pointer
}

fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
}

fn to_error(error: &serde_json::Error, pointer: &str) -> Error {
    let text = error.to_string();
    let column = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&column).unwrap_or(&text);
    Error::invalid(message(text, pointer)).with_details(json!({"pointer": pointer}))
}

fn message(text: &str, pointer: &str) -> String {
    let subject = match pointer {
        "" => "The arguments".to_owned(),
        pointer => format!("Argument '{}'", display_name(pointer)),
    };
    if let Some(field) = text.strip_prefix("missing field ") {
        let field = format!("{pointer}/{}", field.trim_matches('`'));
        return format!("Missing required argument '{}'", display_name(&field));
    }
    if let Some((head, expected)) = text.rsplit_once(", expected ") {
        if let Some(found) = head.strip_prefix("invalid type: ").or(head.strip_prefix("invalid value: ")) {
            return format!("{subject} must be {}, not {}", json_type(expected), found_value(found));
        }
        if let Some(length) = head.strip_prefix("invalid length ") {
            return format!("{subject} must be {}, not of length {length}", json_type(expected));
        }
        if let Some(variant) = head.strip_prefix("unknown variant ") {
            return format!("{subject} must be {expected}, not {variant}");
        }
    }
    if text.starts_with("data did not match any variant") {
        return format!("{subject} matches none of the forms in its schema");
    }
    format!("{subject} cannot be parsed: {text}")
}

/// The name of a top-level argument, the JSON pointer of a nested one.
fn display_name(pointer: &str) -> String {
    match pointer.strip_prefix('/').filter(|name| !name.contains('/')) {
        Some(name) => name.replace("~1", "/").replace("~0", "~"),
        None => pointer.to_owned(),
    }
}

/// serde's name of the expected type, in terms of JSON.
fn json_type(expected: &str) -> &str {
    match expected {
        "i8" => "an integer from -128 to 127",
        "u8" => "an integer from 0 to 255",
        "i16" => "an integer from -32768 to 32767",
        "u16" => "an integer from 0 to 65535",
        "i32" | "isize" => "an integer from -2147483648 to 2147483647",
        "u32" | "usize" => "an integer from 0 to 4294967295",
        "i64" => "an integer from -9223372036854775808 to 9223372036854775807",
        "u64" => "an integer from 0 to 18446744073709551615",
        "i128" | "u128" => "an integer",
        "f32" | "f64" => "a number",
        "a sequence" => "an array",
        "a map" => "an object",
        "string or map" => "a string or an object",
        "unit" => "null",
        "variant identifier" => "the name of a variant",
        _ if expected.starts_with("a nonzero ") => "an integer that is not 0",
        _ if expected.starts_with("tuple ") => "an array",
        _ if expected.starts_with("unit ") => "null",
        _ if ["struct ", "enum ", "internally ", "adjacently "]
            .iter()
            .any(|word| expected.starts_with(word)) =>
        {
            "an object"
        }
        other => other,
    }
}

/// The type that was sent, with the value if it is a number or boolean. Texts are not repeated.
fn found_value(found: &str) -> String {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "integer" | "boolean" => format!("{kind} {}", value.trim_matches('`')),
        "floating" => format!("number {}", value.trim_start_matches("point ").trim_matches('`')),
        "string" => "a string".to_owned(),
        "sequence" => "an array".to_owned(),
        "map" => "an object".to_owned(),
        _ => found.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code)]
    struct Order {
        count: u32,
        #[serde(default)]
        parts: Vec<Part>,
        #[serde(default)]
        by_name: BTreeMap<String, i64>,
        #[serde(default)]
        size: Option<Size>,
        #[serde(default)]
        speed: Speed,
        #[serde(default)]
        pair: Option<(u8, u8)>,
    }

    #[derive(Deserialize)]
    #[allow(dead_code)]
    struct Part {
        grams: f64,
        of: Option<std::num::NonZeroU8>,
    }

    #[derive(Deserialize)]
    #[serde(untagged)]
    #[allow(dead_code)]
    enum Size {
        Pixels(u32),
        Name(String),
    }

    #[derive(Default, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Speed {
        #[default]
        Slow,
        Fast,
    }

    fn message_and_pointer(text: &str) -> (String, Value) {
        let error = explain::<Order>(text).unwrap();
        (error.message().to_owned(), error.details().unwrap()["pointer"].clone())
    }

    #[test]
    fn r2_a_type_error_names_the_argument_the_expected_type_and_what_was_sent() {
        for (text, message, pointer) in [
            (
                r#"{"count": 4294967296}"#,
                "Argument 'count' must be an integer from 0 to 4294967295, not integer 4294967296",
                "/count",
            ),
            (
                r#"{"count": 1, "parts": [{"grams": 1}, {"grams": "2"}]}"#,
                "Argument '/parts/1/grams' must be a number, not a string",
                "/parts/1/grams",
            ),
            (
                r#"{"count": 1, "parts": [{"grams": 1, "of": 0}]}"#,
                "Argument '/parts/0/of' must be an integer that is not 0, not integer 0",
                "/parts/0/of",
            ),
            (
                r#"{"count": 1, "parts": [true]}"#,
                "Argument '/parts/0' must be an object, not boolean true",
                "/parts/0",
            ),
            (r#"{"count": 1, "parts": [{}]}"#, "Missing required argument '/parts/0/grams'", "/parts/0"),
            (r#"{}"#, "Missing required argument 'count'", ""),
            (
                r#"{"count": 1, "by_name": {"a/b": 1.5}}"#,
                "Argument '/by_name/a~1b' must be an integer from -9223372036854775808 to 9223372036854775807, not number 1.5",
                "/by_name/a~1b",
            ),
            (
                r#"{"count": 1, "size": []}"#,
                "Argument 'size' matches none of the forms in its schema",
                "/size",
            ),
            (
                r#"{"count": 1, "speed": "swift"}"#,
                "Argument 'speed' must be `slow` or `fast`, not `swift`",
                "/speed",
            ),
            (
                r#"{"count": 1, "pair": [1]}"#,
                "Argument 'pair' must be a tuple of size 2, not of length 1",
                "/pair",
            ),
            (
                r#"{"count": null}"#,
                "Argument 'count' must be an integer from 0 to 4294967295, not null",
                "/count",
            ),
        ] {
            assert_eq!(message_and_pointer(text), (message.to_owned(), json!(pointer)), "{text}");
        }
    }

    #[test]
    fn r2_an_unknown_argument_is_named() {
        let (message, _) = message_and_pointer(r#"{"count": 1, "colour": 2}"#);

        assert!(message.contains("`colour`") && !message.contains("column"), "{message}");
    }

    #[test]
    fn valid_arguments_have_no_type_error() {
        assert!(explain::<Order>(r#"{"count": 1}"#).is_none());
    }
}
