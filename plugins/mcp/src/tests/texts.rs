//! Texts of a server.

use crate::text::{clean, cut, display};

#[test]
fn m4_a_text_is_cleaned_of_what_nobody_sees() {
    for (text, cleaned) in [
        ("plain", Some("plain")),
        ("a\r\nb\rc\td", Some("a\nb\nc\td")),
        ("Reads\u{200b} a \u{202e}file\u{e0041}\0", Some("Reads a file")),
        (" \u{feff}\n", None),
        ("", None),
    ] {
        assert_eq!(clean(text, 100).as_deref(), cleaned);
    }
    assert_eq!(clean("abcdef", 4).as_deref(), Some("abc…"));
}

#[test]
fn m4_a_shown_text_is_one_short_line() {
    assert_eq!(display("a\n b\u{202e}", 80), "a b\\u{202e}");
    assert_eq!((display("abcdef", 3), cut("abc", 3)), ("abc…".to_owned(), "abc".to_owned()));
}
