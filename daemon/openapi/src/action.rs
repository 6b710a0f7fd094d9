//! Turns one operation into an action, or into the reason why it is left out.
//!
//! Cheap checks come first: security, server, path and body are checked before a schema is written. The input schema is
//! then written under one [`Plan`](crate::schema::Plan) after the other until the daemon's schema compiler accepts it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_admission::Schema;
use toolgate_api::limits::TAG_CHARS;
use toolgate_api::text::escape_for_display;

use crate::arguments::{self, Argument};
use crate::body::{self, Body};
use crate::document::Document;
use crate::operations::Operation;
use crate::options::ImportOptions;
use crate::parameters::{self, Location, ParamEncoding, Parameter, ValueSchema, is_json};
use crate::paths::{self, Template};
use crate::schema::{Direction, PLANS, Patterns, RefCounts, TooLarge, Writer};
use crate::security::Security;
use crate::servers::Server;
use crate::text::{clean, clean_line, cut};

/// Longest description of a tool, in characters. The daemon accepts four times as much, but models read all descriptions.
const DESCRIPTION_CHARS: usize = 1_024;
/// Longest usage, in characters.
const USAGE_CHARS: usize = 8_192;
/// Longest schema of one action, as JSON text: a model cannot follow more, and a thousand larger ones exceed the daemon's limit.
const SCHEMA_BYTES: usize = 32 * 1024;
/// Work steps counted for compiling one byte of a schema.
const COMPILE_STEPS_PER_BYTE: usize = 5;
/// Longest description of an argument, in characters.
const ARGUMENT_CHARS: usize = 500;
/// Descriptions of arguments that are files.
const FILE_DESCRIPTION: &str = "Path of a workspace file";
const FILES_DESCRIPTION: &str = "Paths of workspace files";
/// Most tags of one action.
const TAGS: usize = 20;
/// Most `redact` pointers of one action, levels and subschemas searched for them, and bytes of one pointer.
const REDACT_POINTERS: usize = 20;
const REDACT_DEPTH: usize = 4;
const REDACT_LEVELS: usize = 12;
const REDACT_STEPS: usize = 5_000;
const POINTER_BYTES: usize = 500;
/// Estimated bytes of a tool's description beside the action itself: per tool, and per argument.
const TOOL_BYTES: usize = 700;
const ARGUMENT_BYTES: usize = 100;

/// An action, its notes, and its share of the definition's limits.
pub(crate) struct Action {
    pub(crate) value: Value,
    pub(crate) notes: Vec<String>,
    /// Length as JSON text.
    pub(crate) bytes: usize,
    /// Estimated length of its tool in the plugin's description.
    pub(crate) described_bytes: usize,
    /// Subschemas that the daemon compiles for it.
    pub(crate) nodes: u64,
}

/// Builds actions; holds the inputs that all operations share, and the cache of checked patterns.
pub(crate) struct ActionBuilder<'a> {
    pub(crate) document: &'a Document,
    pub(crate) options: &'a ImportOptions<'a>,
    pub(crate) server: &'a Server,
    pub(crate) security: &'a Security,
    pub(crate) patterns: Patterns,
}

impl<'a> ActionBuilder<'a> {
    /// Builds the action of an operation; the error says why the operation is left out.
    pub(crate) fn build(&mut self, operation: &Operation<'a>) -> Result<Action, String> {
        let mut notes = Vec::new();
        let document = self.document;
        let template = paths::parse(operation.path)?;
        if template.has_fragment {
            notes.push("the part of its path after `#` is not sent".to_owned());
        }
        self.check(operation, &template)?;
        let parameters = parameters::read(document, operation, self.security.location(), &mut notes)?;
        let parameters = match_path_variables(&template, parameters, &mut notes);
        let body = body::read(document, operation, &mut notes)?;
        let arguments =
            arguments::collect(document, operation.method, parameters, body.as_ref(), &mut notes)?;
        let is_merge_patch = body.as_ref().is_some_and(|body| body.is_merge_patch);
        let input = self.input_schema(&arguments, is_merge_patch)?;
        notes.extend(input.notes);
        let save_path = responds_with_file(document, operation).then(|| free_name(&arguments));
        let has_output_schema = self.options.output_schemas && save_path.is_none();
        let output = has_output_schema.then(|| self.output_schema(operation)).flatten();
        let nodes = input.nodes + output.as_ref().map_or(0, |output| output.nodes);
        let mut value = action_json(operation, &template, &arguments, body.as_ref(), input.schema, output);
        if let Some(argument) = save_path {
            notes.push(format!("its response is saved to the workspace, at the path in `{argument}`"));
            value["result"] = json!({"file": argument});
        }
        let bytes = serde_json::to_string(&value).map_or(usize::MAX, |text| text.len());
        let repeated = value.get("description").and_then(Value::as_str).map_or(0, |text| 2 * text.len());
        let described_bytes = bytes.saturating_add(repeated + TOOL_BYTES + ARGUMENT_BYTES * arguments.len());
        Ok(Action { value, notes, bytes, described_bytes, nodes })
    }

