//! Description of a plugin: the JSON of `describe` (T1, `wit/describe.schema.json`).
//!
//! A model reads most of its text, so the text must not contain hidden characters. Unknown fields are ignored and reported,
//! since newer plugins must load on older hosts. `toolgate-admission` compiles the schemas.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::grant::Capabilities;
pub use crate::hints::Hints;
use crate::limits::{
    LimitsPatch, PLUGIN_TOOLS, TAG_CHARS, TOOL_DESCRIPTION_CHARS, TOOL_LIST_ENTRIES, TOOL_USAGE_CHARS,
};
use crate::name::{Namespace, ToolName};
use crate::read::{
    invalid, list_of, null_is_default, parsed_list, text, texts, visible_json, whole_number, word, words,
};
use crate::text::escape_for_display;
use crate::words::words;

/// Longest JSON pointer to arguments that logs must not show, in characters.
const POINTER_CHARS: usize = 1_000;
/// Most calls and seconds of a rate: no service counts beyond a million calls or a day.
const RATE_CALLS: u64 = 1_000_000;
const RATE_SECONDS: u64 = 86_400;

/// A plugin as it describes itself.
#[derive(Clone, Debug, Deserialize)]
pub struct PluginDescription {
    /// Its namespace.
    #[serde(rename = "name")]
    pub namespace: Namespace,
    /// Its version.
    #[serde(deserialize_with = "word::<_, _, 64>")]
    pub version: String,
    /// Its publisher.
    #[serde(default, deserialize_with = "text::<_, _, 200>")]
    pub publisher: Option<String>,
    /// Category in a catalogue.
    #[serde(default, deserialize_with = "text::<_, _, 100>")]
    pub category: Option<String>,
    /// Purpose.
    #[serde(default, deserialize_with = "text::<_, _, 2_000>")]
    pub purpose: Option<String>,
    /// Capabilities that it asks for.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Rate limit of the service behind it.
    #[serde(default)]
    pub rate_limit: Option<RateLimit>,
    /// Schema of an organization's settings.
    #[serde(default, deserialize_with = "visible_json")]
    pub config_schema: Option<Value>,
    /// Limits that it sets itself, narrower than the platform's.
    #[serde(default)]
    pub limits: LimitsPatch,
    /// Its tools, at least one.
    #[serde(deserialize_with = "tools")]
    pub tools: Vec<ToolDescription>,
}

/// One tool as its plugin describes it.
#[derive(Clone, Debug, Deserialize)]
pub struct ToolDescription {
    /// Its name within the plugin.
    pub name: ToolName,
    /// Its name at its source, if that is another.
    #[serde(default, deserialize_with = "text::<_, _, 256>")]
    pub original_name: Option<String>,
    /// Short description, for a model that chooses.
    #[serde(deserialize_with = "text::<_, _, TOOL_DESCRIPTION_CHARS>")]
    pub description: String,
    /// Usage, for a model that has chosen.
    #[serde(deserialize_with = "text::<_, _, TOOL_USAGE_CHARS>")]
    pub usage: String,
    /// Schema of the arguments.
    #[serde(deserialize_with = "visible_json")]
    pub input_schema: Value,
    /// Schema of the result; none means any JSON.
    #[serde(default, deserialize_with = "visible_json")]
    pub output_schema: Option<Value>,
    /// Whether its results are objects with `output` and `content`, a list of content blocks (R11).
    #[serde(default, deserialize_with = "null_is_default")]
    pub content: bool,
    /// The place where its calls end.
    #[serde(default)]
    pub mode: Mode,
    /// Its effects.
    #[serde(default)]
    pub hints: Hints,
    /// Integrations that the organization must have connected.
    #[serde(default, deserialize_with = "words::<_, TOOL_LIST_ENTRIES, TAG_CHARS>")]
    pub required_integrations: Vec<String>,
    /// Steps that a person must complete first.
    #[serde(default, deserialize_with = "texts::<_, TOOL_LIST_ENTRIES, 1_000>")]
    pub prerequisites: Vec<String>,
    /// Search words.
    #[serde(default, deserialize_with = "texts::<_, TOOL_LIST_ENTRIES, TAG_CHARS>")]
    pub tags: Vec<String>,
    /// Sample calls.
    #[serde(default, deserialize_with = "list_of::<_, _, TOOL_LIST_ENTRIES>")]
    pub examples: Vec<Example>,
    /// Units that a call costs, for quotas and usage (O4). Default: 0.
    #[serde(default)]
    pub cost: u32,
    /// JSON pointers of arguments that logs must not show.
    #[serde(default, deserialize_with = "pointers")]
    pub redact: Vec<String>,
    /// JSON that comes back to the component with each call: the tool's part of its definition.
    #[serde(default)]
    pub definition: Option<Value>,
}

/// A tool of a source that cannot be called here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = LeftOutFunction))]
pub struct LeftOut {
    /// Its name in the source.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// The origin of a tool's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum DescriptionSource {
    /// The plugin.
    #[default]
    Plugin,
    /// The daemon, from the signature of a function without docs.
    Signature,
    /// The `descriptions` of the operator's grant.
    Operator,
}

/// How many calls a service takes in a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RateLimit {
    /// Calls per period, at least 1.
    #[serde(deserialize_with = "whole_number::<_, _, 1, RATE_CALLS>")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 1_000_000))]
    pub calls: u32,
    /// The period, at least 1 second.
    #[serde(deserialize_with = "whole_number::<_, _, 1, RATE_SECONDS>")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 86_400))]
    pub seconds: u32,
}

words! {
    /// The place where a call ends (T3).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    pub enum Mode {
        /// In the sandbox: the result is final.
        #[default]
        Server = "server",
        /// At the orchestrator's client, which performs a prepared payload.
        Client = "client",
    }
}

/// One sample call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ToolExample))]
pub struct Example {
    /// Its purpose.
    #[serde(default, deserialize_with = "text::<_, _, 1_000>", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub description: Option<String>,
    /// The arguments, an object.
    #[serde(deserialize_with = "example_input")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: Value,
    /// The result.
    #[serde(default, deserialize_with = "visible_json", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Value))]
    pub output: Option<Value>,
}

fn tools<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ToolDescription>, D::Error> {
    let tools: Vec<_> = list_of::<_, _, PLUGIN_TOOLS>(from)?;
    match tools.is_empty() {
        true => Err(invalid("the plugin has no tools", "describe at least one tool")),
        false => Ok(tools),
    }
}

fn example_input<'de, D: Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    let input: Value = visible_json(from)?;
    match input.is_object() {
        true => Ok(input),
        false => Err(invalid("the input of an example is not an object", "write the arguments of a call")),
    }
}

fn pointers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    parsed_list(from, TOOL_LIST_ENTRIES, |text| {
        let escapes_well = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        let is_pointer = text.is_empty() || text.starts_with('/');
        match is_pointer && escapes_well && text.chars().count() <= POINTER_CHARS {
            true => Ok(text.to_owned()),
            false => {
                let message = format!("`{}` is not a JSON pointer", escape_for_display(text, 80));
                Err((message, "write it like `/password`"))
            }
        }
    })
}
