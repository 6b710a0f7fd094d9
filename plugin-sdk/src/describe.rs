//! Writes the result of `describe`: JSON text that matches `wit/describe.schema.json`.
//!
//! The text depends only on the plugin's code, so it is always the same. Fields have the order of the schema, and default
//! values are omitted.

use schemars::Schema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::Error;
use crate::content;
use crate::tool::{Capabilities, Hints, Mode, NetworkRule, PluginFacts, ToolFacts};

/// Describes a plugin as JSON text.
pub fn describe(facts: &PluginFacts) -> Result<String, Error> {
    let description = PluginDescription {
        name: facts.name,
        version: facts.version,
        publisher: facts.publisher,
        category: facts.category,
        purpose: Some(facts.purpose).filter(|purpose| !purpose.is_empty()),
        capabilities: describe_capabilities(&facts.capabilities),
        config_schema: facts.config_schema.map(|schema| schema()),
        limits: facts.limits.iter().map(|(name, limit)| ((*name).to_owned(), (*limit).into())).collect(),
        tools: facts.tools.iter().map(|tool| describe_tool(tool, facts)).collect::<Result<_, _>>()?,
    };
    Ok(serde_json::to_string(&description)?)
}

#[derive(Serialize)]
struct PluginDescription {
    name: &'static str,
    version: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    publisher: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    category: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    purpose: Option<&'static str>,
    capabilities: CapabilitiesDescription,
    #[serde(skip_serializing_if = "Option::is_none")]
    config_schema: Option<Schema>,
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    limits: serde_json::Map<String, serde_json::Value>,
    tools: Vec<ToolDescription>,
}

#[derive(Serialize)]
struct CapabilitiesDescription {
    filesystem: &'static str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    network: &'static [NetworkRule],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    credentials: &'static [&'static str],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    calls: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    messages: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    unused: &'static [&'static str],
}

#[derive(Serialize)]
struct ToolDescription {
    name: &'static str,
    description: &'static str,
    usage: &'static str,
    input_schema: Schema,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Schema>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    content: bool,
    mode: Mode,
    hints: HintsDescription,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    required_integrations: &'static [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    prerequisites: &'static [&'static str],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tags: &'static [&'static str],
    #[serde(skip_serializing_if = "Vec::is_empty")]
    examples: Vec<ExampleDescription>,
    #[serde(skip_serializing_if = "is_free")]
    cost: u32,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    redact: &'static [&'static str],
}

#[derive(Serialize)]
struct HintsDescription {
    read_only: bool,
    destructive: bool,
    idempotent: bool,
    open_world: bool,
}

#[derive(Serialize)]
struct ExampleDescription {
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'static str>,
    input: &'static RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'static RawValue>,
}

fn is_free(cost: &u32) -> bool {
    *cost == 0
}

fn describe_capabilities(capabilities: &Capabilities) -> CapabilitiesDescription {
    CapabilitiesDescription {
        filesystem: if capabilities.workspace { "workspace" } else { "none" },
        network: capabilities.network,
        credentials: capabilities.credentials,
        calls: capabilities.calls,
        messages: capabilities.messages,
        unused: capabilities.unused,
    }
}

fn describe_tool(tool: &ToolFacts, plugin: &PluginFacts) -> Result<ToolDescription, Error> {
    let (output_schema, content) = content::split((tool.output_schema)());
    Ok(ToolDescription {
        name: tool.name,
        description: tool.description,
        usage: tool.usage,
        input_schema: (tool.input_schema)(),
        output_schema: (output_schema.as_bool() != Some(true)).then_some(output_schema),
        content,
        mode: tool.mode,
        hints: complete_hints(&tool.hints, tool.mode, &plugin.capabilities),
        required_integrations: tool.required_integrations,
        prerequisites: tool.prerequisites,
        tags: tool.tags,
        examples: describe_examples(tool)?,
        cost: tool.cost,
        redact: tool.redact,
    })
}

/// Hints that the author did not set follow from the others, with the most cautious value as the default.
fn complete_hints(declared: &Hints, mode: Mode, capabilities: &Capabilities) -> HintsDescription {
    let read_only = declared.read_only.unwrap_or(false);
    // A server tool without network only changes the session's own workspace.
    let is_open = mode == Mode::Client
        || !capabilities.network.is_empty()
        || capabilities.calls
        || capabilities.messages;
    HintsDescription {
        read_only,
        destructive: declared.destructive.unwrap_or(!read_only),
        idempotent: declared.idempotent.unwrap_or(read_only),
        open_world: declared.open_world.unwrap_or(is_open),
    }
}

fn describe_examples(tool: &ToolFacts) -> Result<Vec<ExampleDescription>, Error> {
    let describe = |example: &crate::tool::Example| {
        Ok(ExampleDescription {
            description: example.description,
            input: serde_json::from_str(example.input)?,
            output: example.output.map(serde_json::from_str).transpose()?,
        })
    };
    tool.examples.iter().map(describe).collect()
}
