//! One action: what a model is told about it, and the plan by which it becomes a request.

use serde_json::{Map, Value, json};
use toolgate_api::definition::{ActionDefinition, ActionHints, BodyFormat, Method, ResultSelector};
use toolgate_api::descriptor::Hints;
use toolgate_api::name::derive_tool_name;
use toolgate_api::read::{ReadError, pointer};
use toolgate_api::text::escape_for_display;

use super::base::Base;
use super::{placement, template};
use crate::plan::{Content, Plan, Selection};
use crate::select::{refused_jmespath, refused_pointer};

/// Longest media type, its parameters included.
const MEDIA_TYPE_BYTES: usize = 200;

/// What all actions have in common.
pub struct Shared<'a> {
    pub namespace: &'a str,
    pub base: &'a Base,
    pub headers: Vec<(String, String)>,
    /// Whether the requests carry a credential.
    pub has_credential: bool,
    /// Whether the definition vouches for what methods promise.
    pub safe_methods: bool,
}

/// An action that makes a tool.
pub struct Action {
    /// As a tool.
    pub name: String,
    pub definition: ActionDefinition,
    pub input_schema: Value,
    pub hints: Hints,
    pub plan: Plan,
}

/// Compiles the action at `place`.
pub fn compile(
    place: &str,
    mut definition: ActionDefinition,
    shared: &Shared<'_>,
) -> Result<Action, ReadError> {
    let name = &definition.name;
    if name.contains(['\n', '\t']) || name.trim() != name {
        let message = "the name has a line break, a tab or space around it";
        return Err(ReadError::new(format!("{place}/name"), message, "write a name like `list_items`"));
    }
    let name = derive_tool_name(shared.namespace, name);
    let mut schema = close_input_schema(place, definition.input_schema.take().unwrap_or_else(empty_schema))?;
    if let Some(argument) = definition.result.as_ref().and_then(|result| result.file.as_deref()) {
        describe_file(argument, &mut schema, &mut definition.output_schema);
    }
    if definition.output_schema.as_ref().is_some_and(|schema| !schema.is_object() && !schema.is_boolean()) {
        let message = "the schema of the result is not an object";
        return Err(ReadError::new(format!("{place}/output_schema"), message, "write an object"));
    }
    for (index, text) in definition.redact.iter().enumerate() {
        check_pointer(format!("{place}/redact/{index}"), text)?;
    }
    Ok(Action {
        name,
        hints: compile_hints(place, &definition, shared.safe_methods)?,
        plan: compile_plan(place, &definition, shared, &schema)?,
        input_schema: Value::Object(schema),
        definition,
    })
}

fn empty_schema() -> Map<String, Value> {
    Map::from_iter([("type".to_owned(), json!("object"))])
}

/// The schema of the arguments, closed: an argument that it does not name has no place in the request.
fn close_input_schema(place: &str, mut schema: Map<String, Value>) -> Result<Map<String, Value>, ReadError> {
    let place = format!("{place}/input_schema");
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(ReadError::new(
            place,
            "the schema of the arguments does not say `\"type\":\"object\"`",
            "arguments are named: write `{\"type\":\"object\",\"properties\":{…}}`",
        ));
    }
    let is_good = |properties: &Value| match properties {
        Value::Object(properties) => properties.len() <= placement::ARGUMENTS,
        other => other.is_null(),
    };
    if !schema.get("properties").is_none_or(is_good) {
        let hint = format!("write an object of at most {} properties", placement::ARGUMENTS);
        let message = "the properties are not an object, or too many";
        return Err(ReadError::new(pointer(&place, "properties"), message, hint));
    }
    if !matches!(schema.get("additionalProperties"), None | Some(Value::Bool(false))) {
        return Err(ReadError::new(
            pointer(&place, "additionalProperties"),
            "arguments that are not named have no place in the request",
            "name them in `properties`, or leave this out; a body of any form is one argument with `\"whole\":true`",
        ));
    }
    schema.entry("properties").or_insert(json!({}));
    schema.entry("additionalProperties").or_insert(json!(false));
    Ok(schema)
}

/// Adds the argument with the path that the response is saved to, and the schema of the result, where the definition has
/// none.
fn describe_file(argument: &str, schema: &mut Map<String, Value>, output: &mut Option<Value>) {
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        let description =
            "Workspace path that the file is saved to; left out, the name that the service gives it";
        properties.entry(argument).or_insert(json!({"type": "string", "description": description}));
    }
    output.get_or_insert_with(|| {
        json!({
            "type": "object",
            "properties": {
                "path": {"type": "string", "description": "The file, from the workspace's root"},
                "bytes": {"type": "integer"},
                "content_type": {"type": "string", "description": "The media type, as the service says"},
            },
            "required": ["path", "bytes"],
        })
    });
}

/// Whether a schema says a type, and that is not null.
fn refuses_null(schema: &Value) -> bool {
    match schema.get("type") {
        Some(Value::String(kind)) => kind != "null",
        Some(Value::Array(kinds)) => kinds.iter().all(|kind| kind != "null"),
        _ => false,
    }
}

fn compile_plan(
    place: &str,
    action: &ActionDefinition,
    shared: &Shared<'_>,
    schema: &Map<String, Value>,
) -> Result<Plan, ReadError> {
    let method = action.method;
    let path = template::read(&format!("{place}/path"), &action.path, shared.base, schema)?;
    if action.body.is_some() && !method.takes_body() {
        let message = format!("a {} request has no body", method.as_str());
        return Err(ReadError::new(format!("{place}/body"), message, "leave `body` out"));
    }
    let form = action.body.unwrap_or_default();
    let save_path = action.result.as_ref().and_then(|result| result.file.as_deref());
    let call = placement::Call { method, template: &path, schema, form, save_path };
    let arguments = placement::compile(&format!("{place}/arguments"), &action.arguments, &call)?;
    let has_content = arguments.values().any(|place| place.target.is_in_the_content());
    Ok(Plan {
        method,
        origin: shared.base.origin(),
        headers: headers(&shared.headers, save_path.is_some()),
        result: compile_selection(&format!("{place}/result"), action.result.as_ref())?,
        content: compile_content(place, action, has_content)?,
        path: path.pieces,
        query: path.query,
        has_credential: shared.has_credential,
        needs_content: action.output_schema.as_ref().is_some_and(refuses_null),
        arguments,
    })
}

