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

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("bare-point", "[1.]"),
    ("byte-order-mark", "\u{feff}{}"),
    ("comment", "[1] // one"),
    ("control-character-in-string", "\"a\u{1}b\""),
    ("duplicate-key", r#"{"a":1,"a":2}"#),
    ("duplicate-key-spelt-otherwise", r#"{"x":[0,{"a/b":1,"a\u002fb":2}]}"#),
    ("escape-cut-off", r#""\u12"#),
    ("every-kind-of-value", r#" {"a":[1,-2,3.5,1e2,true,false,null,"x\n\u00e9\ud83d\ude00\/"],"":{}} "#),
    ("exponent-with-zeros", "[0e999999,0.0e-999999]"),
    ("float-overflows", "[1e400]"),
    ("half-a-word", "[tru]"),
    ("integer-one-too-large", "18446744073709551616"),
    ("integer-one-too-small", "-9223372036854775809"),
    ("key-without-quotes", "{a:1}"),
    ("largest-float", "1.7976931348623157e308"),
    ("largest-integers", "[18446744073709551615,-9223372036854775808]"),
    ("leading-zero", "[01]"),
    ("levels-of-objects", r#"{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}}}}"#),
    ("lone-surrogate", r#""\ud800""#),
    ("long-fraction", "0.111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111111"),
    ("long-number", "999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999"),
    ("low-surrogate-first", r#""\udc00\ud800""#),
    ("minus-zero", "[-0,-0.0,0]"),
    ("not-a-number", "[NaN]"),
    ("not-an-escape", r#""\x41""#),
    ("nul", "\"\0\""),
    ("plus", "[+1]"),
    ("rounds-to-infinity", "1.797693134862315808e308"),
    ("sixty-five-levels", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
    ("sixty-four-levels", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]"),
    ("smallest-float", "[5e-324,2e-324,1e-400]"),
    ("space-that-json-has-not", "[1,\u{a0}2]"),
    ("surrogate-then-other-escape", r#""\ud800\u0041""#),
    ("text-after-lines", r#"{
  "é": [1,
 2 }"#),
    ("tilde-and-slash-in-keys", r#"{"~":{"/":{"~1":[}}}"#),
    ("trailing-comma", "[1,]"),
    ("two-values", "{} {}"),
];
