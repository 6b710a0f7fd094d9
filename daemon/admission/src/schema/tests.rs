//! Tests of violations beside valid values, and of schemas that are expensive on purpose.

use serde_json::{Value, json};

use super::*;

fn compile(source: &Value) -> Result<Schema, SchemaError> {
    Schema::compile(source, SchemaRole::Input)
}

fn any(source: &Value) -> Result<Schema, SchemaError> {
    Schema::compile(source, SchemaRole::Output)
}

/// A schema with these properties and no others.
fn object(properties: &Value, required: &[&str]) -> Schema {
    let source = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    compile(&source).expect("a schema")
}

fn first(schema: &Schema, instance: &Value) -> Violation {
    schema.validate(instance).expect_err("an error").remove(0)
}

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

/// Requirements 9.8.
#[test]
fn nothing_is_coerced_but_an_integral_float_is_an_integer() {
    let schema = object(&json!({"n": {"type": "integer"}, "b": {"type": "boolean"}}), &[]);
    for taken in [json!({"n": 1}), json!({"n": 1.0}), json!({"n": 1e3}), json!({"b": true})] {
        assert_eq!(schema.validate(&taken), Ok(()), "{taken}");
    }
    for refused in [
        json!({"n": "1"}),
        json!({"n": 1.5}),
        json!({"n": true}),
        json!({"b": "true"}),
        json!({"b": 1}),
        json!({"n": null}),
    ] {
        assert!(schema.validate(&refused).is_err(), "{refused}");
    }
}

#[test]
fn integers_beyond_what_a_double_holds_are_compared_exactly() {
    let schema = object(&json!({"n": {"type": "integer", "maximum": 9_007_199_254_740_993_u64}}), &[]);
    assert_eq!(schema.validate(&json!({"n": 9_007_199_254_740_993_u64})), Ok(()));
    assert!(schema.validate(&json!({"n": 9_007_199_254_740_994_u64})).is_err());
    let constant = object(&json!({"n": {"const": u64::MAX}}), &[]);
    assert_eq!(constant.validate(&json!({"n": u64::MAX})), Ok(()));
    assert!(constant.validate(&json!({"n": u64::MAX - 1})).is_err());
}

#[test]
fn a_violation_of_a_result_uses_the_words_of_a_result() {
    let schema =
        any(&json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})).unwrap();
    assert_eq!(first(&schema, &json!({})).message, "Missing required field 'n'");
    assert_eq!(first(&schema, &json!({"n": ""})).message, "Field 'n' must be an integer, not string \"\",");
    assert_eq!(first(&schema, &json!(1)).message, "The result must be an object, not integer 1,");
}

#[test]
fn the_hint_names_the_properties_with_their_types() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "mode": {"enum": ["read", "write"]},
            "at": {"$ref": "#/$defs/at"},
            "tags": {"type": "array", "items": {"type": ["string", "null"]}},
            "size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "free": {},
        },
        "required": ["path"],
        "$defs": {"at": {"type": "object"}},
    }))
    .unwrap();
    assert_eq!(
        schema.hint(),
        "send an object with `path`: string (required), `at`: object (optional), `free`: any value (optional), \
         `mode`: \"read\" or \"write\" (optional), `size`: integer or null (optional), \
         `tags`: array of string or null (optional)"
    );
    assert_eq!(object(&json!({}), &[]).hint(), "send an object without arguments: {}");
}

#[test]
fn the_root_of_an_input_schema_is_an_object() {
    assert!(compile(&json!({"type": "object"})).is_ok());
    for source in [
        json!({}),
        json!(true),
        json!({"type": "array"}),
        json!({"type": ["object", "null"]}),
        json!({"$ref": "#/$defs/a"}),
    ] {
        let refused = compile(&source).expect_err("no object");
        assert!(refused.hint.contains("\"type\":\"object\""), "{}", refused.hint);
    }
    assert!(any(&json!({})).is_ok() && any(&json!(true)).is_ok() && any(&json!({"type": "array"})).is_ok());
}

