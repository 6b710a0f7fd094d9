//! The result of `describe`, compared with its published schema.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;
use toolgate_admission::{Descriptor, ToolDescriptor};
use toolgate_api::name::read_called_name;

use crate::error_format::{assert_error_text, assert_pointer, assert_pointer_into, find_hidden};
use crate::strict;

/// `wit/describe.schema.json`, the reference for plugin authors.
static PUBLISHED: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("../../../wit/describe.schema.json")).expect("JSON");
    jsonschema::options().offline().build(&schema).expect("a schema")
});

/// Input: the result of `describe`.
///
/// An accepted description is strict JSON, matches the published schema, names each tool once by a name that parses back,
/// and has no hidden character. An error has a pointer into the description.
pub fn describe(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let value = strict::read(text, 96);
    match (Descriptor::parse(text), value) {
        (Ok(descriptor), Some(value)) => check_accepted(&descriptor, value),
        (Ok(_), None) => panic!("accepted, but not strict JSON"),
        (Err(error), value) => {
            assert_error_text(&error.message, &error.hint);
            match value {
                Some(value) => assert_pointer_into(&value, &error.place),
                None => assert_pointer(&error.place),
            }
        }
    }
}

fn check_accepted(descriptor: &Descriptor, value: Value) {
    descriptor.unknown_fields.iter().for_each(|pointer| assert_pointer_into(&value, pointer));
    assert!(PUBLISHED.is_valid(&value), "accepted, but does not match the published schema");
    assert_eq!(value["name"].as_str(), Some(descriptor.namespace.as_str()));
    assert_eq!(value["tools"].as_array().map(Vec::len), Some(descriptor.tools.len()));
    let texts = [
        Some(&descriptor.version),
        descriptor.publisher.as_ref(),
        descriptor.category.as_ref(),
        descriptor.purpose.as_ref(),
    ];
    texts.into_iter().flatten().for_each(|text| assert_visible(text));
    let mut wire_names = BTreeSet::new();
    for tool in &descriptor.tools {
        assert!(wire_names.insert(tool.wire.as_str().to_ascii_lowercase()), "two tools are `{}`", tool.wire);
        assert_eq!(read_called_name(tool.wire.as_str()).as_ref(), Some(&tool.id));
        assert_eq!(descriptor.tool(tool.name.as_str()).map(|found| &found.id), Some(&tool.id));
        check_tool(tool);
    }
}

fn check_tool(tool: &ToolDescriptor) {
    let lists = tool.prerequisites.iter().chain(&tool.tags).chain(&tool.required_integrations);
    [&tool.description, &tool.usage].into_iter().chain(lists).for_each(|text| assert_visible(text));
    tool.redact.iter().for_each(|pointer| assert_pointer(pointer));
    assert_eq!(tool.input.source()["type"], "object");
    // Every violation has a message, also for values whose parts are redacted.
    for value in [Value::Null, Value::Object(Default::default())] {
        for violation in tool.input.validate_redacting(&value, &tool.redact).err().unwrap_or_default() {
            assert_error_text(&violation.message, "see the schema");
        }
    }
}

fn assert_visible(text: &str) {
    assert_eq!(find_hidden(text), None, "`{}` hides a character", text.escape_debug());
}

/// Seeds that are too long for the table.
pub fn long_seeds() -> Vec<(&'static str, String)> {
    let tools = r#"[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]"#;
    let name = "x".repeat(3_000);
    let text = format!(r#"{{"name":"sums","version":"1.0.0","limits":{{"{name}":1}},"tools":{tools}}}"#);
    vec![("limit-of-an-endless-name", text)]
}

/// Seeds, each with a name for its content.
#[rustfmt::skip]
pub const SEEDS: &[(&str, &str)] = &[
    ("blank-texts", r#"{"name":"sums","version":"1.0.0","publisher":" ","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("config-schema-of-null", r#"{"name":"sums","version":"1.0.0","config_schema":null,"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("duplicate-field", r#"{"name":"sums","name":"other","version":"1","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("emoji", r#"{"name":"sums","version":"1.0.0","purpose":"❤️ 日本","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("empty-host", r#"{"name":"sums","version":"1.0.0","capabilities":{"network":[{"host":""}]},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("escape-in-purpose", r#"{"name":"sums","version":"1.0.0","purpose":"\u001b[2J","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("everything", r#"{"name":"sums","version":"1.0.0","publisher":"P","category":"c","purpose":"p","capabilities":{"filesystem":"workspace","network":[{"scheme":"https","host":"api.example","port":443,"methods":["GET"],"path":"/v1/"}],"credentials":["stripe"]},"config_schema":{"type":"object"},"limits":{"fuel":1000},"tools":[{"name":"add","description":"Adds.","usage":"Give two.\n\tTwo.","input_schema":{"type":"object","properties":{"a":{"type":"number"}}},"output_schema":true,"mode":"server","hints":{"read_only":true,"destructive":false,"idempotent":true,"open_world":false},"required_integrations":["stripe"],"prerequisites":["Log in."],"tags":["math"],"examples":[{"description":"One.","input":{"a":1},"output":2}],"redact":["/a"]}]}"#),
    ("example-that-is-no-object", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"},"examples":[{"input":1}]}]}"#),
    ("hidden-in-description", "{\"name\":\"sums\",\"version\":\"1.0.0\",\"tools\":[{\"name\":\"add\",\"description\":\"Adds\u{202e}.\",\"usage\":\"Give two numbers.\",\"input_schema\":{\"type\":\"object\"}}]}"),
    ("input-that-is-no-object", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"array"}}]}"#),
    ("limit-as-float", r#"{"name":"sums","version":"1.0.0","limits":{"fuel":1e3},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("limit-below-zero", r#"{"name":"sums","version":"1.0.0","limits":{"fuel":-1},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("limit-unknown", r#"{"name":"sums","version":"1.0.0","limits":{"patience":1},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("mode-client", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"},"mode":"client"}]}"#),
    ("name-with-capitals", r#"{"name":"Sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("no-tools", r#"{"name":"sums","version":"1.0.0","tools":[]}"#),
    ("not-an-object", "[]"),
    ("nulls-stand-for-absent", r#"{"name":"sums","version":"1.0.0","publisher":null,"capabilities":null,"limits":null,"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("one-tool-twice", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}},{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("path-without-slash", r#"{"name":"sums","version":"1.0.0","capabilities":{"network":[{"host":"a","path":"v1"}]},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("port-as-float", r#"{"name":"sums","version":"1.0.0","capabilities":{"network":[{"host":"a","port":443.0}]},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("port-zero", r#"{"name":"sums","version":"1.0.0","capabilities":{"network":[{"host":"a","port":0}]},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("redact-everything", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"},"redact":[""]}]}"#),
    ("redact-no-pointer", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"},"redact":["a","/~2"]}]}"#),
    ("schema-that-is-true", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":true}]}"#),
    ("smallest", r#"{"name":"sums","version":"1.0.0","tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("tag-characters", "{\"name\":\"sums\",\"version\":\"1.0.0\",\"purpose\":\"a\u{e0041}\",\"tools\":[{\"name\":\"add\",\"description\":\"Adds.\",\"usage\":\"Give two numbers.\",\"input_schema\":{\"type\":\"object\"}}]}"),
    ("unknown-fields", r#"{"name":"sums","version":"1.0.0","colour":"red","a/b":{"~":1},"tools":[{"name":"add","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
    ("wire-name-too-long", r#"{"name":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","version":"1.0.0","tools":[{"name":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","description":"Adds.","usage":"Give two numbers.","input_schema":{"type":"object"}}]}"#),
];
