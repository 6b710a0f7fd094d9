//! Removal of `null` from optional properties.

use super::*;

fn reduce(schema: &Value, value: &Value) -> Option<Value> {
    compile(schema).expect("a schema").without_refused_nulls(value).map(|(reduced, _)| reduced)
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
