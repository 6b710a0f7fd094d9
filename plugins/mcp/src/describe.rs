//! The plugin that a mount makes: one tool before the server was asked, its tools afterwards.
//!
//! What the plugin may reach follows from the owner's document alone and is the same in both lives, so that a grant for the
//! first is the right one for the second.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use toolgate_api::definition::Protocol;
use toolgate_sdk::Error;
use toolgate_sdk::serde_json::{self, Value, json};

use crate::document::Document;
use crate::header_params::{self, Mirrored};
use crate::text::cut;
use crate::tool_list::{self, Discovered, Tool};

/// Longest description of a tool that the daemon takes, in characters; what is longer is in the usage.
const DESCRIPTION_CHARS: usize = 4_096;
/// Longest tag that it takes.
const TAG_CHARS: usize = 100;

/// The data that is stored with a tool, and comes back with each call of it.
#[derive(Clone, Deserialize, Serialize)]
pub struct Part {
    pub url: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Protocol>,
    /// Whether the server speaks the transport of 2024-11-05, HTTP with SSE.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sse: bool,
    /// The server's name of the tool; none at `discover`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Whether the tool has an output schema.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub structured: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mirrored: Vec<Mirrored>,
    /// At `discover`: the tools to look for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<BTreeSet<String>>,
}

/// The plugin before its server was asked.
pub fn describe_undiscovered(document: &Document) -> Value {
    let description = "Asks the MCP server which tools it has, so that they can be mounted. Changes nothing.";
    let tool = json!({
        "name": "discover",
        "description": description,
        "usage": description,
        "input_schema": {"type": "object", "additionalProperties": false},
        "output_schema": tool_list::output_schema(),
        "hints": {"read_only": true, "destructive": false, "idempotent": true, "open_world": true},
        "tags": ["mcp"],
        "required_integrations": integrations(document.definition.provider()),
        "definition": Part { only: document.definition.tools.clone(), ..part(document) },
    });
    plugin(document, vec![tool])
}

/// The plugin with the tools of its server.
pub fn describe(document: &Document, discovered: Value) -> Result<Value, Error> {
    let discovered: Discovered = serde_json::from_value(discovered)
        .map_err(|error| Error::new(format!("what was discovered cannot be read: {error}")))?;
    let is_wanted =
        |tool: &Tool| document.definition.tools.as_ref().is_none_or(|only| only.contains(&tool.name));
    let wanted = discovered.tools.into_iter().filter(is_wanted);
    let tools: BTreeMap<String, Tool> = wanted.map(|tool| (tool.name.clone(), tool)).collect();
    if tools.is_empty() {
        return Err(nothing_left(document));
    }
    let part = Part { protocol: Some(discovered.protocol), sse: discovered.sse, ..part(document) };
    let described = tools.into_values().map(|tool| {
        let name = toolgate_api::name::derive_tool_name(&document.namespace, &tool.name);
        describe_tool(&name, tool, &part, document)
    });
    Ok(plugin(document, described.collect::<Result<_, _>>()?))
}

/// One tool of a server, by our name for it. `part` is the definition without a tool.
fn describe_tool(name: &str, tool: Tool, part: &Part, document: &Document) -> Result<Value, Error> {
    let refuse = |why| Error::new(format!("tool `{}` of the server cannot be mounted: {why}", tool.name));
    let mirrored = match part.protocol {
        Some(Protocol::Stateless) => header_params::read(&tool.input_schema).map_err(refuse)?,
        _ => Vec::new(),
    };
    let read_only = document.definition.read_only.as_ref().is_some_and(|names| names.contains(&tool.name));
    let definition = Part {
        tool: Some(tool.name.clone()),
        structured: tool.output_schema.is_some(),
        mirrored,
        ..part.clone()
    };
    let mut described = json!({
        "name": name,
        "hints": hints(read_only),
        "tags": tags(&tool),
        "required_integrations": integrations(document.definition.provider()),
        "definition": definition,
        "content": true,
    });
    if tool.name != name {
        described["original_name"] = tool.name.as_str().into();
    }
    let Tool { name, title, description, input_schema, output_schema, .. } = tool;
    let told = description.or(title);
    let told = told.unwrap_or_else(|| format!("The tool `{name}` of the MCP server; it says no more."));
    described["description"] = cut(&told, DESCRIPTION_CHARS).into();
    described["usage"] = told.into();
    described["input_schema"] = input_schema;
    if let Some(schema) = output_schema {
        described["output_schema"] = schema;
    }
    Ok(described)
}

/// Hints loosen what agents are asked about, so a server's own word about its tools does not count (requirements 9.11):
/// its owner's does, and the careful answer where they say nothing.
fn hints(read_only: bool) -> Value {
    json!({"read_only": read_only, "destructive": !read_only, "idempotent": read_only, "open_world": true})
}

/// The server's title, so that the tool is found by it.
fn tags(tool: &Tool) -> Vec<String> {
    tool.title.iter().map(|tag| cut(tag, TAG_CHARS)).collect()
}

fn integrations(provider: Option<&str>) -> Vec<&str> {
    provider.into_iter().collect()
}

fn part(document: &Document) -> Part {
    Part {
        url: document.address.url.clone(),
        headers: document.headers.clone(),
        protocol: document.definition.protocol,
        sse: false,
        tool: None,
        structured: false,
        mirrored: Vec::new(),
        only: None,
    }
}

fn plugin(document: &Document, tools: Vec<Value>) -> Value {
    let definition = &document.definition;
    let credentials = integrations(definition.provider());
    let capabilities = json!({"network": [network_rule(document)], "credentials": credentials});
    definition.describe(&document.namespace, capabilities, tools)
}

fn network_rule(document: &Document) -> Value {
    let address = &document.address;
    // A server of the oldest transport names itself where requests are posted.
    let path = match document.definition.protocol {
        Some(Protocol::Session202411) => "/",
        _ => &address.path,
    };
    // Only a session is ended with a request of its own, and has streams that can be resumed.
    let methods: &[&str] = if document.definition.protocol == Some(Protocol::Stateless) {
        &["POST"]
    } else {
        &["POST", "GET", "DELETE"]
    };
    let mut rule = json!({"scheme": address.scheme, "host": address.host, "methods": methods, "path": path});
    if let Some(port) = address.port {
        rule["port"] = port.into();
    }
    rule
}

fn nothing_left(document: &Document) -> Error {
    let (message, hint) = match document.definition.tools {
        Some(_) => {
            ("none of these tools was discovered", "name tools that the server has, or discover them again")
        }
        None => ("the server has no tool that can be mounted", "see `left_out` of what was discovered"),
    };
    let pointer = if document.definition.tools.is_some() { "/tools" } else { "/url" };
    Error::invalid(message).with_details(json!({"pointer": pointer, "hint": hint}))
}
