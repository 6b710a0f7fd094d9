use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::provider_rules::{Reader, broken_rules};
use super::*;
use crate::schema::{Schema, SchemaRole};

const FORMS: [SchemaForm; 6] = [
    SchemaForm::OpenAi,
    SchemaForm::OpenAiStrict,
    SchemaForm::Anthropic,
    SchemaForm::AnthropicStrict,
    SchemaForm::Gemini,
    SchemaForm::McpInput,
];

/// Writes a schema in a form, and checks the provider's rules.
fn write_form(schema: &Value, form: SchemaForm) -> (Value, Advertised) {
    let advertised = advertise(schema, form).expect("advertised");
    let value: Value = serde_json::from_str(advertised.json.get()).expect("json");
    let reader = match (form, &advertised.strict) {
        (SchemaForm::OpenAiStrict, Some(_)) => Reader::OpenAiStrict,
        (SchemaForm::AnthropicStrict, Some(_)) => Reader::AnthropicStrict,
        (SchemaForm::OpenAi | SchemaForm::OpenAiStrict, _) => Reader::OpenAi,
        (SchemaForm::Anthropic | SchemaForm::AnthropicStrict, _) => Reader::Anthropic,
        (SchemaForm::Gemini, _) => Reader::Gemini,
        (SchemaForm::McpInput | SchemaForm::McpOutput, _) => Reader::Mcp,
        // No provider reads it.
        (SchemaForm::Enforced, _) => return (value, advertised),
    };
    assert_eq!(broken_rules(reader, &value), Vec::<String>::new(), "{form:?} of {schema}: {value}");
    (value, advertised)
}

fn in_form(schema: &Value, form: SchemaForm) -> Value {
    write_form(schema, form).0
}

fn changes(schema: &Value, form: SchemaForm) -> Vec<(String, String)> {
    write_form(schema, form).1.changes.into_iter().map(|change| (change.pointer, change.change)).collect()
}

fn object(properties: Value) -> Value {
    json!({"type": "object", "properties": properties})
}

#[test]
fn m5_a_schema_that_every_provider_takes_stays_as_it_is() {
    let schema = json!({
        "type": "object",
        "properties": {"x": {"type": "integer", "description": "How many."}, "to": {"type": "string", "enum": ["a", "b"]}},
        "required": ["x"],
        "additionalProperties": false,
    });
    for form in [SchemaForm::OpenAi, SchemaForm::Anthropic, SchemaForm::Gemini, SchemaForm::McpInput] {
        assert_eq!(in_form(&schema, form), schema, "{form:?}");
        assert_eq!(changes(&schema, form), [], "{form:?}");
    }
}

#[test]
fn m5_a_header_field_for_a_mounted_server_is_not_asked_of_the_client() {
    let marked = object(json!({"region": {"type": "string", "x-mcp-header": "Region"}, "x-mcp-header": {}}));
    let plain = object(json!({"region": {"type": "string"}, "x-mcp-header": {}}));
    for form in FORMS {
        assert_eq!(in_form(&marked, form)["properties"], in_form(&plain, form)["properties"], "{form:?}");
    }
    assert_eq!(in_form(&marked, SchemaForm::McpInput), plain);
}

#[test]
fn m5_every_array_gets_items_at_every_level() {
    let bare = json!({"type": "array", "description": "slugs"});
    let union = json!({"type": ["null", "object", "string", "number", "boolean", "integer", "array"]});
    let schema = json!({
        "type": "object",
        "properties": {
            "plain": bare,
            "union": {"type": "array", "items": {"type": "object", "properties": {"value": union}}},
            "choice": {"anyOf": [{"type": "string"}, bare]},
            "tuple": {"type": "array", "prefixItems": [bare]},
            "map": {"type": "object", "additionalProperties": bare},
            "told": {"if": {"type": "array"}, "then": {"contains": bare}, "else": {"not": bare}},
            "named": {"$ref": "#/$defs/pages"},
        },
        "patternProperties": {"^x": bare},
        "$defs": {"pages": bare},
    });
    for form in FORMS {
        write_form(&schema, form);
    }
    let openai = in_form(&schema, SchemaForm::OpenAi);
    assert_eq!(openai["properties"]["plain"], json!({"type": "array", "description": "slugs", "items": {}}));
    assert_eq!(openai["properties"]["union"]["items"]["properties"]["value"]["items"], json!({}));
    assert_eq!(
        changes(&object(json!({"pages": bare})), SchemaForm::OpenAi),
        [("/properties/pages".to_owned(), "`items` is added: an array without it is refused".to_owned())]
    );
}

