//! One action: what a model is told about it, and the plan by which it becomes a request.

use serde_json::{Map, Value, json};
use toolgate_sdk::Error;

use super::base::Base;
use super::part::{Part, meant, shown};
use super::{placement, template};
use crate::plan::{Content, ContentForm, Plan, Selection};
use crate::select::{refused_jmespath, refused_pointer};

/// Longest texts and lists, as the schema of descriptions has them.
const DESCRIPTION_CHARS: usize = 4_096;
const USAGE_CHARS: usize = 16_384;
const ITEMS: usize = 100;
const TAG_CHARS: usize = 100;
const EXAMPLE_CHARS: usize = 1_000;

/// Longest name of an action.
const NAME_CHARS: usize = 256;

/// Longest media type, its parameters included.
const MEDIA_TYPE_BYTES: usize = 200;

/// What all actions have in common.
pub struct Shared<'a> {
    pub namespace: &'a str,
    pub base: &'a Base,
    pub headers: &'a [(String, String)],
    /// Whether the requests carry a credential.
    pub has_credential: bool,
    /// Whether the definition vouches for what methods promise.
    pub safe_methods: bool,
}

/// An action that makes a tool.
pub struct Action {
    /// As a tool.
    pub name: String,
    /// As the definition calls it.
    pub original_name: String,
    pub description: String,
    pub usage: String,
    pub input_schema: Value,
    pub output_schema: Option<Value>,
    pub hints: Hints,
    pub tags: Vec<Value>,
    pub examples: Vec<Value>,
    pub redact: Vec<Value>,
    pub plan: Plan,
}

/// What a tool's calls do.
#[derive(Clone, Copy)]
pub struct Hints {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
}

/// What a method promises about its requests (RFC 9110, 9.2). Many APIs do not keep to it, so by itself it is no hint.
#[derive(Clone, Copy, Default)]
struct Promise {
    /// Whether it changes nothing.
    is_safe: bool,
    is_idempotent: bool,
}

/// A method, and what its requests can have.
#[derive(Clone, Copy)]
pub struct Method {
    pub name: &'static str,
    promise: Promise,
    /// Whether a request may have content.
    pub takes_content: bool,
    /// Whether arguments go into the content where nothing else is said.
    pub prefers_content: bool,
}

const METHODS: [Method; 7] = [
    Method::new("GET", true, true, false, false),
    Method::new("HEAD", true, true, false, false),
    Method::new("POST", false, false, true, true),
    Method::new("PUT", false, true, true, true),
    Method::new("PATCH", false, false, true, true),
    Method::new("DELETE", false, true, true, false),
    Method::new("OPTIONS", true, true, true, false),
];

impl Method {
    const fn new(
        name: &'static str,
        is_safe: bool,
        is_idempotent: bool,
        takes_content: bool,
        prefers_content: bool,
    ) -> Self {
        Self { name, promise: Promise { is_safe, is_idempotent }, takes_content, prefers_content }
    }
}

/// Reads an action.
pub fn read(part: &Part<'_>, shared: &Shared<'_>) -> Result<Action, Error> {
    part.check_fields(&[
        "name",
        "description",
        "usage",
        "method",
        "path",
        "input_schema",
        "arguments",
        "body",
        "content_type",
        "output_schema",
        "result",
        "hints",
        "tags",
        "examples",
        "redact",
    ])?;
    let original_name = part.required("name", "name it with words like `list_items`")?;
    let original_name = read_name(&original_name)?;
    let description = part.required("description", "say what it does, for a model that chooses")?;
    let description = description.text(DESCRIPTION_CHARS)?;
    let method = part.required("method", "write the method of the request, like `GET`")?.one_of(&methods())?;
    let promise = if shared.safe_methods { method.promise } else { Promise::default() };
    let input_schema = read_input_schema(part)?;
    Ok(Action {
        usage: part.member("usage").map_or(Ok(description.clone()), |part| part.text(USAGE_CHARS))?,
        output_schema: part.member("output_schema").map(|part| read_output_schema(&part)).transpose()?,
        hints: part
            .member("hints")
            .map_or(Ok(usual_hints(promise, promise.is_safe)), |part| read_hints(&part, promise))?,
        tags: list(part, "tags", |item| item.text(TAG_CHARS).map(Value::from))?,
        examples: list(part, "examples", read_example)?,
        redact: list(part, "redact", |item| read_pointer(item).map(Value::from))?,
        plan: read_plan(part, shared, method, &input_schema)?,
        input_schema: Value::Object(input_schema),
        name: toolgate_api::name::derive_tool_name(shared.namespace, &original_name),
        original_name,
        description,
    })
}

