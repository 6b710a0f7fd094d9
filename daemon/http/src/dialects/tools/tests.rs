use serde_json::{Value, json};
use toolgate_admission::SchemaRole;
use toolgate_api::descriptor::Example;
use toolgate_api::plugin::HintsState;

use super::*;

const FORMATS: [Format; 6] = [
    Format::Toolgate,
    Format::Openai,
    Format::OpenaiResponses,
    Format::Anthropic,
    Format::Gemini,
    Format::Mcp,
];

/// The details of a tool without any.
static PLAIN: ToolDetails = ToolDetails {
    usage: String::new(),
    hints: Hints { read_only: true, destructive: false, idempotent: true, open_world: false },
    hints_state: HintsState::Confirmed,
    required_integrations: Vec::new(),
    prerequisites: Vec::new(),
    tags: Vec::new(),
    examples: Vec::new(),
};

fn schema(source: &Value, role: SchemaRole) -> Schema {
    Schema::compile(source, role).expect("a schema")
}

fn tool<'a>(name: &'a str, input: &'a Schema, output: Option<&'a Schema>) -> Listed<'a> {
    let hints = Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
    Listed {
        name,
        original: None,
        description: "Does b.",
        details: &PLAIN,
        input,
        output,
        hints,
        requires_approval: false,
        mode: Mode::Server,
        deferred: false,
    }
}

/// Lists tools without deferring any.
fn whole<'a>(format: Format, strict: bool, tools: impl IntoIterator<Item = Listed<'a>>) -> ToolList {
    list(ListForm { format, strict, deferral: Deferral::None }, tools)
}

/// The tools of a list.
fn tools(list: &ToolList) -> Value {
    serde_json::from_str(list.tools.get()).expect("json")
}

fn one(format: Format, input: &Value, output: Option<&Value>) -> Value {
    let input = schema(input, SchemaRole::Input);
    let output = output.map(|output| schema(output, SchemaRole::Output));
    tools(&whole(format, false, [tool("call_a_b", &input, output.as_ref())]))
}

#[test]
fn each_provider_has_its_own_form_of_a_tool() {
    let input = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": false});
    let output = json!({"type": "object"});
    let of = |format| one(format, &input, Some(&output));
    assert_eq!(
        of(Format::Toolgate),
        json!([{"name": "call_a_b", "original_name": null, "description": "Does b.", "input_schema": input, "output_schema": output, "read_only": true, "requires_approval": false, "mode": "server",
                "usage": "", "hints": {"read_only": true, "destructive": false, "idempotent": true, "open_world": false}, "hints_state": "confirmed",
                "required_integrations": [], "prerequisites": [], "tags": [], "examples": []}])
    );
    assert_eq!(
        of(Format::Openai),
        json!([{"type": "function", "function": {"name": "call_a_b", "description": "Does b.", "parameters": input}}])
    );
    assert_eq!(
        of(Format::OpenaiResponses),
        json!([{"type": "function", "name": "call_a_b", "description": "Does b.", "parameters": input, "strict": false}])
    );
    assert_eq!(
        of(Format::Anthropic),
        json!([{"name": "call_a_b", "description": "Does b.", "input_schema": input}])
    );
    assert_eq!(
        of(Format::Gemini),
        json!([{"functionDeclarations": [{"name": "call_a_b", "description": "Does b.", "parametersJsonSchema": input}]}])
    );
    assert_eq!(
        of(Format::Mcp),
        json!([{"name": "call_a_b", "description": "Does b.", "inputSchema": input, "outputSchema": output,
                "annotations": {"readOnlyHint": true, "destructiveHint": false, "idempotentHint": true, "openWorldHint": false}}])
    );
}

#[test]
fn a_list_of_no_tools_is_empty_in_every_form() {
    for format in FORMATS {
        let empty = whole(format, format.has_strict_form(), []);
        assert_eq!(tools(&empty), json!([]));
        assert!(empty.changed.is_empty() && empty.left_out.is_empty());
    }
    assert!(serde_json::from_value::<Format>(json!("bedrock")).is_err());
}