#[test]
fn m5_a_name_that_the_provider_refuses_is_shown_as_another_and_mapped_back() {
    let schema = json!({
        "type": "object",
        "properties": {
            "$top": {"type": "integer"}, "@graph.behavior": {"type": "string"}, "Account Number": {"type": "string"},
            "": {"type": "string"}, "filter[status]": {}, "top": {}, "X-Trace": {}, "日本": {}, "9": {},
            "a".repeat(70): {},
        },
        "required": ["$top"],
    });
    let listed = in_form(&schema, SchemaForm::Anthropic);
    let mut names: Vec<_> = listed["properties"].as_object().expect("an object").keys().cloned().collect();
    names.sort();
    assert_eq!(
        names,
        [
            "9",
            "Account_Number",
            "X-Trace",
            &"a".repeat(64),
            "argument",
            "argument_2",
            "filter_status",
            "graph_behavior",
            "top",
            "top_2"
        ]
    );
    assert_eq!(listed["required"], json!(["top_2"]));
    let told = changes(&schema, SchemaForm::Anthropic);
    assert!(told.contains(&("/properties/top_2".to_owned(), "renamed from `$top`".to_owned())), "{told:?}");
    let gemini = in_form(&schema, SchemaForm::Gemini);
    assert!(gemini["properties"].get("X_Trace").is_some() && gemini["properties"].get("_9").is_some());
    let openai = in_form(&schema, SchemaForm::OpenAi);
    assert!(openai["properties"].get("$top").is_some(), "OpenAI takes every name");

    let names = PropertyNames::of(&schema);
    let called = json!({"top_2": 1, "top": 2, "graph_behavior": "b", "X_Trace": "t", "other": {"top_2": 3}});
    let restored =
        json!({"$top": 1, "top": 2, "@graph.behavior": "b", "X-Trace": "t", "other": {"top_2": 3}});
    assert_eq!(names.restore(&called), Some(restored));
    assert_eq!(names.restore(&json!({"$top": 1, "top_2": 2})), None, "the name of the schema comes first");
    assert_eq!(names.restore(&json!({"top": 1})), None);
    assert_eq!(PropertyNames::of(&object(json!({"a": {}}))).restore(&called), None);
}

#[test]
fn m5_names_of_alternatives_are_mapped_back_too() {
    let schema = json!({
        "type": "object",
        "oneOf": [
            {"properties": {"$a": {"type": "string"}}, "required": ["$a"]},
            {"allOf": [{"properties": {"b c": {"type": "integer"}}, "required": ["b c"]}]},
        ],
    });
    assert_eq!(
        in_form(&schema, SchemaForm::Anthropic),
        object(json!({"a": {"type": "string"}, "b_c": {"type": "integer"}}))
    );
    assert_eq!(
        in_form(&schema, SchemaForm::McpInput)["properties"],
        json!({"a": {"type": "string"}, "b_c": {"type": "integer"}})
    );
    assert_eq!(PropertyNames::of(&schema).restore(&json!({"b_c": 1})), Some(json!({"b c": 1})));
}

