//! Imported OpenAPI documents: the definition is checked directly, and by the daemon's parser of descriptions.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolgate_admission::Descriptor;
use toolgate_openapi::{ImportOptions, Imported, import};

use crate::error_format::{assert_error_text, assert_pointer, find_hidden};

/// Input: an OpenAPI document.
///
/// In a definition every argument has a location, path variables are required arguments, and the daemon accepts its
/// description. An error and each part left out have a reason. The second run gives the same result.
pub fn openapi(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let options = ImportOptions { output_schemas: true, deprecated: true, ..ImportOptions::new("api") };
    match import(text, &options) {
        Err(error) => {
            assert_error_text(&error.message, &error.hint);
            assert_pointer(&error.pointer);
        }
        Ok(imported) => {
            let again = import(text, &options).map(|imported| imported.definition);
            assert_eq!(again.as_ref(), Ok(&imported.definition), "the second import differs");
            check_imported(&imported);
        }
    }
}

fn check_imported(imported: &Imported) {
    let text = imported.definition.to_string();
    assert!(text.len() <= 2 << 20, "a definition of {} bytes", text.len());
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON").to_string(), text);
    imported.left_out.iter().for_each(|left_out| assert_error_text(&left_out.to_string(), "none"));
    imported.notes.iter().for_each(|note| assert_error_text(&note.to_string(), "none"));
    assert_eq!(find_hidden(&text), None, "the definition hides a character");
    let actions = imported.definition["actions"].as_array().expect("actions");
    assert!((1..=1_000).contains(&actions.len()));
    actions.iter().for_each(check_action);
    let description = describe(&imported.definition, actions);
    if let Err(error) = Descriptor::parse(&description) {
        panic!("imported, but the daemon refuses it: {error}");
    }
}

fn check_action(action: &Value) {
    let schema = &action["input_schema"];
    let names: BTreeSet<&str> =
        schema["properties"].as_object().expect("properties").keys().map(String::as_str).collect();
    let locations = action.get("arguments").and_then(Value::as_object);
    for (name, _) in locations.into_iter().flatten() {
        assert!(names.contains(name.as_str()), "`{name}` has a location but is not an argument");
    }
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: Vec<&str> = required.filter_map(Value::as_str).collect();
    assert!(required.iter().all(|name| names.contains(name)));
    assert_eq!(schema["additionalProperties"], false);
    let path = action["path"].as_str().expect("a path").split('?').next().unwrap_or_default();
    for variable in path.split('{').skip(1) {
        let name = variable.split('}').next().unwrap_or_default();
        assert!(required.contains(&name), "`{name}` is in the path but not required");
    }
}

/// The description that the built-in plugin `api` returns for the definition.
fn describe(definition: &Value, actions: &[Value]) -> String {
    let tools: Vec<Value> = actions
        .iter()
        .map(|action| {
            let original = action["name"].as_str().expect("a name");
            let name = toolgate_api::name::derive_tool_name("api", original);
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
