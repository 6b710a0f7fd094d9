//! The arguments of a call: the raw text beside its parsed form.
//!
//! The plugin gets, byte for byte, the text that was validated (requirements 9.8), so the raw text is kept and the parsed
//! form is only read. Only a call with a `null` for an optional argument is written anew, before validation. Both sides must parse the text alike. JSON that two correct parsers can read differently is an error:
//! duplicate keys, integers that a double rounds, floats that overflow, lone surrogates. The parser is `toolgate_api::json`.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use toolgate_api::json::{JsonError, parse_strict};

use toolgate_api::error::{CallError, ErrorType};

/// Parsed arguments and the text that they were parsed from.
#[derive(Clone, PartialEq)]
pub struct Arguments {
    raw: Arc<str>,
    value: Value,
    removed_nulls: Box<[String]>,
}

impl Arguments {
    /// Parses arguments of at most `max_bytes` bytes and `max_depth` levels.
    pub fn parse(raw: &Arc<str>, max_bytes: u64, max_depth: u64) -> Result<Self, ArgumentsError> {
        let bytes = raw.len() as u64;
        if bytes > max_bytes {
            return Err(ArgumentsError::TooLarge { bytes, max_bytes });
        }
        let value = parse_strict(raw, max_depth).map_err(ArgumentsError::Json)?;
        Ok(Self { raw: Arc::clone(raw), value, removed_nulls: Box::default() })
    }

    /// Arguments with this value, written anew; `None` if the text exceeds `max_bytes`.
    pub(crate) fn of_value(value: Value, max_bytes: u64) -> Option<Self> {
        let raw = value.to_string();
        (raw.len() as u64 <= max_bytes).then(|| Self {
            raw: raw.into(),
            value,
            removed_nulls: Box::default(),
        })
    }

    /// Notes the JSON pointers of the `null`s that were removed from the arguments as they were sent.
    pub(crate) fn without_nulls(self, removed_nulls: Box<[String]>) -> Self {
        Self { removed_nulls, ..self }
    }

    /// The JSON pointers of the `null`s for optional arguments that were removed before validation (9.8).
    pub fn removed_nulls(&self) -> &[String] {
        &self.removed_nulls
    }

    /// The raw text.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// The raw text, shared.
    pub fn raw_text(&self) -> &Arc<str> {
        &self.raw
    }

    /// The parsed value.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// Shows only the size, since arguments can hold secrets.
impl fmt::Debug for Arguments {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Arguments({} bytes)", self.raw.len())
    }
}

/// Why arguments do not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// The text is longer than allowed.
    #[error("the arguments have {bytes} bytes, more than the {max_bytes} allowed")]
    TooLarge {
        /// The length of the text.
        bytes: u64,
        /// The longest that is allowed.
        max_bytes: u64,
    },
    /// The text is not JSON, or JSON that parsers read differently.
    #[error(transparent)]
    Json(#[from] JsonError),
}

impl ArgumentsError {
    /// Converts it to the error that the caller gets (R2).
    pub fn into_call_error(self, called: &str) -> CallError {
        let (pointer, expected, found, hint) = match &self {
            Self::TooLarge { bytes, max_bytes } => {
                let hint = "send less, or write it to the workspace in parts".to_owned();
                (String::new(), format!("at most {max_bytes} bytes"), format!("{bytes} bytes"), hint)
            }
            Self::Json(error) => (
                error.pointer.clone(),
                error.kind.expected_text(),
                error.kind.found_text(),
                error.kind.hint().to_owned(),
            ),
        };
        let message = format!("Validation Error: {self}, in the arguments for tool '{called}'");
        let violation = json!({"pointer": pointer, "expected": expected, "found": found, "message": message});
        CallError::new(ErrorType::InvalidArguments, message, hint)
            .with_details(json!({"violations": [violation]}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kept_byte_for_byte() {
        let raw = " {\"a\" : 1.0,\n\"b\":\"\\u0041\" }\t";
        let arguments = Arguments::parse(&raw.into(), 100, 64).expect("arguments");
        assert_eq!(arguments.raw(), raw);
        assert_eq!(arguments.value(), &json!({"a": 1.0, "b": "A"}));
    }

    #[test]
    fn arguments_of_the_largest_size_pass_and_one_byte_more_fails() {
        assert!(Arguments::parse(&"{\"a\":1}".into(), 7, 64).is_ok());
        let refused = Arguments::parse(&"{\"a\":12}".into(), 7, 64).unwrap_err();
        assert_eq!(refused, ArgumentsError::TooLarge { bytes: 8, max_bytes: 7 });
    }

    #[test]
    fn arguments_of_the_largest_depth_pass_and_one_level_more_fails() {
        assert!(Arguments::parse(&"{\"a\":[1]}".into(), 100, 2).is_ok());
        assert!(Arguments::parse(&"{\"a\":[[1]]}".into(), 100, 2).is_err());
    }

    #[test]
    fn a_refusal_names_the_place_the_expected_and_the_found() {
        let refused = Arguments::parse(&r#"{"a":{"b":1,"b":2}}"#.into(), 100, 64)
            .unwrap_err()
            .into_call_error("call_x_y");
        assert_eq!(refused.error_type, ErrorType::InvalidArguments);
        assert!(refused.message.starts_with("Validation Error: "), "{}", refused.message);
        assert!(refused.message.ends_with("for tool 'call_x_y'"), "{}", refused.message);
        let details = refused.details_json().expect("details");
        assert_eq!(details["violations"][0]["pointer"], "/a/b");
        assert_eq!(details["violations"][0]["expected"], "each key once");
    }

    #[test]
    fn debug_output_has_no_content() {
        let arguments = Arguments::parse(&"{\"password\":\"secret\"}".into(), 100, 64).expect("arguments");
        assert_eq!(format!("{arguments:?}"), "Arguments(21 bytes)");
    }
}
