//! Tells a model what is wrong with arguments that fit their schema and not the types of the tool's parameters.
//!
//! serde's own message names Rust types and a column of the text, and no place. What is said here has the form of the
//! host's own refusals: the argument, what it must be, and what came. Only a call that failed already pays for it: its
//! arguments are read once more, with the path.

use serde::de::DeserializeOwned;
use serde_json::json;
use serde_path_to_error::{Path, Segment};

use crate::Error;

/// The failure of arguments that cannot be read; none where they can.
pub(super) fn explain<T: DeserializeOwned>(text: &str) -> Option<Error> {
    let error =
        serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_str(text)).err()?;
    Some(tell(error.inner(), &pointer(error.path())))
}

/// As far as serde knows the way: what it buffers (flattened structs, enums with a tag) has none inside.
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

fn tell(error: &serde_json::Error, pointer: &str) -> Error {
    let text = error.to_string();
    let column = format!(" at line {} column {}", error.line(), error.column());
    let text = text.strip_suffix(&column).unwrap_or(&text);
    Error::invalid(sentence(text, pointer)).with_details(json!({"pointer": pointer}))
}

fn sentence(text: &str, pointer: &str) -> String {
    let subject = match pointer {
        "" => "The arguments".to_owned(),
        pointer => format!("Argument '{}'", place(pointer)),
    };
    if let Some(field) = text.strip_prefix("missing field ") {
        return format!("Missing required argument '{}'", place(&format!("{pointer}/{}", bare(field))));
    }
    if let Some((head, expected)) = text.rsplit_once(", expected ") {
        if let Some(found) = head.strip_prefix("invalid type: ").or(head.strip_prefix("invalid value: ")) {
            return format!("{subject} must be {}, not {}", kind(expected), came(found));
        }
        if let Some(length) = head.strip_prefix("invalid length ") {
            return format!("{subject} must be {}, not of length {length}", kind(expected));
        }
        if let Some(variant) = head.strip_prefix("unknown variant ") {
            return format!("{subject} must be {expected}, not {variant}");
        }
    }
    if text.starts_with("data did not match any variant") {
        return format!("{subject} has none of the forms that are described for it");
    }
    format!("{subject} cannot be taken: {text}")
}

/// The bare name at the top, the JSON pointer further down.
fn place(pointer: &str) -> String {
    match pointer.strip_prefix('/').filter(|name| !name.contains('/')) {
        Some(name) => name.replace("~1", "/").replace("~0", "~"),
        None => pointer.to_owned(),
    }
}

fn bare(name: &str) -> &str {
    name.trim_matches('`')
}

/// What serde expects, in the words of JSON.
fn kind(expected: &str) -> &str {
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

/// What came: its type, and what it was where that is short and no text of somebody's.
fn came(found: &str) -> String {
    let (kind, value) = found.split_once(' ').unwrap_or((found, ""));
    match kind {
        "integer" | "boolean" => format!("{kind} {}", bare(value)),
        "floating" => format!("number {}", bare(value.trim_start_matches("point "))),
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

    fn told(text: &str) -> (String, Value) {
        let error = explain::<Order>(text).unwrap();
        (error.message().to_owned(), error.details().unwrap()["pointer"].clone())
    }

    #[test]
    fn r2_a_misfit_names_the_place_what_was_expected_and_what_came() {
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
                "Argument 'size' has none of the forms that are described for it",
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
            assert_eq!(told(text), (message.to_owned(), json!(pointer)), "{text}");
        }
    }

    #[test]
    fn r2_what_is_unknown_is_named() {
        let (message, _) = told(r#"{"count": 1, "colour": 2}"#);

        assert!(message.contains("`colour`") && !message.contains("column"), "{message}");
    }

    #[test]
    fn what_fits_is_no_misfit() {
        assert!(explain::<Order>(r#"{"count": 1}"#).is_none());
    }
}
