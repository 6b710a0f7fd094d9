//! Invalid texts, and documents that were made to be slow.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;
use toolgate_openapi::{COMMAND_DOCUMENT_BYTES, ImportOptions, import};

use super::{all, document, import_checked, notes, skip_reason};

#[test]
fn c2_what_is_no_openapi_document_is_refused_with_a_way_out() {
    for (text, place, message) in [
        ("", "", "no OpenAPI document"),
        ("{", "", "not JSON"),
        ("a: [", "", "not YAML"),
        ("[]", "", "no OpenAPI document"),
        ("hello", "", "no OpenAPI document"),
        ("swagger: '1.2'", "/swagger", "Swagger 1.2"),
        ("swagger: '2.0'\nhost: a.example", "/paths", "none of the 0 operations"),
        ("openapi: 4.0.0", "/openapi", "OpenAPI 4.0.0"),
        ("openapi: 3.01", "/openapi", "OpenAPI 3.01"),
        ("openapi: 3.0.0\nservers: [{url: 'https://a.example'}]", "/paths", "none of the 0 operations"),
        ("openapi: 3.0.0\n---\nopenapi: 3.0.0", "", "not YAML"),
    ] {
        let error = import(text, &ImportOptions::new("t")).expect_err(text);
        assert!(error.message.contains(message) && error.pointer == place, "{text}: {error:?}");
        assert!(!error.hint.is_empty());
    }
}

#[test]
fn c2_json_and_yaml_give_the_same() {
    let yaml = document("paths: {/a: {get: {operationId: x, responses: {200: {description: d}}}}}");
    let json = json!({
        "openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://api.example.com/v1"}],
        "paths": {"/a": {"get": {"operationId": "x", "responses": {"200": {"description": "d"}}}}}
    });
    let of = |text: &str| import_checked(text, &ImportOptions::new("t")).expect("imported").definition;
    assert_eq!(of(&yaml), of(&json.to_string()));
    assert_eq!(of(&yaml), of(&format!("\u{feff}{json:#}")));
}

#[test]
fn c2_aliases_cannot_unfold_without_bound() {
    let mut bomb = String::from("a: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = level - 1;
        bomb.push_str(&format!("b{level}: &a{level} [{}]\n", vec![format!("*a{before}"); 9].join(", ")));
    }
    let begun = Instant::now();
    let error = import(&document(&bomb), &ImportOptions::new("t")).expect_err("too much");
    assert_eq!(error.message, "the aliases of the document repeat more than 1000000 nodes");
    assert!(error.hint.starts_with("convert it to JSON"), "{}", error.hint);
    assert!(begun.elapsed() < Duration::from_secs(120));
    let few = "x-common: &c {description: d}\npaths: {/a: {get: *c}, /b: {get: *c}}";
    assert_eq!(all(few).definition["actions"].as_array().map(Vec::len), Some(2));
}

/// Published documents write the schema of their errors once, and refer to it by an alias.
#[test]
fn c2_one_anchor_may_have_thousands_of_aliases() {
    let fields: String = (0..25).map(|number| format!("f{number}: {{type: string}}, ")).collect();
    let responses: String = (400..405).map(|status| format!("'{status}': *error, ")).collect();
    let paths: String = (0..1_000)
        .map(|number| {
            format!("  /a{number}: {{get: {{operationId: a{number}, responses: {{{responses}}}}}}}\n")
        })
        .collect();
    let yaml = format!("x-error: &error {{description: d, x-fields: {{{fields}}}}}\npaths:\n{paths}");
    let imported = all(&yaml);
    assert_eq!(imported.definition["actions"].as_array().map(Vec::len), Some(1_000));
}

#[test]
fn c2_a_command_imports_a_larger_document_than_the_daemon() {
    let mut value = json!({
        "openapi": "3.1.0", "servers": [{"url": "https://api.example.com"}],
        "paths": {"/a": {"get": {"operationId": "a", "responses": {}}}}
    });
    value["info"] = json!({"title": "T", "version": "1", "description": "d".repeat(33 << 20)});
    let text = value.to_string();
    let error = import(&text, &ImportOptions::new("t")).expect_err("too large");
    assert!(error.message.ends_with("more than the 33554432 allowed"), "{error}");
    assert!(error.hint.contains("keep the paths that you need"), "{}", error.hint);
    let wide = ImportOptions { max_bytes: COMMAND_DOCUMENT_BYTES, ..ImportOptions::new("t") };
    assert_eq!(import(&text, &wide).expect("imported").operations, 1);
    let error = import(&"x".repeat(COMMAND_DOCUMENT_BYTES + 1), &wide).expect_err("too large");
    assert!(error.message.ends_with("more than the 67108864 allowed"), "{error}");
}