#[test]
fn a_title_stands_where_a_tool_has_one() {
    let input = schema(&json!({"type": "object"}), SchemaRole::Input);
    let titled = Listed { original: Some("B"), ..tool("call_a_b", &input, None) };
    assert_eq!(tools(&whole(Format::Mcp, false, [titled]))[0]["title"], "B");
    assert_eq!(one(Format::Mcp, input.source(), None)[0].get("title"), None);
}

#[test]
fn mcp_has_output_schemas_of_objects_only() {
    let input = json!({"type": "object"});
    let listed = |output: &Value| one(Format::Mcp, &input, Some(output))[0].get("outputSchema").cloned();
    assert_eq!(listed(&json!({"type": "object"})), Some(json!({"type": "object"})));
    assert_eq!(listed(&json!({"type": "string"})), None);
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"$a": {}}});
    assert_eq!(
        listed(&old),
        Some(json!({"type": "object", "properties": {"$a": {}}})),
        "a result keeps its names"
    );
}

/// A provider refuses the whole request for one such schema.
#[test]
fn a_union_at_the_root_becomes_one_object_for_providers() {
    let input = json!({
        "type": "object",
        "$defs": {"circle": {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]}},
        "description": "A shape.",
        "oneOf": [
            {"$ref": "#/$defs/circle"},
            {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
            {"properties": {"kind": {"const": "dot"}}, "required": ["kind"]},
        ],
    });
    let plain = json!({
        "description": "A shape.",
        "type": "object",
        "properties": {
            "kind": {"anyOf": [{"const": "circle"}, {"const": "square"}, {"const": "dot"}]},
            "radius": {"type": "number"},
            "side": {"type": "number"},
        },
        "required": ["kind"],
    });
    assert_eq!(one(Format::Anthropic, &input, None)[0]["input_schema"], plain);
    assert_eq!(one(Format::Openai, &input, None)[0]["function"]["parameters"], plain);
    assert_eq!(
        one(Format::Toolgate, &input, None)[0]["input_schema"],
        input,
        "our own form tells what is enforced"
    );
    assert_eq!(one(Format::Mcp, &input, None)[0]["inputSchema"]["oneOf"], input["oneOf"]);
}

#[test]
fn what_all_parts_of_a_root_require_is_required() {
    let input = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
        "allOf": [{"properties": {"b": {"type": "string"}}, "required": ["b"]}],
        "anyOf": [{"required": ["c"]}, {"required": ["d"]}],
        "not": {"required": ["e"]},
    });
    assert_eq!(
        one(Format::Gemini, &input, None)[0]["functionDeclarations"][0]["parametersJsonSchema"],
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["a", "b"]})
    );
}

#[test]
fn m5_a_list_names_the_changes_of_each_tool() {
    let plain = schema(&json!({"type": "object"}), SchemaRole::Input);
    let changed =
        schema(&json!({"type": "object", "properties": {"a": {"type": "array"}}}), SchemaRole::Input);
    for format in FORMATS {
        let listed = whole(format, false, [tool("call_a_b", &plain, None), tool("call_a_c", &changed, None)]);
        let names: Vec<_> =
            listed.changed.iter().map(|change| (change.tool.as_str(), change.pointer.as_str())).collect();
        let expected = if format == Format::Toolgate { vec![] } else { vec![("call_a_c", "/properties/a")] };
        assert_eq!(names, expected, "{format:?}");
    }
}

#[test]
fn m5_a_tool_that_cannot_be_shown_is_left_out_and_named() {
    let properties: serde_json::Map<String, Value> = (0..4)
        .flat_map(|at| {
            let text = json!({"type": "string", "description": "d".repeat(60_000)});
            [(format!("p{at}"), text), (format!("r{at}"), json!({"$ref": format!("#/properties/p{at}")}))]
        })
        .collect();
    let large = schema(&json!({"type": "object", "properties": properties}), SchemaRole::Input);
    let small = schema(&json!({"type": "object"}), SchemaRole::Input);
    let listed =
        whole(Format::Anthropic, false, [tool("call_a_b", &large, None), tool("call_a_c", &small, None)]);
    assert_eq!(tools(&listed).as_array().map(Vec::len), Some(1), "the other one is listed");
    assert_eq!(listed.left_out[0].tool, "call_a_b");
    assert!(listed.left_out[0].reason.contains("bytes in this form"), "{}", listed.left_out[0].reason);
}