#[test]
fn m5_older_drafts_are_translated() {
    let schema = json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}], "additionalItems": false},
            "item": {"$ref": "#/definitions/item", "minLength": 3, "description": "d"},
            "first": {"$ref": "#/properties/pair/items/0"},
        },
        "dependencies": {"pair": ["item"], "item": {"required": ["first"]}},
        "definitions": {"item": {"type": "string"}, "unused": {"type": "array"}},
    });
    for form in FORMS {
        write_form(&schema, form);
    }
    for form in [SchemaForm::McpInput, SchemaForm::McpOutput] {
        let (translated, advertised) = write_form(&schema, form);
        assert_eq!(translated.get("$schema"), None);
        assert_eq!(
            translated["properties"],
            json!({
                "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": {"not": {}}},
                "item": {"$ref": "#/$defs/item", "description": "d"},
                "first": {"$ref": "#/$defs/0"},
            })
        );
        assert_eq!(translated["$defs"], json!({"item": {"type": "string"}, "0": {"type": "string"}}));
        assert_eq!(translated["dependentRequired"], json!({"pair": ["item"]}));
        assert_eq!(translated["dependentSchemas"], json!({"item": {"required": ["first"]}}));
        assert!(advertised.changes[0].change.contains("draft-07"), "{:?}", advertised.changes);
    }
}

#[test]
fn m5_an_empty_or_repeated_enum_is_not_shown() {
    let schema = object(json!({"x": {"enum": []}, "y": {"enum": ["a", "a", "b"]}}));
    let openai = in_form(&schema, SchemaForm::OpenAi);
    assert_eq!(openai["properties"], json!({"x": {"not": {}}, "y": {"enum": ["a", "b"]}}));
    assert_eq!(changes(&schema, SchemaForm::OpenAi).len(), 2);
    assert_eq!(
        in_form(&schema, SchemaForm::Gemini)["properties"],
        json!({"y": {"type": "string", "enum": ["a", "b"]}})
    );
}

#[test]
fn m5_openai_strict_requires_all_and_makes_optional_nullable() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "x": {"type": "string", "minLength": 2, "default": "ab", "description": "An x."},
            "limit": {"type": ["integer", "null"], "maximum": 9},
            "mode": {"enum": ["a", "b"]},
            "kind": {"const": 1},
            "at": {"$ref": "#/$defs/place"},
            "from": {"$ref": "#/$defs/place"},
            "either": {"oneOf": [{"type": "string"}, {"type": "number"}]},
            "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
        },
        "required": ["at"],
        "$defs": {"place": {"type": "object", "properties": {"next": {"$ref": "#/$defs/place"}}, "required": ["next"]}},
    });
    let (strict, advertised) = write_form(&schema, SchemaForm::OpenAiStrict);
    assert!(advertised.strict.is_some(), "{:?}", advertised.changes);
    assert_eq!(
        strict["properties"],
        json!({
            "x": {"type": ["string", "null"], "description": "An x. (default: \"ab\", minLength: 2)"},
            "limit": {"type": ["integer", "null"], "maximum": 9},
            "mode": {"type": ["string", "null"], "enum": ["a", "b", null]},
            "kind": {"type": ["number", "null"], "enum": [1, null]},
            "at": {"$ref": "#/$defs/place"},
            "from": {"anyOf": [{"$ref": "#/$defs/place"}, {"type": "null"}]},
            "either": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
            "list": {"type": ["array", "null"], "items": {
                "type": "object", "properties": {"n": {"type": ["number", "null"]}}, "required": ["n"],
                "additionalProperties": false,
            }},
        })
    );
    let told = changes(&schema, SchemaForm::OpenAiStrict);
    assert!(
        told.contains(&("/properties/mode".into(), "optional, so nullable in the strict form".into())),
        "{told:?}"
    );
    // Anthropic takes optional properties, and no recursion.
    let (_, anthropic) = write_form(&schema, SchemaForm::AnthropicStrict);
    assert_eq!(anthropic.strict, None);
    assert_eq!(
        anthropic.changes.first().map(|first| first.change.as_str()),
        Some("not strict: the schema contains itself")
    );
}

