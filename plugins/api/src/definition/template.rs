//! The path of an action: text, and in braces the arguments that are parts of it.

use serde_json::{Map, Value};
use toolgate_api::header::carries_credential;
use toolgate_api::network::has_bare_percent;
use toolgate_api::read::ReadError;
use toolgate_api::text::escape_for_display;

use super::base::Base;
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

/// Reads a template at `place`, whose arguments must be there or have a default.
pub fn read(
    place: &str,
    text: &str,
    base: &Base,
    schema: &Map<String, Value>,
) -> Result<Template, ReadError> {
    let refusal = |message: String, hint| Err(ReadError::new(place, message, hint));
    if text.len() > TEMPLATE_BYTES {
        return refusal(format!("the path has more than {TEMPLATE_BYTES} bytes"), "shorten it");
    }
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Some(why) = refused_query(query) {
        return refusal(
            format!("the query of the path cannot be sent: {why}"),
            "write it like `?format=json`",
        );
    }
    let mut names = query.split('&').filter_map(|pair| pair.split('=').next());
    if let Some(name) = names.find(|name| carries_credential(name)) {
        let name = escape_for_display(name, 80);
        return refusal(
            format!("`{name}` in the query carries a credential, which a definition must not contain"),
            "take it out, name a `provider` in `authentication`, and store the credential: the host puts it in",
        );
    }
    let pieces = read_pieces(place, path, schema)?;
    let pieces = after(base, pieces);
    let sample: String =
        pieces.iter().map(|piece| if let Piece::Text(text) = piece { text } else { "x" }).collect();
    match (path.is_empty() || path.starts_with('/')).then(|| check_path(&sample)) {
        Some(Ok(())) => Ok(Template { pieces, query: query.to_owned() }),
        Some(Err(why)) => Err(ReadError::new(place, format!("the path cannot be sent: {why}"), HINT)),
        None => Err(ReadError::new(place, "the path does not begin with `/`", HINT)),
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

fn read_pieces(place: &str, path: &str, schema: &Map<String, Value>) -> Result<Vec<Piece>, ReadError> {
    let mut pieces = Vec::new();
    let mut rest = path;
    while let Some((text, after)) = rest.split_once('{') {
        let (name, after) = after
            .split_once('}')
            .ok_or_else(|| ReadError::new(place, "a brace is not closed in the path", HINT))?;
        push_text(place, text, &mut pieces)?;
        pieces.push(Piece::Argument { name: name.to_owned(), default: read_argument(place, name, schema)? });
        rest = after;
    }
    push_text(place, rest, &mut pieces)?;
    Ok(pieces)
}

fn push_text(place: &str, text: &str, pieces: &mut Vec<Piece>) -> Result<(), ReadError> {
    if text.contains('}') {
        return Err(ReadError::new(place, "a brace is closed that was not opened in the path", HINT));
    }
    pieces.extend(Some(text.to_owned()).filter(|text| !text.is_empty()).map(Piece::Text));
    Ok(())
}

/// Checks that there is always a value for the argument's place. Returns the one for an argument that is left out.
fn read_argument(place: &str, name: &str, schema: &Map<String, Value>) -> Result<Option<String>, ReadError> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let Some(property) = properties.and_then(|properties| properties.get(name)) else {
        let known = properties.into_iter().flat_map(Map::keys).map(String::as_str);
        return Err(ReadError::undefined_name(place, "property", name, known));
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
        false => Err(ReadError::new(
            place,
            format!("`{name}` stands in the path and can be left out"),
            format!(
                "name `{name}` in `required` of `input_schema`, or give it a `default` that is a word or a number"
            ),
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