#[test]
fn c2_a_large_list_of_tools_is_told_with_its_size_and_the_ways_out() {
    let of = |count: usize| {
        let paths: String = (0..count)
            .map(|number| {
                format!("  /a{number}: {{get: {{operationId: a{number}, summary: '{}'}}}}\n", "d".repeat(100))
            })
            .collect();
        notes(&all(&format!("paths:\n{paths}")))
    };
    let told = of(800);
    let size = told.split_once("tools: their list has about ").map(|(_, rest)| rest).expect("a note");
    let kilobytes: usize = size.split(' ').next().and_then(|number| number.parse().ok()).expect("a number");
    assert!((120..300).contains(&kilobytes), "{told}");
    assert!(told.contains("select fewer operations") && told.contains("?tools=search"), "{told}");
    assert!(!of(20).contains("their list"), "{}", of(20));
}

#[test]
fn c2_deep_and_wide_texts_are_refused_before_they_take_memory() {
    for (text, message) in [
        (
            format!("{{\"openapi\":\"3.0.0\",\"x\":{}{}}}", "[".repeat(5_000), "]".repeat(5_000)),
            "recursion limit",
        ),
        (format!("{{\"openapi\":\"3.0.0\",\"x\":[{}0]}}", "{},".repeat(1_048_577)), "objects and arrays"),
        (format!("openapi: 3.0.0\nx: {}", "[".repeat(5_000)), "limit exceeded"),
        (format!("openapi: 3.0.0\nx: '{}'", "x".repeat(33 << 20)), "bytes"),
    ] {
        let error = import(&text, &ImportOptions::new("t")).expect_err(message);
        assert!(error.message.contains(message), "{error}");
    }
}

/// Each schema refers twice to the next: inlined, there would be 2^40 of them.
#[test]
fn c2_schemas_that_multiply_are_cut() {
    let mut schemas = String::new();
    for level in 0..40 {
        let next = format!("{{$ref: '#/components/schemas/S{}'}}", level + 1);
        schemas.push_str(&format!("    S{level}: {{type: object, properties: {{a: {next}, b: {next}}}}}\n"));
    }
    let imported = all(&format!(
        "paths: {{/a: {{post: {{requestBody: {{content: {{application/json: {{schema: {{$ref: '#/components/schemas/S0'}}}}}}}}}}}}}}\ncomponents:\n  schemas:\n{schemas}    S40: {{type: string}}"
    ));
    assert!(notes(&imported).contains("down to some level"), "{}", notes(&imported));
}

#[test]
fn c2_parts_and_alternatives_that_multiply_are_given_up() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let mut schemas = String::new();
        for level in 0..60 {
            let next = format!("{{$ref: '#/components/schemas/S{}'}}", level + 1);
            let parts = vec![next; 20].join(", ");
            schemas.push_str(&format!("    S{level}: {{{keyword}: [{parts}]}}\n"));
        }
        let begun = Instant::now();
        let text = document(&format!(
            "paths: {{/a: {{post: {{requestBody: {{content: {{application/json: {{schema: {{$ref: '#/components/schemas/S0'}}}}}}}}}}, get: {{parameters: [{{name: p, in: query, schema: {{$ref: '#/components/schemas/S0'}}}}]}}}}}}\ncomponents:\n  schemas:\n{schemas}    S60: {{type: string}}"
        ));
        // The action may be cut or left out; both must be fast.
        let _ = import_checked(&text, &ImportOptions::new("t"));
        assert!(begun.elapsed() < Duration::from_secs(120), "{keyword}: {:?}", begun.elapsed());
    }
}

