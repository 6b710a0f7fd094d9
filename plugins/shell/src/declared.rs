//! Declared shell tools (T8b): a definition of kind `shell` has commands, and each becomes a tool.
//!
//! A command is parsed once, as it stands. The arguments of a call are variables, whose values are never parsed: an
//! expansion of one is one word, with or without quotes, and in arithmetic it is a number that assigns nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toolgate_api::definition::{CommandDefinition, CustomToolDefinition, DefinitionKind, sparse_object};
use toolgate_api::name::derive_tool_name;
use toolgate_api::read::ReadError;
use toolgate_sdk::serde_json::{self, Map, Value, json};
use toolgate_sdk::{Context, Defined, Error};

use crate::parse;
use crate::script::{Argument, Script};
use crate::shell::is_name;

/// Longest document, as JSON.
const DOCUMENT_BYTES: usize = 2 * 1024 * 1024;

/// Most arguments of a command.
const ARGUMENTS: usize = 100;

/// Variables that change how a script runs.
const RESERVED: [&str; 24] = [
    "IFS",
    "PATH",
    "HOME",
    "PWD",
    "OLDPWD",
    "SHELL",
    "USER",
    "LANG",
    "REPLY",
    "BASH_REMATCH",
    "BASH_SOURCE",
    "FUNCNAME",
    "OPTARG",
    "OPTIND",
    "OPTERR",
    "PIPESTATUS",
    "HOSTNAME",
    "SECONDS",
    "UID",
    "EUID",
    "RANDOM",
    "LINENO",
    "BASHPID",
    "EPOCHSECONDS",
];

/// The part of the component that serves definitions.
pub struct Declared;

/// The document that the daemon hands over.
#[derive(Deserialize)]
struct Envelope {
    namespace: String,
    definition: Value,
}

/// The part of a definition that a call needs.
#[derive(Debug, Deserialize, Serialize)]
struct Plan {
    command: String,
}

impl Defined for Declared {
    fn describe(definition: &str) -> Result<Value, Error> {
        let refusal = |error: ReadError| {
            Error::invalid(error.message).with_details(json!({"pointer": error.place, "hint": error.hint}))
        };
        if definition.len() > DOCUMENT_BYTES {
            let message = format!("the definition has more than {DOCUMENT_BYTES} bytes");
            return Err(refusal(ReadError::new("", message, "shorten it, or make two tools of it")));
        }
        let Envelope { namespace, definition } = serde_json::from_str(definition)?;
        CustomToolDefinition::read(&definition, DefinitionKind::Shell)
            .and_then(|document| describe(&namespace, document))
            .map_err(refusal)
    }

    fn call(_tool: &str, definition: &str, _context: &Context, arguments: &str) -> Result<Value, Error> {
        let plan: Plan = serde_json::from_str(definition)?;
        let arguments: BTreeMap<String, Value> = serde_json::from_str(arguments)?;
        let variables = arguments
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(name, value)| Ok((name, argument(&value)?)))
            .collect::<Result<Vec<_>, Error>>()?;
        let script = Script { text: &plan.command, variables: &variables, input: Vec::new() };
        Ok(serde_json::to_value(script.run(crate::workspace())?)?)
    }
}

/// An argument as a variable: a list of plain values is an array, other values than texts are JSON.
fn argument(value: &Value) -> Result<Argument, Error> {
    let text = |value: &Value| match value {
        Value::String(text) if text.contains('\0') => {
            Err(Error::invalid("a zero byte cannot be in an argument"))
        }
        Value::String(text) => Ok(text.clone()),
        other => Ok(other.to_string()),
    };
    match value {
        Value::Array(entries) => entries.iter().map(text).collect::<Result<_, _>>().map(Argument::List),
        other => text(other).map(Argument::Text),
    }
}

