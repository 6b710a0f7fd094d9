//! Schemas of tools: what is taken here the daemon takes, and what it refuses is left out here.

use toolgate_admission::{Schema, SchemaRole};
use toolgate_sdk::serde_json::{Value, json};

use crate::header_params::{self, encode};
use crate::schema::{input, output};

#[test]
fn m4_a_schema_that_is_taken_is_taken_by_the_daemon() {
    for schema in [
        json!({"type": "object"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"type": "string"}}}),
        json!({"properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": null}}, "title": "A"}),
        json!({"type": ["object"], "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"enum": ["x", 1]}}}),
        json!({"properties": {"t": {"$ref": "#/$defs/T"}}, "$defs": {"T": {"properties": {"kids": {"items": {"$ref": "#/$defs/T"}}}}}}),
        json!({"properties": {"e": {"type": "string", "format": "email", "pattern": "^(?!\\.)(?!.*\\.\\.)[a-z.]+@x$"}}}),
        json!({"properties": {"a": {"description": "hid\u{200b}den", "default": "\u{202e}"}}}),
        json!({"properties": {"description": {"type": "string", "description": "of it"}, "default": {"type": "string"}}}),
        json!({"properties": {"a": {"items": [{"type": "string"}], "additionalItems": false}}, "$schema": "http://json-schema.org/draft-07/schema#"}),
        json!({"additionalProperties": false, "dependencies": {"a": ["b"]}}),
        json!({"$schema": "https://json-schema.org/draft-07/schema", "properties": {"a": {"items": [{}], "additionalItems": false}}}),
        json!({"$schema": "http://json-schema.org/schema#"}),
        json!({"type": null, "title": null, "properties": {"a": {"type": "string", "description": null, "enum": null, "default": null}}}),
    ] {
        let sound = input(schema.clone()).unwrap_or_else(|why| panic!("{why}: {schema}"));
        Schema::compile(&sound.schema, SchemaRole::Input).unwrap_or_else(|error| panic!("{error}: {schema}"));
    }
}

#[test]
fn m4_what_the_daemon_refuses_is_left_out_with_the_reason() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"properties": {"a": inner}}));
    let large = json!({"properties": {"a": {"enum": vec!["x".repeat(1_000); 300]}}});
    let many = (0..10_000).map(|number| (format!("p{number}"), json!({}))).collect::<Value>();
    for (schema, says) in [
        (json!([]), "no object"),
        (json!({"type": "string"}), "describes no object"),
        (json!({"type": ["object", "null"]}), "describes no object"),
        (json!({"type": "object", "$schema": "http://json-schema.org/draft-04/schema#"}), "dialect"),
        (json!({"properties": {"a": {"$ref": "https://example.com/a.json"}}}), "another document"),
        (json!({"properties": {"a": {"$ref": "#/$defs/missing"}}}), "where there is nothing"),
        (json!({"properties": {"a": {"$id": "https://example.com/a"}}}), "`$id`"),
        (json!({"$dynamicRef": "#a"}), "`$dynamicRef`"),
        (json!({"properties": {"a": {"type": "any"}}}), "`type`"),
        (json!({"properties": {"a": {"type": "string", "required": true}}}), "`required`"),
        (json!({"properties": {"a": 1}}), "no schema"),
        (json!({"properties": {"a": {"minLength": -1}}}), "`minLength`"),
        (json!({"anyOf": []}), "`anyOf`"),
        (json!({"properties": {"a\u{200b}": {}}}), "invisible"),
        (json!({"properties": {"a": {"const": "\u{200b}"}}}), "invisible"),
        (json!({"patternProperties": {"^(?=a)": {}}}), "pattern"),
        (nested(40), "nested deeper than 80"),
        (
            (0..40).fold(json!({"type": "object"}), |inner, _| json!({"type": "object", "not": inner})),
            "deeper than 32",
        ),
        (large, "bytes"),
        (json!({"properties": many}), "subschemas"),
    ] {
        let why = input(schema.clone()).err().unwrap_or_else(|| panic!("{schema}"));
        assert!(why.contains(says), "{why}");
        assert!(Schema::compile(&schema, SchemaRole::Input).is_err() || says == "invisible", "{schema}");
    }
    assert!(input(nested(30)).is_ok());
}

