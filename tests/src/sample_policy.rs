//! Loads `tests/sample_policy`: plugins that return a constant, and the documents of an example policy.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::client::Client;
use crate::component::PluginFile;

/// Organization of the agents.
pub const ORGANIZATION: &str = "office";

/// Loads the plugins and writes the documents.
pub fn open(operator: &Client) {
    for description in plugins() {
        let namespace = description["name"].as_str().expect("a namespace").to_owned();
        operator.load_confirmed(&namespace, &PluginFile::of(description).build());
    }
    operator.make("/v1/platform/policy", &document("platform.json")).expect(201);
    operator.make("/v1/orgs/office", &document("orgs/office/organization.json")).expect(201);
    operator.make("/v1/orgs/office/policy", &document("orgs/office/policy.json")).expect(201);
    for (name, agent) in agents() {
        operator.make(&format!("/v1/orgs/office/agents/{name}"), &agent).expect(201);
    }
}

/// Descriptors of the plugins.
pub fn plugins() -> Vec<Value> {
    read_folder("plugins").into_iter().map(|(_, description)| description).collect()
}

/// Agents, by name.
pub fn agents() -> Vec<(String, Value)> {
    read_folder("orgs/office/agents")
}

/// Reads one document.
pub fn document(file: &str) -> Value {
    read(&folder().join(file))
}

fn read_folder(kind: &str) -> Vec<(String, Value)> {
    let files = fs::read_dir(folder().join(kind)).expect("the folder of the sample policy");
    let mut documents: Vec<(String, Value)> = files
        .map(|file| {
            let path = file.expect("a file of the sample policy").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            (name, read(&path))
        })
        .collect();
    documents.sort_by(|(one, _), (other, _)| one.cmp(other));
    documents
}

fn read(path: &Path) -> Value {
    let text = fs::read_to_string(path).expect("a file of the sample policy");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/sample_policy"))
}
