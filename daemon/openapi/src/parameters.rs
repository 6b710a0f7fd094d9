//! The parameters of an operation, and how each is written into a request.
//!
//! What cannot be written as the document wants it is dropped where it is optional, and is the end of the action where it is
//! required. Secrets are no arguments: a parameter into which the host puts the credential is dropped with a note, and so are
//! header fields that carry authority or framing (`headers.rs`).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toolgate_admission::show;

use crate::document::Document;
use crate::headers;
use crate::operations::Operation;
use crate::security::SecretPlace;
use crate::text::is_visible;

/// Parameters of one operation.
const PARAMETERS: usize = 300;
/// How far alternatives and references of a schema are followed to learn what kind of value it is.
const KIND_DEPTH: usize = 6;
/// Schemas that are looked at for that, since alternatives multiply.
const KIND_STEPS: usize = 200;

/// How lists are written where `deepObject` is asked for, of which OpenAPI says nothing: `id[]=1&id[]=2`.
const BRACKETS: &str = "brackets";

/// Where an argument goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Path,
    Query,
    Header,
    Body,
}

impl Place {
    /// As definitions write it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Body => "body",
        }
    }
}

/// What an argument may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Meaning<'a> {
    /// What the schema says.
    Schema(&'a Value),
    /// A text: the document says nothing, or the place holds only text.
    Text,
}

/// A parameter that becomes an argument.
#[derive(Clone, Debug)]
pub(crate) struct Parameter<'a> {
    pub(crate) name: &'a str,
    /// As it is called in the request.
    pub(crate) sent_as: Cow<'a, str>,
    pub(crate) place: Place,
    /// How a value with parts is written; none means the usual way.
    pub(crate) style: Option<&'static str>,
    pub(crate) is_required: bool,
    pub(crate) meaning: Meaning<'a>,
    pub(crate) description: Option<&'a str>,
    pub(crate) is_deprecated: bool,
}

/// The parameters of an operation; an error is why it cannot be an action.
pub(crate) fn read<'a>(
    document: &'a Document,
    operation: &Operation<'a>,
    secret: Option<&SecretPlace>,
    notes: &mut Vec<String>,
) -> Result<Vec<Parameter<'a>>, String> {
    let mut parameters = Vec::new();
    for parameter in listed(document, operation)? {
        let read = Read { document, parameter, secret };
        match read.parameter() {
            Ok(Some(parameter)) => parameters.push(parameter),
            Ok(None) => {}
            Err(why) if read.is_required() => return Err(format!("it needs {}: {why}", read.label())),
            Err(why) => notes.push(format!("{} is left out: {why}", read.label())),
        }
    }
    Ok(parameters)
}

/// The parameters of the path and of the operation, of which those of the operation count, in their order.
fn listed<'a>(
    document: &'a Document,
    operation: &Operation<'a>,
) -> Result<Vec<&'a Map<String, Value>>, String> {
    let mut places: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut listed: Vec<&Map<String, Value>> = Vec::new();
    for parameters in [operation.item.get("parameters"), operation.body.get("parameters")] {
        for parameter in parameters.and_then(Value::as_array).into_iter().flatten() {
            let parameter =
                document.resolve(parameter).map_err(|why| format!("a parameter is not known: {why}"))?;
            let Value::Object(parameter) = parameter else { continue };
            let text = |name: &str| parameter.get(name).and_then(Value::as_str).unwrap_or_default();
            let key = (text("in"), text("name"));
            if let Some(known) = places.get(&key).and_then(|at| listed.get_mut(*at)) {
                *known = parameter;
                continue;
            }
            if listed.len() == PARAMETERS {
                return Err(format!("it has more than {PARAMETERS} parameters"));
            }
            places.insert(key, listed.len());
            listed.push(parameter);
        }
    }
    Ok(listed)
}

/// One parameter while it is read.
struct Read<'a, 's> {
    document: &'a Document,
    parameter: &'a Map<String, Value>,
    secret: Option<&'s SecretPlace>,
}

