//! Mounts, against servers whose answers were taken from real ones: PyPI `mcp` 2.3.0, which speaks both families, and npm
//! `@modelcontextprotocol/server-everything` 2026.8.31, which speaks the older one.
//!
//! What is described is read by the daemon's own reader, so that what is taken here is taken there.

mod described;
mod discovered;
mod events;
mod schemas;
mod sessions;
mod stateless;
mod streams;
mod texts;

use toolgate_admission::Descriptor;
use toolgate_sdk::serde_json::{Value, json};
use toolgate_sdk::testing::{self, Reply, Sent};
use toolgate_sdk::{Defined, Error};

use crate::Mcp;

const URL: &str = "https://mcp.example.com/mcp";

/// A document with some fields set, or taken away with null.
fn document(changes: Value) -> Value {
    let mut document = json!({"kind": "mcp", "description": "Weather by place", "url": URL});
    for (name, value) in changes.as_object().unwrap() {
        document[name] = value.clone();
    }
    document
}

fn envelope(document: Value) -> Value {
    json!({"namespace": "weather", "definition": document})
}

fn describe(envelope: &Value) -> Result<Value, Error> {
    let described = Mcp::describe(&envelope.to_string())?;
    read_as_the_daemon_does(&described);
    Ok(described)
}

fn read_as_the_daemon_does(described: &Value) {
    let read =
        Descriptor::parse(&described.to_string()).unwrap_or_else(|error| panic!("{error}: {described:#}"));
    let is_new = |pointer: &String| pointer != "/rate_limit" && !pointer.ends_with("/definition");
    assert_eq!(read.unknown_fields.into_iter().filter(is_new).collect::<Vec<_>>(), Vec::<String>::new());
}

fn mount(document: &Value, discovered: &Value) -> Value {
    let envelope = json!({"namespace": "weather", "definition": document, "discovered": discovered});
    describe(&envelope).unwrap()
}

/// Calls a tool of a described plugin, as the daemon does. A result without content blocks is its output alone.
fn call(plugin: &Value, tool: &str, arguments: Value) -> Result<Value, Error> {
    let tools = plugin["tools"].as_array().unwrap();
    let described = tools.iter().find(|described| described["name"] == tool).unwrap();
    let context = testing::context().build();
    let mut result = Mcp::call(tool, &described["definition"].to_string(), &context, &arguments.to_string())?;
    Ok(match described["content"] == true && result["content"] == json!([]) {
        true => result["output"].take(),
        false => result,
    })
}

/// Asks the server of a document what it has.
fn discover(document: Value) -> Result<Value, Error> {
    call(&describe(&envelope(document))?, "discover", json!({}))
}

/// The failure of `discover` where the server answers everything so.
fn refusal(reply: Reply) -> Error {
    let _network = testing::network(move |_| Ok(reply.clone()));
    discover(document(json!({}))).unwrap_err()
}

/// The result of a discovery that gets these tools.
fn discovery(tools: Value) -> Value {
    json!({"protocol": "2026-07-28", "server": {"name": "s", "version": "1"}, "tools": tools, "left_out": []})
}

fn result(request: &Sent, result: Value) -> Reply {
    Reply::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "result": result}))
}

fn error_reply(request: &Sent, status: u16, error: Value) -> Reply {
    Reply::json(&json!({"jsonrpc": "2.0", "id": request.json()["id"], "error": error})).status(status)
}

fn method(request: &Sent) -> String {
    request.json()["method"].as_str().unwrap_or_default().to_owned()
}

fn details(error: &Error) -> &Value {
    error.details().unwrap()
}
