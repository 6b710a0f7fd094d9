//! What a plugin says of itself, held to the published schema of it and to what a person can see.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use jsonschema::Validator;
use serde_json::Value;
use toolgate_admission::{Descriptor, ToolDescriptor, read_called_name};

use crate::strict;
use crate::tell::{assert_place, assert_pointer, assert_told, hidden};

/// `wit/describe.schema.json`, which plugins in any language are made from.
static PUBLISHED: LazyLock<Validator> = LazyLock::new(|| {
    let schema = serde_json::from_str(include_str!("../../../wit/describe.schema.json")).expect("JSON");
    jsonschema::options().offline().build(&schema).expect("a schema")
});

/// The answer of `describe`.
///
/// What is accepted is strict JSON, fits the published schema, names each tool once by a name that reads back, and
/// shows no character that a person does not see. What is refused names its place.
pub fn describe(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let value = strict::read(text, 96);
    match (Descriptor::parse(text), value) {
        (Ok(descriptor), Some(value)) => accepted(&descriptor, value),
        (Ok(_), None) => panic!("accepted, and no strict JSON"),
        (Err(error), value) => {
            assert_told(&error.message, &error.hint);
            match value {
                Some(value) => assert_place(&value, &error.place),
                None => assert_pointer(&error.place),
            }
        }
    }
}

fn accepted(descriptor: &Descriptor, value: Value) {
    descriptor.unknown_fields.iter().for_each(|place| assert_place(&value, place));
    assert!(PUBLISHED.is_valid(&value), "accepted, and does not fit the published schema");
    assert_eq!(value["name"].as_str(), Some(descriptor.namespace.as_str()));
    assert_eq!(value["tools"].as_array().map(Vec::len), Some(descriptor.tools.len()));
    let texts = [
        Some(&descriptor.version),
        descriptor.publisher.as_ref(),
        descriptor.category.as_ref(),
        descriptor.purpose.as_ref(),
    ];
    texts.into_iter().flatten().for_each(|text| assert_visible(text));
    let mut wires = BTreeSet::new();
    for tool in &descriptor.tools {
        assert!(wires.insert(tool.wire.as_str().to_ascii_lowercase()), "two tools are `{}`", tool.wire);
        assert_eq!(read_called_name(tool.wire.as_str()).as_ref(), Some(&tool.id));
        assert_eq!(descriptor.tool(tool.name.as_str()).map(|found| &found.id), Some(&tool.id));
        of_tool(tool);
    }
}

fn of_tool(tool: &ToolDescriptor) {
    let lists = tool.prerequisites.iter().chain(&tool.tags).chain(&tool.required_integrations);
    [&tool.description, &tool.usage].into_iter().chain(lists).for_each(|text| assert_visible(text));
    tool.redact.iter().for_each(|pointer| assert_pointer(pointer));
    assert_eq!(tool.input.source()["type"], "object");
    // A schema tells something of any value, and nothing of what a value hides.
    for value in [Value::Null, Value::Object(Default::default())] {
        for violation in tool.input.check_hiding(&value, &tool.redact).err().unwrap_or_default() {
            assert_told(&violation.message, "see the schema");
        }
    }
}

fn assert_visible(text: &str) {
    assert_eq!(hidden(text), None, "`{}` hides a character", text.escape_debug());
}