#[test]
fn m4_a_root_without_a_type_is_an_object() {
    for schema in [json!(null), json!({}), json!({"type": ["object"]})] {
        assert_eq!(input(schema).unwrap().schema, json!({"type": "object"}));
    }
}

#[test]
fn m4_a_pattern_that_looks_around_is_left_to_the_server() {
    for (pattern, stays) in
        [("^a+$", true), ("^(?!b)", false), ("(a)\\1", false), ("\\\\1", true), ("(?<=a)b", false)]
    {
        let sound = input(json!({"properties": {"a": {"type": "string", "pattern": pattern}}})).unwrap();
        assert_eq!(sound.schema.pointer("/properties/a/pattern").is_some(), stays, "{pattern}");
        assert_eq!(sound.changes.is_empty(), stays);
    }
}

/// C#, Go and Java write null for a member that is not there.
#[test]
fn m4_a_null_keyword_is_absent_where_null_says_nothing() {
    let written = json!({"properties": {"x": {
        "type": "string", "title": null, "description": null, "pattern": null, "default": null, "const": null,
    }}});
    let sound = input(written).unwrap();
    assert_eq!(sound.schema["properties"]["x"], json!({"type": "string", "default": null, "const": null}));
}

#[test]
fn m4_a_dialect_is_written_as_the_daemon_knows_it() {
    let sound = input(json!({"$schema": "https://json-schema.org/draft-07/schema"})).unwrap();
    assert_eq!(sound.schema["$schema"], "http://json-schema.org/draft-07/schema");
}

#[test]
fn m4_an_output_schema_may_describe_anything() {
    assert!(output(json!({"type": "array", "items": {"type": "string"}})).is_ok());
    assert!(output(json!(true)).is_err());
    assert!(output(json!({"$ref": "other.json"})).is_err());
}

#[test]
fn m4_marked_arguments_are_found_where_properties_alone_lead() {
    let schema = json!({"properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "inner": {"properties": {"count": {"type": "integer", "x-mcp-header": "Count"}}},
    }});
    let mirrored = header_params::read(&schema).unwrap();
    let arguments = json!({"region": "eu", "inner": {"count": -7}});
    let mut fields = header_params::fields(&mirrored, &arguments);
    fields.sort();
    assert_eq!(fields, [("Mcp-Param-Count", "-7".to_owned()), ("Mcp-Param-Region", "eu".to_owned())]);
    assert_eq!(header_params::fields(&mirrored, &json!({"region": null})), []);
}

#[test]
fn m4_a_wrong_mark_keeps_a_tool_out() {
    let marked = |part: Value| json!({"properties": {"a": part}});
    for schema in [
        json!({"x-mcp-header": "A"}),
        marked(json!({"type": "string", "x-mcp-header": ""})),
        marked(json!({"type": "string", "x-mcp-header": "a b"})),
        marked(json!({"type": "string", "x-mcp-header": "a\r\nb"})),
        marked(json!({"type": "string", "x-mcp-header": 1})),
        marked(json!({"type": "number", "x-mcp-header": "A"})),
        marked(json!({"x-mcp-header": "A"})),
        marked(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}})),
        json!({"anyOf": [{"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}]}),
        json!({"$defs": {"a": {"type": "string", "x-mcp-header": "A"}}}),
        json!({"properties": {
            "a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"},
        }}),
    ] {
        assert!(header_params::read(&schema).is_err(), "{schema}");
    }
    // Data that looks like a mark is none.
    let data = json!({"properties": {"a": {"type": "object", "default": {"x-mcp-header": ""}}}});
    assert_eq!(header_params::read(&data).unwrap(), []);
}

#[test]
fn m4_a_value_that_no_header_field_can_carry_is_written_in_base64() {
    for (value, sent) in [
        ("us-west1", "us-west1"),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ] {
        assert_eq!(encode(value), sent);
    }
}
