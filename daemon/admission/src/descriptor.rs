//! Descriptor of a plugin: the answer of `describe` (T1) with its schemas compiled and its names checked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolgate_api::descriptor::{
    DescriptionSource, Example, Hints, LeftOut, Mode, PluginDescription, RateLimit, ToolDescription,
};
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::json::parse_strict;
use toolgate_api::limits::{LimitsPatch, PLUGIN_BYTES, PLUGIN_SUBSCHEMAS};
use toolgate_api::name::{Namespace, ToolId, ToolName, WireName};
use toolgate_api::read::{ReadError, pointer, read_lenient};
use toolgate_api::text::escape_for_display;

use crate::annotation::with_annotated;
use crate::schema::{Schema, SchemaRole};

/// Deepest nesting of a plugin's description: a schema may have 32 subschemas inside each other, at two levels each and some levels down.
const DESCRIBE_DEPTH: u64 = 96;
/// Unknown fields that are reported by name.
const UNKNOWN_FIELDS: usize = 100;

/// A plugin as it describes itself.
#[derive(Clone, Debug)]
pub struct Descriptor {
    /// Its name.
    pub namespace: Namespace,
    /// Its version, as it says.
    pub version: String,
    /// Publisher, as the plugin states.
    pub publisher: Option<String>,
    /// Category for catalogues.
    pub category: Option<String>,
    /// Purpose, in a sentence.
    pub purpose: Option<String>,
    /// Requested capabilities.
    pub capabilities: Capabilities,
    /// How many calls the service behind it takes.
    pub rate_limit: Option<RateLimit>,
    /// The schema of an organization's settings.
    pub config_schema: Option<Arc<Schema>>,
    /// JSON pointers of the settings that the schema marks as secret.
    pub config_secrets: Vec<String>,
    /// Limits that it sets itself, narrower than the platform's.
    pub limits: LimitsPatch,
    /// Its tools, at least one, in the order it gave them.
    pub tools: Vec<ToolDescriptor>,
    /// JSON pointers of fields that were ignored because this host does not know them.
    pub unknown_fields: Vec<String>,
    /// Functions of its component that are no tools, of a component without the plugin contract.
    pub left_out: Vec<LeftOut>,
    /// Whether its settings are those of its grant: its component has no plugin contract.
    pub has_granted_settings: bool,
    /// Whether its component asks for settings: it imports `wasi:config/store`.
    pub asks_for_settings: bool,
}

/// One tool as its plugin describes it.
#[derive(Clone, Debug)]
pub struct ToolDescriptor {
    /// `namespace/tool`.
    pub id: ToolId,
    /// Its name within the plugin.
    pub name: ToolName,
    /// Function name that a model calls.
    pub wire: WireName,
    /// Its name where it comes from, if that is another: no other tool of the plugin is meant by it.
    pub original_name: Option<Arc<str>>,
    /// Description, from which a model chooses a tool.
    pub description: String,
    /// The origin of the description.
    pub description_source: DescriptionSource,
    /// How to call it well, for a model that has chosen.
    pub usage: String,
    /// The schema of its arguments.
    pub input: Arc<Schema>,
    /// The schema of its result; none means any JSON.
    pub output: Option<Arc<Schema>>,
    /// Whether its results have content blocks beside the output.
    pub content: bool,
    /// Execution mode.
    pub mode: Mode,
    /// Hints about its effects.
    pub hints: Hints,
    /// Integrations that the organization must have connected.
    pub required_integrations: Vec<String>,
    /// Steps that a person must complete first, in words.
    pub prerequisites: Vec<String>,
    /// Words to find it by.
    pub tags: Vec<String>,
    /// Sample calls.
    pub examples: Vec<Example>,
    /// Units that a call costs.
    pub cost: u64,
    /// JSON pointers into the arguments that logs must not show.
    pub redact: Vec<String>,
    /// JSON text that comes back to the component with each call: its part of the definition that the plugin is made by.
    pub definition: Option<Arc<str>>,
}

