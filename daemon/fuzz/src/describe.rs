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
