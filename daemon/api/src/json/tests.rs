//! Texts that are JSON and texts that are not, beside `serde_json`.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn parse_error(text: &str) -> JsonError {
    parse_strict(text, 64).expect_err(text)
}

#[test]
fn every_kind_of_value_is_read() {
    let text = r#" {"a":[1,-2,3.5,1e2,true,false,null,"x\n\u00e9\ud83d\ude00\/"],"":{}} "#;
    assert_eq!(
        parse_strict(text, 64),
        Ok(json!({"a": [1, -2, 3.5, 100.0, true, false, null, "x\né😀/"], "": {}}))
    );
}

#[test]
fn a_duplicate_key_is_refused_with_its_pointer_even_when_it_is_spelt_otherwise() {
    let error = parse_error(r#"{"x":[0,{"a/b":1,"a\u002fb":2}]}"#);
    assert_eq!(error.kind, JsonErrorKind::DuplicateKey("a/b".to_owned()));
    assert_eq!(error.pointer, "/x/1/a~1b");
    assert!(parse_strict(r#"{"x":[0,{"a/b":1,"a/c":2}]}"#, 64).is_ok());
}

#[test]
fn integers_are_exact_to_64_bits_and_refused_beyond() {
    for text in ["9007199254740993", "18446744073709551615", "-9223372036854775808"] {
        assert_eq!(parse_strict(text, 0).expect(text).to_string(), text);
    }
    for text in ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"] {
        assert!(matches!(parse_error(text).kind, JsonErrorKind::IntegerOutOfRange(_)), "{text}");
    }
}

#[test]
fn a_float_that_overflows_is_refused() {
    assert!(matches!(parse_error("1e400").kind, JsonErrorKind::FloatOutOfRange(_)));
    assert!(matches!(parse_error("-1e400").kind, JsonErrorKind::FloatOutOfRange(_)));
    assert_eq!(parse_strict("1.7976931348623157e308", 0), Ok(json!(f64::MAX)));
}

#[test]
fn a_float_that_would_become_another_number_is_refused() {
    for text in ["9007199254740993.0", "-9007199254740993.00", "1e-400", "-0.1e-400"] {
        assert!(matches!(parse_error(text).kind, JsonErrorKind::FloatOutOfRange(_)), "{text}");
    }
    let kept = [
        "9007199254740992.0",
        "9007199254740994.0",
        "12345678901234567000.0",
        "0e-400",
        "5e-324",
        "0.1",
        "1e23",
    ];
    for text in kept {
        assert_eq!(parse_strict(text, 0).expect(text).as_f64(), text.parse().ok(), "{text}");
    }
}

#[test]
fn bad_unicode_escapes_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800x""#,
        r#""\u12""#,
        r#""\u12g4""#,
        r#""\x""#,
        r#""\"#,
    ] {
        assert!(matches!(parse_error(text).kind, JsonErrorKind::BadEscape(_)), "{text}");
    }
    assert_eq!(parse_strict(r#""\uD83D\uDE00""#, 0), Ok(json!("😀")));
}

#[test]
fn what_is_not_json_is_refused_with_its_place() {
    for text in [
        "",
        " ",
        "{",
        "[",
        "[1,]",
        "{\"a\":1,}",
        "{a:1}",
        "{'a':1}",
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "-",
        "tru",
        "nul",
        "NaN",
        "Infinity",
        "\"a",
        "\"\n\"",
        "[1 2]",
        "{\"a\" 1}",
        "{} {}",
        "1 // one",
        "\u{feff}{}",
        "{\"a\":}",
        "[}",
    ] {
        let error = parse_error(text);
        assert!(matches!(error.kind, JsonErrorKind::Syntax { .. }), "{text}: {error}");
    }
    let error = parse_error("{\n  \"é\": [1,\n 2 }");
    assert_eq!((error.line, error.column), (3, 4));
    assert_eq!(error.to_string(), "malformed JSON: expected `,` or `]`, found `}` at line 3 column 4 (`/é`)");
}

#[test]
fn depth_is_counted_in_levels_and_bounded_without_recursion_beyond_it() {
    let nested = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
    assert!(parse_strict(&nested(64), 64).is_ok());
    assert_eq!(parse_error(&nested(65)).kind, JsonErrorKind::TooDeep(64));
    assert_eq!(parse_error(&"[".repeat(1_000_000)).kind, JsonErrorKind::TooDeep(64));
    assert!(parse_strict("1", 0).is_ok());
    assert!(parse_strict("[]", 0).is_err());
}

#[test]
fn a_message_shows_only_a_short_piece_of_a_long_number() {
    let error = parse_error(&"9".repeat(10_000));
    assert!(error.to_string().chars().count() < 120, "{error}");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn what_serde_json_writes_is_read_back(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        prop_assert_eq!(parse_strict(&text, 64), Ok(value));
    }

    #[test]
    fn whatever_is_accepted_serde_json_accepts_too(text in "[\\[\\]{}:,\"\\\\u0-9dDeE.+ a-]{0,24}") {
        if parse_strict(&text, 64).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok());
        }
    }

    #[test]
    fn a_float_is_the_nearest_double(number in any::<f64>().prop_filter("finite", |number| number.is_finite())) {
        let text = format!("{number:e}");
        prop_assert_eq!(parse_strict(&text, 0).unwrap().as_f64(), Some(number));
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = parse_strict(&text, 8);
    }
}

/// The text under the key is nested so deeply that parsing it again would exhaust the stack.
#[test]
fn keys_of_serde_json_have_no_meaning() {
    let text = r#"{"a": {"$serde_json::private::RawValue": "[1]"}}"#;
    let error = parse_strict(text, 8).expect_err("a reserved key");
    assert_eq!(error.pointer, "/a");
    parse_strict(r#"{"a": {"$serde_json": "[1]"}}"#, 8).expect("another key");
    let PlainValue(value) = serde_json::from_str(text).expect("JSON");
    assert_eq!(value["a"]["$serde_json::private::RawValue"], "[1]");
    assert_eq!(serde_json::from_str::<Value>(text).expect("JSON")["a"], serde_json::json!([1]));
}
