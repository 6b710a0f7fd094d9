//! Reads JSON as servers send it: with a byte order mark, and with texts cut between the two halves of a character.

use serde::de::DeserializeOwned;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Length of an escape such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// Parses JSON of a server, and returns how many lone surrogates became U+FFFD. RFC 8259 (8.2) permits a lone surrogate,
/// which no Rust string can hold; servers send one where they cut an emoji in two.
pub fn parse_lenient<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, usize), serde_json::Error> {
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    serde_json::from_slice(bytes).map(|value| (value, 0)).or_else(|error| {
        let mut repaired = bytes.to_vec();
        match replace_lone_surrogates(&mut repaired) {
            0 => Err(error),
            replaced => Ok((serde_json::from_slice(&repaired)?, replaced)),
        }
    })
}

/// Overwrites each escape of a lone surrogate with `\ufffd`, which is as long, and returns their number.
fn replace_lone_surrogates(json: &mut [u8]) -> usize {
    let (mut replaced, mut at) = (0, 0);
    while let Some(escape) = json[at..].iter().position(|byte| *byte == b'\\').map(|found| at + found) {
        let next = escape + ESCAPE_BYTES;
        at = match code_unit(json, escape) {
            Some(0xd800..=0xdbff) if matches!(code_unit(json, next), Some(0xdc00..=0xdfff)) => {
                next + ESCAPE_BYTES
            }
            Some(0xd800..=0xdfff) => {
                json[escape..next].copy_from_slice(br"\ufffd");
                replaced += 1;
                next
            }
            Some(_) => next,
            None => (escape + 2).min(json.len()),
        };
    }
    replaced
}

/// Returns the UTF-16 code unit of the escape `\uXXXX` at this place.
fn code_unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE_BYTES)?.strip_prefix(br"\u")?;
    digits
        .iter()
        .try_fold(0, |unit, digit| Some(unit << 4 | u16::try_from(char::from(*digit).to_digit(16)?).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn m4_a_lone_surrogate_becomes_the_replacement_character_and_is_counted() {
        for (text, value, replaced) in [
            (r#"{"a":"\ud83d\ude00"}"#, json!({"a": "\u{1f600}"}), 0),
            (r#"{"a":"cut \ud83d"}"#, json!({"a": "cut \u{fffd}"}), 1),
            (r#"["\udE00\uD83D","\uD83D\ud83d\ude00"]"#, json!(["\u{fffd}\u{fffd}", "\u{fffd}\u{1f600}"]), 3),
            (r#"{"\ud800":"\\\\ud800"}"#, json!({"\u{fffd}": "\\\\ud800"}), 1),
            (r#""\ud83d\n""#, json!("\u{fffd}\n"), 1),
        ] {
            let (found, count): (Value, usize) = parse_lenient(text.as_bytes()).expect(text);
            assert_eq!((found, count), (value, replaced), "{text}");
        }
    }

    #[test]
    fn m4_a_byte_order_mark_is_skipped_and_what_is_no_json_stays_an_error() {
        let (found, _): (Value, usize) = parse_lenient("\u{feff}{}".as_bytes()).expect("json");
        assert_eq!(found, json!({}));
        for text in ["", "<html>", "\\", r#"{"a":"\ud8"#, r#"{"a":"\ud800""#, r#"{"a":"\u+80a"}"#] {
            assert!(parse_lenient::<Value>(text.as_bytes()).is_err(), "{text}");
        }
    }
}
