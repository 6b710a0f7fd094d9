//! The path of an action: text, and in braces the arguments that are parts of it.

use serde_json::{Map, Value};
use toolgate_api::header::carries_credential;
use toolgate_api::network::has_bare_percent;
use toolgate_sdk::Error;

use super::base::Base;
use super::part::{Part, meant, shown};
use crate::path::check_path;
use crate::plan::Piece;

/// Longest template. Servers take some thousand bytes in all.
const TEMPLATE_BYTES: usize = 2_000;

const HINT: &str = "write it like `/points/{id}`: text, and arguments in braces";

/// The path and the constant query of an action.
pub struct Template {
    pub pieces: Vec<Piece>,
    pub query: String,
}

impl Template {
    pub fn names(&self, argument: &str) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Argument { name, .. } if name == argument))
    }

    /// The names in the constant query.
    pub fn query_names(&self) -> impl Iterator<Item = &str> {
        self.query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty())
    }
}

/// Reads a template, whose arguments must be there or have a default.
pub fn read(part: &Part<'_>, base: &Base, schema: &Map<String, Value>) -> Result<Template, Error> {
    let text = part.string()?;
    if text.len() > TEMPLATE_BYTES {
        return Err(part.error(format!("the path has more than {TEMPLATE_BYTES} bytes"), "shorten it"));
    }
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Some(why) = refused_query(query) {
        return Err(part
            .error(format!("the query of the path cannot be sent: {why}"), "write it like `?format=json`"));
    }
    if let Some(name) =
        query.split('&').filter_map(|pair| pair.split('=').next()).find(|name| carries_credential(name))
    {
        return Err(part.error(
            format!("`{}` in the query carries a credential, which a definition must not contain", shown(name)),
            "take it out, name a `provider` in `authentication`, and store the credential: the host puts it in",
        ));
    }
    let pieces = read_pieces(part, path, schema)?;
    let pieces = after(base, pieces);
    let sample: String =
        pieces.iter().map(|piece| if let Piece::Text(text) = piece { text } else { "x" }).collect();
    match (path.is_empty() || path.starts_with('/')).then(|| check_path(&sample)) {
        Some(Ok(())) => Ok(Template { pieces, query: query.to_owned() }),
        Some(Err(why)) => Err(part.error(format!("the path cannot be sent: {why}"), HINT)),
        None => Err(part.error("the path does not begin with `/`", HINT)),
    }
}

fn refused_query(query: &str) -> Option<&'static str> {
    if query.contains(['{', '}']) {
        return Some("arguments go into it by `arguments`, not in braces");
    }
    let is_sent = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$'()*,;:@/?=&%[]+".contains(&byte);
    match !query.bytes().all(is_sent) || has_bare_percent(query) {
        true => Some("it has a character that must be written with `%`"),
        false => None,
    }
}

fn read_pieces(part: &Part<'_>, path: &str, schema: &Map<String, Value>) -> Result<Vec<Piece>, Error> {
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) =
            after.split_once('}').ok_or_else(|| part.error("a brace is not closed in the path", HINT))?;
        if text.contains('}') {
            return Err(part.error("a brace is closed that was not opened in the path", HINT));
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        pieces.push(Piece::Argument { name: name.to_owned(), default: read_argument(part, name, schema)? });
        rest = after;
    }
    if rest.contains('}') {
        return Err(part.error("a brace is closed that was not opened in the path", HINT));
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest.to_owned()));
    }
    Ok(pieces)
}

/// That there is always something to put in the argument's place; gives what it is where the argument is left out.
fn read_argument(part: &Part<'_>, name: &str, schema: &Map<String, Value>) -> Result<Option<String>, Error> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(property) = properties.and_then(|properties| properties.get(name)) else {
        let known = properties.into_iter().flat_map(Map::keys).map(String::as_str);
        let message = format!("`{}` in the path is no property of `input_schema`", shown(name));
        return Err(part.error(message, meant(name, known)));
    };
    let default = match property.get("default") {
        Some(Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(default @ (Value::Number(_) | Value::Bool(_))) => Some(default.to_string()),
        _ => None,
    };
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = required.is_some_and(|names| names.iter().any(|required| required == name));
    match is_required || default.is_some() {
        true => Ok(default),
        false => Err(part.error(
            format!("`{name}` stands in the path and can be left out"),
            format!("name `{name}` in `required` of `input_schema`, or give it a `default` that is a word or a number"),
        )),
    }
}

/// The path of the base comes first.
fn after(base: &Base, mut pieces: Vec<Piece>) -> Vec<Piece> {
    match pieces.first_mut() {
        Some(Piece::Text(text)) => text.insert_str(0, &base.path),
        _ => pieces.insert(0, Piece::Text(base.path.clone())),
    }
    pieces
}