fn describe(namespace: &str, mut document: CustomToolDefinition) -> Result<Value, ReadError> {
    let hint = "declare at least one in `commands`: each becomes a tool";
    let commands = document.commands.take().unwrap_or_default();
    if commands.is_empty() {
        return Err(ReadError::new("/commands", "there are no commands", hint));
    }
    let mut names = BTreeMap::new();
    let mut tools = Vec::with_capacity(commands.len());
    for (index, command) in commands.into_iter().enumerate() {
        let place = format!("/commands/{index}");
        let name = derive_tool_name(namespace, &command.name);
        if let Some(other) = names.insert(name.clone(), command.name.clone()) {
            let message = format!("it and the command `{other}` would both be the tool `{name}`");
            return Err(ReadError::new(format!("{place}/name"), message, "give each command its own name"));
        }
        tools.push(tool(&place, name, command)?);
    }
    Ok(document.describe(namespace, json!({"filesystem": "workspace"}), tools))
}

fn tool(place: &str, name: String, command: CommandDefinition) -> Result<Value, ReadError> {
    if let Err(message) = parse::parse(&command.command) {
        let hint = "write it as a script of bash; each argument is the variable of its name";
        return Err(ReadError::new(format!("{place}/command"), message, hint));
    }
    let original_name = Some(command.name).filter(|original| *original != name);
    let hints = &command.hints;
    let reads = hints.read_only.unwrap_or(false);
    let hints = json!({
        "read_only": reads,
        "destructive": hints.destructive.unwrap_or(!reads),
        "idempotent": hints.idempotent.unwrap_or(reads),
        "open_world": hints.open_world.unwrap_or(false),
    });
    Ok(sparse_object([
        ("name", name.into()),
        ("original_name", original_name.into()),
        ("usage", command.usage.unwrap_or_else(|| command.description.clone()).into()),
        ("description", command.description.into()),
        ("input_schema", Value::Object(close_schema(place, command.input_schema)?)),
        ("output_schema", output_schema()),
        ("hints", hints),
        ("tags", command.tags.into()),
        ("examples", json!(command.examples)),
        ("redact", command.redact.into()),
        ("definition", json!(Plan { command: command.command })),
    ]))
}

/// The schema of the arguments: an object whose properties are names of variables, and no others.
fn close_schema(place: &str, schema: Option<Map<String, Value>>) -> Result<Map<String, Value>, ReadError> {
    let mut schema = schema.unwrap_or_else(|| Map::from_iter([("type".to_owned(), json!("object"))]));
    let place = format!("{place}/input_schema");
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        let hint = "arguments are named: write `{\"type\":\"object\",\"properties\":{…}}`";
        let message = "the schema of the arguments does not say `\"type\":\"object\"`";
        return Err(ReadError::new(place, message, hint));
    }
    if !matches!(schema.get("additionalProperties"), None | Some(Value::Bool(false))) {
        let message = "arguments that are not named are no variables";
        return Err(ReadError::new(format!("{place}/additionalProperties"), message, "leave it out"));
    }
    if schema.contains_key("patternProperties") {
        let message = "a pattern allows names that the commands may use themselves";
        let hint = "name each argument in `properties`";
        return Err(ReadError::new(format!("{place}/patternProperties"), message, hint));
    }
    let properties = schema.entry("properties").or_insert(json!({}));
    let Some(properties) = properties.as_object().filter(|properties| properties.len() <= ARGUMENTS) else {
        let hint = format!("write an object of at most {ARGUMENTS} properties");
        let message = "the properties are not an object, or too many";
        return Err(ReadError::new(format!("{place}/properties"), message, hint));
    };
    for name in properties.keys() {
        if !is_name(name) || RESERVED.contains(&name.as_str()) {
            let message = format!("`{name}` is no name of a variable, or one that the shell uses");
            let hint = "an argument is the variable of its name: write letters, digits and `_`";
            return Err(ReadError::new(format!("{place}/properties"), message, hint));
        }
    }
    schema.insert("additionalProperties".to_owned(), json!(false));
    Ok(schema)
}

fn output_schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "stdout": {"type": "string"},
            "stderr": {"type": "string"},
            "exit_code": {"type": "integer"},
            "notes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["stdout", "stderr", "exit_code"],
    })
}