#[test]
fn an_invalid_schema_is_refused_with_its_place() {
    let refused = any(&json!({"properties": {"a": {"type": "strin"}}})).expect_err("no type");
    assert_eq!(refused.pointer, "/properties/a/type");
    for source in [
        json!(1),
        json!({"minimum": "1"}),
        json!({"required": "a"}),
        json!({"pattern": "("}),
        json!({"items": 1}),
    ] {
        assert!(any(&source).is_err(), "{source}");
    }
}

#[test]
fn a_remote_reference_is_refused_without_a_request() {
    for reference in [
        "https://example.com/a.json",
        "http://127.0.0.1/",
        "file:///etc/passwd",
        "other.json",
        "//host/x",
        "urn:x",
    ] {
        let refused = any(&json!({"$ref": reference})).expect_err(reference);
        assert!(refused.message.contains("leaves the schema"), "{}", refused.message);
    }
    assert!(any(&json!({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}})).is_ok());
    assert!(any(&json!({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "type": "string"}}})).is_ok());
    assert!(any(&json!({"$ref": "#/$defs/a%20b", "$defs": {"a b": {}}})).is_ok());
}

#[test]
fn an_unresolved_reference_is_refused() {
    for reference in ["#/$defs/b", "#b", "#/$defs/a/type", "#/%zz"] {
        assert!(any(&json!({"$ref": reference, "$defs": {"a": {"type": "string"}}})).is_err(), "{reference}");
    }
}

