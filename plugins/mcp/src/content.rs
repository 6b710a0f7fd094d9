//! What a call of a server's tool gave, as a result of ours.
//!
//! Structured content is the result itself. A single text is a string, unless the tool promised a structure. All else is an
//! object with `content`: texts, images and sounds in Base64 with their types, links to resources and resources, in
//! their order. Texts pass as they are: they are data, and stand in JSON as such.

use toolgate_sdk::Error;
use toolgate_sdk::serde_json::{Map, Value, json};

use crate::failure::MESSAGE_CHARS;
use crate::text::{cut, shown};

/// Pieces of content. A model reads a few.
const PIECES: usize = 1_000;

/// What is kept of a piece, by its type: not what is for the eyes of a client (`annotations`, `icons`, `_meta`).
const KEPT: [(&str, &[&str]); 5] = [
    ("text", &["text"]),
    ("image", &["data", "mimeType"]),
    ("audio", &["data", "mimeType"]),
    ("resource_link", &["uri", "name", "title", "description", "mimeType", "size"]),
    ("resource", &["resource"]),
];

/// The result of a call, or the failure that it tells.
pub fn read(tool: &str, is_structured: bool, mut result: Value) -> Result<Value, Error> {
    check_type(tool, &result)?;
    let pieces = match result.get_mut("content").map(Value::take) {
        Some(Value::Array(pieces)) if pieces.len() <= PIECES => pieces,
        Some(Value::Array(_)) => {
            return Err(Error::new(format!(
                "tool `{tool}` of the server gave more than {PIECES} pieces of content"
            )));
        }
        _ => Vec::new(),
    };
    if result.get("isError") == Some(&Value::Bool(true)) {
        return Err(failed(tool, &pieces));
    }
    if let Some(structured) = result.get_mut("structuredContent").map(Value::take) {
        return Ok(structured);
    }
    match pieces.as_slice() {
        [piece] if !is_structured && text(piece).is_some() => Ok(text(piece).unwrap_or_default().into()),
        _ => Ok(json!({"content": pieces.into_iter().map(kept).collect::<Vec<_>>()})),
    }
}

/// A result may be something else than a result.
fn check_type(tool: &str, result: &Value) -> Result<(), Error> {
    if !result.is_object() {
        return Err(Error::new(format!("tool `{tool}` of the server gave no result")));
    }
    match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => Ok(()),
        Some("input_required") => Err(Error::new(format!(
            "tool `{tool}` of the server asks back ({}), which is not supported: call it with everything that it needs",
            asked(result)
        ))),
        Some(other) => Err(Error::new(format!(
            "tool `{tool}` of the server gave a result of the kind `{}`, which is not supported",
            shown(other, 40)
        ))),
    }
}

/// What the server wants: methods, and what it would say to a person.
fn asked(result: &Value) -> String {
    let requests = result.get("inputRequests").and_then(Value::as_object);
    let asked = requests.into_iter().flatten().map(|(_, request)| {
        let method = request.get("method").and_then(Value::as_str).unwrap_or("something");
        match request.pointer("/params/message").and_then(Value::as_str) {
            Some(message) => format!("`{}`: {}", shown(method, 40), shown(message, 200)),
            None => format!("`{}`", shown(method, 40)),
        }
    });
    asked.take(4).collect::<Vec<_>>().join("; ")
}

fn failed(tool: &str, pieces: &[Value]) -> Error {
    let said = pieces.iter().filter_map(text).collect::<Vec<_>>().join("\n");
    match said.trim() {
        "" => Error::new(format!("tool `{tool}` of the server failed and does not say why")),
        said => Error::new(cut(said, MESSAGE_CHARS)),
    }
}

fn text(piece: &Value) -> Option<&str> {
    (piece.get("type")?.as_str()? == "text").then(|| piece.get("text")?.as_str()).flatten()
}

/// A piece without what says nothing to a model. One of a type that is not known stays as it is.
fn kept(piece: Value) -> Value {
    let Value::Object(mut fields) = piece else { return piece };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let known = KEPT.iter().find(|(known, _)| *known == kind);
    let Some((kind, names)) = known else { return Value::Object(fields) };
    let mut piece = Map::from_iter([("type".to_owned(), json!(kind))]);
    for name in *names {
        piece.extend(fields.remove_entry(*name));
    }
    if let Some(Value::Object(resource)) = piece.get_mut("resource") {
        resource.retain(|name, _| matches!(name.as_str(), "uri" | "mimeType" | "text" | "blob"));
    }
    Value::Object(piece)
}
