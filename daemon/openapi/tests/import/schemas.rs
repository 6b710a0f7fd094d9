//! Schemas: OpenAPI's deviations from JSON Schema, references, and schemas that the daemon does not compile.

use serde_json::{Value, json};
use toolgate_openapi::ImportOptions;

use super::{action, all, document, fits, import_checked, notes};

/// Imports an argument with this schema (YAML flow style), and returns its schema in the action.
fn property_schema(schema: &str) -> Value {
    let action = action(&format!(
        "paths: {{/a: {{post: {{requestBody: {{content: {{application/json: {{schema: {{type: object, properties: {{x: {schema}}}}}}}}}}}}}}}}}"
    ));
    action["input_schema"]["properties"]["x"].clone()
}

#[test]
fn c2_what_openapi_writes_its_own_way_becomes_json_schema() {
    for (schema, expected) in [
        ("{type: string, nullable: true}", json!({"type": ["string", "null"]})),
        ("{type: [string, 'null']}", json!({"type": ["null", "string"]})),
        (
            "{type: string, enum: [a, b], nullable: true}",
            json!({"type": ["string", "null"], "enum": ["a", "b", null]}),
        ),
        (
            "{type: integer, minimum: 1, exclusiveMinimum: true}",
            json!({"type": "integer", "exclusiveMinimum": 1}),
        ),
        ("{type: integer, minimum: 1, exclusiveMinimum: false}", json!({"type": "integer", "minimum": 1})),
        ("{type: integer, exclusiveMinimum: 1}", json!({"type": "integer", "exclusiveMinimum": 1})),
        ("{type: string, example: abc}", json!({"type": "string", "examples": ["abc"]})),
        (
            "{type: string, xml: {name: y}, externalDocs: {url: z}, x-own: 1, discriminator: {}}",
            json!({"type": "string"}),
        ),
        ("{type: string, enum: [1.5, true, a]}", json!({"type": "string", "enum": ["1.5", "true", "a"]})),
        ("{type: string, format: date-time}", json!({"type": "string", "format": "date-time"})),
        ("{type: string, format: time}", json!({"type": "string"})),
        (
            "{properties: {a: {type: string}}}",
            json!({"type": "object", "properties": {"a": {"type": "string"}}}),
        ),
        (
            "{oneOf: [{type: integer}, {type: number}]}",
            json!({"anyOf": [{"type": "integer"}, {"type": "number"}]}),
        ),
        ("{anyOf: [{type: integer}, {}]}", json!({})),
        ("{type: strong, minLength: -1, maxLength: a, pattern: 7, required: {}, enum: []}", json!({})),
        ("true", json!({})),
        ("7", json!({})),
        (
            "{type: array, items: [{type: string}]}",
            json!({"type": "array", "prefixItems": [{"type": "string"}]}),
        ),
        (
            "{type: string, default: a, deprecated: true}",
            json!({"type": "string", "default": "a", "deprecated": true}),
        ),
        (
            "{type: object, additionalProperties: {type: string}}",
            json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ),
        ("{const: a, description: \"b\\u202Ec\"}", json!({"const": "a", "description": "bc"})),
    ] {
        assert_eq!(property_schema(schema), expected, "{schema}");
    }
}

#[test]
fn c2_objects_in_parts_become_one() {
    let schema = "{allOf: [{type: object, required: [a], properties: {a: {type: string}}, additionalProperties: false}, {properties: {b: {type: integer}}}], description: both}";
    assert_eq!(
        property_schema(schema),
        json!({
            "type": "object", "description": "both", "required": ["a"],
            "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "additionalProperties": false
        })
    );
    let other = "{allOf: [{type: string}, {maxLength: 3}]}";
    assert_eq!(property_schema(other), json!({"allOf": [{"type": "string"}, {"maxLength": 3}]}));
}

const COMPONENTS: &str = "
components:
  schemas:
    Name: {type: string, maxLength: 5}
    Tree: {type: object, properties: {name: {$ref: '#/components/schemas/Name'}, children: {type: array, items: {$ref: '#/components/schemas/Tree'}}}}
    Loop: {allOf: [{$ref: '#/components/schemas/Loop'}]}
    Twice: {anyOf: [{$ref: '#/components/schemas/Twice'}, {$ref: '#/components/schemas/Twice'}]}
    Shut: {type: string, readOnly: true}
";

fn referring(schema: &str) -> String {
    format!(
        "paths: {{/a: {{post: {{requestBody: {{content: {{application/json: {{schema: {{type: object, properties: {{x: {schema}}}}}}}}}}}}}}}}}\n{COMPONENTS}"
    )
}

