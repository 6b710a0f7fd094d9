//! The words, place and bounds of a violation.

use super::*;

fn message(property: &Value, value: &Value) -> String {
    first(&object(&json!({"x": property}), &[]), &json!({"x": value})).message
}

#[test]
fn a_missing_argument_is_named_with_its_place_and_its_type() {
    let schema = object(&json!({"path": {"type": "string"}}), &["path"]);
    assert_eq!(schema.validate(&json!({"path": "a"})), Ok(()));
    assert_eq!(
        first(&schema, &json!({})),
        Violation {
            pointer: "/path".to_owned(),
            expected: "string".to_owned(),
            found: "nothing".to_owned(),
            message: "Missing required argument 'path'".to_owned(),
        }
    );
}

#[test]
fn an_unknown_argument_is_named_with_the_nearest() {
    let schema = object(&json!({"path": {"type": "string"}, "mode": {}}), &[]);
    let violation = first(&schema, &json!({"pth": 1}));
    assert_eq!(violation.message, "Unknown argument 'pth' (did you mean 'path'?)");
    assert_eq!(violation.pointer, "/pth");
    assert_eq!(violation.expected, "only `mode`, `path`");
    assert_eq!(first(&object(&json!({}), &[]), &json!({"a": 1})).expected, "no argument");
}

#[test]
fn a_violation_has_the_expected_and_the_found_value() {
    for (property, value, expected) in [
        (json!({"type": "integer"}), json!("5"), "an integer, not string \"5\""),
        (json!({"type": ["string", "null"]}), json!(1), "null or a string, not integer 1"),
        (json!({"enum": ["a or b", "c"]}), json!("d"), "one of \"a or b\", \"c\", not string \"d\""),
        (json!({"const": 1}), json!(2), "1, not integer 2"),
        (json!({"minimum": 3}), json!(2.5), "at least 3, not number 2.5"),
        (json!({"maximum": 3}), json!(4), "at most 3, not integer 4"),
        (json!({"exclusiveMinimum": 3}), json!(3), "more than 3, not integer 3"),
        (json!({"exclusiveMaximum": 3}), json!(3), "less than 3, not integer 3"),
        (json!({"multipleOf": 5}), json!(3), "a multiple of 5, not integer 3"),
        (json!({"minLength": 2}), json!("a"), "a string of at least 2 characters, not string \"a\""),
        (json!({"maxLength": 1}), json!("ab"), "a string of at most 1 characters, not string \"ab\""),
        (json!({"pattern": "^a"}), json!("b"), "a string that matches `^a`, not string \"b\""),
        (json!({"minItems": 1}), json!([]), "an array of at least 1 items, not array []"),
        (json!({"maxItems": 0}), json!([1]), "an array of at most 0 items, not array [1]"),
        (json!({"uniqueItems": true}), json!([1, 1.0]), "an array without equal items, not array [1,1.0]"),
        (
            json!({"contains": {"const": 1}}),
            json!([]),
            "an array that contains the items it must, not array []",
        ),
        (json!({"minProperties": 1}), json!({}), "an object of at least 1 properties, not object {}"),
        (json!(false), json!(true), "left out, not boolean true"),
        (
            json!({"not": {"type": "null"}}),
            json!(null),
            "other than what `{\"type\":\"null\"}` describes, not null",
        ),
        (
            json!({"propertyNames": {"maxLength": 1}}),
            json!({"ab": 1}),
            "an object with other keys: each must be a string of at most 1 characters, not object {\"ab\":1}",
        ),
    ] {
        assert_eq!(message(&property, &value), format!("Argument 'x' must be {expected},"));
    }
    for (property, value, expected) in [
        (
            json!({"items": {"type": "string"}}),
            json!(["a", 1]),
            "Argument '/x/1' must be a string, not integer 1,",
        ),
        (json!({"required": ["y"]}), json!({}), "Missing required argument '/x/y'"),
        (
            json!({"properties": {}, "additionalProperties": false}),
            json!({"y": 1}),
            "Unknown argument '/x/y'",
        ),
    ] {
        assert_eq!(message(&property, &value), expected);
    }
}