impl<'a> Read<'a, '_> {
    fn text(&self, name: &str) -> &'a str {
        self.parameter.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.parameter.get(name).and_then(Value::as_bool)
    }

    fn is_required(&self) -> bool {
        self.text("in") == "path" || self.flag("required") == Some(true) && !self.is_the_hosts()
    }

    /// Whether the host puts it into the request, so that nobody misses it.
    fn is_the_hosts(&self) -> bool {
        let name = self.text("name");
        match (self.text("in"), self.secret) {
            // Some documents describe the credential as a security scheme, and again as a field.
            ("header", Some(_)) if headers::is_credential(name) => true,
            ("header", _)
                if ["accept", "authorization", "content-type"]
                    .contains(&name.to_ascii_lowercase().as_str()) =>
            {
                true
            }
            ("header", Some(SecretPlace::Header(secret))) => secret.eq_ignore_ascii_case(name),
            ("query", Some(SecretPlace::Query(secret))) => secret == name,
            _ => false,
        }
    }

    fn label(&self) -> String {
        match self.text("in") {
            "path" | "query" => format!("the parameter `{}`", show(self.text("name"), 80)),
            place => format!("the {} `{}`", show(place, 20), show(self.text("name"), 80)),
        }
    }

    /// The parameter; none where the document itself says that it is to be ignored.
    fn parameter(&self) -> Result<Option<Parameter<'a>>, String> {
        let name = self.text("name");
        if name.is_empty() || !is_visible(name) || name.len() > 200 {
            return Err("its name cannot be sent".to_owned());
        }
        let mut sent_as = Cow::Borrowed(name);
        let (place, style, meaning) = match self.text("in") {
            "path" => (Place::Path, None, self.path()?),
            "query" => {
                let (style, meaning) = self.query()?;
                if style == Some(BRACKETS) {
                    sent_as = format!("{name}[]").into();
                }
                (Place::Query, style.filter(|style| *style != BRACKETS), meaning)
            }
            // OpenAPI itself says that these two are described elsewhere.
            "header" if ["accept", "content-type"].contains(&name.to_ascii_lowercase().as_str()) => {
                return Ok(None);
            }
            "header" => (Place::Header, None, self.header()?),
            "cookie" => return Err("cookies are not sent".to_owned()),
            other => return Err(format!("`{}` is no place of a parameter", show(other, 40))),
        };
        let description = self.parameter.get("description").and_then(Value::as_str);
        Ok(Some(Parameter {
            name,
            sent_as,
            place,
            style,
            is_required: self.is_required(),
            meaning,
            description,
            is_deprecated: self.flag("deprecated") == Some(true),
        }))
    }

    fn path(&self) -> Result<Meaning<'a>, String> {
        match self.text("style") {
            "" | "simple" => self.in_one_text(),
            other => Err(format!("values in the style `{}` are not written", show(other, 40))),
        }
    }

    fn header(&self) -> Result<Meaning<'a>, String> {
        let name = self.text("name").to_ascii_lowercase();
        if self.is_the_hosts() {
            return Err("the host puts the credential there".to_owned());
        }
        match headers::refused(&name) {
            Some(why) => Err(why.to_owned()),
            None => self.in_one_text(),
        }
    }

    /// What stands in a path or a header: one text.
    fn in_one_text(&self) -> Result<Meaning<'a>, String> {
        let Some(schema) = self.parameter.get("schema") else { return Ok(Meaning::Text) };
        match kind(self.document, schema) {
            // The items of a list stand with commas between them.
            Kind::Single | Kind::List => Ok(Meaning::Schema(schema)),
            Kind::Nested => Err("its value has parts of parts, which no such place holds".to_owned()),
        }
    }

    fn query(&self) -> Result<(Option<&'static str>, Meaning<'a>), String> {
        if self.is_the_hosts() {
            return Err("the host puts the credential there".to_owned());
        }
        let Some(schema) = self.parameter.get("schema") else { return self.content() };
        let kind = kind(self.document, schema);
        let style = match self.text("style") {
            "" => "form",
            style => style,
        };
        let explodes = self.flag("explode").unwrap_or(style == "form");
        let style = match (style, kind) {
            ("form" | "spaceDelimited" | "pipeDelimited" | "deepObject", Kind::Single) => None,
            ("form", Kind::List) if explodes => None,
            ("form", Kind::List) => Some("comma"),
            ("spaceDelimited", Kind::List) if !explodes => Some("space"),
            ("pipeDelimited", Kind::List) if !explodes => Some("pipe"),
            ("spaceDelimited" | "pipeDelimited", Kind::List) => None,
            ("deepObject", Kind::List) => Some(BRACKETS),
            ("deepObject", Kind::Nested) if self.is_list() => {
                return Err("its value is a list of things with parts".to_owned());
            }
            ("deepObject", Kind::Nested) => Some("deep_object"),
            (style, _) => {
                return Err(format!(
                    "its value has parts, which the style `{}` does not write in one way",
                    show(style, 40)
                ));
            }
        };
        Ok((style, Meaning::Schema(schema)))
    }

    fn is_list(&self) -> bool {
        let schema = self.parameter.get("schema").and_then(|schema| self.document.resolve(schema).ok());
        schema.is_some_and(|schema| schema.get("type") == Some(&Value::from("array")))
    }

    /// A parameter of the query that is a document of its own.
    fn content(&self) -> Result<(Option<&'static str>, Meaning<'a>), String> {
        let content = self.parameter.get("content").and_then(Value::as_object);
        let Some((media_type, media)) = content.and_then(|content| content.iter().next()) else {
            return Ok((None, Meaning::Text));
        };
        match (is_json(media_type), media.get("schema")) {
            (true, Some(schema)) => Ok((Some("json"), Meaning::Schema(schema))),
            (true, None) => Ok((None, Meaning::Text)),
            (false, _) => Err(format!("its value is written as `{}`", show(media_type, 60))),
        }
    }
}

/// Whether a media type is JSON.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

/// What a value is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A text, a number or the like.
    Single,
    /// Some of these.
    List,
    /// What has names, or lists in lists.
    Nested,
}

/// What kind of value a schema describes, of alternatives the widest.
pub(crate) fn kind(document: &Document, schema: &Value) -> Kind {
    kind_within(document, schema, 0, &mut 0)
}

fn kind_within(document: &Document, schema: &Value, depth: usize, steps: &mut usize) -> Kind {
    *steps += 1;
    if depth > KIND_DEPTH || *steps > KIND_STEPS {
        return Kind::Single;
    }
    let Ok(Value::Object(map)) = document.resolve(schema) else { return Kind::Single };
    let is_type = |name: &str| match map.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    };
    let has = |keyword: &str| map.contains_key(keyword);
    if is_type("object") || !has("type") && (has("properties") || has("additionalProperties")) {
        return Kind::Nested;
    }
    if is_type("array") || !has("type") && has("items") {
        let items = map.get("items");
        let items = items.map_or(Kind::Single, |items| kind_within(document, items, depth + 1, steps));
        return if items == Kind::Single { Kind::List } else { Kind::Nested };
    }
    let alternatives = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| map.get(keyword));
    let alternatives = alternatives.filter_map(Value::as_array).flatten().take(KIND_STEPS);
    alternatives.map(|schema| kind_within(document, schema, depth + 1, steps)).max().unwrap_or(Kind::Single)
}
