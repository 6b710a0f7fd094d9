//! The strict JSON parser, compared with `serde_json` in both directions.

use toolgate_api::json::parse_strict;

use crate::error_format::assert_pointer;
use crate::strict;

/// Nesting levels of arguments under the default limits.
const LEVELS: u64 = 64;

/// Longest error message, in characters.
const MESSAGE_CHARS: usize = 400;

/// Input: any text. It is accepted exactly if the second parser accepts it, with the same value; an error has line, column
/// and JSON pointer.
pub fn json(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for levels in [LEVELS, 2, 0] {
        compare(text, levels);
    }
}

fn compare(text: &str, levels: u64) {
    let expected = strict::read(text, levels);
    match parse_strict(text, levels) {
        Ok(value) => assert_eq!(Some(value), expected, "accepted with another value"),
        Err(error) => {
            assert_eq!(expected, None, "refused, but valid: {error}");
            let shown = error.to_string();
            assert!(!shown.is_empty() && shown.chars().count() <= MESSAGE_CHARS, "{shown}");
            assert!(!shown.contains('\n'), "{shown}");
            assert_pointer(&error.pointer);
            let before =
                text.get(..error.offset_bytes).expect("the offset is in the text, between characters");
            assert_eq!(error.line, before.split('\n').count());
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            assert_eq!(error.column, column);
        }
    }
}