#[test]
fn a_keyword_that_changes_references_is_refused() {
    for source in [
        json!({"$dynamicRef": "#a"}),
        json!({"properties": {"a": {"$id": "https://example.com/"}}}),
        json!({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#"}),
        json!({"$schema": "https://example.com/dialect"}),
    ] {
        assert!(any(&source).is_err(), "{source}");
    }
    assert!(
        any(&json!({"$id": "https://example.com/a", "$schema": "http://json-schema.org/draft-07/schema#"}))
            .is_ok()
    );
    assert!(
        any(&json!({"properties": {"$id": {"type": "string"}, "$ref": {"type": "string"}}})).is_ok(),
        "names of properties"
    );
    assert!(
        any(&json!({"default": {"$ref": "https://example.com/"}, "examples": [{"$id": "x"}]})).is_ok(),
        "plain data"
    );
}

#[test]
fn look_around_and_back_references_are_refused_and_linear_patterns_are_not() {
    for pattern in ["(?=a)b", "(a)\\1", "(?<!a)b"] {
        assert!(any(&json!({"pattern": pattern})).is_err(), "{pattern}");
    }
    assert!(any(&json!({"pattern": "^[a-z]{1,64}(\\.[a-z]+)*$"})).is_ok());
}

#[test]
fn a_pattern_that_would_make_a_backtracking_engine_hang_is_matched_in_linear_time() {
    let schema = any(&json!({"pattern": "^(a+)+$"})).unwrap();
    assert!(schema.validate(&json!("a".repeat(100_000) + "!")).is_err());
    assert_eq!(schema.validate(&json!("aaa")), Ok(()));
}

#[test]
fn a_pattern_with_many_states_is_not_matched_with_a_long_text() {
    let schema = any(&json!({"pattern": "^[01]*1[01]{1000}$"})).unwrap();
    assert!(schema.validate(&json!("10".repeat(500_000))).unwrap_err()[0].message.contains("too large"));
    assert_eq!(schema.validate(&json!("1".repeat(1_001))), Ok(()));
    assert!(any(&json!({"pattern": "((a{100}){100}){100}"})).is_err(), "a pattern too large to compile");
}

#[test]
fn formats_count_like_states_of_a_pattern() {
    let long = json!("(a)".repeat(400_000));
    for (one, most) in [
        (json!({"format": "email"}), 80),
        (json!({"format": "uri-reference"}), 160),
        (json!({"format": "json-pointer"}), 320),
        (json!({"format": "regex"}), 8),
        (json!({"contentMediaType": "application/json"}), 40),
    ] {
        let is_checked = |count: usize| {
            let checked = any(&json!({"allOf": vec![&one; count], ASSERT_FORMAT: true}))
                .expect("a schema")
                .validate(&long);
            checked.err().is_none_or(|violations| !violations[0].message.contains("too large to be checked"))
        };
        assert!(is_checked(most), "{one}");
        assert!(!is_checked(2 * most), "{one}");
    }
    assert_eq!(
        object(&json!({"x": {"format": "email"}}), &[]).validate(&json!({"x": "a@b.example"})),
        Ok(())
    );
}

/// 2020-12 Validation, 7.2: `format` is an annotation unless the author asks for an assertion.
#[test]
fn r2_a_format_is_checked_where_the_schema_asks_and_in_arguments_of_older_drafts() {
    let older = "http://json-schema.org/draft-07/schema#";
    for (asks, role, is_checked) in [
        (json!({}), SchemaRole::Input, false),
        (json!({}), SchemaRole::Output, false),
        (json!({"$schema": "https://json-schema.org/draft/2019-09/schema"}), SchemaRole::Input, false),
        (json!({"$schema": older}), SchemaRole::Input, true),
        (json!({"$schema": older}), SchemaRole::Output, false),
        (json!({"$schema": older, ASSERT_FORMAT: false}), SchemaRole::Input, false),
        (json!({ASSERT_FORMAT: true}), SchemaRole::Input, true),
        (json!({ASSERT_FORMAT: true}), SchemaRole::Output, true),
    ] {
        let mut source = json!({"type": "object", "properties": {"x": {"format": "date"}}});
        asks.as_object().expect("an object").iter().for_each(|(name, value)| source[name] = value.clone());
        let schema = Schema::compile(&source, role).expect("a schema");
        assert_eq!(schema.validate(&json!({"x": "2024-02-29"})), Ok(()), "{source}");
        assert_eq!(schema.validate(&json!({"x": "b"})).is_err(), is_checked, "{role:?} {source}");
    }
    let asks =
        compile(&json!({"type": "object", "properties": {"x": {"format": "date"}}, ASSERT_FORMAT: true}));
    let told = first(&asks.expect("a schema"), &json!({"x": "b"}));
    assert_eq!(told.message, "Argument 'x' must be a string in the format `date`, not string \"b\",");
}

#[test]
fn m4_a_dialect_is_known_by_either_scheme() {
    let schema = any(&json!({
        "$schema": "https://json-schema.org/draft-07/schema", "items": [{"type": "string"}], "additionalItems": false,
    }));
    let schema = schema.expect("draft 7");
    assert_eq!(schema.source()["$schema"], "http://json-schema.org/draft-07/schema");
    assert!(schema.validate(&json!(["a", 1])).is_err(), "as draft 7 says");
    assert_eq!(schema.validate(&json!(["a"])), Ok(()));
}

/// `$defs` of `count` schemas, each of which refers to the next through `link`.
fn chain(count: usize, link: impl Fn(Value) -> Value) -> Value {
    let mut defs: serde_json::Map<String, Value> = (0..count)
        .map(|index| (format!("d{index}"), link(json!({"$ref": format!("#/$defs/d{}", index + 1)}))))
        .collect();
    defs.insert(format!("d{count}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

#[test]
fn exponential_references_are_refused_and_a_few_of_them_pass() {
    let links: [fn(Value) -> Value; 4] = [
        |next| json!({"allOf": [next, next]}),
        |next| json!({"anyOf": [next, next]}),
        |next| json!({"properties": {"a": next, "b": next}}),
        |next| json!({"items": next, "contains": next}),
    ];
    for link in links {
        assert!(any(&chain(60, link)).is_err(), "{}", link(json!("next")));
        assert!(any(&chain(3, link)).is_ok(), "{}", link(json!("next")));
    }
}

#[test]
fn a_long_chain_of_references_is_refused_without_using_up_the_stack() {
    assert!(any(&chain(1_900, |next| next)).is_err());
    assert!(any(&chain(10, |next| next)).is_ok());
    assert!(any(&chain(500, |next| json!({"items": next}))).is_ok());
}

#[test]
fn a_schema_that_refers_to_itself_at_the_same_place_is_refused() {
    for source in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {}]}, "b": {"not": {"$ref": "#/$defs/a"}}}}),
    ] {
        assert!(any(&source).expect_err("a cycle").message.contains("itself"), "{source}");
    }
}

