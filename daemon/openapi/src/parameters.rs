//! The parameters of an operation, and how each is encoded in a request.
//!
//! A parameter that an action cannot encode is dropped if it is optional; if it is required, the operation is left out.
//! Parameters into which the host writes the credential are dropped with a note, and so are header fields that carry
//! credentials or control message framing ([`forbidden_header`]).

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};
use toolgate_api::header::forbidden_header;
use toolgate_api::text::escape_for_display;

use crate::document::Document;
use crate::operations::Operation;
use crate::security::SecretLocation;
use crate::text::is_visible;

/// Header fields that only repeat the credential of the request.
const CREDENTIAL_FIELDS: [&str; 5] = ["token", "auth", "authentication", "access_token", "access-token"];
/// Most parameters of one operation.
const PARAMETERS: usize = 300;
/// Levels of alternatives and references that are followed to learn the shape of a value.
const SHAPE_DEPTH: usize = 6;
/// Subschemas visited for that, since alternatives multiply.
const SHAPE_STEPS: usize = 200;

/// The `in` of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Location {
    Path,
    Query,
    Header,
    Body,
}

impl Location {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Query => "query",
            Self::Header => "header",
            Self::Body => "body",
        }
    }
}

/// How a list or an object is written into the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ParamEncoding {
    /// Repeated: `id=1&id=2`.
    Default,
    /// `id=1,2`
    Comma,
    /// `id=1%202`
    Space,
    /// `id=1|2`
    Pipe,
    /// `id[]=1&id[]=2`; OpenAPI leaves lists with `deepObject` undefined, and most servers parse this.
    Brackets,
    /// `id[a]=1&id[b]=2`
    DeepObject,
    /// The value as JSON text.
    Json,
}

impl ParamEncoding {
    /// The `style` in the definition. Brackets need none: they are part of the name that is sent.
    pub(crate) fn style(self) -> Option<&'static str> {
        match self {
            Self::Default | Self::Brackets => None,
            Self::Comma => Some("comma"),
            Self::Space => Some("space"),
            Self::Pipe => Some("pipe"),
            Self::DeepObject => Some("deep_object"),
            Self::Json => Some("json"),
        }
    }
}

/// The values that an argument accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ValueSchema<'a> {
    /// Values that the document's schema accepts.
    Declared(&'a Value),
    /// Any text: the document has no schema, or the location holds only text.
    AnyText,
    /// The path of a workspace file.
    File,
    /// Paths of workspace files.
    Files,
}

/// A parameter that becomes an argument.
#[derive(Clone, Debug)]
pub(crate) struct Parameter<'a> {
    pub(crate) name: &'a str,
    /// Its name in the request.
    pub(crate) sent_as: Cow<'a, str>,
    pub(crate) location: Location,
    pub(crate) encoding: ParamEncoding,
    pub(crate) is_required: bool,
    pub(crate) schema: ValueSchema<'a>,
    pub(crate) description: Option<&'a str>,
    pub(crate) is_deprecated: bool,
}

/// Reads the parameters of an operation; the error says why the operation is left out.
pub(crate) fn read<'a>(
    document: &'a Document,
    operation: &Operation<'a>,
    secret: Option<&SecretLocation>,
    notes: &mut Vec<String>,
) -> Result<Vec<Parameter<'a>>, String> {
    let mut parameters = Vec::new();
    for parameter in declared_parameters(document, operation)? {
        let reader = ParameterReader { document, parameter, secret };
        match reader.read() {
            Ok(Some(parameter)) => parameters.push(parameter),
            Ok(None) => {}
            Err(why) if reader.is_required() => return Err(format!("it needs {}: {why}", reader.label())),
            Err(why) => notes.push(format!("{} is left out: {why}", reader.label())),
        }
    }
    Ok(parameters)
}

/// The parameters of path item and operation, in their order; those of the operation override those of the path item.
fn declared_parameters<'a>(
    document: &'a Document,
    operation: &Operation<'a>,
) -> Result<Vec<&'a Map<String, Value>>, String> {
    let mut positions: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut declared: Vec<&Map<String, Value>> = Vec::new();
    for parameters in [operation.item.get("parameters"), operation.body.get("parameters")] {
        for parameter in parameters.and_then(Value::as_array).into_iter().flatten() {
            let parameter = document
                .resolve(parameter)
                .map_err(|why| format!("a parameter cannot be resolved: {why}"))?;
            let Value::Object(parameter) = parameter else { continue };
            let text = |name: &str| parameter.get(name).and_then(Value::as_str).unwrap_or_default();
            let key = (text("in"), text("name"));
            if let Some(overridden) = positions.get(&key).and_then(|at| declared.get_mut(*at)) {
                *overridden = parameter;
                continue;
            }
            if declared.len() == PARAMETERS {
                return Err(format!("it has more than {PARAMETERS} parameters"));
            }
            positions.insert(key, declared.len());
            declared.push(parameter);
        }
    }
    Ok(declared)
}

