//! The office of `tests/sample_policy`: plugins that say what they do and answer with a constant, and the documents of an
//! example policy.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::Client;
use crate::component::PluginFile;

/// The organization whose agents these are.
pub const ORGANIZATION: &str = "office";

/// Loads the plugins and puts the documents in force.
pub fn open(operator: &Client) {
    for description in plugins() {
        let namespace = description["name"].as_str().expect("a namespace").to_owned();
        operator.load(&namespace, &PluginFile::of(description).build());
    }
    operator.make("/v1/platform/policy", &document("platform.json")).expect(201);
    let organization = serde_json::json!({"display_name": "Office", "connected": ["stripe", "resend"]});
    operator.make("/v1/orgs/office", &organization).expect(201);
    operator.make("/v1/orgs/office/policy", &document("organization.json")).expect(201);
    for (name, agent) in agents() {
        operator.make(&format!("/v1/orgs/office/agents/{name}"), &agent).expect(201);
    }
}

/// What each plugin says of itself.
pub fn plugins() -> Vec<Value> {
    named("plugins").into_iter().map(|(_, description)| description).collect()
}

/// The agents by name.
pub fn agents() -> Vec<(String, Value)> {
    named("agents")
}

/// One of the documents.
pub fn document(file: &str) -> Value {
    read(&folder().join(file))
}

fn named(kind: &str) -> Vec<(String, Value)> {
    let files = fs::read_dir(folder().join(kind)).expect("the folder of the office");
    let mut named: Vec<(String, Value)> = files
        .map(|file| {
            let path = file.expect("a file of the office").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            (name, read(&path))
        })
        .collect();
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    named
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a file of the office");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/sample_policy"))
}