#[test]
fn m5_anthropic_strict_counts_optional_properties_and_unions() {
    let schema = json!({
        "type": "object",
        "properties": {
            "x": {"type": "integer", "minimum": 1}, "y": {"type": ["string", "null"]},
            "z": {"type": "array", "items": {"type": "string"}, "minItems": 2},
        },
        "required": ["z"],
    });
    let (strict, advertised) = write_form(&schema, SchemaForm::AnthropicStrict);
    assert_eq!(advertised.strict, Some(StrictCost { optional: 2, unions: 1 }));
    assert_eq!(strict["required"], json!(["z"]));
    assert_eq!(strict["properties"]["x"], json!({"type": "integer", "description": "(minimum: 1)"}));
}

#[test]
fn m5_a_schema_that_strict_cannot_say_is_shown_without_it_and_says_why() {
    let many: Map<String, Value> =
        (0..5_001).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let deep = (0..11).fold(json!({"type": "string"}), |inner, _| object(json!({"d": inner})));
    for (schema, pointer, reason) in [
        (
            object(json!({"m": {"type": "object"}})),
            "/properties/m",
            "it is an object with properties of any name",
        ),
        (object(json!({"a": {"type": "array"}})), "/properties/a", "it is an array of anything"),
        (object(json!({"v": {}})), "/properties/v", "it says no type"),
        (object(json!({"n": {"not": {"type": "null"}}})), "/properties/n", "`not` cannot be said"),
        (
            json!({"type": "object", "additionalProperties": true}),
            "",
            "it is an object with properties of any name",
        ),
        (
            json!({"type": "object", "anyOf": [{"required": ["a"]}]}),
            "",
            "the root has alternatives or conditions",
        ),
        (
            object(many.into()),
            "",
            "the schema has 5001 properties, more than the 5000 that the provider takes",
        ),
        (
            deep,
            "/properties/d/properties/d/properties/d/properties/d/properties/d/properties/d/properties/d/properties/d/properties/d/properties/d",
            "it is nested deeper than 10 levels",
        ),
    ] {
        let (shown, advertised) = write_form(&schema, SchemaForm::OpenAiStrict);
        assert_eq!(advertised.strict, None, "{reason}");
        let first = advertised.changes.first().expect("a reason");
        assert_eq!(
            (first.pointer.as_str(), first.change.as_str()),
            (pointer, format!("not strict: {reason}").as_str())
        );
        assert_eq!(shown, in_form(&schema, SchemaForm::OpenAi), "{reason}");
    }
    let (shown, advertised) = write_form(&json!({"type": "object"}), SchemaForm::OpenAiStrict);
    assert!(advertised.strict.is_some(), "a tool without arguments");
    assert_eq!(
        shown,
        json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false})
    );
}

#[test]
fn m5_gemini_gets_its_subset() {
    let schema = json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer", "exclusiveMinimum": 0, "maximum": 9, "format": "int64"},
            "u": {"type": ["string", "integer", "null"], "minLength": 1},
            "c": {"const": "circle"},
            "b": {"enum": [true, false]},
            "e": {"enum": ["a", null]},
            "r": {"$ref": "#/$defs/tree", "description": "A tree."},
            "o": {"type": "object", "description": "One.", "oneOf": [
                {"properties": {"a": {"type": "string"}}, "required": ["a", "c"]}, {"properties": {"b": {"type": "string"}}}]},
            "all": {"allOf": [{"type": "object", "properties": {"p": {"type": "string"}}}, {"required": ["p"]}]},
            "never": false,
        },
        "required": ["n", "never", "unknown"],
        "$defs": {"tree": {"type": "object", "properties": {"left": {"$ref": "#/$defs/tree"}}}},
    });
    let gemini = in_form(&schema, SchemaForm::Gemini);
    assert_eq!(
        gemini["properties"],
        json!({
            "n": {"type": "integer", "maximum": 9, "format": "int64", "description": "(exclusiveMinimum: 0)"},
            "u": {"anyOf": [{"type": "string", "description": "(minLength: 1)"}, {"type": "integer"}, {"type": "null"}]},
            "c": {"type": "string", "enum": ["circle"]},
            "b": {"type": "boolean"},
            "e": {"type": ["string", "null"], "enum": ["a"]},
            "r": {"type": "object", "description": "A tree.", "properties": {"left": {}}},
            "o": {"anyOf": [
                {"type": "object", "description": "One.", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "description": "One.", "properties": {"b": {"type": "string"}}},
            ]},
            "all": {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"]},
        })
    );
    assert_eq!(gemini["required"], json!(["n"]));
    assert_eq!(gemini.get("$defs"), None);
}

