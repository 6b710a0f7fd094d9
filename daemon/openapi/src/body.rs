//! The request body: the media type that is sent, and whether its members become arguments of their own.

use serde_json::{Map, Value};
use toolgate_api::text::escape_for_display;

use crate::document::Document;
use crate::operations::Operation;
use crate::parameters::is_json;
use crate::schema::{Direction, Members, object_members};

/// Media types that a note names.
const NAMED: usize = 6;

/// Beginnings of media types whose content is no text.
const FILE_TYPES: [&str; 9] = [
    "application/gzip",
    "application/octet-stream",
    "application/pdf",
    "application/vnd.openxmlformats",
    "application/zip",
    "audio/",
    "font/",
    "image/",
    "video/",
];

/// How the `api` plugin serializes the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFormat {
    Json,
    Form,
    Text,
    /// `multipart/form-data`.
    Multipart,
    /// One workspace file.
    Binary,
}

impl BodyFormat {
    /// The word of the definition; none for the default, JSON.
    pub(crate) fn word(self) -> Option<&'static str> {
        match self {
            Self::Json => None,
            Self::Form => Some("form"),
            Self::Text => Some("text"),
            Self::Multipart => Some("multipart"),
            Self::Binary => Some("binary"),
        }
    }
}

pub(crate) struct Body<'a> {
    pub(crate) format: BodyFormat,
    /// The `Content-Type`, where it is not the default one of the format.
    pub(crate) content_type: Option<&'a str>,
    /// Without a schema any value is accepted.
    pub(crate) schema: Option<&'a Value>,
    pub(crate) description: Option<&'a str>,
    pub(crate) is_required: bool,
    /// Whether `null` removes a member (RFC 7396).
    pub(crate) is_merge_patch: bool,
    /// Present if the members become arguments of their own.
    pub(crate) members: Option<Members<'a>>,
    /// The `encoding` object of a form, by member.
    pub(crate) encoding: Option<&'a Map<String, Value>>,
}

/// Reads the body, if the operation has one; the error says why the operation is left out.
pub(crate) fn read<'a>(
    document: &'a Document,
    operation: &Operation<'a>,
    notes: &mut Vec<String>,
) -> Result<Option<Body<'a>>, String> {
    let Some((body, content)) = sent_body(document, operation, notes)? else { return Ok(None) };
    let (media_type, format) = choose(document, content)?;
    if content.len() > 1 {
        let others = names(content.keys().filter(|other| *other != media_type));
        notes.push(format!(
            "its body is sent as `{}`, and not as {others}",
            escape_for_display(media_type, 60)
        ));
    }
    let media = content.get(media_type);
    let schema = media.and_then(|media| media.get("schema"));
    let encoding = media.and_then(|media| media.get("encoding")).and_then(Value::as_object);
    let is_required = body.get("required") == Some(&Value::Bool(true));
    let members = match schema {
        Some(schema) if format == BodyFormat::Json => json_members(document, schema, is_required, notes),
        _ => form_members(document, schema, format)?,
    };
    let description = body.get("description").and_then(Value::as_str);
    let content_type = explicit_content_type(content, media_type, format);
    let is_merge_patch = essence(media_type) == "application/merge-patch+json";
    Ok(Some(Body {
        format,
        content_type,
        schema,
        description,
        is_required,
        is_merge_patch,
        members,
        encoding,
    }))
}

/// The members of a form or of a body with parts.
fn form_members<'a>(
    document: &'a Document,
    schema: Option<&'a Value>,
    format: BodyFormat,
) -> Result<Option<Members<'a>>, String> {
    let members = || schema.and_then(|schema| object_members(document, schema));
    let (members, kind) = match format {
        BodyFormat::Form => (members(), "is a form"),
        BodyFormat::Multipart => (members().filter(|members| !members.properties.is_empty()), "has parts"),
        BodyFormat::Json | BodyFormat::Text | BodyFormat::Binary => return Ok(None),
    };
    let members = members
        .ok_or_else(|| format!("its body {kind}, but its schema is not an object with named members"))?;
    Ok(Some(members))
}

/// The resolved body of an operation, and its media types.
type SentBody<'a> = (&'a Value, &'a Map<String, Value>);

/// Returns the body, unless the operation has none or its method sends none.
fn sent_body<'a>(
    document: &'a Document,
    operation: &Operation<'a>,
    notes: &mut Vec<String>,
) -> Result<Option<SentBody<'a>>, String> {
    let Some(body) = operation.body.get("requestBody") else { return Ok(None) };
    let body = document.resolve(body).map_err(|why| format!("its body cannot be resolved: {why}"))?;
    let content = body.get("content").and_then(Value::as_object);
    let Some(content) = content.filter(|content| !content.is_empty()) else { return Ok(None) };
    if !matches!(operation.method, "GET" | "HEAD" | "OPTIONS") {
        return Ok(Some((body, content)));
    }
    if !content.values().all(|media| is_empty(document, media)) {
        notes.push("its body is left out: requests with this method have none".to_owned());
    }
    Ok(None)
}

