//! Lists of tools in the formats of model providers and of MCP (M3, M5).
//!
//! Each list is the value of `tools` in a request to that provider. A schema in it can be weaker than the enforced one: the
//! admission crate writes it in the form that the provider accepts, once, and names the changes. Arguments are validated
//! against the enforced schema. Toolgate's own format has the enforced schemas.

mod description;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use toolgate_admission::{Advertised, Schema, SchemaForm, StrictCost};
use toolgate_api::descriptor::{Hints, Mode};
use toolgate_api::plugin::ToolDetails;
use toolgate_api::session::{LeftOutTool, SchemaChange, ToolList};
use utoipa::ToSchema;

use description::Description;

/// The format of a tool list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = ToolFormat)]
pub(crate) enum Format {
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
pub(crate) struct Listed<'a> {
    /// The wire name, which a model calls.
    pub name: &'a str,
    /// The tool's name in its original system, if different.
    pub original: Option<&'a str>,
    /// The description: its effect and how to call it.
    pub description: &'a str,
    /// Usage, hints as declared, prerequisites, tags and examples.
    pub details: &'a ToolDetails,
    /// JSON Schema of the arguments.
    pub input: &'a Schema,
    /// JSON Schema of the result, if the tool declares one.
    pub output: Option<&'a Schema>,
    /// The confirmed hints on its effects.
    pub hints: Hints,
    /// Whether a person must approve each call.
    pub requires_approval: bool,
    /// Whether its calls complete on the server or on the client.
    pub mode: Mode,
    /// Whether a deferred list leaves it to a search.
    pub deferred: bool,
}

/// The tool of a deferred list that finds the others. The names of tools begin with `call_`, so none has this name.
pub(crate) const FIND_TOOL: &str = "find_tool";

/// The form of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListForm {
    /// The format.
    pub format: Format,
    /// Whether schemas are in the provider's strict form.
    pub strict: bool,
    /// The place of tools that are not always shown.
    pub deferral: Deferral,
}

/// The place of the tools that are not always shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deferral {
    /// In the list.
    None,
    /// Behind a search, which is in the list.
    Search,
    /// In the answer of a search, which this list is.
    Found,
}

impl Format {
    /// Whether the provider has a strict form of schemas.
    pub(crate) fn has_strict_form(self) -> bool {
        matches!(self, Self::Openai | Self::OpenaiResponses | Self::Anthropic)
    }

    /// Whether the provider loads the definitions of tools on demand.
    pub(crate) fn has_deferred_form(self) -> bool {
        matches!(self, Self::OpenaiResponses | Self::Anthropic)
    }

    /// The form of the arguments' schema.
    fn form(self, strict: bool) -> SchemaForm {
        match (self, strict) {
            (Self::Toolgate, _) => SchemaForm::Enforced,
            (Self::Openai | Self::OpenaiResponses, false) => SchemaForm::OpenAi,
            (Self::Openai | Self::OpenaiResponses, true) => SchemaForm::OpenAiStrict,
            (Self::Anthropic, false) => SchemaForm::Anthropic,
            (Self::Anthropic, true) => SchemaForm::AnthropicStrict,
            (Self::Gemini, _) => SchemaForm::Gemini,
            (Self::Mcp, _) => SchemaForm::McpInput,
        }
    }
}

/// Lists tools in the given form. A tool that the provider would refuse is left out.
pub(crate) fn list<'a>(form: ListForm, tools: impl IntoIterator<Item = Listed<'a>>) -> ToolList {
    let ListForm { format, deferral, .. } = form;
    let mut entries = Vec::new();
    if deferral == Deferral::Search {
        entries.push(Entry::search(format));
    }
    let mut list = ToolList { tools: Box::default(), changed: Vec::new(), left_out: Vec::new() };
    let mut budget = StrictBudget::of(format);
    // Anthropic takes the definitions of found tools with the list, OpenAI with the answer of the search.
    let is_elsewhere = |tool: &Listed<'_>| {
        format == Format::OpenaiResponses && deferral == Deferral::Search && tool.deferred
    };
    let tools: Vec<Listed<'a>> = tools.into_iter().filter(|tool| !is_elsewhere(tool)).collect();
    let mut places = ToolBudget::of(format, entries.len(), &tools);
    for tool in tools {
        match places.check(&tool).and_then(|()| entry(form, tool, &mut budget, &mut list.changed)) {
            Ok(entry) => {
                *places.places(&tool) -= 1;
                entries.push(entry);
            }
            Err(reason) => list.left_out.push(LeftOutTool { tool: tool.name.to_owned(), reason }),
        }
    }
    let tools = match format {
        // Gemini takes one tool with all function declarations.
        Format::Gemini if !entries.is_empty() => to_raw_value(&[FunctionDeclarations { entries }]),
        _ => to_raw_value(&entries),
    };
    // Serialization of strings and JSON cannot fail.
    list.tools = tools.unwrap_or_default();
    list
}