fn methods() -> [(&'static str, Method); METHODS.len()] {
    METHODS.map(|method| (method.name, method))
}

/// A name of any kind on one line: the tool's is made of it.
fn read_name(part: &Part<'_>) -> Result<String, Error> {
    let name = part.text(NAME_CHARS)?;
    match name.contains(['\n', '\t']) || name.trim() != name {
        true => Err(part
            .error("the name has a line break, a tab or space around it", "write a name like `list_items`")),
        false => Ok(name),
    }
}

/// The schema of the arguments, closed: an argument that it does not name has no place in the request.
fn read_input_schema(action: &Part<'_>) -> Result<Map<String, Value>, Error> {
    let Some(part) = action.member("input_schema") else { return Ok(closed(Map::new())) };
    let schema = part.object()?;
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(part.error(
            "the schema of the arguments does not say `\"type\":\"object\"`",
            "arguments are named: write `{\"type\":\"object\",\"properties\":{…}}`",
        ));
    }
    if let Some(properties) = part.member("properties") {
        properties.members(placement::ARGUMENTS)?;
    }
    match schema.get("additionalProperties") {
        None | Some(Value::Bool(false)) => Ok(closed(schema.clone())),
        Some(_) => Err(part.below("additionalProperties").error(
            "arguments that are not named have no place in the request",
            "name them in `properties`, or leave this out; a body of any form is one argument with `\"whole\":true`",
        )),
    }
}

fn closed(mut schema: Map<String, Value>) -> Map<String, Value> {
    let mut insert = |name: &str, value: Value| {
        schema.entry(name).or_insert(value);
    };
    insert("type", json!("object"));
    insert("properties", json!({}));
    insert("additionalProperties", json!(false));
    schema
}

fn read_output_schema(part: &Part<'_>) -> Result<Value, Error> {
    match part.value() {
        Value::Object(_) | Value::Bool(_) => Ok(part.value().clone()),
        _ => part.object().map(|_| Value::Null),
    }
}

fn read_plan(
    part: &Part<'_>,
    shared: &Shared<'_>,
    method: Method,
    schema: &Map<String, Value>,
) -> Result<Plan, Error> {
    let path = part
        .required("path", "write what follows the base URL, like `/items/{id}`; `\"\"` is the base itself")?;
    let path = template::read(&path, shared.base, schema)?;
    let form = part.member("body").map(|part| read_form(&part, method)).transpose()?;
    let call = placement::Call { method, template: &path, schema, form: form.unwrap_or_default() };
    let arguments = placement::read(part, &call)?;
    let has_content = arguments.values().any(|place| place.target.is_in_the_content());
    let content = has_content.then(|| read_content(part, call.form)).transpose()?;
    if content.is_none() {
        refuse_without_content(part)?;
    }
    Ok(Plan {
        method: method.name.to_owned(),
        origin: shared.base.origin(),
        headers: headers(shared.headers),
        result: part.member("result").map_or(Ok(Selection::Whole), |part| read_selection(&part))?,
        path: path.pieces,
        query: path.query,
        has_credential: shared.has_credential,
        arguments,
        content,
    })
}

/// The fields of every request. Unless they say what is wanted, it is JSON.
fn headers(shared: &[(String, String)]) -> Vec<(String, String)> {
    let mut headers = shared.to_vec();
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept")) {
        headers.push(("accept".to_owned(), "application/json".to_owned()));
    }
    headers
}

fn read_form(part: &Part<'_>, method: Method) -> Result<ContentForm, Error> {
    if !method.takes_content {
        return Err(part.error(format!("a {} request has no body", method.name), "leave `body` out"));
    }
    part.one_of(&[("json", ContentForm::Json), ("form", ContentForm::Form), ("text", ContentForm::Text)])
}

