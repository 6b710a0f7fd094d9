//! The strict JSON parser, held to `serde_json` in both directions.

use toolgate_admission::parse_strict;

use crate::strict;
use crate::tell::assert_pointer;

/// Levels that arguments may have.
const LEVELS: u64 = 64;

/// Longest error as text, in characters.
const MESSAGE_CHARS: usize = 400;

/// Any text as JSON: accepted exactly where the second reader accepts it, with the same value; refused with a place
/// in the text and a JSON pointer.
pub fn json(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for levels in [LEVELS, 2, 0] {
        agrees(text, levels);
    }
}

fn agrees(text: &str, levels: u64) {
    let expected = strict::read(text, levels);
    match parse_strict(text, levels) {
        Ok(value) => assert_eq!(Some(value), expected, "accepted otherwise than it reads"),
        Err(error) => {
            assert_eq!(expected, None, "refused, but sound: {error}");
            let shown = error.to_string();
            assert!(!shown.is_empty() && shown.chars().count() <= MESSAGE_CHARS, "{shown}");
            assert!(!shown.contains('\n'), "{shown}");
            assert_pointer(&error.pointer);
            let before =
                text.get(..error.offset_bytes).expect("the place is in the text, between characters");
            assert_eq!(error.line, before.split('\n').count());
            let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
            assert_eq!(error.column, column);
        }
    }
}