/// Whether the schema declares an object without any member.
fn is_empty(document: &Document, media: &Value) -> bool {
    let members = media.get("schema").and_then(|schema| object_members(document, schema));
    members.is_some_and(|members| members.properties.is_empty() && members.required.is_empty())
}

fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Chooses the media type: JSON before form, parts, text and file, and plain `application/json` before other JSON types.
fn choose<'a>(document: &Document, content: &'a Map<String, Value>) -> Result<(&'a str, BodyFormat), String> {
    let find_media = |fits: &dyn Fn(&str, &Value) -> bool| {
        let mut media = content.iter();
        media.find(|(media_type, media)| fits(&essence(media_type), media)).map(|(name, _)| name.as_str())
    };
    let find = |fits: &dyn Fn(&str) -> bool| find_media(&|essence, _| fits(essence));
    let json = find(&|essence| essence == "application/json")
        .or_else(|| find(&|essence| essence == "application/merge-patch+json"))
        .or_else(|| find(&|essence| is_json(essence)))
        .or_else(|| {
            let is_any = |essence: &str| matches!(essence, "*/*" | "application/*");
            find_media(&|essence, media| is_any(essence) && !has_file_schema(document, media))
        });
    if let Some(media_type) = json {
        return Ok((media_type, BodyFormat::Json));
    }
    if let Some(media_type) = find(&|essence| essence == "application/x-www-form-urlencoded") {
        return Ok((media_type, BodyFormat::Form));
    }
    if let Some(media_type) = find(&|essence| essence == "multipart/form-data") {
        return Ok((media_type, BodyFormat::Multipart));
    }
    if let Some(media_type) = find(&|essence| essence == "text/plain") {
        return Ok((media_type, BodyFormat::Text));
    }
    if let Some(media_type) = find_media(&|essence, media| is_file(document, essence, media)) {
        return Ok((media_type, BodyFormat::Binary));
    }
    Err(format!("its body is sent as {}, which actions cannot send", names(content.keys())))
}

fn names<'a>(media_types: impl Iterator<Item = &'a String>) -> String {
    let named: Vec<String> = media_types
        .take(NAMED)
        .map(|media_type| format!("`{}`", escape_for_display(media_type, 60)))
        .collect();
    named.join(" or ")
}

/// Whether a media type is of files that are no text, or its schema says so.
pub(crate) fn is_file(document: &Document, essence: &str, media: &Value) -> bool {
    let is_kind = |kind: &&str| essence.starts_with(*kind);
    FILE_TYPES.iter().any(is_kind) || has_file_schema(document, media)
}

fn has_file_schema(document: &Document, media: &Value) -> bool {
    media.get("schema").is_some_and(|schema| is_file_schema(document, schema))
}

/// Whether a schema is of bytes: `format: binary` of OpenAPI 3.0, or `contentMediaType` without an encoding of 3.1.
pub(crate) fn is_file_schema(document: &Document, schema: &Value) -> bool {
    let Ok(Value::Object(schema)) = document.resolve(schema) else { return false };
    let is_text = schema.get("type").is_none_or(|kind| kind == "string");
    let is_raw = schema.contains_key("contentMediaType") && !schema.contains_key("contentEncoding");
    is_text && (is_raw || schema.get("format").is_some_and(|format| format == "binary"))
}

/// The media type as a `Content-Type`: of JSON, types that are more specific than `application/json`; of a file, the only type
/// that the document has.
fn explicit_content_type<'a>(
    content: &Map<String, Value>,
    media_type: &'a str,
    format: BodyFormat,
) -> Option<&'a str> {
    let is_explicit = match format {
        BodyFormat::Json => !media_type.eq_ignore_ascii_case("application/json"),
        BodyFormat::Binary => content.len() == 1,
        BodyFormat::Form | BodyFormat::Text | BodyFormat::Multipart => false,
    };
    let is_word = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    let can_be_sent = media_type.len() <= 200 && media_type.bytes().all(is_word) && !media_type.contains('*');
    (is_explicit && can_be_sent).then_some(media_type)
}

/// The members of a JSON body, if arguments of their own can express every value of the body.
fn json_members<'a>(
    document: &'a Document,
    schema: &'a Value,
    is_required: bool,
    notes: &mut Vec<String>,
) -> Option<Members<'a>> {
    let members = object_members(document, schema)?;
    let is_closed = matches!(members.additional, None | Some(Value::Bool(false)));
    // An optional body with required members must be absent or complete, which separate arguments cannot express.
    let is_sent = |name: &&str| {
        let property = members.properties.get(name);
        !property.is_some_and(|property| Direction::Request.is_hidden(document, property))
    };
    let stands_for_itself = is_required || !members.required.iter().any(is_sent);
    if !is_closed || members.properties.is_empty() || !stands_for_itself {
        return None;
    }
    if members.has_conditions {
        notes.push("conditions between its arguments are not checked".to_owned());
    }
    Some(members)
}
