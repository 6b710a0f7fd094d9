//! One operation as an action, or the reason why it is none.
//!
//! The order is that of cheapness: what the document says about security, server, path and body decides before a schema is
//! written. Then the schema of the arguments is written in one plan after the other until the daemon's compiler takes it.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_admission::{Schema, SchemaRole, show};

use crate::arguments::{self, Argument};
use crate::body::{self, Body, Writing};
use crate::document::Document;
use crate::import::Wanted;
use crate::operations::Operation;
use crate::parameters::{self, Meaning, Parameter, Place, is_json};
use crate::paths::{self, Template};
use crate::schema::{Direction, PLANS, Patterns, TooLarge, Writer, count_uses};
use crate::security::Security;
use crate::servers::Server;
use crate::text::{clean, clean_line, cut};

/// Longest description of a tool, in characters. The daemon takes four times as much, but models read all of them.
const DESCRIPTION_CHARS: usize = 1_024;
/// Longest usage, in characters.
const USAGE_CHARS: usize = 8_192;
/// Longest schema of one action, as JSON text: what a model can follow, and a thousand of which the daemon would not take.
const SCHEMA_BYTES: usize = 32 * 1024;
/// Steps that compiling a byte of a schema takes.
const COMPILED: usize = 5;
/// Longest description of an argument, in characters.
const ARGUMENT_CHARS: usize = 500;
/// Tags of one action, and characters of one.
const TAGS: usize = 20;
const TAG_CHARS: usize = 100;
/// Arguments that logs must not show, how deep they are looked for, and the longest pointer to one, in bytes.
const REDACTED: usize = 20;
const REDACTED_DEPTH: usize = 4;
/// Places that are looked at for them.
const REDACTED_STEPS: usize = 5_000;
const POINTER_BYTES: usize = 500;
/// What a described tool has beside the action, in bytes: for itself, and for each argument.
const TOOL_BYTES: usize = 700;
const ARGUMENT_BYTES: usize = 100;

/// An action, and what it takes.
pub(crate) struct Action {
    pub(crate) value: Value,
    pub(crate) notes: Vec<String>,
    /// As JSON text.
    pub(crate) bytes: usize,
    /// About what its tool takes in the description of the plugin.
    pub(crate) described_bytes: usize,
    /// Subschemas that the daemon will hold for it.
    pub(crate) nodes: u64,
}

/// What all actions are made with.
pub(crate) struct Workshop<'a> {
    document: &'a Document,
    wanted: &'a Wanted<'a>,
    server: &'a Server,
    security: &'a Security,
    patterns: Patterns,
}

impl<'a> Workshop<'a> {
    pub(crate) fn new(
        document: &'a Document,
        wanted: &'a Wanted<'a>,
        server: &'a Server,
        security: &'a Security,
    ) -> Self {
        Self { document, wanted, server, security, patterns: Patterns::default() }
    }
}

/// Makes an action of an operation; an error is why it cannot be one.
pub(crate) fn build<'a>(workshop: &mut Workshop<'a>, operation: &Operation<'a>) -> Result<Action, String> {
    let mut notes = Vec::new();
    let document = workshop.document;
    let template = paths::read(operation.path)?;
    if template.has_fragment {
        notes.push("what follows `#` in its path is not sent".to_owned());
    }
    check_place(workshop, operation, &template)?;
    let parameters = parameters::read(document, operation, workshop.security.place(), &mut notes)?;
    let parameters = fit_path(&template, parameters, &mut notes);
    let body = body::read(document, operation, &mut notes)?;
    let arguments = arguments::arrange(document, operation.method, parameters, body.as_ref(), &mut notes)?;
    let input = input_schema(workshop, &arguments)?;
    notes.extend(input.notes);
    let output = workshop.wanted.output_schemas.then(|| output_schema(workshop, operation)).flatten();
    let nodes = input.nodes + output.as_ref().map_or(0, |output| output.nodes);
    let value = assemble(operation, &template, &arguments, body.as_ref(), input.schema, output);
    let bytes = serde_json::to_string(&value).map_or(usize::MAX, |text| text.len());
    let repeated = value.get("description").and_then(Value::as_str).map_or(0, |text| 2 * text.len());
    let described_bytes = bytes.saturating_add(repeated + TOOL_BYTES + ARGUMENT_BYTES * arguments.len());
    Ok(Action { value, notes, bytes, described_bytes, nodes })
}

fn check_place(
    workshop: &Workshop<'_>,
    operation: &Operation<'_>,
    template: &Template<'_>,
) -> Result<(), String> {
    workshop.security.check(workshop.document, operation)?;
    let own = operation.body.get("servers").or_else(|| operation.item.get("servers"));
    workshop.server.check_own(own)?;
    // Whatever stands for a variable later: here the path around it is judged.
    workshop.server.check_path(&template.write(|_| "x".to_owned()), operation.method)
}

