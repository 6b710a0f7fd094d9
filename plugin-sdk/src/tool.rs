//! What `#[tool]` and `plugin!` make of the author's code: facts that are known while compiling, and one function to
//! call.
//!
//! The facts are constants and their schemas are functions, so that a call touches neither: only `describe` reads
//! them.

use schemars::Schema;
use serde::Serialize;

use crate::{Context, Error};

/// For a result that is infinite, or not a number.
const NOT_FINITE: &str = "the result is no number that JSON can say, since it is infinite or undefined: try other arguments \
                          (who writes the tool can give an `Option<f64>`, or a failure)";

/// A function with `#[tool]` on it. The attribute makes a type of the function's name that implements this.
pub trait Tool {
    /// The name under which the plugin describes it.
    const NAME: &'static str;

    #[doc(hidden)]
    const FACTS: ToolFacts;

    /// False of what `plugin!` puts in the place of a function without `#[tool]`.
    #[doc(hidden)]
    const IS_TOOL: bool = true;

    /// Performs one call, with the arguments as JSON text.
    #[doc(hidden)]
    fn call(context: &Context, arguments: &str) -> Result<Answer, Error>;
}

/// What `plugin!` makes: a set of tools under one namespace.
pub trait Plugin {
    const FACTS: PluginFacts;

    /// Performs one call of the named tool, or gives none when the plugin has no such tool.
    fn call(tool: &str, context: &Context, arguments: &str) -> Option<Result<Answer, Error>>;
}

/// How a call ended well, as JSON text.
#[derive(Debug)]
pub enum Answer {
    /// The result of a tool that is done.
    Output(String),
    /// The prepared payload of a tool that the orchestrator's client performs.
    Client(String),
}

/// What is known of a plugin while it is compiled.
pub struct PluginFacts {
    pub name: &'static str,
    pub version: &'static str,
    pub publisher: Option<&'static str>,
    pub category: Option<&'static str>,
    /// Empty when neither `plugin!` nor the package says it.
    pub purpose: &'static str,
    pub capabilities: Capabilities,
    pub config_schema: Option<fn() -> Schema>,
    pub limits: &'static [(&'static str, u64)],
    pub tools: &'static [ToolFacts],
}

/// What is known of a tool while it is compiled.
pub struct ToolFacts {
    pub name: &'static str,
    pub description: &'static str,
    pub usage: &'static str,
    pub input_schema: fn() -> Schema,
    pub output_schema: fn() -> Schema,
    pub mode: Mode,
    pub hints: Hints,
    pub required_integrations: &'static [&'static str],
    pub prerequisites: &'static [&'static str],
    pub tags: &'static [&'static str],
    pub examples: &'static [Example],
    pub redact: &'static [&'static str],
}

impl ToolFacts {
    /// Stands for a tool that does not compile.
    pub const fn broken(name: &'static str) -> Self {
        Self {
            name,
            description: "",
            usage: "",
            input_schema: crate::schema::any_result,
            output_schema: crate::schema::any_result,
            mode: Mode::Server,
            hints: Hints { read_only: None, destructive: None, idempotent: None, open_world: None },
            required_integrations: &[],
            prerequisites: &[],
            tags: &[],
            examples: &[],
            redact: &[],
        }
    }
}

/// What a plugin asks for.
pub struct Capabilities {
    pub workspace: bool,
    pub network: &'static [NetworkRule],
    pub credentials: &'static [&'static str],
}

/// One place on the network that a plugin asks for.
#[derive(Serialize)]
pub struct NetworkRule {
    pub scheme: &'static str,
    pub host: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub methods: &'static [&'static str],
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<&'static str>,
}

/// Where a call of the tool ends.
#[derive(Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Server,
    Client,
}

/// What the author said of the tool's effects. None means that the author did not say.
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
    pub idempotent: Option<bool>,
    pub open_world: Option<bool>,
}

/// An example call, its values as JSON text.
pub struct Example {
    pub description: Option<&'static str>,
    pub input: &'static str,
    pub output: Option<&'static str>,
}

/// Writes the result of a tool that is done.
pub fn output<T: Serialize>(result: &T) -> Result<Answer, Error> {
    to_json(result).map(Answer::Output)
}

/// Writes the payload of a tool that the client performs.
pub fn client<T: Serialize>(payload: &T) -> Result<Answer, Error> {
    to_json(payload).map(Answer::Client)
}

fn to_json<T: Serialize>(value: &T) -> Result<String, Error> {
    let text = serde_json::to_string(value)
        .map_err(|error| Error::new(format!("the result cannot be written as JSON: {error}")))?;
    // What is no number to JSON stands as null, which the schema of a number does not take.
    match std::any::type_name::<T>() {
        "f32" | "f64" if text == "null" => Err(Error::new(NOT_FINITE)),
        _ => Ok(text),
    }
}

/// Whether `call_NAMESPACE_TOOL` is a name that every provider of models takes.
pub const fn wire_name_fits(namespace: &str, tool: &str) -> bool {
    "call_".len() + namespace.len() + "_".len() + tool.len() <= 64
}

/// Whether no tool before this one has the same name.
pub const fn is_first_of_its_name(tools: &[ToolFacts], index: usize) -> bool {
    let mut before = 0;
    while before < index {
        if are_equal(tools[before].name.as_bytes(), tools[index].name.as_bytes()) {
            return false;
        }
        before += 1;
    }
    true
}

const fn are_equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let mut index = 0;
    while index < left.len() {
        if left[index] != right[index] {
            return false;
        }
        index += 1;
    }
    true
}
