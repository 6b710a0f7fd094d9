//! Arguments that a server wants in header fields too, for the proxies before it (2026-07-28, `x-mcp-header`).
//!
//! A tool's schema marks them. A client must mirror what is marked, and must not offer a tool that marks it wrongly.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use toolgate_api::header::is_token;
use toolgate_sdk::serde_json::{Map, Value};

use crate::schema;
use crate::text::display;

const MARK: &str = "x-mcp-header";
const PREFIX: &str = "Mcp-Param-";

/// Prefix and suffix of a value that is written in Base64.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Fields of one tool: header fields of a request have 32 KiB together.
const FIELDS: usize = 32;

/// An argument in a header field.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Mirrored {
    /// The place of the argument: names of properties, from the outermost.
    pub path: Vec<String>,
    /// The header field.
    pub header: String,
}

/// The properties that the input schema of a tool marks, or why it may not.
pub fn read(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut found = Vec::new();
    if let Some(root) = schema.as_object() {
        if root.contains_key(MARK) {
            return Err(format!("it marks the root of its schema with `{MARK}`"));
        }
        find(root, Some(&[]), &mut found)?;
    }
    let mut names: Vec<String> = found.iter().map(|mirrored| mirrored.header.to_ascii_lowercase()).collect();
    names.sort_unstable();
    let is_twice = names.windows(2).any(|pair| pair[0] == pair[1]);
    match is_twice || found.len() > FIELDS {
        true => Err(format!("its `{MARK}` name a header field twice, or more than {FIELDS}")),
        false => Ok(found),
    }
}

/// Looks at what lies inside. There is a path only where `properties` alone lead.
fn find(schema: &Map<String, Value>, path: Option<&[&str]>, found: &mut Vec<Mirrored>) -> Result<(), String> {
    for (property, part) in schema::parts(schema) {
        let Some(part) = part.as_object() else { continue };
        let inner: Option<Vec<&str>> =
            path.zip(property).map(|(path, property)| path.iter().copied().chain([property]).collect());
        if let Some(mark) = part.get(MARK) {
            found.push(read_mark(part, mark, inner.as_deref())?);
        }
        find(part, inner.as_deref(), found)?;
    }
    Ok(())
}

fn read_mark(part: &Map<String, Value>, mark: &Value, path: Option<&[&str]>) -> Result<Mirrored, String> {
    let path = path.ok_or_else(|| format!("its `{MARK}` stands where `properties` alone do not lead"))?;
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let name = mark.as_str().filter(|name| is_token(name)).ok_or_else(|| {
        format!("its `{MARK}` `{}` is no name of a header field", display(&mark.to_string(), 60))
    })?;
    match matches!(kind, "string" | "integer" | "boolean") {
        true => Ok(Mirrored {
            path: path.iter().map(|name| (*name).to_owned()).collect(),
            header: format!("{PREFIX}{name}"),
        }),
        false => Err(format!("its `{MARK}` marks what is no string, integer or boolean")),
    }
}

/// The header fields of a call with these arguments.
pub fn fields<'a>(mirrored: &'a [Mirrored], arguments: &Value) -> Vec<(&'a str, String)> {
    let value = |mirrored: &Mirrored| {
        let value = mirrored.path.iter().try_fold(arguments, |value, name| value.get(name))?;
        match value {
            Value::String(text) => Some(encode(text)),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    };
    mirrored.iter().filter_map(|mirrored| Some((mirrored.header.as_str(), value(mirrored)?))).collect()
}

/// A text as the value of a header field: as it is where that is safe, else in Base64.
pub fn encode(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) && text.trim() == text;
    let (start, end) = ENCODED;
    match is_plain && !(text.starts_with(start) && text.ends_with(end)) {
        true => text.to_owned(),
        false => format!("{start}{}{end}", STANDARD.encode(text)),
    }
}
