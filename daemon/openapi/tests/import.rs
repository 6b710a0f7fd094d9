//! Documents as definitions, one construct at a time. Whatever is imported, the daemon's own reader takes it.

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

use serde_json::{Value, json};
use toolgate_admission::{Descriptor, Schema, SchemaRole};
use toolgate_openapi::{ImportError, Imported, Wanted, import};

/// Imports a text, and holds what comes out to the daemon's reader.
fn imported(text: &str, wanted: &Wanted<'_>) -> Result<Imported, ImportError> {
    let imported = import(text, wanted)?;
    if let Err(error) = Descriptor::parse(&described(wanted.namespace, &imported.definition)) {
        panic!("the daemon refuses it: {error}; {}", error.hint);
    }
    let again = import(text, wanted).expect("the same again");
    assert_eq!(again.definition, imported.definition, "the same text gives the same definition");
    Ok(imported)
}

/// A description of the plugin that a definition makes, as its component would answer it.
fn described(namespace: &str, definition: &Value) -> String {
    let tools: Vec<Value> = definition["actions"]
        .as_array()
        .expect("actions")
        .iter()
        .map(|action| described_tool(namespace, action))
        .collect();
    let version = definition.get("version").cloned().unwrap_or(json!("1"));
    json!({"name": namespace, "version": version, "purpose": definition["description"], "tools": tools})
        .to_string()
}

fn described_tool(namespace: &str, action: &Value) -> Value {
    let original = action["name"].as_str().expect("a name");
    let name = toolgate_naming::tool(namespace, original);
    let usage = action.get("usage").unwrap_or(&action["description"]);
    let mut tool = json!({"name": name, "original_name": original, "usage": usage});
    for field in ["description", "input_schema", "output_schema", "tags", "redact"] {
        if let Some(value) = action.get(field) {
            tool[field] = value.clone();
        }
    }
    tool
}

/// A document around some paths and components, in YAML.
fn document(paths: &str) -> String {
    let indented: String = paths.lines().map(|line| format!("{line}\n")).collect();
    format!(
        "openapi: 3.1.0\ninfo: {{title: T, version: '1'}}\nservers: [{{url: 'https://api.example.com/v1'}}]\n{indented}"
    )
}

/// All of a document.
fn all(paths: &str) -> Imported {
    imported(&document(paths), &Wanted::all("t")).unwrap_or_else(|error| panic!("{error}; {}", error.hint))
}

/// The one action of a document.
fn action(paths: &str) -> Value {
    let imported = all(paths);
    let actions = imported.definition["actions"].as_array().expect("actions");
    assert_eq!(actions.len(), 1, "left out: {:?}", imported.left_out);
    actions[0].clone()
}

/// Why the one operation of a document is left out.
fn refused(paths: &str) -> String {
    let error = imported(&document(paths), &Wanted::all("t")).expect_err("nothing to take");
    assert_eq!(error.left_out.len(), 1, "{error}");
    error.left_out[0].why.clone()
}

/// Whether arguments fit the schema of an action.
fn fits(action: &Value, arguments: &Value) -> bool {
    let schema = Schema::compile(&action["input_schema"], SchemaRole::Input).expect("a schema");
    schema.check(arguments).is_ok()
}

fn notes(imported: &Imported) -> String {
    imported.notes.iter().map(|note| format!("{note}\n")).collect()
}