impl Descriptor {
    /// Parses the answer of `describe`.
    pub fn parse(json: &str) -> Result<Self, ReadError> {
        if json.len() > PLUGIN_BYTES {
            let message =
                format!("the description has {} bytes, more than the {PLUGIN_BYTES} allowed", json.len());
            let hint = "shorten texts and schemas, or make two plugins of it";
            return Err(ReadError::new("", message, hint));
        }
        let value = parse_strict(json, DESCRIBE_DEPTH).map_err(|error| {
            let hint = "`describe` answers one JSON object, see `wit/describe.schema.json`";
            let message = format!("the description is not acceptable JSON: {error}");
            ReadError::new(error.pointer.clone(), message, hint)
        })?;
        let (description, mut unknown_fields) = read_lenient::<PluginDescription>(&value)?;
        unknown_fields.truncate(UNKNOWN_FIELDS);
        let descriptor = Self::compile(description, unknown_fields)?;
        descriptor.check_schemas()?;
        Ok(descriptor)
    }

    fn compile(description: PluginDescription, unknown_fields: Vec<String>) -> Result<Self, ReadError> {
        if description.capabilities.mixes_powers() {
            let message = "a plugin that asks for `calls` or `messages` asks for more";
            let hint = "make another plugin of the part that needs more; a script can call its tools";
            return Err(ReadError::new("/capabilities", message, hint));
        }
        let PluginDescription { namespace, config_schema, tools, .. } = description;
        let config_secrets = config_schema.as_ref().map(|schema| with_annotated(Vec::new(), schema));
        let config =
            config_schema.map(|schema| compile_schema("/config_schema", &schema, SchemaRole::Output));
        Ok(Self {
            version: description.version,
            publisher: description.publisher,
            category: description.category,
            purpose: description.purpose,
            capabilities: description.capabilities,
            rate_limit: description.rate_limit,
            config_schema: config.transpose()?,
            config_secrets: config_secrets.unwrap_or_default(),
            limits: description.limits,
            tools: compile_tools(&namespace, tools)?,
            unknown_fields,
            left_out: Vec::new(),
            has_granted_settings: false,
            asks_for_settings: false,
            namespace,
        })
    }

    /// The tool of that name, or original name.
    pub fn tool(&self, name: &str) -> Option<&ToolDescriptor> {
        let is_it = |tool: &&ToolDescriptor| {
            tool.name.as_str() == name || tool.original_name.as_deref() == Some(name)
        };
        self.tools.iter().find(is_it)
    }

    /// The descriptor with the descriptions, hints and settings of an operator's grant instead of its own.
    pub fn with_grant(&self, grant: &Grant) -> Self {
        let mut described = self.clone();
        if self.has_granted_settings && !grant.settings.is_empty() {
            // It compiles: it has texts alone.
            described.config_schema =
                Schema::compile(&settings_schema(&grant.settings), SchemaRole::Output).ok().map(Arc::new);
        }
        for tool in &mut described.tools {
            if let Some(description) = grant.descriptions.get(tool.name.as_str()) {
                tool.description.clone_from(description);
                tool.description_source = DescriptionSource::Operator;
            }
            if let Some(hints) = grant.hints.get(tool.name.as_str()) {
                tool.hints = *hints;
            }
        }
        described
    }

    /// Writes the schemas of all tools in the forms of lists (M5). Schemas that are written already cost nothing.
    pub fn write_forms(&self) {
        for tool in &self.tools {
            tool.input.write_forms();
            tool.output.iter().for_each(|schema| schema.write_forms());
        }
    }

    fn check_schemas(&self) -> Result<(), ReadError> {
        let schemas = self.tools.iter().flat_map(|tool| [Some(&tool.input), tool.output.as_ref()]).flatten();
        let nodes: u64 = schemas.chain(&self.config_schema).map(|schema| schema.nodes()).sum();
        if nodes <= PLUGIN_SUBSCHEMAS {
            return Ok(());
        }
        let message = format!(
            "the schemas have {nodes} subschemas together, more than the {PLUGIN_SUBSCHEMAS} allowed"
        );
        let hint = "make two plugins of it, or describe less in the schemas";
        Err(ReadError::new("/tools", message, hint))
    }
}

