use super::*;

fn tool<'a>(input: &'a Value, output: Option<&'a Value>) -> Listed<'a> {
    let hints = Hints { read_only: true, destructive: false, idempotent: true, open_world: false };
    Listed {
        name: "call_a_b",
        original: None,
        description: "Does b.",
        input,
        output,
        hints,
        requires_approval: false,
        mode: Mode::Server,
    }
}

fn one(format: Format, input: &Value, output: Option<&Value>) -> Value {
    list(format, [tool(input, output)])
}

#[test]
fn each_provider_has_its_own_form_of_a_tool() {
    let input = json!({"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"], "additionalProperties": false});
    let output = json!({"type": "object"});
    let of = |format| one(format, &input, Some(&output));
    assert_eq!(
        of(Format::Toolgate),
        json!([{"name": "call_a_b", "original_name": null, "description": "Does b.", "input_schema": input, "output_schema": output, "read_only": true, "requires_approval": false, "mode": "server"}])
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
    for format in ["toolgate", "openai", "openai_responses", "anthropic", "gemini", "mcp"] {
        let format: Format = serde_json::from_value(json!(format)).expect("a format");
        assert_eq!(list(format, []), json!([]));
    }
    assert!(serde_json::from_value::<Format>(json!("bedrock")).is_err());
}

#[test]
fn a_title_stands_where_a_tool_has_one() {
    let input = json!({"type": "object"});
    let titled = Listed { original: Some("B"), ..tool(&input, None) };
    assert_eq!(list(Format::Mcp, [titled])[0]["title"], "B");
    assert_eq!(one(Format::Mcp, &input, None)[0].get("title"), None);
}

#[test]
fn mcp_has_output_schemas_of_objects_only() {
    let input = json!({"type": "object"});
    let listed = |output: &Value| one(Format::Mcp, &input, Some(output))[0].get("outputSchema").cloned();
    assert_eq!(listed(&json!({"type": "object"})), Some(json!({"type": "object"})));
    assert_eq!(listed(&json!({"type": "string"})), None);
}

/// A provider refuses the whole request for one such schema.
#[test]
fn a_union_at_the_root_becomes_one_object_for_providers() {
    let input = json!({
        "$defs": {"circle": {"properties": {"kind": {"const": "circle"}, "radius": {"type": "number"}}, "required": ["kind", "radius"]}},
        "description": "A shape.",
        "oneOf": [
            {"$ref": "#/$defs/circle"},
            {"properties": {"kind": {"const": "square"}, "side": {"type": "number"}}, "required": ["kind", "side"]},
            {"properties": {"kind": {"const": "dot"}}, "required": ["kind"]},
        ],
        "additionalProperties": false,
    });
    let plain = json!({
        "$defs": input["$defs"],
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
fn a_root_that_says_nothing_or_refers_to_another_place_is_an_object() {
    let schema = |input: &Value| one(Format::Anthropic, input, None)[0]["input_schema"].clone();
    let nothing = json!({"type": "object", "properties": {}});
    for input in
        [json!({}), json!(true), json!({"type": ["object", "null"]}), json!({"$ref": "#/$defs/none"})]
    {
        assert_eq!(schema(&input), nothing, "{input}");
    }
    let referring = json!({"$ref": "#/$defs/t", "$defs": {"t": {"type": "object", "properties": {"x": {"$ref": "#/$defs/t"}}}}});
    assert_eq!(schema(&referring)["properties"], json!({"x": {"$ref": "#/$defs/t"}}));
    let endless = json!({"$ref": "#"});
    assert_eq!(schema(&endless), nothing, "a reference to itself ends");
}
