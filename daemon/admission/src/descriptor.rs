//! Descriptor of a plugin: the JSON of `describe` as typed data (T1, `wit/describe.schema.json`).
//!
//! A model reads most of its text, so the text must not contain hidden characters. Names, schemas and limits are
//! parsed into their own types here, once. An unknown field is ignored and reported, since newer plugins must load on
//! older hosts; a known field with an invalid value is an error with its JSON pointer.
//!
//! The entry point, [`Descriptor::parse`], parses every field in order; `read.rs` has the parsers of single fields.

mod capabilities;
mod read;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;
use toolgate_api::text::escape_for_display;

pub use capabilities::{Capabilities, FilesystemAccess};

use crate::arguments::parse_strict;
use crate::error::{CallError, ErrorType};
use crate::limits::{Limits, LimitsPatch};
use crate::name::{Namespace, ToolId, ToolName, WireName};
use crate::rules::{Warning, limits_without_effect};
use crate::schema::{Schema, SchemaRole};
use read::Place;

/// Longest description of a plugin as JSON text: a thousand tools with ample schemas.
const DESCRIBE_BYTES: usize = 4 * 1024 * 1024;
/// Deepest nesting of it: a schema may have 32 subschemas inside each other, at two levels each and some levels down.
const DESCRIBE_DEPTH: u64 = 96;
/// Most tools of one plugin.
const TOOLS: usize = 1_000;
/// Longest name of a tool where it comes from.
const ORIGINAL_CHARS: usize = 256;
/// Longest JSON pointer to what logs must not show.
const POINTER_CHARS: usize = 1_000;
/// Most entries of a list of tags, examples and the like.
const LIST: usize = 100;
/// Subschemas of one plugin, references replaced: at some hundred bytes each this bounds what a plugin of a
/// few megabytes can make the daemon hold.
const SCHEMA_NODES: u64 = 100_000;
/// Most calls and most seconds of a rate: beyond a million calls or a day no service counts.
const RATE_CALLS: u32 = 1_000_000;
const RATE_SECONDS: u32 = 86_400;
/// Unknown fields that are reported by name.
const UNKNOWN_FIELDS: usize = 100;

/// A plugin as it describes itself.
#[derive(Debug)]
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
    pub config_schema: Option<Schema>,
    /// Limits that it sets itself, narrower than the platform's.
    pub limits: LimitsPatch,
    /// Its tools, at least one, in the order it gave them.
    pub tools: Vec<ToolDescriptor>,
    /// JSON pointers of fields that were ignored because this host does not know them.
    pub unknown_fields: Vec<String>,
}

/// One tool as its plugin describes it.
#[derive(Debug)]
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
    /// How to call it well, for a model that has chosen.
    pub usage: String,
    /// The schema of its arguments.
    pub input: Schema,
    /// The schema of its result; none means any JSON.
    pub output: Option<Schema>,
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
    /// JSON pointers into the arguments that logs must not show.
    pub redact: Vec<String>,
    /// JSON text that comes back to the component with each call: its part of the definition that the plugin is made by.
    pub definition: Option<Arc<str>>,
}

/// How many calls a service takes: so many in so many seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// At least 1.
    pub calls: u32,
    /// At least 1.
    pub seconds: u32,
}

/// Execution mode of a tool: the place where its calls end (T3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// In the sandbox: the result is final.
    Server,
    /// At the orchestrator's client, which performs a prepared payload.
    Client,
}

impl Mode {
    /// As documents write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// Hints of a tool about its effects. The default is the cautious value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hints {
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy something.
    pub destructive: bool,
    /// The same call twice does no more than once.
    pub idempotent: bool,
    /// Reaches beyond this system.
    pub open_world: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}

/// One sample call.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Subject of the example.
    pub description: Option<String>,
    /// The arguments.
    pub input: Value,
    /// The result.
    pub output: Option<Value>,
}

/// Why a description is not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (`{place}`)")]
pub struct DescriptorError {
    /// Always [`ErrorType::InvalidPlugin`].
    pub code: ErrorType,
    /// JSON pointer into the description; empty for the whole.
    pub place: String,
    /// The error, in one line.
    pub message: String,
    /// The fix.
    pub hint: String,
}

impl DescriptorError {
    fn new(place: impl Into<String>, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            code: ErrorType::InvalidPlugin,
            place: place.into(),
            message: message.into(),
            hint: hint.into(),
        }
    }
}

impl From<DescriptorError> for CallError {
    fn from(error: DescriptorError) -> Self {
        CallError::new(error.code, error.to_string(), error.hint).with_pointer(error.place)
    }
}