/// Reads one parameter object.
struct ParameterReader<'a, 's> {
    document: &'a Document,
    parameter: &'a Map<String, Value>,
    secret: Option<&'s SecretLocation>,
}

impl<'a> ParameterReader<'a, '_> {
    fn text(&self, name: &str) -> &'a str {
        self.parameter.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> Option<bool> {
        self.parameter.get(name).and_then(Value::as_bool)
    }

    fn is_required(&self) -> bool {
        self.text("in") == "path" || self.flag("required") == Some(true) && !self.is_set_by_host()
    }

    /// Whether the host sets it, so that an action works without it even if it is required.
    fn is_set_by_host(&self) -> bool {
        let name = self.text("name");
        match (self.text("in"), self.secret) {
            // Some documents describe the credential as a security scheme, and again as a header parameter.
            ("header", Some(_)) if is_any_of(name, &CREDENTIAL_FIELDS) => true,
            ("header", _) if is_any_of(name, &["accept", "authorization", "content-type"]) => true,
            ("header", Some(SecretLocation::Header(secret))) => secret.eq_ignore_ascii_case(name),
            ("query", Some(SecretLocation::Query(secret))) => secret == name,
            _ => false,
        }
    }

    fn label(&self) -> String {
        match self.text("in") {
            "path" | "query" => format!("the parameter `{}`", escape_for_display(self.text("name"), 80)),
            location => format!(
                "the {} `{}`",
                escape_for_display(location, 20),
                escape_for_display(self.text("name"), 80)
            ),
        }
    }

    /// Returns the parameter, none if OpenAPI says to ignore it, or an error that says why it cannot be encoded.
    fn read(&self) -> Result<Option<Parameter<'a>>, String> {
        let name = self.text("name");
        if name.is_empty() || !is_visible(name) || name.len() > 200 {
            return Err("its name cannot be sent".to_owned());
        }
        let (location, (encoding, schema)) = match self.text("in") {
            "path" => (Location::Path, (ParamEncoding::Default, self.path()?)),
            "query" => (Location::Query, self.query()?),
            // OpenAPI ignores these two as parameters: media types are described elsewhere.
            "header" if is_any_of(name, &["accept", "content-type"]) => return Ok(None),
            "header" => (Location::Header, (ParamEncoding::Default, self.header()?)),
            "cookie" => return Err("cookies are not sent".to_owned()),
            other => {
                return Err(format!("`{}` is not a location of parameters", escape_for_display(other, 40)));
            }
        };
        let has_brackets = encoding == ParamEncoding::Brackets;
        let description = self.parameter.get("description").and_then(Value::as_str);
        Ok(Some(Parameter {
            name,
            sent_as: if has_brackets { format!("{name}[]").into() } else { Cow::Borrowed(name) },
            location,
            encoding,
            is_required: self.is_required(),
            schema,
            description,
            is_deprecated: self.flag("deprecated") == Some(true),
        }))
    }

    fn path(&self) -> Result<ValueSchema<'a>, String> {
        match self.text("style") {
            "" | "simple" => self.scalar_or_list(),
            other => Err(format!("the style `{}` is not supported in a path", escape_for_display(other, 40))),
        }
    }

    fn header(&self) -> Result<ValueSchema<'a>, String> {
        let name = self.text("name").to_ascii_lowercase();
        if self.is_set_by_host() {
            return Err("the host puts the credential there".to_owned());
        }
        match forbidden_header(&name) {
            Some(why) => Err(format!("such a header {why}")),
            None => self.scalar_or_list(),
        }
    }

    /// The schema of a path variable or header field, whose value is one text.
    fn scalar_or_list(&self) -> Result<ValueSchema<'a>, String> {
        let Some(schema) = self.parameter.get("schema") else { return Ok(ValueSchema::AnyText) };
        match shape(self.document, schema) {
            // List items are joined with commas.
            Shape::Single | Shape::List => Ok(ValueSchema::Declared(schema)),
            Shape::Nested => Err("its value is nested, which a path or header cannot hold".to_owned()),
        }
    }

    fn query(&self) -> Result<(ParamEncoding, ValueSchema<'a>), String> {
        if self.is_set_by_host() {
            return Err("the host puts the credential there".to_owned());
        }
        let Some(schema) = self.parameter.get("schema") else { return self.content() };
        let style = Some(self.text("style")).filter(|style| !style.is_empty()).unwrap_or("form");
        let explodes = self.flag("explode").unwrap_or(style == "form");
        let encoding = match (style, shape(self.document, schema)) {
            ("form" | "spaceDelimited" | "pipeDelimited" | "deepObject", Shape::Single) => {
                ParamEncoding::Default
            }
            ("form" | "spaceDelimited" | "pipeDelimited", Shape::List) if explodes => ParamEncoding::Default,
            ("form", Shape::List) => ParamEncoding::Comma,
            ("spaceDelimited", Shape::List) => ParamEncoding::Space,
            ("pipeDelimited", Shape::List) => ParamEncoding::Pipe,
            ("deepObject", Shape::List) => ParamEncoding::Brackets,
            ("deepObject", Shape::Nested) if self.is_list() => {
                return Err("its value is a list of nested values".to_owned());
            }
            ("deepObject", Shape::Nested) => ParamEncoding::DeepObject,
            (style, _) => {
                let style = escape_for_display(style, 40);
                return Err(format!(
                    "its value is nested, and the style `{style}` does not define how to write it"
                ));
            }
        };
        Ok((encoding, ValueSchema::Declared(schema)))
    }

    fn is_list(&self) -> bool {
        let schema = self.parameter.get("schema").and_then(|schema| self.document.resolve(schema).ok());
        schema.is_some_and(|schema| schema.get("type") == Some(&Value::from("array")))
    }

    /// The encoding of a query parameter that is described by a media type.
    fn content(&self) -> Result<(ParamEncoding, ValueSchema<'a>), String> {
        let content = self.parameter.get("content").and_then(Value::as_object);
        let Some((media_type, media)) = content.and_then(|content| content.iter().next()) else {
            return Ok((ParamEncoding::Default, ValueSchema::AnyText));
        };
        match (is_json(media_type), media.get("schema")) {
            (true, Some(schema)) => Ok((ParamEncoding::Json, ValueSchema::Declared(schema))),
            (true, None) => Ok((ParamEncoding::Default, ValueSchema::AnyText)),
            (false, _) => Err(format!("its value is written as `{}`", escape_for_display(media_type, 60))),
        }
    }
}