#[test]
fn a_recursive_schema_passes_unless_it_applies_twice_at_one_place() {
    for source in [
        json!({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}),
        json!({"type": "object", "properties": {"x": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"}}),
        json!({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"type": "object", "additionalProperties": {"$ref": "#"}}, {"type": "string"}]}),
    ] {
        let schema = any(&source).expect("a tree");
        let deep = (0..100).fold(json!({}), |inner, _| json!({"left": inner}));
        assert_eq!(schema.validate(&deep), Ok(()), "{source}");
    }
    for source in [
        json!({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]}),
        json!({"properties": {"a": {"$ref": "#"}}, "patternProperties": {"a": {"$ref": "#"}}}),
        json!({"allOf": [{"additionalProperties": {"$ref": "#"}}, {"properties": {"a": {"$ref": "#"}}}]}),
        json!({"items": {"$ref": "#"}, "contains": {"$ref": "#"}}),
    ] {
        assert!(any(&source).expect_err("doubling").message.contains("meet"), "{source}");
    }
}

#[test]
fn mutually_recursive_types_are_held_once() {
    let count = 24;
    let defs: serde_json::Map<String, Value> = (0..count)
        .map(|index| {
            let properties: Value = (0..count)
                .map(|other| (format!("p{other}"), json!({"$ref": format!("#/$defs/t{other}")})))
                .collect();
            (format!("t{index}"), json!({"type": "object", "properties": properties}))
        })
        .collect();
    let schema = any(&json!({"$ref": "#/$defs/t0", "$defs": defs})).expect("an expression tree");
    assert_eq!(schema.validate(&json!({"p3": {"p7": {}}})), Ok(()));
    assert!(schema.validate(&json!({"p3": {"p7": 1}})).is_err());
}

#[test]
fn a_schema_of_a_thousand_arguments_or_variants_passes() {
    let properties: Value =
        (0..1_000).map(|index| (format!("p{index}"), json!({"type": "string", "maxLength": 5}))).collect();
    assert!(compile(&json!({"type": "object", "properties": properties})).is_ok());
    let variants: Vec<Value> = (0..100)
        .map(|index| json!({"type": "object", "properties": {"kind": {"const": index}, (format!("v{index}")): {"type": "string"}}, "required": ["kind"]}))
        .collect();
    assert!(any(&json!({"oneOf": variants})).is_ok());
}

#[test]
fn deep_and_large_schemas_are_refused() {
    let nested = |levels| (0..levels).fold(json!({}), |inner, _| json!({"items": inner}));
    assert!(any(&nested(32)).is_ok());
    assert!(any(&nested(33)).is_err());
    let described = |bytes: usize| json!({"description": "x".repeat(bytes)});
    assert!(any(&described(SCHEMA_BYTES - 100)).is_ok());
    assert!(any(&described(SCHEMA_BYTES)).is_err());
    let repeated = |count: usize, schema: Value| json!({"prefixItems": vec![schema; count]});
    for (most, schema) in [
        (32, json!({"uniqueItems": true})),
        (64, json!({"pattern": "a"})),
        (64, json!({"patternProperties": {"a": {}}})),
    ] {
        assert!(any(&repeated(most, schema.clone())).is_ok(), "{schema}");
        assert!(any(&repeated(most + 1, schema.clone())).is_err(), "{schema}");
    }
    assert!(any(&repeated(10_000, json!({}))).is_err());
}

