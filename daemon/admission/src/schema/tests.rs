//! Schemas that are compiled or refused, and the values that they accept.

mod bounds;
mod nulls;
mod violations;

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

/// authors.md 37: a fault within an object is answered with that object.
#[test]
fn the_hint_describes_the_object_around_the_fault() {
    let schema = compile(&json!({
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "filter": {"anyOf": [{"$ref": "#/$defs/filter"}, {"type": "null"}]},
            "rows": {"type": "array", "items": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        },
        "$defs": {"filter": {"type": "object", "properties": {"state": {"enum": ["open", "closed"]}}, "required": ["state"]}},
    }))
    .unwrap();
    let hint = |value: Value| schema.hint_for(&schema.validate(&value).unwrap_err());
    let state = "send at `/filter` an object with `state`: \"open\" or \"closed\" (required)";
    assert_eq!(hint(json!({"filter": {"state": 1}})), state);
    assert_eq!(hint(json!({"filter": {}})), state);
    assert_eq!(
        hint(json!({"rows": [{"id": "x"}]})),
        "send at `/rows/0` an object with `id`: integer (optional)"
    );
    assert_eq!(hint(json!({"name": 1})), schema.hint());
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