/// Whether a media type is JSON (RFC 6839 for the suffix `+json`).
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    essence == "application/json" || essence == "text/json" || essence.ends_with("+json")
}

fn is_any_of(name: &str, lower_case: &[&str]) -> bool {
    lower_case.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// The nesting of a value, as far as it matters for its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// A scalar.
    Single,
    /// A list of scalars.
    List,
    /// An object, or a list of lists or objects.
    Nested,
}

/// The most nested shape that a schema allows.
pub(crate) fn shape(document: &Document, schema: &Value) -> Shape {
    shape_within(document, schema, 0, &mut 0)
}

fn shape_within(document: &Document, schema: &Value, depth: usize, steps: &mut usize) -> Shape {
    *steps += 1;
    if depth > SHAPE_DEPTH || *steps > SHAPE_STEPS {
        return Shape::Single;
    }
    let Ok(Value::Object(map)) = document.resolve(schema) else { return Shape::Single };
    let is_type = |name: &str| match map.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        _ => false,
    };
    let has = |keyword: &str| map.contains_key(keyword);
    if is_type("object") || !has("type") && (has("properties") || has("additionalProperties")) {
        return Shape::Nested;
    }
    if is_type("array") || !has("type") && has("items") {
        let items = map.get("items");
        let items = items.map_or(Shape::Single, |items| shape_within(document, items, depth + 1, steps));
        return if items == Shape::Single { Shape::List } else { Shape::Nested };
    }
    let alternatives = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| map.get(keyword));
    let alternatives = alternatives.filter_map(Value::as_array).flatten().take(SHAPE_STEPS);
    alternatives.map(|schema| shape_within(document, schema, depth + 1, steps)).max().unwrap_or(Shape::Single)
}