#[test]
fn the_violation_is_about_the_alternative_that_the_value_selects() {
    let nullable = json!({"anyOf": [{"type": "object", "required": ["city"]}, {"type": "null"}]});
    assert_eq!(message(&nullable, &json!({})), "Missing required argument '/x/city'");
    let tagged = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
        {"type": "string"},
    ]});
    assert_eq!(
        message(&tagged, &json!({"kind": "a", "n": "1"})),
        "Argument '/x/n' must be an integer, not string \"1\","
    );
    let simple = json!({"anyOf": [{"type": "integer"}, {"type": "null"}]});
    assert_eq!(message(&simple, &json!("1")), "Argument 'x' must be an integer or null, not string \"1\",");
}

#[test]
fn r2_the_alternative_is_selected_by_a_constant() {
    let card = json!({
        "type": "object",
        "properties": {"kind": {"type": "string", "const": "card"}, "number": {"type": "string"}},
        "required": ["kind", "number"],
    });
    let bill = json!({
        "type": "object",
        "properties": {"kind": {"enum": ["bill"]}, "days": {"type": "integer"}},
        "required": ["kind", "days"],
    });
    let by_kind = json!({"oneOf": [card, bill, {"type": "null"}]});
    for (value, expected) in [
        (json!({"kind": "card", "number": 1}), "Argument '/x/number' must be a string, not integer 1,"),
        (json!({"kind": "bill"}), "Missing required argument '/x/days'"),
        (
            json!({"kind": "cash"}),
            "Argument '/x/kind' must be one of \"card\", \"bill\", not string \"cash\",",
        ),
        (json!({"days": 1}), "Missing required argument '/x/kind' (one of \"card\", \"bill\")"),
        (json!("card"), "Argument 'x' must be an object or null, not string \"card\","),
    ] {
        assert_eq!(message(&by_kind, &value), expected, "{value}");
        // The same with the alternatives in `$defs`.
        let referring = compile(&json!({
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/pay"}},
            "$defs": {
                "pay": {"anyOf": [{"$ref": "#/$defs/card"}, {"$ref": "#/$defs/bill"}, {"type": "null"}]},
                "card": card,
                "bill": bill,
            },
        }));
        assert_eq!(first(&referring.unwrap(), &json!({"x": value})).message, expected, "{value}");
    }
    for fitting in [json!({"kind": "card", "number": "1"}), json!({"kind": "bill", "days": 1}), json!(null)] {
        assert_eq!(object(&json!({"x": by_kind}), &[]).validate(&json!({"x": fitting})), Ok(()));
    }
}

#[test]
fn r2_the_alternative_is_selected_by_its_only_field() {
    let variant = |name: &str, of: &str| json!({"type": "object", "properties": {name: {"type": of}}, "required": [name], "additionalProperties": false});
    let by_key = json!({"oneOf": [{"const": "cash"}, variant("card", "string"), variant("bill", "integer")]});
    for (value, expected) in [
        (json!({"bill": "x"}), "Argument '/x/bill' must be an integer, not string \"x\","),
        (
            json!({"gift": 1}),
            "Argument 'x' must be an object with one of `card`, `bill`, not object {\"gift\":1},",
        ),
        (json!("check"), "Argument 'x' must be \"cash\" or an object, not string \"check\","),
    ] {
        assert_eq!(message(&by_key, &value), expected, "{value}");
    }
    let unlocated = json!({"anyOf": [
        {"type": "object", "required": ["a", "b"]},
        {"type": "object", "required": ["c"], "properties": {"c": {}, "d": {}}},
    ]});
    assert_eq!(
        message(&unlocated, &json!({})),
        "Argument 'x' must be an object with `a`, `b` or an object with `c`, not object {},"
    );
}

