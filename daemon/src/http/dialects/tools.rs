//! Lists of tools in the formats of model providers and of MCP (M3).
//!
//! Each list is the value of `tools` in a request to that provider. The advertised schema can be weaker than the
//! enforced one: providers refuse a whole request for one schema with a union at its root, so such a root is
//! flattened here into one object with the properties of all alternatives. Arguments are still validated against the
//! original schema.

mod root;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_api::descriptor::{Hints, Mode};
use toolgate_api::session::ToolDefinition;
use utoipa::ToSchema;

/// The format of a tool list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ToolFormat)]
pub enum Format {
    /// Toolgate's own format.
    #[default]
    Toolgate,
    /// OpenAI's chat completions.
    Openai,
    /// OpenAI's responses.
    OpenaiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini's function declarations.
    Gemini,
    /// The Model Context Protocol.
    Mcp,
}

/// A tool as an entry of a list.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The wire name, which a model calls.
    pub name: &'a str,
    /// The tool's name in its original system, if different.
    pub original: Option<&'a str>,
    /// The description: its effect and how to call it.
    pub description: &'a str,
    /// JSON Schema of the arguments.
    pub input: &'a Value,
    /// JSON Schema of the result, if the tool declares one.
    pub output: Option<&'a Value>,
    /// The confirmed hints on its effects.
    pub hints: Hints,
    /// Whether a person must approve each call.
    pub requires_approval: bool,
    /// Whether its calls complete on the server or on the client.
    pub mode: Mode,
}

/// Returns the value of `tools` in the given format.
pub fn list<'a>(format: Format, tools: impl IntoIterator<Item = Listed<'a>>) -> Value {
    let entry = match format {
        Format::Toolgate => toolgate,
        Format::Openai => openai,
        Format::OpenaiResponses => openai_responses,
        Format::Anthropic => anthropic,
        Format::Gemini => gemini,
        Format::Mcp => mcp,
    };
    let entries: Vec<Value> = tools.into_iter().map(entry).collect();
    if format == Format::Gemini && !entries.is_empty() {
        // Gemini takes one tool with all function declarations.
        return json!([{"functionDeclarations": entries}]);
    }
    entries.into()
}

/// Returns the definition of a tool in Toolgate's own format.
pub fn definition(tool: Listed<'_>) -> ToolDefinition {
    ToolDefinition {
        name: tool.name.to_owned(),
        original_name: tool.original.map(str::to_owned),
        description: tool.description.to_owned(),
        input_schema: tool.input.clone(),
        output_schema: tool.output.cloned(),
        read_only: tool.hints.read_only,
        requires_approval: tool.requires_approval,
        mode: tool.mode.as_str().to_owned(),
    }
}

fn toolgate(tool: Listed<'_>) -> Value {
    // Serialization of strings and JSON cannot fail.
    serde_json::to_value(definition(tool)).unwrap_or_default()
}

/// Without `strict`, which takes only schemas that require every property and forbid additional ones.
fn openai(tool: Listed<'_>) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": root::plain(tool.input)},
    })
}

/// `strict` is set to false, since the responses API enables it by default.
fn openai_responses(tool: Listed<'_>) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": root::plain(tool.input),
        "strict": false,
    })
}

fn anthropic(tool: Listed<'_>) -> Value {
    json!({"name": tool.name, "description": tool.description, "input_schema": root::plain(tool.input)})
}

fn gemini(tool: Listed<'_>) -> Value {
    json!({"name": tool.name, "description": tool.description, "parametersJsonSchema": root::plain(tool.input)})
}

/// Omits an output schema whose type is not `object`: an MCP client would refuse the whole list for it.
fn mcp(tool: Listed<'_>) -> Value {
    let mut entry = json!({
        "name": tool.name,
        "description": tool.description,
        "inputSchema": root::of_an_object(tool.input),
        "annotations": {
            "readOnlyHint": tool.hints.read_only,
            "destructiveHint": tool.hints.destructive,
            "idempotentHint": tool.hints.idempotent,
            "openWorldHint": tool.hints.open_world,
        },
    });
    if let Some(original) = tool.original {
        entry["title"] = original.into();
    }
    if let Some(output) = tool.output.filter(|schema| schema["type"] == "object") {
        entry["outputSchema"] = output.clone();
    }
    entry
}

#[cfg(test)]
mod tests;