fn read_content(action: &Part<'_>, form: ContentForm) -> Result<Content, Error> {
    let usual = match form {
        ContentForm::Json => "application/json",
        ContentForm::Form => "application/x-www-form-urlencoded",
        ContentForm::Text => "text/plain; charset=utf-8",
    };
    let Some(part) = action.member("content_type") else {
        return Ok(Content { form, content_type: usual.to_owned() });
    };
    if form == ContentForm::Form {
        return Err(part.error(format!("a form is always `{usual}`"), "leave `content_type` out"));
    }
    let text = part.string()?;
    let is_printable = text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    match is_printable && text.len() <= MEDIA_TYPE_BYTES && is_media_type(text) {
        true => Ok(Content { form, content_type: text.to_owned() }),
        false => Err(part.error(
            format!("`{}` is no media type", shown(text)),
            "write it like `application/merge-patch+json`",
        )),
    }
}

fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte))
    };
    let essence = text.split(';').next().unwrap_or(text).trim_end();
    essence.split_once('/').is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
}

fn refuse_without_content(action: &Part<'_>) -> Result<(), Error> {
    match ["body", "content_type"].iter().find_map(|name| action.member(name)) {
        None => Ok(()),
        Some(part) => {
            let hint = "leave it out, or send an argument with `\"in\":\"body\"`";
            Err(part.error("no argument goes into the body, so this has no effect", hint))
        }
    }
}

fn read_selection(part: &Part<'_>) -> Result<Selection, Error> {
    part.check_fields(&["pointer", "jmespath"])?;
    match (part.member("pointer"), part.member("jmespath")) {
        (Some(pointer), None) => read_pointer(&pointer).map(Selection::Pointer),
        (None, Some(jmespath)) => read_jmespath(&jmespath).map(Selection::Jmespath),
        (Some(_), Some(_)) => {
            Err(part.error("there are two ways to the result", "keep `pointer` or `jmespath`"))
        }
        (None, None) => Err(part
            .error("it does not say where the result is", "write `pointer` or `jmespath`, or leave it out")),
    }
}

fn read_pointer(part: &Part<'_>) -> Result<String, Error> {
    let pointer = part.string()?;
    match refused_pointer(pointer) {
        None => Ok(pointer.to_owned()),
        Some(why) => Err(part
            .error(format!("`{}` is no JSON pointer: {why}", shown(pointer)), "write it like `/data/items`")),
    }
}

fn read_jmespath(part: &Part<'_>) -> Result<String, Error> {
    let expression = part.string()?;
    match refused_jmespath(expression) {
        None => Ok(expression.to_owned()),
        Some(why) => {
            Err(part.error(format!("the JMESPath cannot be used: {why}"), "see https://jmespath.org"))
        }
    }
}

fn read_hints(part: &Part<'_>, promise: Promise) -> Result<Hints, Error> {
    part.check_fields(&["read_only", "destructive", "idempotent", "open_world"])?;
    let flag = |name: &str, usual| part.member(name).map_or(Ok(usual), |part| part.flag());
    let usual = usual_hints(promise, flag("read_only", promise.is_safe)?);
    let hints = Hints {
        read_only: usual.read_only,
        destructive: flag("destructive", usual.destructive)?,
        idempotent: flag("idempotent", usual.idempotent)?,
        open_world: flag("open_world", usual.open_world)?,
    };
    match hints.read_only && hints.destructive {
        true => {
            let hint = "set one of `read_only` and `destructive`";
            Err(part.below("destructive").error("what changes nothing destroys nothing", hint))
        }
        false => Ok(hints),
    }
}

/// What follows from a promise, and is the careful answer where nothing follows.
fn usual_hints(promise: Promise, read_only: bool) -> Hints {
    Hints {
        read_only,
        destructive: !read_only,
        idempotent: promise.is_idempotent || read_only,
        open_world: true,
    }
}

fn list(
    action: &Part<'_>,
    name: &str,
    read: impl Fn(&Part<'_>) -> Result<Value, Error>,
) -> Result<Vec<Value>, Error> {
    action.member(name).map_or(Ok(Vec::new()), |part| part.items(ITEMS)?.iter().map(read).collect())
}

fn read_example(part: &Part<'_>) -> Result<Value, Error> {
    part.check_fields(&["description", "input", "output"])?;
    if let Some(description) = part.member("description") {
        description.text(EXAMPLE_CHARS)?;
    }
    part.required("input", "write the arguments of a call, as an object")?.object()?;
    Ok(part.value().clone())
}

/// The hint for a name that no property has.
pub fn meant_property(name: &str, schema: &Map<String, Value>) -> String {
    let properties = schema.get("properties").and_then(Value::as_object);
    meant(name, properties.into_iter().flat_map(Map::keys).map(String::as_str))
}
