//! Lists of tools in the forms that model providers and MCP take (M3).
//!
//! Each list is what stands under `tools` in a request to that provider. What is advertised can be less than what is
//! enforced: providers refuse a whole request for one schema with a union at its root, so such a root is made plain
//! here, with the properties of its alternatives side by side; the check of arguments goes on by the schema itself.

mod root;

use serde::Deserialize;
use serde_json::{Value, json};
use toolgate_admission::{Hints, Mode};
use utoipa::ToSchema;

/// The form of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ToolFormat)]
pub enum Format {
    /// Our own.
    #[default]
    Toolgate,
    /// OpenAI's chat completions.
    Openai,
    /// OpenAI's responses.
    OpenaiResponses,
    /// Anthropic's messages.
    Anthropic,
    /// Gemini.
    Gemini,
    /// The Model Context Protocol.
    Mcp,
}

/// A tool as a list tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// What a model calls it.
    pub name: &'a str,
    /// Its name where it comes from, if that is another.
    pub original: Option<&'a str>,
    /// What it does, and how to call it well.
    pub description: &'a str,
    /// JSON Schema of the arguments.
    pub input: &'a Value,
    /// JSON Schema of the result, where it declares one.
    pub output: Option<&'a Value>,
    /// What is confirmed of its effects.
    pub hints: Hints,
    /// Whether a person must approve each call.
    pub requires_approval: bool,
    /// Where its calls end.
    pub mode: Mode,
}

/// What stands under `tools`.
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
        // One tool that has all functions.
        return json!([{"functionDeclarations": entries}]);
    }
    entries.into()
}

fn toolgate(tool: Listed<'_>) -> Value {
    json!({
        "name": tool.name,
        "original_name": tool.original,
        "description": tool.description,
        "input_schema": tool.input,
        "output_schema": tool.output,
        "read_only": tool.hints.read_only,
        "requires_approval": tool.requires_approval,
        "mode": tool.mode.as_str(),
    })
}

/// Not `strict`: that takes only schemas in which every property is required and nothing else may be there.
fn openai(tool: Listed<'_>) -> Value {
    json!({
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": root::plain(tool.input)},
    })
}

/// `strict` is on here unless it is switched off.
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

/// An output schema that is not of an object is left out: a client would refuse the whole list for it.
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