#[test]
fn m5_a_schema_that_grows_too_large_in_a_form_is_refused_with_the_reason() {
    let schema = large();
    Schema::compile(&schema, SchemaRole::Input).expect("an enforced schema");
    let refused = advertise(&schema, SchemaForm::OpenAi).expect_err("refused");
    assert!(refused.contains("more than the 262144 allowed"), "{refused}");
}

/// A schema of allowed size that references repeat.
fn large() -> Value {
    let properties: Map<String, Value> = (0..4)
        .map(|at| (format!("r{at}"), json!({"$ref": format!("#/properties/big/properties/p{at}")})))
        .collect();
    let big: Map<String, Value> = (0..4)
        .map(|at| (format!("p{at}"), json!({"type": "string", "description": "d".repeat(60_000)})))
        .collect();
    let mut schema = object(properties.into());
    schema["properties"]["big"] = object(big.into());
    schema
}

#[test]
fn m5_recursion_and_repeated_references_end() {
    let wide = |next: &str| json!({"allOf": [{"$ref": next}, {"$ref": next}]});
    let mut definitions = Map::new();
    for at in 0..20 {
        definitions.insert(format!("d{at}"), wide(&format!("#/$defs/d{}", at + 1)));
    }
    definitions.insert("d20".into(), json!({"type": "object", "properties": {"x": {"type": "array"}}}));
    let schema = json!({
        "type": "object",
        "allOf": [{"$ref": "#/$defs/d0"}],
        "properties": {"self": {"$ref": "#"}, "d": {"$ref": "#/$defs/d0"}},
        "$defs": definitions,
    });
    for form in FORMS {
        write_form(&schema, form);
    }
}

#[test]
fn m5_unions_with_large_siblings_end() {
    let many: Map<String, Value> =
        (0..2_000).map(|at| (format!("p{at}"), json!({"type": "string"}))).collect();
    let alternatives: Vec<Value> = (0..2_000).map(|at| json!({"required": [format!("p{at}")]})).collect();
    let schema = object(json!({"x": {"type": "object", "properties": many, "anyOf": alternatives}}));
    let gemini = in_form(&schema, SchemaForm::Gemini);
    assert_eq!(gemini["properties"]["x"]["anyOf"].as_array().map(Vec::len), Some(2_000));
}