/// One parameter for each variable of the path.
fn fit_path<'a>(
    template: &Template<'a>,
    parameters: Vec<Parameter<'a>>,
    notes: &mut Vec<String>,
) -> Vec<Parameter<'a>> {
    let mut fitting = Vec::new();
    for parameter in parameters {
        let shown = show(parameter.name, 80);
        match parameter.place {
            Place::Path if !template.variables().any(|variable| variable == parameter.name) => {
                notes.push(format!("`{shown}` is left out: it is not in the path"));
            }
            Place::Query if template.query_names().any(|name| name == parameter.sent_as) => {
                notes.push(format!("`{shown}` is left out: the path says it already"));
            }
            _ => fitting.push(parameter),
        }
    }
    for name in template.variables() {
        if fitting.iter().any(|parameter| parameter.place == Place::Path && parameter.name == name) {
            continue;
        }
        notes.push(format!("`{}` of the path is not described, and is any text", show(name, 80)));
        fitting.push(Parameter {
            name,
            sent_as: Cow::Borrowed(name),
            place: Place::Path,
            style: None,
            is_required: true,
            meaning: Meaning::Text,
            description: None,
            is_deprecated: false,
        });
    }
    fitting
}

/// A schema that the daemon takes.
struct Written {
    schema: Value,
    nodes: u64,
    notes: BTreeSet<String>,
}

fn input_schema<'a>(workshop: &mut Workshop<'a>, arguments: &[Argument<'a>]) -> Result<Written, String> {
    write_in_some_plan(workshop, Direction::Request, SchemaRole::Input, schemas(arguments), |writer| {
        let mut properties = Map::new();
        for argument in arguments {
            properties.insert(argument.name.clone(), property(writer, argument)?);
        }
        let required: Vec<&str> = arguments
            .iter()
            .filter(|argument| argument.is_required)
            .map(|argument| argument.name.as_str())
            .collect();
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        schema.insert("properties".to_owned(), Value::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        schema.insert("additionalProperties".to_owned(), json!(false));
        Ok(schema)
    })
}

fn schemas<'a>(arguments: &[Argument<'a>]) -> Vec<&'a Value> {
    let schema = |argument: &Argument<'a>| match argument.meaning {
        Meaning::Schema(schema) => Some(schema),
        Meaning::Text => None,
    };
    arguments.iter().filter_map(schema).collect()
}

fn property<'a>(writer: &mut Writer<'a, '_>, argument: &Argument<'a>) -> Result<Value, TooLarge> {
    let mut property = match argument.meaning {
        Meaning::Schema(schema) => writer.write(schema)?,
        Meaning::Text => json!({"type": "string"}),
    };
    let Value::Object(map) = &mut property else { return Ok(property) };
    let description = argument.description.map(|text| clean(text, ARGUMENT_CHARS)).unwrap_or_default();
    if !description.is_empty() {
        map.insert("description".to_owned(), json!(description));
    }
    if argument.is_deprecated {
        map.insert("deprecated".to_owned(), json!(true));
    }
    Ok(property)
}

/// Writes a schema in the first plan under which the daemon's compiler takes it.
fn write_in_some_plan<'a>(
    workshop: &mut Workshop<'a>,
    direction: Direction,
    role: SchemaRole,
    roots: Vec<&'a Value>,
    write: impl Fn(&mut Writer<'a, '_>) -> Result<Map<String, Value>, TooLarge>,
) -> Result<Written, String> {
    let document = workshop.document;
    let uses = count_uses(document, roots.into_iter());
    let mut why = "its arguments are too many to be described".to_owned();
    for plan in PLANS.into_iter().filter(|plan| uses.is_whole() || plan.levels.is_some()) {
        let mut writer = Writer::new(document, direction, plan, &uses, &mut workshop.patterns);
        let written = try_plan(&mut writer, &write);
        let Ok(schema) = written else { continue };
        let bytes = serde_json::to_string(&schema).map_or(usize::MAX, |text| text.len());
        if bytes > SCHEMA_BYTES {
            why = format!("its arguments take more than {SCHEMA_BYTES} bytes to describe");
            continue;
        }
        let notes = writer.finish();
        document.spend(COMPILED * bytes);
        match Schema::compile(&schema, role) {
            Ok(compiled) => return Ok(Written { schema, nodes: compiled.nodes(), notes }),
            Err(error) => why = format!("its arguments cannot be described: {error}"),
        }
    }
    Err(why)
}