    /// The checks that need no schema: credential, server and path.
    fn check(&self, operation: &Operation<'_>, template: &Template<'_>) -> Result<(), String> {
        self.security.check(self.document, operation)?;
        let servers = operation.body.get("servers").or_else(|| operation.item.get("servers"));
        self.server.check_operation_servers(servers)?;
        // A placeholder fills the variables: this validates the fixed parts of the path.
        self.server.check_path(&template.write(|_| "x".to_owned()), operation.method)
    }

    fn input_schema(
        &mut self,
        arguments: &[Argument<'a>],
        is_merge_patch: bool,
    ) -> Result<CompiledSchema, String> {
        let declared = |argument: &Argument<'a>| match argument.schema {
            ValueSchema::Declared(schema) => Some(schema),
            ValueSchema::AnyText | ValueSchema::File | ValueSchema::Files => None,
        };
        let roots = arguments.iter().filter_map(declared).collect();
        self.write_schema(Direction::Request, roots, |writer| {
            let mut properties = Map::new();
            for argument in arguments {
                let mut property = property(writer, argument)?;
                if is_merge_patch && argument.is_in_body {
                    let is_whole = argument.location.as_ref().is_some_and(|at| at.get("whole").is_some());
                    allow_nulls(&mut property, !is_whole);
                }
                properties.insert(argument.name.clone(), property);
            }
            let required = arguments.iter().filter(|argument| argument.is_required);
            let required: Vec<&str> = required.map(|argument| argument.name.as_str()).collect();
            let mut schema = json!({"type": "object", "properties": properties});
            if !required.is_empty() {
                schema["required"] = json!(required);
            }
            schema["additionalProperties"] = json!(false);
            Ok(schema)
        })
    }

    /// The schema of the JSON response, if exactly one successful response is declared and its schema says anything.
    fn output_schema(&mut self, operation: &Operation<'a>) -> Option<CompiledSchema> {
        let document = self.document;
        let responses = operation.body.get("responses")?.as_object()?;
        let mut successes = responses.iter().filter(|(status, _)| status.starts_with('2'));
        // With several successful responses, the schema of one would reject the others.
        let (Some((_, response)), None) = (successes.next(), successes.next()) else { return None };
        let content = document.resolve(response).ok()?.get("content")?.as_object()?;
        let schema = content.iter().find(|(media_type, _)| is_json(media_type))?.1.get("schema")?;
        let written = self.write_schema(Direction::Response, vec![schema], |writer| {
            let written = writer.write(schema)?;
            Ok(if written.is_object() { written } else { json!({}) })
        });
        written.ok().filter(|written| written.schema != json!({}))
    }

    /// Writes a schema under the first plan whose result the daemon's compiler accepts.
    fn write_schema(
        &mut self,
        direction: Direction,
        roots: Vec<&'a Value>,
        write: impl Fn(&mut Writer<'a, '_>) -> Result<Value, TooLarge>,
    ) -> Result<CompiledSchema, String> {
        let document = self.document;
        let counts = RefCounts::count(document, roots);
        let mut reason = "its arguments are too many to be described".to_owned();
        for plan in PLANS.into_iter().filter(|plan| counts.is_complete() || plan.levels.is_some()) {
            let mut writer = Writer::new(document, direction, plan, &counts, &mut self.patterns);
            let written = write(&mut writer);
            let Ok(schema) = written.and_then(|schema| writer.add_definitions(schema)) else { continue };
            let bytes = serde_json::to_string(&schema).map_or(usize::MAX, |text| text.len());
            if bytes > SCHEMA_BYTES {
                reason = format!("its arguments take more than {SCHEMA_BYTES} bytes to describe");
                continue;
            }
            let notes = writer.finish();
            document.spend(COMPILE_STEPS_PER_BYTE * bytes);
            match Schema::compile(&schema, direction.role()) {
                Ok(compiled) => return Ok(CompiledSchema { schema, nodes: compiled.nodes(), notes }),
                Err(error) => reason = format!("its arguments cannot be described: {error}"),
            }
        }
        Err(reason)
    }
}

