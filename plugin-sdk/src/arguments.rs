//! Parses the arguments of a call into the types of the tool's parameters.
//!
//! JSON Schema accepts `1.0` as an integer, serde does not, and the host passes arguments on byte for byte. So arguments are
//! parsed as they are first; only if that fails, integral numbers are rewritten as integers and parsed again. The common
//! call pays nothing for it, and it works for all types, also where serde buffers values (untagged enums, flattened structs).

mod type_errors;

use std::borrow::Cow;

use serde::de::DeserializeOwned;

use crate::Error;

/// More digits than any integer type has. Limits the text that `1e9` can expand to.
const MAX_INTEGER_DIGITS: usize = 40;

/// Parses a call's arguments from JSON text.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    serde_json::from_str(text).or_else(|error| parse_with_integers(text, &error))
}

/// Parses arguments with a flattened parameter. If such a parameter is optional, serde treats a value that does not fit as
/// absent, so the first attempt would succeed with a wrong value: integers are rewritten before it.
pub fn parse_flattened<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    parse(&write_integers(text))
}

#[cold]
fn parse_with_integers<T: DeserializeOwned>(text: &str, error: &serde_json::Error) -> Result<T, Error> {
    let written = write_integers(text);
    let again = match &written {
        Cow::Borrowed(_) => None,
        Cow::Owned(written) => serde_json::from_str(written).ok(),
    };
    again.ok_or_else(|| {
        type_errors::explain::<T>(&written).unwrap_or_else(|| Error::invalid(error.to_string()))
    })
}

/// Rewrites each integral number of a JSON text as an integer: `1.0` as `1`.
fn write_integers(text: &str) -> Cow<'_, str> {
    let mut written = String::new();
    let mut copied_to = 0;
    for (start, number) in numbers(text) {
        if let Some(integer) = as_integer(number) {
            written.push_str(&text[copied_to..start]);
            written.push_str(&integer);
            copied_to = start + number.len();
        }
    }
    if copied_to == 0 {
        return Cow::Borrowed(text);
    }
    written.push_str(&text[copied_to..]);
    Cow::Owned(written)
}

/// The numbers of a JSON text outside its strings, each with its offset.
fn numbers(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            match bytes[at] {
                b'"' => at = end_of_string(bytes, at),
                b'-' | b'0'..=b'9' => {
                    let start = at;
                    at += bytes[start..].iter().take_while(|byte| is_part_of_number(**byte)).count();
                    return Some((start, &text[start..at]));
                }
                _ => at += 1,
            }
        }
        None
    })
}

fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

fn is_part_of_number(byte: u8) -> bool {
    matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
}

/// The digits of a number that is integral but not written as an integer.
fn as_integer(number: &str) -> Option<String> {
    if !number.contains(['.', 'e', 'E']) && number != "-0" {
        return None;
    }
    let (sign, magnitude) = number.strip_prefix('-').map_or(("", number), |rest| ("-", rest));
    let (mantissa, exponent) = magnitude.split_once(['e', 'E']).unwrap_or((magnitude, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));

    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return Some("0".to_owned());
    }
    let significant = digits.trim_end_matches('0');
    let trailing_zeros = digits.len() - significant.len();

    // The value is `significant` * 10^`zeros`.
    let zeros = exponent
        .parse::<i64>()
        .ok()?
        .checked_add_unsigned(trailing_zeros as u64)?
        .checked_sub_unsigned(fraction.len() as u64)?;
    let zeros = usize::try_from(zeros).ok()?;
    if significant.len().checked_add(zeros)? > MAX_INTEGER_DIGITS {
        return None;
    }
    Some(format!("{sign}{significant}{}", "0".repeat(zeros)))
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Page {
        number: i64,
        share: f64,
        title: String,
    }

    #[test]
    fn t2_an_integral_float_is_an_integer() {
        let page: Page = parse(r#"{"number": 2.0, "share": 0.5, "title": "1.0"}"#).unwrap();

        assert_eq!(page, Page { number: 2, share: 0.5, title: "1.0".to_owned() });
    }

    #[test]
    fn t2_a_float_with_a_fraction_is_no_integer() {
        let error = parse::<Page>(r#"{"number": 2.5, "share": 1.0, "title": ""}"#).unwrap_err();

        assert_eq!(error.code(), "INVALID_ARGUMENTS");
        assert!(error.message().contains("2.5"), "{error}");
    }

    #[test]
    fn every_way_to_write_an_integer_reads_as_that_integer() {
        for (written, read) in [
            ("1.0", "1"),
            ("-1.50e1", "-15"),
            ("1E+3", "1000"),
            ("1200e-2", "12"),
            ("0.0", "0"),
            ("-0.0", "0"),
            ("-0", "0"),
            ("0e99", "0"),
            ("9007199254740993.0", "9007199254740993"),
            ("123.4e1", "1234"),
        ] {
            assert_eq!(as_integer(written).as_deref(), Some(read), "{written}");
        }
    }

    #[test]
    fn what_is_not_integral_or_too_large_stays_as_it_is() {
        for number in ["1", "-7", "1.5", "15e-1", "1e400", "1e99999999999999999999", "0.1"] {
            assert_eq!(as_integer(number), None, "{number}");
        }
    }

    #[test]
    fn numbers_inside_strings_are_left_alone() {
        let text = r#"{"a":"1.0 \" 2.0","b":[3.0,"\\"],"c":4.0}"#;

        assert_eq!(write_integers(text), r#"{"a":"1.0 \" 2.0","b":[3,"\\"],"c":4}"#);
    }

    #[test]
    fn broken_text_is_an_error_and_no_panic() {
        for text in ["", "{", "\"", "\"\\", "{\"a\": 1.0", "-", "1.e", "é1.0"] {
            assert!(parse::<Page>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn types_that_serde_buffers_read_integral_floats_too() {
        #[derive(Debug, Deserialize, PartialEq)]
        #[serde(untagged)]
        enum Size {
            Pixels(u32),
            Name(String),
        }
        #[derive(Debug, Deserialize, PartialEq)]
        struct Picture {
            size: Vec<Size>,
        }

        let picture: Picture = parse(r#"{"size": [3.0, "large"]}"#).unwrap();

        assert_eq!(picture.size, [Size::Pixels(3), Size::Name("large".to_owned())]);
    }
}