#[test]
fn m5_strict_stands_where_the_schema_can_be_said_in_it() {
    let closed =
        schema(&json!({"type": "object", "properties": {"a": {"type": "string"}}}), SchemaRole::Input);
    let open = schema(&json!({"type": "object", "properties": {"a": {}}}), SchemaRole::Input);
    let listed =
        |format| whole(format, true, [tool("call_a_b", &closed, None), tool("call_a_c", &open, None)]);
    let openai = tools(&listed(Format::Openai));
    assert_eq!(openai[0]["function"]["strict"], true);
    assert_eq!(openai[0]["function"]["parameters"]["required"], json!(["a"]));
    assert_eq!(openai[1]["function"].get("strict"), None);
    let responses = tools(&listed(Format::OpenaiResponses));
    assert_eq!((&responses[0]["strict"], &responses[1]["strict"]), (&json!(true), &json!(false)));
    let anthropic = listed(Format::Anthropic);
    assert_eq!(tools(&anthropic)[0]["strict"], true);
    assert_eq!(tools(&anthropic)[1].get("strict"), None);
    let why = anthropic.changed.last().expect("a reason");
    assert_eq!(
        (why.tool.as_str(), why.pointer.as_str(), why.change.as_str()),
        ("call_a_c", "/properties/a", "not strict: it says no type")
    );
}

#[test]
fn m5_anthropic_takes_a_limited_number_of_strict_tools() {
    let required = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
    let optional =
        json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}});
    for (source, most) in [(required, 20), (optional, 12)] {
        let input = schema(&source, SchemaRole::Input);
        let names: Vec<String> = (0..30).map(|at| format!("call_a_{at}")).collect();
        let listed = whole(Format::Anthropic, true, names.iter().map(|name| tool(name, &input, None)));
        let strict = |tool: &&Value| tool["strict"] == true;
        assert_eq!(tools(&listed).as_array().expect("a list").iter().filter(strict).count(), most);
        assert_eq!(listed.changed.len(), 30 - most, "{:?}", listed.changed);
        assert!(listed.changed[0].change.starts_with("not strict: Anthropic takes"));
    }
}

#[test]
fn m5_a_deferred_list_has_a_search_and_leaves_other_tools_to_it() {
    let input = schema(&json!({"type": "object"}), SchemaRole::Input);
    let listed = |format, deferral| {
        let deferred = Listed { deferred: true, ..tool("call_a_c", &input, None) };
        tools(&list(ListForm { format, strict: false, deferral }, [tool("call_a_b", &input, None), deferred]))
    };
    let anthropic = listed(Format::Anthropic, Deferral::Search);
    assert_eq!(anthropic[0]["name"], "find_tool");
    assert_eq!(anthropic[1].get("defer_loading"), None);
    assert_eq!((&anthropic[2]["name"], &anthropic[2]["defer_loading"]), (&json!("call_a_c"), &json!(true)));
    let openai = listed(Format::OpenaiResponses, Deferral::Search);
    assert_eq!((&openai[0]["type"], &openai[0]["execution"]), (&json!("tool_search"), &json!("client")));
    assert_eq!(openai[1]["name"], "call_a_b");
    assert_eq!(openai.as_array().map(Vec::len), Some(2), "the other comes with the answer of a search");
    assert_eq!(listed(Format::OpenaiResponses, Deferral::Found)[1]["defer_loading"], true);
    let found = json!({"type": "tool_reference", "tool_name": "call_a_c"});
    assert_eq!(listed(Format::Anthropic, Deferral::Found)[1], found);
    assert_eq!(listed(Format::Anthropic, Deferral::None)[1].get("defer_loading"), None);
}