/// The fields of every request. Unless they say what is wanted, it is JSON, or any file.
fn headers(shared: &[(String, String)], saves_file: bool) -> Vec<(String, String)> {
    let mut headers = shared.to_vec();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
        let wanted = if saves_file { "*/*" } else { "application/json" };
        headers.push(("accept".to_owned(), wanted.to_owned()));
    }
    headers
}

fn compile_content(
    place: &str,
    action: &ActionDefinition,
    has_content: bool,
) -> Result<Option<Content>, ReadError> {
    if !has_content {
        let written = [("body", action.body.is_some()), ("content_type", action.content_type.is_some())];
        return match written.iter().find(|(_, is_written)| *is_written) {
            None => Ok(None),
            Some((name, _)) => Err(ReadError::new(
                pointer(place, name),
                "no argument goes into the body, so this has no effect",
                "leave it out, or send an argument with `\"in\":\"body\"`",
            )),
        };
    }
    let form = action.body.unwrap_or_default();
    let usual = match form {
        BodyFormat::Json => "application/json",
        BodyFormat::Form => "application/x-www-form-urlencoded",
        BodyFormat::Text => "text/plain; charset=utf-8",
        BodyFormat::Multipart => "multipart/form-data",
        // The name of the file decides.
        BodyFormat::Binary => "",
    };
    let place = format!("{place}/content_type");
    let content_type = action.content_type.as_deref().unwrap_or(usual);
    if action.content_type.is_none() && form == BodyFormat::Binary {
        return Ok(Some(Content { form, content_type: String::new() }));
    }
    if action.content_type.is_some() && matches!(form, BodyFormat::Form | BodyFormat::Multipart) {
        return Err(ReadError::new(place, format!("a form is always `{usual}`"), "leave `content_type` out"));
    }
    let is_printable = content_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if !is_printable || content_type.len() > MEDIA_TYPE_BYTES || !is_media_type(content_type) {
        let message = format!("`{}` is no media type", escape_for_display(content_type, 80));
        return Err(ReadError::new(place, message, "write it like `application/merge-patch+json`"));
    }
    Ok(Some(Content { form, content_type: content_type.to_owned() }))
}

fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let essence = text.split(';').next().unwrap_or(text).trim_end();
    essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

fn compile_selection(place: &str, result: Option<&ResultSelector>) -> Result<Selection, ReadError> {
    let Some(ResultSelector { pointer, jmespath, file }) = result else { return Ok(Selection::Whole) };
    match (pointer, jmespath, file) {
        (None, None, Some(argument)) => Ok(Selection::File(argument.clone())),
        (Some(pointer), None, None) => {
            check_pointer(format!("{place}/pointer"), pointer)?;
            Ok(Selection::Pointer(pointer.clone()))
        }
        (None, Some(expression), None) => match refused_jmespath(expression) {
            None => Ok(Selection::Jmespath(expression.clone())),
            Some(why) => Err(ReadError::new(
                format!("{place}/jmespath"),
                format!("the JMESPath cannot be used: {why}"),
                "see https://jmespath.org",
            )),
        },
        (None, None, None) => Err(ReadError::new(
            place,
            "it does not say where the result is",
            "write `pointer`, `jmespath` or `file`, or leave it out",
        )),
        _ => {
            let hint = "keep one of `pointer`, `jmespath` and `file`";
            Err(ReadError::new(place, "there are two ways to the result", hint))
        }
    }
}

fn check_pointer(place: String, text: &str) -> Result<(), ReadError> {
    let Some(why) = refused_pointer(text) else { return Ok(()) };
    let message = format!("`{}` is no JSON pointer: {why}", escape_for_display(text, 80));
    Err(ReadError::new(place, message, "write it like `/data/items`"))
}

/// Fills in the careful answers. The promises of a method (RFC 9110, 9.2) count only where the definition says that the API
/// keeps to it.
fn compile_hints(place: &str, action: &ActionDefinition, safe_methods: bool) -> Result<Hints, ReadError> {
    let (written, method): (ActionHints, Method) = (action.hints, action.method);
    let saves_file = action.result.as_ref().is_some_and(|result| result.file.is_some());
    if saves_file && written.read_only == Some(true) {
        let hint = "leave it out, and write `\"destructive\":false` if the API loses nothing";
        let place = format!("{place}/hints/read_only");
        return Err(ReadError::new(place, "an action that saves a file changes the workspace", hint));
    }
    let changes_api = !written.read_only.unwrap_or(safe_methods && method.is_safe());
    let read_only = !changes_api && !saves_file;
    let is_idempotent = safe_methods && method.is_idempotent();
    let hints = Hints {
        read_only,
        destructive: written.destructive.unwrap_or(changes_api),
        idempotent: written.idempotent.unwrap_or(is_idempotent || read_only),
        open_world: written.open_world.unwrap_or(true),
    };
    match hints.read_only && hints.destructive {
        true => {
            let hint = "set one of `read_only` and `destructive`";
            let place = format!("{place}/hints/destructive");
            Err(ReadError::new(place, "what changes nothing destroys nothing", hint))
        }
        false => Ok(hints),
    }
}
