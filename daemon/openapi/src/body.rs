//! The body of a request: which of its media types is taken, and whether its members become arguments of their own.

use serde_json::{Map, Value};
use toolgate_admission::show;

use crate::document::Document;
use crate::operations::Operation;
use crate::parameters::is_json;
use crate::schema::{Direction, Members, gather};

/// Media types that a note names.
const NAMED: usize = 6;

/// How a body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    Json,
    Form,
    Text,
}

/// The body of an operation.
pub(crate) struct Body<'a> {
    pub(crate) form: Writing,
    /// The media type, where it is not the usual one of its form.
    pub(crate) content_type: Option<&'a str>,
    /// What it may be; none means anything.
    pub(crate) schema: Option<&'a Value>,
    pub(crate) description: Option<&'a str>,
    pub(crate) is_required: bool,
    /// Its members, where they can be arguments of their own.
    pub(crate) members: Option<Members<'a>>,
    /// Of a form, how its members are written.
    pub(crate) encoding: Option<&'a Map<String, Value>>,
}

/// The body, if there is one; an error is why the operation cannot be an action.
pub(crate) fn read<'a>(
    document: &'a Document,
    operation: &Operation<'a>,
    notes: &mut Vec<String>,
) -> Result<Option<Body<'a>>, String> {
    let Some(body) = operation.body.get("requestBody") else { return Ok(None) };
    let body = document.resolve(body).map_err(|why| format!("its body is not known: {why}"))?;
    let content = body.get("content").and_then(Value::as_object);
    let Some(content) = content.filter(|content| !content.is_empty()) else { return Ok(None) };
    if matches!(operation.method, "GET" | "HEAD" | "OPTIONS") {
        if !content.values().all(|media| is_empty(document, media)) {
            notes.push("its body is left out: requests of this method have none".to_owned());
        }
        return Ok(None);
    }
    let (media_type, form) = choose(content)?;
    tell_of_others(content, media_type, notes);
    let media = content.get(media_type);
    let schema = media.and_then(|media| media.get("schema"));
    let encoding = media.and_then(|media| media.get("encoding")).and_then(Value::as_object);
    let is_required = body.get("required") == Some(&Value::Bool(true));
    let members = match form {
        Writing::Json => schema.and_then(|schema| flat(document, schema, is_required, notes)),
        Writing::Form => Some(form_members(document, schema)?),
        Writing::Text => None,
    };
    let description = body.get("description").and_then(Value::as_str);
    let content_type = unusual(media_type, form);
    Ok(Some(Body { form, content_type, schema, description, is_required, members, encoding }))
}

/// Whether a body of this form never says anything.
fn is_empty(document: &Document, media: &Value) -> bool {
    let members = media.get("schema").and_then(|schema| gather(document, schema));
    members.is_some_and(|members| members.properties.is_empty() && members.required.is_empty())
}

/// The media type that is taken: JSON before others, and of those its plainest.
fn choose(content: &Map<String, Value>) -> Result<(&str, Writing), String> {
    let essence =
        |media_type: &str| media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let find = |fits: &dyn Fn(&str) -> bool| {
        content.keys().map(String::as_str).find(|media_type| fits(&essence(media_type)))
    };
    let json = find(&|essence| essence == "application/json")
        .or_else(|| find(&|essence| essence == "application/merge-patch+json"))
        .or_else(|| find(&|essence| is_json(essence)))
        .or_else(|| find(&|essence| matches!(essence, "*/*" | "application/*")));
    if let Some(media_type) = json {
        return Ok((media_type, Writing::Json));
    }
    if let Some(media_type) = find(&|essence| essence == "application/x-www-form-urlencoded") {
        return Ok((media_type, Writing::Form));
    }
    if let Some(media_type) = find(&|essence| essence == "text/plain") {
        return Ok((media_type, Writing::Text));
    }
    Err(format!("its body is sent as {}, which no action does", names(content.keys())))
}

fn tell_of_others(content: &Map<String, Value>, taken: &str, notes: &mut Vec<String>) {
    if content.len() > 1 {
        let others = content.keys().filter(|media_type| *media_type != taken);
        notes.push(format!("its body is sent as `{}`, and not as {}", show(taken, 60), names(others)));
    }
}

fn names<'a>(media_types: impl Iterator<Item = &'a String>) -> String {
    let named: Vec<String> =
        media_types.take(NAMED).map(|media_type| format!("`{}`", show(media_type, 60))).collect();
    named.join(" or ")
}

/// The media type as a header, where it is a JSON one that says more than `application/json`.
fn unusual(media_type: &str, form: Writing) -> Option<&str> {
    let is_usual = media_type.eq_ignore_ascii_case("application/json") || media_type.contains('*');
    let is_word = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let can_be_sent = media_type.len() <= 200 && media_type.bytes().all(is_word);
    (form == Writing::Json && !is_usual && can_be_sent).then_some(media_type)
}

/// The members of a JSON body, if arguments of their own can say all that the body could.
fn flat<'a>(
    document: &'a Document,
    schema: &'a Value,
    is_required: bool,
    notes: &mut Vec<String>,
) -> Option<Members<'a>> {
    let members = gather(document, schema)?;
    let is_closed = matches!(members.additional, None | Some(Value::Bool(false)));
    // A body that may be left out, but must be whole if it is there, cannot be told from its members.
    let is_sent = |name: &&str| {
        let property = members.properties.get(name);
        !property.is_some_and(|property| Direction::Request.is_hidden(document, property))
    };
    let stands_for_itself = is_required || !members.required.iter().any(is_sent);
    if !is_closed || members.properties.is_empty() || !stands_for_itself {
        return None;
    }
    if members.is_loosened {
        notes.push("which of its arguments go together is not checked".to_owned());
    }
    Some(members)
}

/// The members of a form, which is nothing but members.
fn form_members<'a>(document: &'a Document, schema: Option<&'a Value>) -> Result<Members<'a>, String> {
    let refuse = || "its body is a form, but no object with named members".to_owned();
    let members = schema.and_then(|schema| gather(document, schema)).ok_or_else(refuse)?;
    Ok(members)
}
