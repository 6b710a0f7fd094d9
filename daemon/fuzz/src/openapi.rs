//! Documents of APIs that owners import: what becomes of them, held to the form of definitions and to the daemon's reader.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolgate_admission::Descriptor;
use toolgate_openapi::{ImportOptions, Imported, import};

use crate::tell::{assert_pointer, assert_told, hidden};

/// An OpenAPI document.
///
/// What comes out is a definition whose every argument has a place, whose paths name arguments that must be there, and of
/// which the daemon takes the description. What is refused or left out says why, and the same text gives the same.
pub fn openapi(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let wanted = ImportOptions { output_schemas: true, deprecated: true, ..ImportOptions::new("api") };
    match import(text, &wanted) {
        Err(error) => {
            assert_told(&error.message, &error.hint);
            assert_pointer(&error.pointer);
        }
        Ok(imported) => {
            let again = import(text, &wanted).map(|imported| imported.definition);
            assert_eq!(again.as_ref(), Ok(&imported.definition), "the second time gives something else");
            accepted(&imported);
        }
    }
}

fn accepted(imported: &Imported) {
    let text = imported.definition.to_string();
    assert!(text.len() <= 2 << 20, "a definition of {} bytes", text.len());
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON").to_string(), text);
    for line in imported
        .left_out
        .iter()
        .map(ToString::to_string)
        .chain(imported.notes.iter().map(ToString::to_string))
    {
        assert_told(&line, "none is needed");
    }
    assert_eq!(hidden(&text), None, "the definition hides a character");
    let actions = imported.definition["actions"].as_array().expect("actions");
    assert!((1..=1_000).contains(&actions.len()));
    actions.iter().for_each(of_action);
    let description = describe(&imported.definition, actions);
    if let Err(error) = Descriptor::parse(&description) {
        panic!("imported, and the daemon refuses it: {error}");
    }
}

fn of_action(action: &Value) {
    let schema = &action["input_schema"];
    let names: BTreeSet<&str> =
        schema["properties"].as_object().expect("properties").keys().map(String::as_str).collect();
    let places = action.get("arguments").and_then(Value::as_object);
    for name in places.into_iter().flatten().map(|(name, _)| name.as_str()) {
        assert!(names.contains(name), "`{name}` has a place and is no argument");
    }
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    assert!(required.iter().all(|name| names.contains(name)));
    assert_eq!(schema["additionalProperties"], false);
    let path = action["path"].as_str().expect("a path").split('?').next().unwrap_or_default();
    for variable in path.split('{').skip(1) {
        let name = variable.split('}').next().unwrap_or_default();
        assert!(required.contains(&name), "`{name}` stands in the path and can be left out");
    }
}

/// As the built-in plugin `api` describes it, whose tools are named by the same rule.
fn describe(definition: &Value, actions: &[Value]) -> String {
    let tools: Vec<Value> = actions
        .iter()
        .map(|action| {
            let original = action["name"].as_str().expect("a name");
            let name = toolgate_naming::tool("api", original);
            let mut tool =
                json!({"name": name, "usage": action.get("usage").unwrap_or(&action["description"])});
            if name != original {
                tool["original_name"] = original.into();
            }
            for field in ["description", "input_schema", "output_schema", "tags", "redact"] {
                if let Some(value) = action.get(field) {
                    tool[field] = value.clone();
                }
            }
            tool
        })
        .collect();
    let version = definition.get("version").unwrap_or(&Value::Null);
    let version = if version.is_null() { "1" } else { version.as_str().expect("a version") };
    json!({"name": "api", "version": version, "purpose": definition["description"], "tools": tools})
        .to_string()
}