#[test]
fn r2_alternatives_without_a_type_are_named_by_what_they_require() {
    let branch = |name: &str| json!({"properties": {name: {"type": "string"}}, "required": [name]});
    let root = compile(&json!({"type": "object", "oneOf": [branch("a"), branch("b")]})).expect("a schema");
    for (value, expected) in [
        (json!({}), "The arguments must be an object with one of `a`, `b`, not object {},"),
        (json!({"a": 1}), "Argument 'a' must be a string, not integer 1,"),
        (
            json!({"a": "", "b": ""}),
            "The arguments must be an object with only one of `a`, `b`, not object {\"a\":\"\",\"b\":\"\"},",
        ),
    ] {
        assert_eq!(first(&root, &value).message, expected);
    }
    assert_eq!(root.validate(&json!({"b": "x"})), Ok(()));
    for (nested, value, expected) in [
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({}),
            "Argument 'x' must be an object with one of `a`, `b`, not object {},",
        ),
        (
            json!({"anyOf": [{"required": ["a", "b"]}, {"required": ["c"]}]}),
            json!({}),
            "Argument 'x' must be an object with `a`, `b` or an object with `c`, not object {},",
        ),
        (
            json!({"anyOf": [{"required": ["a"], "minProperties": 3}, {"required": ["a"], "minProperties": 4}]}),
            json!({"a": 1}),
            "Argument 'x' must be an object of at least 3 properties or an object of at least 4 properties, not object {\"a\":1},",
        ),
        (
            json!({"anyOf": [{"properties": {"a": {"multipleOf": 2}}}, {"properties": {"a": {"minimum": 5}}}]}),
            json!({"a": 1}),
            "Argument 'x' must be a value whose 'a' is a multiple of 2 or a value whose 'a' is at least 5, not object {\"a\":1},",
        ),
        (
            json!({"oneOf": [{"minimum": 1}, {"multipleOf": 2}]}),
            json!(0.5),
            "Argument 'x' must be at least 1 or a multiple of 2, not number 0.5,",
        ),
        (
            json!({"oneOf": [{"minimum": 1}, {"multipleOf": 2}]}),
            json!(4),
            "Argument 'x' must be of exactly one of the allowed forms, not integer 4,",
        ),
    ] {
        assert_eq!(message(&nested, &value), expected, "{nested}");
    }
}