#[test]
fn unevaluated_properties_nested_in_each_other_are_refused() {
    let nested = |levels| {
        (0..levels).fold(
            json!({"properties": {"a": {}}}),
            |inner, _| json!({"anyOf": [inner], "unevaluatedProperties": false}),
        )
    };
    assert!(any(&nested(3)).is_ok());
    assert!(any(&nested(20)).is_err());
}

#[test]
fn many_errors_in_a_large_value_are_fast_and_short() {
    let schema = any(&json!({"items": {"type": "object", "required": ["a"]}})).unwrap();
    let violations = schema.validate(&json!(vec![0; 400_000])).unwrap_err();
    assert!(violations.len() <= 8);
    assert_eq!(violations[0].pointer, "/0");
}

#[test]
fn a_value_too_large_for_an_expensive_schema_is_refused_first() {
    let branches: Vec<Value> =
        (0..200).map(|index| json!({"items": {"not": {"const": index}, "minimum": -1}})).collect();
    let schema = any(&json!({"allOf": branches})).unwrap();
    assert!(schema.validate(&json!(vec![500; 500_000])).unwrap_err()[0].message.contains("too large"));
    assert_eq!(schema.validate(&json!([500])), Ok(()));
}

/// A recursive list with `links` references and alternatives for each level.
fn linked_list(links: usize) -> Value {
    let mut defs: serde_json::Map<String, Value> = (0..links)
        .map(|index| {
            (
                format!("d{index}"),
                json!({"anyOf": [{"type": "null"}, {"$ref": format!("#/$defs/d{}", index + 1)}]}),
            )
        })
        .collect();
    defs.insert(format!("d{links}"), json!({"type": "array", "items": {"$ref": "#/$defs/d0"}}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// A thread of the runtime has 2 MiB of stack; half of it is for the callers.
#[test]
fn the_deepest_values_against_the_longest_chains_fit_the_stack() {
    let schemas: Vec<Schema> = [0, 4, 8, 11].map(|links| any(&linked_list(links)).expect("a schema")).into();
    assert!(any(&linked_list(12)).is_err(), "the longest is among them");
    let check = move || {
        for (schema, depth) in
            schemas.iter().flat_map(|schema| [30, 58, 62, 126].map(|depth| (schema, depth)))
        {
            let deep = (0..depth).fold(json!([1]), |inner, _| json!([inner]));
            schema.validate(&deep).expect_err("a number at the bottom");
        }
    };
    let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(check).expect("a thread");
    thread.join().expect("fits the stack");
}

#[test]
fn a_value_too_deep_for_a_long_chain_is_refused_first() {
    let deep = |levels| (0..levels).fold(json!([]), |inner, _| json!([inner]));
    let schema = any(&linked_list(11)).unwrap();
    assert_eq!(schema.validate(&deep(50)), Ok(()));
    assert!(schema.validate(&deep(100)).unwrap_err()[0].message.contains("too deeply nested"));
    assert_eq!(any(&linked_list(3)).unwrap().validate(&deep(100)), Ok(()));
}

#[test]
fn targets_nested_by_references_compile_within_the_stack_or_are_refused() {
    let wraps: [fn(Value) -> Value; 4] = [
        |inner| json!({"items": inner}),
        |inner| json!({"properties": {"a": inner}, "additionalProperties": false}),
        |inner| json!({"prefixItems": [inner], "uniqueItems": false, "minItems": 0}),
        |inner| json!({"properties": {"a": inner}, "additionalProperties": {"oneOf": [{"type": "null"}]}}),
    ];
    let compile = move || {
        for wrap in wraps {
            let nested = |times: usize| chain(20, |next| (0..times).fold(next, |inner, _| wrap(inner)));
            assert!(any(&nested(30)).expect_err("too deep").message.contains("inside each other"));
            let deepest = (1..30).rev().find(|times| any(&nested(*times)).is_ok());
            assert!(deepest.is_some_and(|times| times >= 8), "{deepest:?}");
        }
    };
    let thread = std::thread::Builder::new().stack_size(1536 << 10).spawn(compile).expect("a thread");
    thread.join().expect("fits the stack");
}

fn reduce(schema: &Value, value: &Value) -> Option<Value> {
    compile(schema).expect("a schema").without_refused_nulls(value)
}

#[test]
fn m5_a_null_is_removed_only_where_the_schema_refuses_it_for_an_optional_property() {
    let schema = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "header": {"type": "boolean"},
            "delimiter": {"enum": ["comma", null]},
            "size": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
            "value": {},
            "page": {"$ref": "#/$defs/page"},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "a/b~c": {"type": "string"},
        },
        "required": ["path"],
        "additionalProperties": false,
        "$defs": {"page": {"type": "object", "properties": {"number": {"type": "integer"}, "size": {"$ref": "#/$defs/size"}}, "required": ["number"]}, "size": {"type": "integer"}},
    });
    for (value, expected) in [
        (json!({"path": "a", "header": null}), Some(json!({"path": "a"}))),
        (json!({"path": "a", "size": null, "a/b~c": null, "page": null}), Some(json!({"path": "a"}))),
        (
            json!({"path": "a", "page": {"number": 1, "size": null}}),
            Some(json!({"path": "a", "page": {"number": 1}})),
        ),
        (
            json!({"path": "a", "header": null, "delimiter": null, "value": null}),
            Some(json!({"path": "a", "delimiter": null, "value": null})),
        ),
        // Invalid values that remain are refused by validation, with the place.
        (json!({"path": null, "header": null}), Some(json!({"path": null}))),
        (json!({"path": "a", "page": {"number": null}}), None),
        (json!({"path": null}), None),
        (json!({"path": "a", "labels": {"x": null}}), None),
        (json!({"path": "a", "unknown": null}), None),
        (json!({"path": "a", "delimiter": null}), None),
        (json!({"path": "a", "header": 1}), None),
    ] {
        assert_eq!(reduce(&schema, &value), expected, "{value}");
    }
}

