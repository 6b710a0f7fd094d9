//! The description of a component's functions, in the form that a plugin describes itself.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_admission::{Descriptor, Schema, SchemaRole};
use toolgate_api::descriptor::{DescriptionSource, LeftOut};
use toolgate_api::name::{derive_namespace, derive_tool_name};

use super::docs::Docs;
use super::schema::{Direction, arguments_schema, schema};
use super::shape::Shape;
use super::signature::signature;
use super::{Function, FunctionKind, Functions, display_name, path};

/// Longest description, usage and purpose, in characters.
const DESCRIPTION_CHARS: usize = 4_096;
const USAGE_CHARS: usize = 16_384;
const PURPOSE_CHARS: usize = 2_000;

/// Largest schema of one function as JSON text, in bytes.
const SCHEMA_BYTES: usize = 64 * 1024;

/// Largest description of all functions as JSON text, in bytes. A plugin's may have 4 MiB.
const DESCRIPTION_BYTES: usize = 3 * 1024 * 1024;

/// The description of a program.
const PROGRAM: &str =
    "Runs the program with the arguments `args` and the standard input `stdin`. Returns its standard output.";

/// The description of a handler.
const HANDLER: &str = "Sends an HTTP request to the component, and returns its response. `headers` are pairs of a name and a value.";

/// Version of a component whose interfaces have none.
const NO_VERSION: &str = "0.0.0";

/// The description of a component's functions.
pub struct FunctionsDescription {
    /// JSON text in the form of `describe`.
    pub json: String,
    /// Tools whose descriptions are made from their signatures.
    made: BTreeSet<String>,
    left_out: Vec<LeftOut>,
    asks_for_settings: bool,
}

impl FunctionsDescription {
    pub(crate) fn asking_for_settings(self, asks_for_settings: bool) -> Self {
        Self { asks_for_settings, ..self }
    }

    /// Adds to a parsed description what its text does not say.
    pub fn complete(self, descriptor: &mut Descriptor) {
        descriptor.left_out = self.left_out;
        descriptor.has_granted_settings = true;
        descriptor.asks_for_settings = self.asks_for_settings;
        for tool in &mut descriptor.tools {
            if self.made.contains(tool.name.as_str()) {
                tool.description_source = DescriptionSource::Signature;
            }
        }
    }
}

impl Functions {
    /// Describes the functions as tools of a plugin. `component` is the file, which may carry docs; `asked` are the capabilities that
    /// its imports need. Without a namespace and version, those of its interfaces count.
    pub(crate) fn describe(
        &self,
        component: &[u8],
        namespace: Option<&str>,
        version: Option<&str>,
        asked: &Value,
    ) -> FunctionsDescription {
        let docs = Docs::read(component);
        let mut functions: Vec<_> = self.by_name.values().collect();
        functions.sort_by(|one, other| one.name.cmp(&other.name));
        let interface = functions.iter().find_map(|function| function.interface.as_deref());
        let own_namespace = interface.and_then(namespace_of).unwrap_or_else(|| "component".to_owned());
        let namespace = namespace.unwrap_or(&own_namespace);
        let own_version =
            interface.and_then(|interface| interface.split_once('@')).map(|(_, version)| version);
        let version = version.or(own_version).filter(|version| version.len() <= 64).unwrap_or(NO_VERSION);
        let (mut tools, mut made, mut left_out) = (Vec::new(), BTreeSet::new(), self.left_out.clone());
        let mut bytes_left = DESCRIPTION_BYTES;
        for function in functions {
            match describe_function(function, namespace, &docs, &mut bytes_left) {
                Ok((tool, source)) => {
                    if source == DescriptionSource::Signature {
                        made.extend(tool["name"].as_str().map(str::to_owned));
                    }
                    tools.push(tool);
                }
                Err(why) => {
                    let name = display_name(&path(function.interface.as_deref(), &function.name));
                    left_out.push(LeftOut { name, why });
                }
            }
        }
        let mut description =
            json!({"name": namespace, "version": version, "capabilities": asked, "tools": tools});
        if let Some(purpose) = docs.of_package() {
            description["purpose"] = json!(cut(&purpose, PURPOSE_CHARS));
        }
        FunctionsDescription { json: description.to_string(), made, left_out, asks_for_settings: false }
    }
}

/// Describes one function, or returns the reason why it is left out.
fn describe_function(
    function: &Function,
    namespace: &str,
    docs: &Docs,
    bytes_left: &mut usize,
) -> Result<(Value, DescriptionSource), String> {
    let Function { interface, name, parameters, result, .. } = function;
    let interface = interface.as_deref();
    let signature = signature(name, parameters, result.as_ref());
    let of = interface.map(|interface| format!(" of `{interface}`")).unwrap_or_default();
    let (source, text) = match docs.of_function(interface, name) {
        Some(text) => (DescriptionSource::Plugin, text),
        None => match function.kind {
            FunctionKind::Program => (DescriptionSource::Signature, PROGRAM.to_owned()),
            FunctionKind::Handler => (DescriptionSource::Signature, HANDLER.to_owned()),
            FunctionKind::Plain => {
                (DescriptionSource::Signature, format!("Calls the function `{name}`{of}."))
            }
        },
    };
    let mut tool = Map::from_iter([
        ("name".to_owned(), json!(derive_tool_name(namespace, name))),
        ("original_name".to_owned(), json!(name)),
        ("description".to_owned(), json!(cut(&text, DESCRIPTION_CHARS))),
        (
            "usage".to_owned(),
            json!(cut(&format!("{text}\n\nIts signature{of}:\n\n    {signature}"), USAGE_CHARS)),
        ),
        ("input_schema".to_owned(), check_schema(arguments_schema(parameters), SchemaRole::Input)?),
    ]);
    let output = match result {
        None => json!({"type": "null"}),
        Some(Shape::Result(None, _)) => json!({"type": "null"}),
        Some(Shape::Result(Some(ok), _)) => schema(ok, Direction::Result),
        Some(value) => schema(value, Direction::Result),
    };
    tool.insert("output_schema".to_owned(), check_schema(output, SchemaRole::Output)?);
    let tool = Value::Object(tool);
    *bytes_left = bytes_left
        .checked_sub(tool.to_string().len())
        .ok_or_else(|| format!("all descriptions together have more than {DESCRIPTION_BYTES} bytes"))?;
    Ok((tool, source))
}

/// Returns a schema that compiles, or the reason why it does not.
fn check_schema(schema: Value, role: SchemaRole) -> Result<Value, String> {
    if schema.to_string().len() > SCHEMA_BYTES {
        return Err(format!("the schema of its types has more than {SCHEMA_BYTES} bytes"));
    }
    match Schema::compile(&schema, role) {
        Ok(_) => Ok(schema),
        Err(error) => Err(format!("the schema of its types: {}", error.message)),
    }
}

/// The namespace of `package:name/interface@1.0.0`: its name.
fn namespace_of(interface: &str) -> Option<String> {
    let (_, name) = interface.split_once(':')?;
    derive_namespace(name.split(['/', '@']).next().unwrap_or_default())
}

/// The first characters of a text.
fn cut(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}