#[test]
fn c2_a_reference_is_written_out_once_and_named_twice() {
    let once = action(&referring("{$ref: '#/components/schemas/Name', description: here}"));
    assert_eq!(
        once["input_schema"]["properties"]["x"],
        json!({"type": "string", "maxLength": 5, "description": "here"})
    );
    let tree = action(&referring("{$ref: '#/components/schemas/Tree'}"));
    assert_eq!(tree["input_schema"]["properties"]["x"], json!({"$ref": "#/$defs/Tree"}));
    let leaf = |name: &str| json!({"x": {"children": [{"children": [{"name": name}]}]}});
    assert!(fits(&tree, &leaf("short")) && !fits(&tree, &leaf("much too long")));
}

#[test]
fn c2_what_refers_to_itself_at_the_same_place_or_to_nothing_is_accepted_as_it_comes() {
    for name in ["Loop", "Twice"] {
        let action = action(&referring(&format!("{{$ref: '#/components/schemas/{name}'}}")));
        assert!(fits(&action, &json!({"x": [1, {"a": "b"}]})), "{action}");
    }
    for reference in ["other.yaml#/a", "#/components/schemas/None", "#anchor", "https://example.com/x"] {
        let imported = all(&referring(&format!("{{$ref: '{reference}'}}")));
        assert!(notes(&imported).contains("so anything is accepted there"), "{}", notes(&imported));
        assert!(fits(&imported.definition["actions"][0], &json!({"x": 7})));
    }
}

#[test]
fn c2_a_read_only_property_behind_a_reference_is_not_sent() {
    let action = action(&referring(
        "{type: object, required: [s], properties: {s: {$ref: '#/components/schemas/Shut'}, t: {}}}",
    ));
    assert_eq!(action["input_schema"]["properties"]["x"], json!({"type": "object", "properties": {"t": {}}}));
}

#[test]
fn c2_a_pattern_that_the_daemon_does_not_know_is_not_checked() {
    let imported = all(
        "paths: {/a: {get: {parameters: [{name: p, in: query, schema: {type: string, pattern: '^(?=a)a+$'}}, {name: q, in: query, schema: {type: string, pattern: '^a+$'}}]}}}",
    );
    let properties = &imported.definition["actions"][0]["input_schema"]["properties"];
    assert_eq!(properties["p"], json!({"type": "string"}));
    assert_eq!(properties["q"]["pattern"], "^a+$");
    assert!(notes(&imported).contains("the pattern `^(?=a)a+$` is not checked"));
}

#[test]
fn c2_too_many_patterns_are_given_up_together() {
    let properties: String =
        (0..70).map(|number| format!("p{number}: {{type: string, pattern: '^a{{{number}}}$'}}, ")).collect();
    let imported = all(&format!(
        "paths: {{/a: {{post: {{requestBody: {{content: {{application/json: {{schema: {{type: object, properties: {{{properties}}}}}}}}}}}}}}}}}"
    ));
    assert!(notes(&imported).contains("not checked for patterns"), "{}", notes(&imported));
    assert!(fits(&imported.definition["actions"][0], &json!({"p1": "b"})));
}

#[test]
fn c2_a_schema_larger_than_a_model_reads_is_cut_below_a_level() {
    // Each level has thirty properties of the next one.
    let level = |next: &str| -> String {
        let properties: String = (0..30).map(|number| format!("p{number}: {next}, ")).collect();
        format!("{{type: object, properties: {{{properties}}}}}")
    };
    let schema = level(&level(&level("{type: string, description: a leaf far down in the tree}")));
    let imported = all(&referring(&schema));
    let action = &imported.definition["actions"][0];
    assert!(notes(&imported).contains("down to some level"), "{}", notes(&imported));
    assert!(action["input_schema"].to_string().len() <= 32 * 1024);
    assert!(fits(action, &json!({"x": {"p1": {"p2": {"p3": 7}}}})), "what is deeper is accepted");
    assert!(!fits(action, &json!({"x": "no object"})));
}

#[test]
fn c2_answers_are_described_only_if_that_is_asked_for() {
    let text = document(
        "paths: {/a: {get: {responses: {200: {content: {application/json: {schema: {type: object, properties: {a: {type: string}, b: {type: string, writeOnly: true}}}}}}}}}}",
    );
    let plain = import_checked(&text, &ImportOptions::new("t")).expect("imported");
    assert_eq!(plain.definition["actions"][0].get("output_schema"), None);
    let options = ImportOptions { output_schemas: true, ..ImportOptions::new("t") };
    let described = import_checked(&text, &options).expect("imported");
    assert_eq!(
        described.definition["actions"][0]["output_schema"],
        json!({"type": "object", "properties": {"a": {"type": "string"}}})
    );
}