#[test]
fn m5_a_null_inside_alternatives_is_removed_only_where_none_gives_it_a_meaning() {
    let shape = |kind: &str, property: Value| json!({"type": "object", "properties": {"kind": {"const": kind}, "x": property}, "required": ["kind"]});
    let schema = |union: Value| {
        json!({
            "type": "object",
            "properties": {"one": {"anyOf": union}, "each": {"type": "array", "items": {"anyOf": union}}},
        })
    };
    let tagged = schema(
        json!([shape("a", json!({"type": "integer"})), shape("b", json!({"type": "null"})), {"type": "string"}]),
    );
    for (value, expected) in [
        (json!({"one": {"kind": "a", "x": null}}), Some(json!({"one": {"kind": "a"}}))),
        (json!({"each": [{"kind": "a", "x": null}, "s"]}), Some(json!({"each": [{"kind": "a"}, "s"]}))),
        (json!({"one": {"kind": "b", "x": null}}), None),
        (json!({"one": {"kind": "c", "x": null}}), None),
        (json!({"each": [null]}), None),
    ] {
        assert_eq!(reduce(&tagged, &value), expected, "{value}");
    }
    // The first alternative is meant with `null`, and lacks `y`.
    let untagged = schema(json!([
        {"type": "object", "properties": {"x": {"type": "null"}}, "required": ["x", "y"]},
        {"type": "object", "properties": {"x": {"type": "string"}}},
    ]));
    assert_eq!(reduce(&untagged, &json!({"one": {"x": null}})), None);
}