/// Returns a tool as an entry, and adds the changes of its schemas. The error says why the provider would refuse it.
fn entry<'a>(
    form: ListForm,
    tool: Listed<'a>,
    budget: &mut StrictBudget,
    changed: &mut Vec<SchemaChange>,
) -> Result<Entry<'a>, String> {
    let ListForm { format, strict, deferral } = form;
    let mut advertised = tool.input.advertised_form(format.form(strict))?;
    if format == Format::Anthropic && deferral == Deferral::Found {
        return Ok(Entry::Reference { r#type: "tool_reference", tool_name: tool.name });
    }
    let mut refusal = None;
    if let Some(cost) = &advertised.strict
        && let Err(reason) = budget.spend(cost)
    {
        advertised = tool.input.advertised_form(SchemaForm::Anthropic)?;
        refusal = Some(format!("not strict: {reason}"));
    }
    let mut add = |pointer: &str, change: &str| {
        changed.push(SchemaChange {
            tool: tool.name.to_owned(),
            pointer: pointer.to_owned(),
            change: change.to_owned(),
        });
    };
    advertised.changes.iter().for_each(|change| add(&change.pointer, &change.change));
    refusal.iter().for_each(|reason| add("", reason));
    let mut output = None;
    if let Some(schema) = tool.output.filter(|_| matches!(format, Format::Toolgate | Format::Mcp)) {
        match output_form(format, schema) {
            Ok(schema) => {
                schema.changes.iter().for_each(|change| {
                    add(&format!("/outputSchema{}", change.pointer), &change.change);
                });
                output = Some(&*schema.json);
            }
            Err(reason) => add("/outputSchema", &format!("left out: {reason}")),
        }
    }
    let Description { text, change } = description::write(format, &tool, advertised);
    change.iter().for_each(|change| add("/description", change));
    let deferred = tool.deferred && deferral != Deferral::None;
    Ok(Entry::of(format, Listed { deferred, ..tool }, text, advertised, output))
}

/// An MCP client refuses the whole list for an output schema whose type is not `object`.
fn output_form(format: Format, schema: &Schema) -> Result<&Advertised, &str> {
    match format {
        Format::Toolgate => schema.advertised_form(SchemaForm::Enforced),
        _ if schema.source()["type"] == "object" => schema.advertised_form(SchemaForm::McpOutput),
        _ => Err("its type is not `object`"),
    }
}

/// Most tools of a request to OpenAI, and most function declarations of one to Gemini
/// (<https://platform.openai.com/docs/api-reference/chat/create>,
/// <https://cloud.google.com/vertex-ai/generative-ai/docs/multimodal/function-calling>).
const TOOLS_MAX: usize = 128;

/// The rest of the tools that one request takes. Tools that are always shown come before the others.
struct ToolBudget {
    always_shown: usize,
    others: usize,
}

impl ToolBudget {
    fn of(format: Format, taken: usize, tools: &[Listed<'_>]) -> Self {
        let limit = match format {
            Format::Openai | Format::OpenaiResponses | Format::Gemini => TOOLS_MAX,
            Format::Toolgate | Format::Anthropic | Format::Mcp => usize::MAX,
        };
        let left = limit.saturating_sub(taken);
        let always_shown = tools.iter().filter(|tool| !tool.deferred).count().min(left);
        Self { always_shown, others: left - always_shown }
    }

    fn places(&mut self, tool: &Listed<'_>) -> &mut usize {
        if tool.deferred { &mut self.others } else { &mut self.always_shown }
    }

    /// Returns an error if there is no place for the tool.
    fn check(&mut self, tool: &Listed<'_>) -> Result<(), String> {
        match *self.places(tool) {
            0 => Err(format!(
                "the provider takes {TOOLS_MAX} tools in a request: enable fewer, or select those for a message"
            )),
            _ => Ok(()),
        }
    }
}

/// The rest of the limits of one request for strict schemas.
struct StrictBudget {
    tools: usize,
    optional: usize,
    unions: usize,
}

impl StrictBudget {
    /// Anthropic takes 20 strict tools, with 24 optional properties and 16 unions together
    /// (<https://platform.claude.com/docs/en/build-with-claude/structured-outputs>). OpenAI limits each schema alone.
    fn of(format: Format) -> Self {
        match format {
            Format::Anthropic => Self { tools: 20, optional: 24, unions: 16 },
            _ => Self { tools: usize::MAX, optional: usize::MAX, unions: usize::MAX },
        }
    }

    /// Spends the cost of a strict tool. The error says which limit the request would exceed.
    fn spend(&mut self, cost: &StrictCost) -> Result<(), &'static str> {
        let tools = self.tools.checked_sub(1).ok_or("Anthropic takes 20 strict tools in a request")?;
        let optional = self.optional.checked_sub(cost.optional);
        let optional =
            optional.ok_or("Anthropic takes 24 optional properties of strict tools in a request")?;
        let unions = self.unions.checked_sub(cost.unions);
        let unions = unions.ok_or("Anthropic takes 16 unions of strict tools in a request")?;
        *self = Self { tools, optional, unions };
        Ok(())
    }
}

/// A tool in a provider's format.
#[derive(Serialize)]
#[serde(untagged)]
enum Entry<'a> {
    Toolgate(Definition<'a>),
    OpenAi {
        r#type: &'static str,
        function: Function<'a>,
    },
    Responses {
        r#type: &'static str,
        name: &'a str,
        description: Cow<'a, str>,
        parameters: &'a RawValue,
        /// The responses API enables it by default.
        strict: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        defer_loading: bool,
    },
    ResponsesSearch {
        r#type: &'static str,
        execution: &'static str,
        description: &'static str,
        parameters: Value,
    },
    Anthropic {
        name: &'a str,
        description: Cow<'a, str>,
        input_schema: &'a RawValue,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        input_examples: Vec<&'a Value>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        strict: bool,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        defer_loading: bool,
    },
    AnthropicSearch {
        name: &'static str,
        description: &'static str,
        input_schema: Value,
    },
    Reference {
        r#type: &'static str,
        tool_name: &'a str,
    },
    Gemini {
        name: &'a str,
        description: Cow<'a, str>,
        #[serde(rename = "parametersJsonSchema")]
        parameters: &'a RawValue,
    },
    Mcp(McpTool<'a>),
}

/// A [`ToolDefinition`](toolgate_api::session::ToolDefinition) of borrowed parts.
#[derive(Serialize)]
struct Definition<'a> {
    name: &'a str,
    original_name: Option<&'a str>,
    description: Cow<'a, str>,
    input_schema: &'a RawValue,
    output_schema: Option<&'a RawValue>,
    read_only: bool,
    requires_approval: bool,
    mode: &'static str,
    #[serde(flatten)]
    details: &'a ToolDetails,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: Cow<'a, str>,
    parameters: &'a RawValue,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    strict: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct McpTool<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    description: Cow<'a, str>,
    input_schema: &'a RawValue,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<&'a RawValue>,
    annotations: McpAnnotations,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct McpAnnotations {
    read_only_hint: bool,
    destructive_hint: bool,
    idempotent_hint: bool,
    open_world_hint: bool,
}

#[derive(Serialize)]
struct FunctionDeclarations<'a> {
    #[serde(rename = "functionDeclarations")]
    entries: Vec<Entry<'a>>,
}

impl<'a> Entry<'a> {
    /// The search of a deferred list.
    fn search(format: Format) -> Self {
        let description =
            "Finds tools for a task. Describe the task in a few words; the tools that fit become callable.";
        let parameters = json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": "The task of the tool, in a few words."}},
            "required": ["query"],
            "additionalProperties": false,
        });
        match format {
            Format::OpenaiResponses => {
                Self::ResponsesSearch { r#type: "tool_search", execution: "client", description, parameters }
            }
            _ => Self::AnthropicSearch { name: FIND_TOOL, description, input_schema: parameters },
        }
    }

    fn of(
        format: Format,
        tool: Listed<'a>,
        description: Cow<'a, str>,
        input: &'a Advertised,
        output: Option<&'a RawValue>,
    ) -> Self {
        let Listed { name, hints, deferred: defer_loading, .. } = tool;
        let (schema, strict) = (&*input.json, input.strict.is_some());
        match format {
            Format::Toolgate => Self::Toolgate(Definition {
                name,
                original_name: tool.original,
                description,
                input_schema: schema,
                output_schema: output,
                read_only: hints.read_only,
                requires_approval: tool.requires_approval,
                mode: tool.mode.as_str(),
                details: tool.details,
            }),
            Format::Openai => Self::OpenAi {
                r#type: "function",
                function: Function { name, description, parameters: schema, strict },
            },
            Format::OpenaiResponses => Self::Responses {
                r#type: "function",
                name,
                description,
                parameters: schema,
                strict,
                defer_loading,
            },
            Format::Anthropic => {
                let input_examples = description::anthropic_examples(&tool, input);
                Self::Anthropic {
                    name,
                    description,
                    input_schema: schema,
                    input_examples,
                    strict,
                    defer_loading,
                }
            }
            Format::Gemini => Self::Gemini { name, description, parameters: schema },
            Format::Mcp => Self::Mcp(McpTool {
                name,
                title: tool.original,
                description,
                input_schema: schema,
                output_schema: output,
                annotations: McpAnnotations {
                    read_only_hint: hints.read_only,
                    destructive_hint: hints.destructive,
                    idempotent_hint: hints.idempotent,
                    open_world_hint: hints.open_world,
                },
            }),
        }
    }
}

#[cfg(test)]
mod tests;