#[test]
fn c2_references_in_a_circle_end() {
    for paths in [
        "paths: {/a: {$ref: '#/paths/~1a'}}",
        "paths: {/a: {$ref: 'other.json#/a'}}",
        "paths: {/a: {get: {parameters: [{$ref: '#/components/parameters/p'}]}}}\ncomponents: {parameters: {p: {$ref: '#/components/parameters/p'}}}",
        "paths: {/a: {post: {requestBody: {$ref: '#/components/requestBodies/b'}}}}\ncomponents: {requestBodies: {b: {$ref: '#/components/requestBodies/b'}}}",
        "paths: {/a: 7}",
    ] {
        assert!(!skip_reason(paths).is_empty());
    }
    let shared =
        all("paths: {/a: {$ref: '#/components/pathItems/p'}}\ncomponents: {pathItems: {p: {get: {}}}}");
    assert_eq!(shared.definition["actions"][0]["name"], "get_a");
}

#[test]
fn c2_a_definition_that_would_be_too_large_ends_before() {
    let properties: String = (0..150)
        .map(|number| format!("p{number}: {{type: string, description: '{}'}}, ", "d".repeat(100)))
        .collect();
    let body = "requestBody: {$ref: '#/components/requestBodies/b'}";
    let paths: String = (0..200).map(|number| format!("  /a{number}: {{post: {{{body}}}}}\n")).collect();
    let imported = all(&format!(
        "paths:\n{paths}components: {{requestBodies: {{b: {{content: {{application/json: {{schema: {{type: object, properties: {{{properties}}}}}}}}}}}}}}}"
    ));
    assert!(imported.definition.to_string().len() < 2 << 20);
    let last = imported.left_out.last().expect("some are left out");
    assert!(last.why.contains("select fewer operations"), "{last}");
}

#[test]
fn c2_no_hidden_character_gets_through() {
    let imported = all(
        "paths: {/a: {get: {summary: \"a\\u202Eb\", tags: [\"t\\u200B\"], parameters: [{name: p, in: query, description: \"x\\u0000y\", schema: {type: string, enum: [\"a\\u200B\", b], default: \"\\u202E\", example: \"\\u200B\"}}]}}}",
    );
    let action = &imported.definition["actions"][0];
    assert_eq!((&action["description"], &action["tags"]), (&json!("ab"), &json!(["t"])));
    assert_eq!(
        action["input_schema"]["properties"]["p"],
        json!({"type": "string", "enum": ["b"], "description": "xy"})
    );
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let words = prop::sample::select(vec![
        "$ref",
        "#/components/schemas/A",
        "#/paths/~1a",
        "type",
        "object",
        "array",
        "string",
        "properties",
        "items",
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "required",
        "enum",
        "nullable",
        "get",
        "post",
        "/a/{b}",
        "parameters",
        "name",
        "in",
        "query",
        "path",
        "header",
        "schema",
        "content",
        "application/json",
        "requestBody",
        "style",
        "deepObject",
        "components",
        "schemas",
        "A",
        "security",
        "additionalProperties",
        "pattern",
        "{b}",
        "\u{202e}",
    ]);
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(|flag| json!(flag)),
        any::<i32>().prop_map(|number| json!(number)),
        words.clone().prop_map(|word| json!(word)),
    ];
    leaf.prop_recursive(6, 80, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| json!(items)),
            prop::collection::btree_map(words.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn c2_no_document_makes_import_panic_or_give_what_the_daemon_refuses(schema in any_json(), operation in any_json(), components in any_json()) {
        let mut text = json!({
            "openapi": "3.0.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "https://a.example"}],
            "paths": {"/a/{b}": {"get": operation.clone(), "post": {"requestBody": {"content": {"application/json": {"schema": schema.clone()}}}}},
                      "/c": {"get": {"parameters": [{"name": "q", "in": "query", "schema": schema.clone()}]}}},
            "components": {"schemas": {"A": schema}},
        });
        let _ = import_checked(&text.to_string(), &ImportOptions { output_schemas: true, ..ImportOptions::new("t") });
        text["components"] = components;
        let _ = import_checked(&text.to_string(), &ImportOptions::new("t"));
        let _ = import(&operation.to_string(), &ImportOptions::new("t"));
    }

    #[test]
    fn c2_no_text_makes_import_panic(text in "(openapi: 3.0.0\n)?\\PC{0,200}") {
        let _ = import(&text, &ImportOptions::new("t"));
    }
}