impl Descriptor {
    /// Reads what `describe` answered.
    pub fn parse(json: &str) -> Result<Self, DescriptorError> {
        if json.len() > DESCRIBE_BYTES {
            let message =
                format!("the description has {} bytes, more than the {DESCRIBE_BYTES} allowed", json.len());
            return Err(DescriptorError::new(
                "",
                message,
                "shorten texts and schemas, or make two plugins of it",
            ));
        }
        let value = parse_strict(json, DESCRIBE_DEPTH).map_err(|error| {
            let hint = "`describe` answers one JSON object, see `wit/describe.schema.json`";
            DescriptorError::new(
                error.pointer.clone(),
                format!("the description is not acceptable JSON: {error}"),
                hint,
            )
        })?;
        let mut unknown_fields = Vec::new();
        let descriptor = Self::read(&Place::root(&value), &mut unknown_fields)?;
        descriptor.check_schemas()?;
        unknown_fields.truncate(UNKNOWN_FIELDS);
        Ok(Self { unknown_fields, ..descriptor })
    }

    /// Returns warnings about valid values that are probably mistakes, under the limits of the platform.
    pub fn warnings(&self, platform: &Limits) -> Vec<Warning> {
        limits_without_effect(&self.limits, platform).collect()
    }

    /// The tool of that name, or original name.
    pub fn tool(&self, name: &str) -> Option<&ToolDescriptor> {
        let is_it = |tool: &&ToolDescriptor| {
            tool.name.as_str() == name || tool.original_name.as_deref() == Some(name)
        };
        self.tools.iter().find(is_it)
    }

    fn check_schemas(&self) -> Result<(), DescriptorError> {
        let schemas = self.tools.iter().flat_map(|tool| [Some(&tool.input), tool.output.as_ref()]).flatten();
        let nodes: u64 = schemas.chain(&self.config_schema).map(Schema::nodes).sum();
        if nodes <= SCHEMA_NODES {
            return Ok(());
        }
        let message =
            format!("the schemas have {nodes} subschemas together, more than the {SCHEMA_NODES} allowed");
        Err(DescriptorError::new(
            "/tools",
            message,
            "make two plugins of it, or describe less in the schemas",
        ))
    }