fn try_plan<'a>(
    writer: &mut Writer<'a, '_>,
    write: impl Fn(&mut Writer<'a, '_>) -> Result<Map<String, Value>, TooLarge>,
) -> Result<Value, TooLarge> {
    let mut schema = write(writer)?;
    let definitions = writer.definitions()?;
    if !definitions.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(definitions));
    }
    Ok(Value::Object(schema))
}

/// The schema of the first good answer in JSON; none where nothing useful is said of it.
fn output_schema<'a>(workshop: &mut Workshop<'a>, operation: &Operation<'a>) -> Option<Written> {
    let document = workshop.document;
    let answers = operation.body.get("responses")?.as_object()?;
    let good: Vec<&Value> =
        answers.iter().filter(|(status, _)| status.starts_with('2')).map(|(_, answer)| answer).collect();
    // With several good answers the schema of one would refuse the others.
    let [answer] = good.as_slice() else { return None };
    let content = document.resolve(answer).ok()?.get("content")?.as_object()?;
    let schema = content.iter().find(|(media_type, _)| is_json(media_type))?.1.get("schema")?;
    let written =
        write_in_some_plan(workshop, Direction::Answer, SchemaRole::Output, vec![schema], |writer| {
            match writer.write(schema)? {
                Value::Object(map) => Ok(map),
                _ => Ok(Map::new()),
            }
        });
    written.ok().filter(|written| written.schema != json!({}))
}

fn assemble(
    operation: &Operation<'_>,
    template: &Template<'_>,
    arguments: &[Argument<'_>],
    body: Option<&Body<'_>>,
    input_schema: Value,
    output: Option<Written>,
) -> Value {
    let mut action = Map::new();
    let mut set = |name: &str, value: Value| drop(action.insert(name.to_owned(), value));
    let (description, usage) = texts(operation);
    set("name", json!(operation.original));
    set("description", json!(description));
    if let Some(usage) = usage {
        set("usage", json!(usage));
    }
    set("method", json!(operation.method));
    set("path", json!(template.write(|variable| format!("{{{}}}", named(arguments, variable)))));
    let places = places(arguments);
    if !places.is_empty() {
        set("arguments", Value::Object(places));
    }
    // Without an argument in it, nothing is sent, and how it would be written has no meaning.
    let body = body.filter(|_| arguments.iter().any(|argument| argument.is_content));
    match body.map(|body| body.form) {
        Some(Writing::Form) => set("body", json!("form")),
        Some(Writing::Text) => set("body", json!("text")),
        Some(Writing::Json) | None => {}
    }
    if let Some(content_type) = body.and_then(|body| body.content_type) {
        set("content_type", json!(content_type));
    }
    if let Some(output) = output {
        set("output_schema", output.schema);
    }
    let tags = tags(operation);
    if !tags.is_empty() {
        set("tags", json!(tags));
    }
    let redact = redact(&input_schema);
    set("input_schema", input_schema);
    if !redact.is_empty() {
        set("redact", json!(redact));
    }
    Value::Object(action)
}

fn named<'a>(arguments: &'a [Argument<'_>], variable: &str) -> &'a str {
    let argument = arguments.iter().find(|argument| argument.variable == Some(variable));
    argument.map_or("", |argument| argument.name.as_str())
}

fn places(arguments: &[Argument<'_>]) -> Map<String, Value> {
    let places =
        arguments.iter().filter_map(|argument| Some((argument.name.clone(), argument.place.clone()?)));
    places.collect()
}

/// What the tool does, and where that is cut, the whole for a model that has chosen it.
fn texts(operation: &Operation<'_>) -> (String, Option<String>) {
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

/// Arguments that logs must not show: those that the document calls passwords, wherever they have a name.
fn redact(schema: &Value) -> Vec<String> {
    let mut pointers = Vec::new();
    find_passwords(schema, schema, String::new(), &mut 0, &mut pointers);
    pointers
}

fn find_passwords(root: &Value, schema: &Value, pointer: String, steps: &mut usize, found: &mut Vec<String>) {
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    let schema = target.and_then(|target| root.pointer(target)).unwrap_or(schema);
    *steps += 1;
    if found.len() == REDACTED || *steps > REDACTED_STEPS || pointer.len() > POINTER_BYTES {
        return;
    }
    if schema.get("format") == Some(&json!("password")) {
        return found.push(pointer);
    }
    let is_deep = pointer.matches('/').count() == REDACTED_DEPTH;
    let properties = schema.get("properties").filter(|_| !is_deep).and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten() {
        let escaped = name.replace('~', "~0").replace('/', "~1");
        find_passwords(root, property, format!("{pointer}/{escaped}"), steps, found);
    }
}