/// The schema of settings that a grant names.
fn settings_schema(settings: &BTreeMap<String, String>) -> Value {
    let properties: Map<String, Value> = settings
        .iter()
        .map(|(name, text)| (name.clone(), json!({"type": "string", "default": text})))
        .collect();
    json!({"type": "object", "properties": properties, "additionalProperties": false})
}

fn compile_tools(
    namespace: &Namespace,
    tools: Vec<ToolDescription>,
) -> Result<Vec<ToolDescriptor>, ReadError> {
    let mut names = BTreeSet::new();
    let mut compiled = Vec::with_capacity(tools.len());
    for (index, tool) in tools.into_iter().enumerate() {
        let place = pointer("/tools", &index.to_string());
        let tool = ToolDescriptor::compile(&place, namespace, tool)?;
        if !names.insert(tool.name.clone()) {
            let message = format!("the tool `{}` is described twice", tool.name);
            return Err(ReadError::new(place, message, "give each tool its own name"));
        }
        compiled.push(tool);
    }
    check_originals(&compiled, &names)?;
    Ok(compiled)
}

fn compile_schema(
    place: &str,
    schema: &serde_json::Value,
    role: SchemaRole,
) -> Result<Arc<Schema>, ReadError> {
    Schema::compile(schema, role)
        .map(Arc::new)
        .map_err(|error| ReadError::new(format!("{place}{}", error.pointer), error.message, error.hint))
}

/// An original name is another way to call a tool, so it may not be one to call another tool.
fn check_originals(tools: &[ToolDescriptor], names: &BTreeSet<ToolName>) -> Result<(), ReadError> {
    let mut originals = BTreeSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let Some(original) = tool.original_name.as_deref() else { continue };
        // As called names are read: in either case of letters.
        let read = ToolName::parse(&original.to_ascii_lowercase()).ok();
        let is_anothers = read.is_some_and(|read| read != tool.name && names.contains(&read));
        if is_anothers || !originals.insert(original) {
            let message = format!(
                "another tool is called by the original name `{}` too",
                escape_for_display(original, 80)
            );
            let place = pointer("/tools", &index.to_string());
            return Err(ReadError::new(place, message, "leave both tools out, or one of them"));
        }
    }
    Ok(())
}

impl ToolDescriptor {
    fn compile(place: &str, namespace: &Namespace, tool: ToolDescription) -> Result<Self, ReadError> {
        let id = ToolId { namespace: namespace.clone(), tool: tool.name.clone() };
        let wire =
            id.wire().map_err(|error| ReadError::new(format!("{place}/name"), error.message, error.hint))?;
        let output_place = format!("{place}/output_schema");
        let output =
            tool.output_schema.map(|schema| compile_schema(&output_place, &schema, SchemaRole::Output));
        Ok(Self {
            id,
            wire,
            original_name: tool
                .original_name
                .filter(|original| *original != tool.name.as_str())
                .map(Arc::from),
            name: tool.name,
            description: tool.description,
            description_source: DescriptionSource::Plugin,
            usage: tool.usage,
            input: compile_schema(&format!("{place}/input_schema"), &tool.input_schema, SchemaRole::Input)?,
            output: output.transpose()?,
            content: tool.content,
            mode: tool.mode,
            hints: tool.hints,
            required_integrations: tool.required_integrations,
            prerequisites: tool.prerequisites,
            tags: tool.tags,
            examples: tool.examples,
            cost: tool.cost.into(),
            redact: with_annotated(tool.redact, &tool.input_schema),
            definition: tool.definition.map(|definition| definition.to_string().into()),
        })
    }
}

#[cfg(test)]
mod tests;