/// Details with one prerequisite and an example.
fn details_with_example(input: Value) -> ToolDetails {
    let example = Example { description: Some("a small one".to_owned()), input, output: Some(json!(5)) };
    ToolDetails {
        prerequisites: vec!["a person signs in".to_owned()],
        examples: vec![example],
        ..PLAIN.clone()
    }
}

#[test]
fn t1_prerequisites_and_examples_are_in_every_list_that_a_model_reads() {
    let input = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": false});
    let (schema, details) = (schema(&input, SchemaRole::Input), details_with_example(json!({"x": 1})));
    for format in FORMATS {
        let listed = Listed { details: &details, ..tool("call_a_b", &schema, None) };
        let list = tools(&whole(format, false, [listed])).to_string();
        assert!(list.contains("a person signs in"), "{format:?}: {list}");
        let example = match format {
            Format::Toolgate => r#""examples":[{"description":"a small one","input":{"x":1},"output":5}]"#,
            Format::Anthropic => r#""input_examples":[{"x":1}]"#,
            _ => r#"Example (a small one): {\"x\":1} → 5"#,
        };
        assert!(list.contains(example), "{format:?}: {list}");
    }
}

#[test]
fn t1_an_example_that_the_schema_refuses_is_no_input_example() {
    let input = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": false});
    let (schema, details) = (schema(&input, SchemaRole::Input), details_with_example(json!({"y": 1})));
    let listed = Listed { details: &details, ..tool("call_a_b", &schema, None) };
    let list = tools(&whole(Format::Anthropic, false, [listed]));
    assert_eq!(list[0]["input_examples"], Value::Null);
    assert!(
        list[0]["description"]
            .as_str()
            .is_some_and(|text| text.contains(r#"Example (a small one): {"y":1}"#))
    );
}

#[test]
fn m5_openai_gets_1024_characters_of_a_description_and_the_answer_says_so() {
    let (input, long) =
        (json!({"type": "object", "properties": {}, "additionalProperties": false}), "word ".repeat(300));
    let schema = schema(&input, SchemaRole::Input);
    for format in FORMATS {
        let list = whole(format, false, [Listed { description: &long, ..tool("call_a_b", &schema, None) }]);
        let text = tools(&list).to_string();
        let is_cut = matches!(format, Format::Openai | Format::OpenaiResponses);
        assert_eq!(text.contains(&long), !is_cut, "{format:?}");
        let changes: Vec<&str> = list.changed.iter().map(|change| change.pointer.as_str()).collect();
        assert_eq!(changes.contains(&"/description"), is_cut, "{format:?}");
    }
    let exact = "x".repeat(1_024);
    let list =
        whole(Format::Openai, false, [Listed { description: &exact, ..tool("call_a_b", &schema, None) }]);
    assert_eq!(tools(&list)[0]["function"]["description"], exact);
}

#[test]
fn m5_openai_and_gemini_get_128_tools_and_the_others_are_named() {
    let schema = schema(
        &json!({"type": "object", "properties": {}, "additionalProperties": false}),
        SchemaRole::Input,
    );
    let names: Vec<String> = (0..130).map(|at| format!("call_a_{at}")).collect();
    for format in FORMATS {
        let is_limited = matches!(format, Format::Openai | Format::OpenaiResponses | Format::Gemini);
        // The last tool is always shown, so that it has a place before those that are not.
        let listed =
            names.iter().map(|name| Listed { deferred: name != "call_a_129", ..tool(name, &schema, None) });
        let list = whole(format, false, listed);
        let left_out: Vec<&str> = list.left_out.iter().map(|left| left.tool.as_str()).collect();
        let expected: &[&str] = if is_limited { &["call_a_127", "call_a_128"] } else { &[] };
        assert_eq!(left_out, expected, "{format:?}");
        assert!(list.left_out.iter().all(|left| left.reason.contains("128 tools")));
    }
    let all = whole(Format::Openai, false, names.iter().take(128).map(|name| tool(name, &schema, None)));
    assert!(all.left_out.is_empty());
}