    fn read(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<Self, DescriptorError> {
        let known = [
            "name",
            "version",
            "publisher",
            "category",
            "purpose",
            "capabilities",
            "rate_limit",
            "config_schema",
            "limits",
            "tools",
        ];
        place.object(&known, unknown)?;
        let name = place.required("name")?;
        let namespace =
            Namespace::parse(name.str()?).map_err(|error| name.refuse(error.message, error.hint))?;
        Ok(Self {
            version: place.required("version")?.word(64)?,
            publisher: place.optional("publisher").map(|place| place.text(200)).transpose()?,
            category: place.optional("category").map(|place| place.text(100)).transpose()?,
            purpose: place.optional("purpose").map(|place| place.text(2_000)).transpose()?,
            capabilities: match place.optional("capabilities") {
                Some(place) => capabilities::read(&place, unknown)?,
                None => Capabilities::default(),
            },
            rate_limit: place.optional("rate_limit").map(|place| read_rate(&place, unknown)).transpose()?,
            config_schema: place
                .optional("config_schema")
                .map(|place| place.schema(SchemaRole::Output))
                .transpose()?,
            limits: place.optional("limits").map(|place| place.limits()).transpose()?.unwrap_or_default(),
            tools: read_tools(&place.required("tools")?, &namespace, unknown)?,
            unknown_fields: Vec::new(),
            namespace,
        })
    }
}

fn read_tools(
    place: &Place<'_>,
    namespace: &Namespace,
    unknown: &mut Vec<String>,
) -> Result<Vec<ToolDescriptor>, DescriptorError> {
    let items = place.items(TOOLS)?;
    if items.is_empty() {
        return Err(place.refuse("the plugin has no tools", "describe at least one tool"));
    }
    let mut names = BTreeSet::new();
    let mut tools = Vec::with_capacity(items.len());
    for item in &items {
        let tool = ToolDescriptor::read(item, namespace, unknown)?;
        if !names.insert(tool.name.clone()) {
            let message = format!("the tool `{}` is described twice", tool.name);
            return Err(item.refuse(message, "give each tool its own name"));
        }
        tools.push(tool);
    }
    check_originals(&items, &tools, &names)?;
    Ok(tools)
}

/// An original name is another way to call a tool, so it may not be one to call another tool.
fn check_originals(
    items: &[Place<'_>],
    tools: &[ToolDescriptor],
    names: &BTreeSet<ToolName>,
) -> Result<(), DescriptorError> {
    let mut originals = BTreeSet::new();
    for (item, tool) in items.iter().zip(tools) {
        let Some(original) = tool.original_name.as_deref() else { continue };
        // As called names are read: in either case of letters.
        let read = ToolName::parse(&original.to_ascii_lowercase()).ok();
        let is_anothers = read.is_some_and(|read| read != tool.name && names.contains(&read));
        if is_anothers || !originals.insert(original) {
            let message = format!(
                "another tool is called by the original name `{}` too",
                escape_for_display(original, 80)
            );
            return Err(item.refuse(message, "leave both tools out, or one of them"));
        }
    }
    Ok(())
}

impl ToolDescriptor {
    fn read(
        place: &Place<'_>,
        namespace: &Namespace,
        unknown: &mut Vec<String>,
    ) -> Result<Self, DescriptorError> {
        let known = [
            "name",
            "original_name",
            "description",
            "usage",
            "input_schema",
            "output_schema",
            "mode",
            "hints",
            "required_integrations",
            "prerequisites",
            "tags",
            "examples",
            "redact",
            "definition",
        ];
        place.object(&known, unknown)?;
        let name_place = place.required("name")?;
        let name = ToolName::parse(name_place.str()?)
            .map_err(|error| name_place.refuse(error.message, error.hint))?;
        let id = ToolId { namespace: namespace.clone(), tool: name.clone() };
        Ok(Self {
            wire: id.wire().map_err(|error| name_place.refuse(error.message, error.hint))?,
            original_name: place
                .optional("original_name")
                .map(|place| place.text(ORIGINAL_CHARS).map(Arc::from))
                .transpose()?
                .filter(|original: &Arc<str>| **original != *name.as_str()),
            id,
            name,
            description: place.required("description")?.text(4_096)?,
            usage: place.required("usage")?.text(16_384)?,
            input: place.required("input_schema")?.schema(SchemaRole::Input)?,
            output: place
                .optional("output_schema")
                .map(|place| place.schema(SchemaRole::Output))
                .transpose()?,
            mode: place.optional("mode").map(|place| read_mode(&place)).transpose()?.unwrap_or(Mode::Server),
            hints: place
                .optional("hints")
                .map(|place| read_hints(&place, unknown))
                .transpose()?
                .unwrap_or_default(),
            required_integrations: place.list("required_integrations", LIST, |item| item.word(100))?,
            prerequisites: place.list("prerequisites", LIST, |item| item.text(1_000))?,
            tags: place.list("tags", LIST, |item| item.text(100))?,
            examples: place.list("examples", LIST, |item| read_example(item, unknown))?,
            redact: place.list("redact", LIST, read_pointer)?,
            definition: place.optional("definition").map(|place| place.value().to_string().into()),
        })
    }
}

fn read_rate(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<RateLimit, DescriptorError> {
    place.object(&["calls", "seconds"], unknown)?;
    let number = |name, most: u32| {
        let number = place.required(name)?.number(1, u64::from(most))?;
        Ok(u32::try_from(number).unwrap_or(most))
    };
    Ok(RateLimit { calls: number("calls", RATE_CALLS)?, seconds: number("seconds", RATE_SECONDS)? })
}

fn read_mode(place: &Place<'_>) -> Result<Mode, DescriptorError> {
    match place.str()? {
        "server" => Ok(Mode::Server),
        "client" => Ok(Mode::Client),
        other => Err(place.refuse(
            format!("`{}` is not a mode", escape_for_display(other, 40)),
            "write `server` or `client`",
        )),
    }
}

fn read_hints(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<Hints, DescriptorError> {
    place.object(&["read_only", "destructive", "idempotent", "open_world"], unknown)?;
    let careful = Hints::default();
    let flag = |name, otherwise| place.optional(name).map_or(Ok(otherwise), |place: Place<'_>| place.bool());
    Ok(Hints {
        read_only: flag("read_only", careful.read_only)?,
        destructive: flag("destructive", careful.destructive)?,
        idempotent: flag("idempotent", careful.idempotent)?,
        open_world: flag("open_world", careful.open_world)?,
    })
}

fn read_example(place: &Place<'_>, unknown: &mut Vec<String>) -> Result<Example, DescriptorError> {
    place.object(&["description", "input", "output"], unknown)?;
    let input = place.required("input")?;
    if !input.value().is_object() {
        return Err(input.refuse("the input of an example is not an object", "write the arguments of a call"));
    }
    input.visible()?;
    let output = place.optional("output");
    output.as_ref().map(Place::visible).transpose()?;
    Ok(Example {
        description: place.optional("description").map(|place| place.text(1_000)).transpose()?,
        input: input.value().clone(),
        output: output.map(|place| place.value().clone()),
    })
}

fn read_pointer(place: &Place<'_>) -> Result<String, DescriptorError> {
    let pointer = place.str()?;
    let escapes_well = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    if pointer.chars().count() <= POINTER_CHARS
        && escapes_well
        && (pointer.is_empty() || pointer.starts_with('/'))
    {
        return Ok(pointer.to_owned());
    }
    Err(place.refuse(
        format!("`{}` is not a JSON pointer", escape_for_display(pointer, 80)),
        "write it like `/password`",
    ))
}

#[cfg(test)]
mod tests;
