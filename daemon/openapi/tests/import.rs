//! Imports documents, one construct at a time, and validates every definition with the daemon's own parser.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what fails here fails a test"
)]

#[path = "import/bounds.rs"]
mod bounds;
#[path = "import/places.rs"]
mod places;
#[path = "import/requests.rs"]
mod requests;
#[path = "import/schemas.rs"]
mod schemas;
#[path = "import/snapshot.rs"]
mod snapshot;
#[path = "import/swagger.rs"]
mod swagger;

use serde_json::{Value, json};
use toolgate_admission::{Descriptor, Schema, SchemaRole};
use toolgate_openapi::{ImportError, ImportOptions, Imported, import};

/// Imports a text twice; the daemon must accept the definition, and both must be equal.
fn import_checked(text: &str, options: &ImportOptions<'_>) -> Result<Imported, ImportError> {
    let imported = import(text, options)?;
    if let Err(error) = Descriptor::parse(&describe_json(options.namespace, &imported.definition)) {
        panic!("the daemon refuses it: {error}; {}", error.hint);
    }
    let again = import(text, options).expect("the same again");
    assert_eq!(again.definition, imported.definition, "the same text gives the same definition");
    Ok(imported)
}

/// The plugin description that the `api` plugin returns for a definition.
fn describe_json(namespace: &str, definition: &Value) -> String {
    let tools: Vec<Value> = definition["actions"]
        .as_array()
        .expect("actions")
        .iter()
        .map(|action| tool_json(namespace, action))
        .collect();
    let version = definition.get("version").cloned().unwrap_or(json!("1"));
    json!({"name": namespace, "version": version, "purpose": definition["description"], "tools": tools})
        .to_string()
}

fn tool_json(namespace: &str, action: &Value) -> Value {
    let original = action["name"].as_str().expect("a name");
    let name = toolgate_api::name::derive_tool_name(namespace, original);
    let usage = action.get("usage").unwrap_or(&action["description"]);
    let mut tool = json!({"name": name, "original_name": original, "usage": usage});
    for field in ["description", "input_schema", "output_schema", "tags", "redact"] {
        if let Some(value) = action.get(field) {
            tool[field] = value.clone();
        }
    }
    tool
}

/// A YAML document with these paths and components.
fn document(paths: &str) -> String {
    let indented: String = paths.lines().map(|line| format!("{line}\n")).collect();
    format!(
        "openapi: 3.1.0\ninfo: {{title: T, version: '1'}}\nservers: [{{url: 'https://api.example.com/v1'}}]\n{indented}"
    )
}

/// Imports all operations of a document.
fn all(paths: &str) -> Imported {
    import_checked(&document(paths), &ImportOptions::new("t"))
        .unwrap_or_else(|error| panic!("{error}; {}", error.hint))
}

/// The only action of a document.
fn action(paths: &str) -> Value {
    let imported = all(paths);
    let actions = imported.definition["actions"].as_array().expect("actions");
    assert_eq!(actions.len(), 1, "left out: {:?}", imported.left_out);
    actions[0].clone()
}

/// The reason why the only operation of a document is left out.
fn skip_reason(paths: &str) -> String {
    let error = import_checked(&document(paths), &ImportOptions::new("t")).expect_err("nothing to take");
    assert_eq!(error.left_out.len(), 1, "{error}");
    error.left_out[0].why.clone()
}

/// Whether the input schema of an action accepts the arguments.
fn fits(action: &Value, arguments: &Value) -> bool {
    let schema = Schema::compile(&action["input_schema"], SchemaRole::Input).expect("a schema");
    schema.validate(arguments).is_ok()
}

fn notes(imported: &Imported) -> String {
    imported.notes.iter().map(|note| format!("{note}\n")).collect()
}