/// A schema that the daemon's compiler accepts.
struct CompiledSchema {
    schema: Value,
    nodes: u64,
    notes: BTreeSet<String>,
}

/// Keeps the parameters that the path template allows, and adds a text parameter for each undescribed path variable.
fn match_path_variables<'a>(
    template: &Template<'a>,
    parameters: Vec<Parameter<'a>>,
    notes: &mut Vec<String>,
) -> Vec<Parameter<'a>> {
    let mut fitting = Vec::new();
    for parameter in parameters {
        let shown = escape_for_display(parameter.name, 80);
        match parameter.location {
            Location::Path if !template.variables().any(|variable| variable == parameter.name) => {
                notes.push(format!("`{shown}` is left out: it is not in the path"));
            }
            Location::Query if template.query_names().any(|name| name == parameter.sent_as) => {
                notes.push(format!("`{shown}` is left out: the path sets it already"));
            }
            _ => fitting.push(parameter),
        }
    }
    for name in template.variables() {
        if fitting.iter().any(|parameter| parameter.location == Location::Path && parameter.name == name) {
            continue;
        }
        notes.push(format!(
            "`{}` of the path is not described: any text is accepted",
            escape_for_display(name, 80)
        ));
        fitting.push(Parameter {
            name,
            sent_as: Cow::Borrowed(name),
            location: Location::Path,
            encoding: ParamEncoding::Default,
            is_required: true,
            schema: ValueSchema::AnyText,
            description: None,
            is_deprecated: false,
        });
    }
    fitting
}

/// Whether every successful response has content, and that is a file and no JSON.
fn responds_with_file(document: &Document, operation: &Operation<'_>) -> bool {
    let responses = operation.body.get("responses").and_then(Value::as_object).into_iter().flatten();
    let successes = responses.filter(|(status, _)| status.starts_with('2'));
    let mut contents =
        successes.map(|(_, response)| document.resolve(response).ok()?.get("content")?.as_object());
    let is_file = |content: Option<&Map<String, Value>>| {
        let mut media = content.into_iter().flatten();
        let is_file = |(media_type, media): (&String, &Value)| {
            let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            !is_json(media_type) && body::is_file(document, &essence, media)
        };
        content.is_some_and(|content| !content.is_empty()) && media.all(is_file)
    };
    contents.next().is_some_and(is_file) && contents.all(is_file)
}

/// The name of the argument with the path that a response is saved to.
fn free_name(arguments: &[Argument<'_>]) -> String {
    let numbered = (2..).map(|number| format!("save_as_{number}"));
    let mut names = std::iter::once("save_as".to_owned()).chain(numbered);
    let is_free = |name: &String| !arguments.iter().any(|argument| argument.name == *name);
    names.find(is_free).unwrap_or_default()
}

/// Allows `null` for the members of a merge patch, at every level that is described in place.
fn allow_nulls(schema: &mut Value, is_member: bool) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().for_each(|property| allow_nulls(property, true));
    }
    if !is_member {
        return;
    }
    if ["$ref", "anyOf", "allOf", "not", "const"].iter().any(|keyword| schema.get(*keyword).is_some()) {
        *schema = json!({"anyOf": [schema, {"type": "null"}]});
        return;
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) if kinds.contains(&json!("null")) => {}
        Some(Value::Array(kinds)) => kinds.push(json!("null")),
        Some(kind) if *kind != "null" => *kind = json!([kind, "null"]),
        _ => {}
    }
}

fn property<'a>(writer: &mut Writer<'a, '_>, argument: &Argument<'a>) -> Result<Value, TooLarge> {
    let mut property = match argument.schema {
        ValueSchema::Declared(schema) => writer.write(schema)?,
        ValueSchema::AnyText => json!({"type": "string"}),
        ValueSchema::File => json!({"type": "string", "description": FILE_DESCRIPTION}),
        ValueSchema::Files => {
            json!({"type": "array", "items": {"type": "string"}, "description": FILES_DESCRIPTION})
        }
    };
    let Value::Object(map) = &mut property else { return Ok(property) };
    let description = argument.description.map(|text| clean(text, ARGUMENT_CHARS)).unwrap_or_default();
    if !description.is_empty() {
        let description = match argument.schema {
            ValueSchema::File => format!("{FILE_DESCRIPTION}. {description}"),
            ValueSchema::Files => format!("{FILES_DESCRIPTION}. {description}"),
            _ => description,
        };
        map.insert("description".to_owned(), json!(description));
    }
    if argument.is_deprecated {
        map.insert("deprecated".to_owned(), json!(true));
    }
    Ok(property)
}