#[test]
fn r2_a_hint_names_alternatives_and_never_offers_what_the_schema_refuses() {
    let branch = |name: &str| json!({"properties": {name: {"type": "string"}}, "required": [name]});
    for (source, hint) in [
        (json!({}), "send an object without arguments: {}"),
        (
            json!({"minProperties": 1}),
            "read the schema of the tool's arguments, and send an object that fits it",
        ),
        (
            json!({"oneOf": [branch("a"), branch("b")]}),
            "send an object with either `a`: string, or `b`: string",
        ),
        (
            json!({"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {"type": "integer"}}}),
            "send an object with `a`: integer (optional); and with either `a`: integer, or `b`",
        ),
        (
            json!({"allOf": [branch("a"), {"$ref": "#/$defs/b"}], "$defs": {"b": branch("b")}}),
            "send an object with `a`: string (required), `b`: string (required)",
        ),
        (
            json!({"anyOf": [{"$ref": "#/$defs/b"}, {"required": ["c", "d"]}], "$defs": {"b": branch("b")}}),
            "send an object with either `b`: string, or `c` and `d`",
        ),
    ] {
        let mut source = source;
        source["type"] = json!("object");
        assert_eq!(compile(&source).expect("a schema").hint(), hint, "{source}");
    }
}

#[test]
fn a_sentence_ends_without_a_comma() {
    let schema = object(&json!({"x": {"type": "integer"}}), &["x"]);
    let told = |value: Value| first(&schema, &value).sentence().to_owned();
    assert_eq!(told(json!({"x": "5"})), "Argument 'x' must be an integer, not string \"5\"");
    assert_eq!(told(json!({})), "Missing required argument 'x'");
}

#[test]
fn at_most_eight_violations_are_returned() {
    let schema = object(&json!({"a": {"type": "string"}, "b": {"type": "string"}}), &["a", "b"]);
    assert_eq!(schema.validate(&json!({"a": 1})).unwrap_err().len(), 2);
    let many: Value = (0..20).map(|index| (format!("k{index}"), json!(1))).collect();
    assert_eq!(schema.validate(&many).unwrap_err().len(), 8);
}

#[test]
fn the_found_value_is_one_short_line_without_hidden_characters() {
    let long = "é".repeat(1_000_000);
    let violation = first(&object(&json!({"x": {"type": "integer"}}), &[]), &json!({"x": long}));
    assert!(violation.found.chars().count() <= 90, "{}", violation.found);
    let violation =
        first(&object(&json!({"x": {"type": "integer"}}), &[]), &json!({"x": "a\n\u{202e}b\u{0}"}));
    assert_eq!(violation.found, r#"string "a\n\u{202e}b\u0000""#);
    let violation = first(&object(&json!({}), &[]), &json!({"a\u{202e}\n": 1}));
    assert!(!violation.message.contains(['\u{202e}', '\n']), "{}", violation.message);
}

#[test]
fn no_part_of_a_violation_grows_with_the_value_or_the_schema() {
    let long = "é/".repeat(20_000);
    let many: Vec<String> = (0..300).map(|index| format!("{index}{}", "x".repeat(60))).collect();
    let wide: Vec<Value> = many.chunks(12).map(|words| json!({"enum": words})).collect();
    for (source, instance) in [
        (json!({"const": long}), json!(1)),
        (json!({"enum": [&long, [&long]]}), json!(1)),
        (json!({"not": {"const": &long}}), json!(&long)),
        (json!({"anyOf": &wide}), json!({})),
        (json!({"required": ["a"], "properties": {"a": {"anyOf": &wide}}}), json!({})),
        (json!({"required": &many}), json!({})),
        (json!({"required": [&long]}), json!({})),
        (json!({"additionalProperties": false}), json!({&long: 1, "b": 2})),
        (json!({"additionalProperties": {"type": "null"}}), json!({&long: 1})),
        (json!({"propertyNames": {"maxLength": 1}}), json!({&long: 1})),
        (json!({"pattern": "x".repeat(1_000)}), json!(&long)),
        (json!({"anyOf": [{"required": &many}, {"required": [&long]}]}), json!({})),
    ] {
        for told in any(&source).unwrap().validate(&instance).expect_err("an error") {
            let parts = [told.pointer, told.expected, told.found, told.message];
            for part in &parts {
                assert!(part.chars().count() <= 1_300, "{parts:?}");
            }
        }
    }
    let schema = any(&json!({"additionalProperties": {"items": {"additionalProperties": {"type": "null"}}}}));
    let place = |name: &str| first(schema.as_ref().unwrap(), &json!({"a": [{name: 1}]})).pointer;
    assert_eq!(place("b"), "/a/0/b");
    assert_eq!(place(&"b".repeat(2_000)), "/a/0", "the place around it");
}

#[test]
fn a_redacted_value_is_shown_by_its_type_alone() {
    let schema = object(
        &json!({"password": {"minLength": 9}, "user": {"minLength": 9}, "login": {"type": "string"}}),
        &[],
    );
    let redacted = ["/password".to_owned(), "/login/secret".to_owned()];
    let told = |instance: Value| schema.validate_redacting(&instance, &redacted).unwrap_err().remove(0).found;
    assert_eq!(told(json!({"password": "hunter2"})), "string");
    assert_eq!(told(json!({"login": {"secret": "hunter2"}})), "object", "a parent would show the child");
    assert_eq!(told(json!({"user": "joe"})), "string \"joe\"");
}

#[test]
fn a_violation_of_a_result_uses_the_words_of_a_result() {
    let schema =
        any(&json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})).unwrap();
    assert_eq!(first(&schema, &json!({})).message, "Missing required field 'n'");
    assert_eq!(first(&schema, &json!({"n": ""})).message, "Field 'n' must be an integer, not string \"\",");
    assert_eq!(first(&schema, &json!(1)).message, "The result must be an object, not integer 1,");
}