/// Schemas with the keywords that the writer touches.
fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!(true)),
        Just(json!({"type": "array"})),
        Just(json!({"type": ["array", "string", "null"]})),
        Just(json!({"type": "string", "pattern": "^a", "format": "uri", "minLength": 1})),
        Just(json!({"type": "integer", "exclusiveMinimum": 0, "multipleOf": 2})),
        Just(json!({"enum": []})),
        Just(json!({"enum": ["a", 1, null, "a"]})),
        Just(json!({"enum": ["a", "b"]})),
        Just(json!({"const": {"a": 1}})),
        Just(json!({"const": "k"})),
        Just(json!({"$ref": "#/$defs/d", "description": "beside"})),
        Just(json!({"$ref": "#"})),
        Just(json!({"type": "boolean", "default": true, "examples": [false]})),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let name = prop_oneof![
            Just("a".to_owned()),
            Just("$b".to_owned()),
            Just("c d".to_owned()),
            Just("b".to_owned()),
            Just("".to_owned())
        ];
        let table = proptest::collection::btree_map(name, inner.clone(), 0..4);
        let list = proptest::collection::vec(inner.clone(), 1..3);
        prop_oneof![
            (table.clone(), proptest::bool::ANY).prop_map(|(table, is_closed)| {
                let required: Vec<&String> = table.keys().take(1).collect();
                let mut schema = json!({"type": "object", "required": required, "properties": table});
                if is_closed {
                    schema["additionalProperties"] = false.into();
                }
                schema
            }),
            list.clone().prop_map(|list| json!({"anyOf": list})),
            list.clone().prop_map(|list| json!({"oneOf": list, "description": "d"})),
            list.clone().prop_map(|list| json!({"allOf": list})),
            list.prop_map(|list| json!({"type": "array", "prefixItems": list})),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 3})),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            inner.clone().prop_map(|part| json!({"if": part, "then": part, "else": {"type": "string"}})),
            inner.clone().prop_map(|part| json!({"not": part})),
            (table, inner).prop_map(|(table, part)| json!({
                "type": ["object", "null"], "properties": table, "propertyNames": part, "minProperties": 1,
            })),
        ]
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        Just(json!(true)),
        Just(json!(0)),
        Just(json!(2)),
        Just(json!("a")),
        Just(json!("k")),
        Just(json!("ab"))
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let name = prop_oneof![Just("a".to_owned()), Just("$b".to_owned()), Just("c d".to_owned())];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..3).prop_map(|members| json!(members)),
        ]
    })
}

fn any_root() -> impl Strategy<Value = Value> {
    (any_schema(), any_schema(), any_schema()).prop_map(|(root, property, definition)| {
        let mut members = match root {
            Value::Object(members) => members,
            _ => Map::new(),
        };
        members.insert("type".into(), "object".into());
        members.entry("properties").or_insert_with(|| json!({"p": property}));
        members.insert("$defs".into(), json!({"d": definition}));
        members.into()
    })
}

proptest! {
    #[test]
    fn m5_every_form_of_any_schema_keeps_the_providers_rules(schema in any_root()) {
        for form in FORMS {
            write_form(&schema, form);
        }
    }

    #[test]
    fn m5_an_advertised_schema_accepts_what_the_enforced_one_accepts(schema in any_root(), values in proptest::collection::vec(any_value(), 20)) {
        // A root with alternatives is shown as one object, which no value fits that an alternative does not declare.
        let enforced = Schema::compile(&schema, SchemaRole::Input).ok().filter(|_| root::is_plain(&schema));
        let Some(enforced) = enforced else { return Ok(()) };
        for form in [SchemaForm::OpenAi, SchemaForm::Anthropic, SchemaForm::McpInput] {
            let shown = in_form(&schema, form);
            let validator = jsonschema::validator_for(&shown).expect("a schema");
            for value in values.iter().filter(|value| enforced.validate(value).is_ok()) {
                let called = rename_all(&schema, form, value);
                prop_assert!(validator.is_valid(&called), "{form:?}: {called} and {shown}");
            }
        }
    }
}

/// The arguments as a model calls them that was shown the schema in this form.
fn rename_all(schema: &Value, form: SchemaForm, value: &Value) -> Value {
    let names = PropertyNames::of(schema);
    let shown: std::collections::BTreeMap<&str, &str> =
        names.refused_by(form.names()).map(|(safe, original)| (original, safe)).collect();
    let members = value.as_object().into_iter().flatten();
    members
        .map(|(name, value)| (shown.get(name.as_str()).copied().unwrap_or(name).to_owned(), value.clone()))
        .collect::<Map<_, _>>()
        .into()
}