fn action_json(
    operation: &Operation<'_>,
    template: &Template<'_>,
    arguments: &[Argument<'_>],
    body: Option<&Body<'_>>,
    input_schema: Value,
    output: Option<CompiledSchema>,
) -> Value {
    let mut action = Map::new();
    let mut set =
        |name: &str, value: Option<Value>| action.extend(value.map(|value| (name.to_owned(), value)));
    let (description, usage) = description_and_usage(operation);
    set("name", Some(json!(operation.original)));
    set("description", Some(json!(description)));
    set("usage", usage.map(Value::from));
    set("method", Some(json!(operation.method)));
    let variable_name = |variable: &str| {
        let argument = arguments.iter().find(|argument| argument.variable == Some(variable));
        format!("{{{}}}", argument.map_or("", |argument| argument.name.as_str()))
    };
    set("path", Some(json!(template.write(variable_name))));
    let locations: Map<String, Value> = arguments
        .iter()
        .filter_map(|argument| Some((argument.name.clone(), argument.location.clone()?)))
        .collect();
    set("arguments", Some(locations).filter(|all| !all.is_empty()).map(Value::Object));
    // Without an argument in the body no body is sent, so its format has no meaning.
    let body = body.filter(|_| arguments.iter().any(|argument| argument.is_in_body));
    set("body", body.and_then(|body| body.format.word()).map(Value::from));
    set("content_type", body.and_then(|body| body.content_type).map(Value::from));
    set("output_schema", output.map(|output| output.schema));
    set("tags", Some(tags(operation)).filter(|tags| !tags.is_empty()).map(Value::from));
    let redact = redact_pointers(&input_schema);
    set("input_schema", Some(input_schema));
    set("redact", Some(redact).filter(|redact| !redact.is_empty()).map(Value::from));
    Value::Object(action)
}

/// The description of the tool, and where that had to be cut, the full text as its usage.
fn description_and_usage(operation: &Operation<'_>) -> (String, Option<String>) {
    let text = |name: &str| operation.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let summary = clean_line(text("summary"), DESCRIPTION_CHARS);
    let description = clean(text("description"), USAGE_CHARS);
    let whole = match (summary.is_empty(), description.is_empty()) {
        (false, true) => summary,
        (true, false) => description,
        (false, false) if description.starts_with(&summary) => description,
        (false, false) => format!("{summary}\n\n{description}"),
        (true, true) => operation.label(),
    };
    let whole = if operation.is_deprecated() { format!("Deprecated. {whole}") } else { whole };
    let short = cut(&whole, DESCRIPTION_CHARS);
    let usage = (short != whole).then(|| cut(&whole, USAGE_CHARS));
    (short, usage)
}

fn tags(operation: &Operation<'_>) -> Vec<String> {
    let mut tags = Vec::new();
    for tag in operation.tags().take(TAGS).map(|tag| clean_line(tag, TAG_CHARS)) {
        if !tag.is_empty() && !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    tags
}

/// JSON pointers to the arguments that the document marks as passwords, and that logs must not show.
fn redact_pointers(schema: &Value) -> Vec<String> {
    let mut pointers = Vec::new();
    find_passwords(schema, schema, (String::new(), 0), &mut 0, &mut pointers);
    pointers
}

/// Searches a schema at a pointer, and counts the levels of schemas above it.
fn find_passwords(
    root: &Value,
    schema: &Value,
    (pointer, level): (String, usize),
    steps: &mut usize,
    found: &mut Vec<String>,
) {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    let schema = target.and_then(|target| root.pointer(target)).unwrap_or(schema);
    *steps += 1;
    let is_over = *steps > REDACT_STEPS || pointer.len() > POINTER_BYTES || level > REDACT_LEVELS;
    if found.len() == REDACT_POINTERS || is_over || found.contains(&pointer) {
        return;
    }
    if schema.get("format") == Some(&json!("password")) {
        return found.push(pointer);
    }
    for keyword in ["anyOf", "allOf"] {
        for part in schema.get(keyword).and_then(Value::as_array).into_iter().flatten() {
            find_passwords(root, part, (pointer.clone(), level + 1), steps, found);
        }
    }
    let is_deep = pointer.matches('/').count() == REDACT_DEPTH;
    let properties = schema.get("properties").filter(|_| !is_deep).and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        find_passwords(root, property, (format!("{pointer}/{escaped}"), level + 1), steps, found);
    }
}
