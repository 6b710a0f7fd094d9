//! Tests of the behaviour that an owner and a model rely on, against servers that the tests make up.

mod answers;
mod description;
mod documents;
mod files;
mod requests;

pub use files::workspace_root;

use serde_json::{Value, json};
use toolgate_sdk::testing::{self, DefinedPlugin, Network, Reply, Sent};
use toolgate_sdk::{Error, http};

use crate::Api;

/// A document with one action, of which the given members are as given.
fn with_action(action: Value) -> Value {
    let mut whole = json!({
        "name": "act", "description": "Does it.", "method": "GET", "path": "/items",
        "input_schema": {"type": "object", "properties": {}},
    });
    merge(&mut whole, action);
    json!({"description": "Items by id", "base_url": "https://api.example.com/v1", "actions": [whole]})
}

/// A document with one harmless action, of which the given members are as given.
fn with_members(members: Value) -> Value {
    let mut document = with_action(json!({}));
    merge(&mut document, members);
    document
}

fn merge(whole: &mut Value, members: Value) {
    let Value::Object(members) = members else { panic!("members are an object") };
    members.into_iter().for_each(|(name, value)| whole[name] = value);
}

/// Arguments of the given names, each of any type.
fn any_of(names: &[&str]) -> Value {
    let properties: Value = names.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    json!({"type": "object", "properties": properties, "required": names})
}

fn plugin(document: &Value) -> Result<DefinedPlugin<Api>, Error> {
    testing::defined(&json!({"namespace": "things", "definition": document}))
}

/// Calls the one action of a document, and gives what was sent.
fn sent(document: &Value, arguments: &str) -> Result<Sent, Error> {
    let network = answering(Reply::json(&json!({"ok": true})));
    plugin(document).unwrap().call_text(&testing::context().build(), "act", arguments)?;
    Ok(network.sent().remove(0))
}

fn answering(reply: Reply) -> Network {
    testing::network(move |_| Ok::<_, http::Error>(reply.clone()))
}
