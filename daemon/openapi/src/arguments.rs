//! Turns parameters and body into the arguments of an action: name, schema and location of each.
//!
//! Argument names keep to what every model provider accepts (letters, digits, `_`, `-`, `.`; at most 64). Parameters are
//! named before members of the body; a JSON body whose member names would clash with them stays one argument.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_api::text::escape_for_display;

use crate::body::{Body, BodyFormat, is_file_schema};
use crate::document::Document;
use crate::form_body::{self, Field};
use crate::parameters::{Location, ParamEncoding, Parameter, ValueSchema};
use crate::schema::{Direction, Members};

/// Longest argument name, in bytes: the lowest limit of any model provider.
const NAME_BYTES: usize = 64;
/// Most arguments of one action; the built-in plugin `api`, which reads the definition, has the same limit.
const ARGUMENTS: usize = 200;

pub(crate) struct Argument<'a> {
    pub(crate) name: String,
    pub(crate) is_required: bool,
    pub(crate) schema: ValueSchema<'a>,
    pub(crate) description: Option<&'a str>,
    pub(crate) is_deprecated: bool,
    /// Its entry in `arguments` of the definition; none where location and name are the default ones.
    pub(crate) location: Option<Value>,
    pub(crate) is_in_body: bool,
    /// The path variable that it fills.
    pub(crate) variable: Option<&'a str>,
}

/// Names all arguments and locates each in the request; the error says why the operation is left out.
pub(crate) fn collect<'a>(
    document: &'a Document,
    method: &str,
    mut parameters: Vec<Parameter<'a>>,
    body: Option<&Body<'a>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Argument<'a>>, String> {
    let mut names = NameAllocator::default();
    let mut arguments = Vec::new();
    // Path variables are named first, since the path shows their names.
    parameters.sort_by_key(|parameter| parameter.location);
    for parameter in parameters {
        let name = names.allocate(parameter.name, parameter.location);
        let default = if defaults_to_query(method) { Location::Query } else { Location::Body };
        arguments.push(Argument {
            is_required: parameter.is_required,
            schema: parameter.schema,
            description: parameter.description,
            is_deprecated: parameter.is_deprecated,
            location: parameter_location(&parameter, &name, default),
            is_in_body: false,
            variable: (parameter.location == Location::Path).then_some(parameter.name),
            name,
        });
    }
    if let Some(body) = body {
        arguments.extend(body_arguments(document, method, body, &mut names, notes)?);
    }
    match arguments.len() > ARGUMENTS {
        true => Err(format!("it has more than {ARGUMENTS} arguments")),
        false => remove_conflicts(arguments, method, notes),
    }
}

/// Keeps the first of several arguments that would be written to the same destination.
fn remove_conflicts<'a>(
    arguments: Vec<Argument<'a>>,
    method: &str,
    notes: &mut Vec<String>,
) -> Result<Vec<Argument<'a>>, String> {
    let mut kept: Vec<Argument<'a>> = Vec::new();
    let mut taken: Vec<Destination> = Vec::new();
    for argument in arguments {
        let destination = Destination::of(&argument, method);
        if !taken.iter().any(|other| other.overlaps(&destination)) {
            taken.push(destination);
            kept.push(argument);
            continue;
        }
        let shown = escape_for_display(&destination.name, 80);
        if argument.is_required {
            return Err(format!("two of its arguments go to `{shown}`"));
        }
        notes.push(format!("`{shown}` is left out: another argument goes there"));
    }
    Ok(kept)
}

/// Location and name under which an argument is written into the request.
struct Destination {
    location: String,
    name: String,
    is_deep: bool,
}

impl Destination {
    fn of(argument: &Argument<'_>, method: &str) -> Self {
        let default = match argument.variable {
            Some(_) => "path",
            None if defaults_to_query(method) => "query",
            None => "body",
        };
        let text = |name: &str| argument.location.as_ref().and_then(|location| location.get(name)?.as_str());
        let word = argument.location.as_ref().and_then(Value::as_str);
        let location = word.or_else(|| text("in")).unwrap_or(default);
        let name = text("name").unwrap_or(&argument.name);
        // Header field names are case-insensitive (RFC 9110, 5.1).
        let name = if location == "header" { name.to_ascii_lowercase() } else { name.to_owned() };
        Self { location: location.to_owned(), name, is_deep: text("style") == Some("deep_object") }
    }

    /// Whether both write the same name. A `deepObject` parameter writes every name that begins with its own and a bracket.
    fn overlaps(&self, other: &Self) -> bool {
        let holds = |whole: &Self, part: &Self| {
            whole.is_deep && part.name.strip_prefix(&whole.name).is_some_and(|rest| rest.starts_with('['))
        };
        let is_same = self.name == other.name || holds(self, other) || holds(other, self);
        self.location == other.location && is_same
    }
}

/// Whether arguments without a stated location go into the query.
fn defaults_to_query(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "DELETE" | "OPTIONS")
}

/// The entry of a parameter in `arguments` of the definition; none where nothing differs from the default.
fn parameter_location(parameter: &Parameter<'_>, name: &str, default: Location) -> Option<Value> {
    let Parameter { location, encoding, .. } = parameter;
    let is_plain = *encoding == ParamEncoding::Default && name == parameter.sent_as;
    if *location == Location::Path || is_plain && *location == default {
        return None;
    }
    if is_plain {
        return Some(json!(location.as_str()));
    }
    let mut entry = Map::new();
    entry.insert("in".to_owned(), json!(location.as_str()));
    if name != parameter.sent_as {
        entry.insert("name".to_owned(), json!(parameter.sent_as));
    }
    entry.extend(encoding.style().map(|style| ("style".to_owned(), json!(style))));
    Some(Value::Object(entry))
}

fn body_arguments<'a>(
    document: &'a Document,
    method: &str,
    body: &Body<'a>,
    names: &mut NameAllocator,
    notes: &mut Vec<String>,
) -> Result<Vec<Argument<'a>>, String> {
    let fields = match (&body.members, body.format) {
        (None, _) => return Ok(vec![whole_body(body, names)]),
        (Some(members), BodyFormat::Form) => form_body::fields(document, members, body.encoding, notes)?,
        (Some(members), BodyFormat::Multipart) => json_fields(document, members),
        (Some(members), _) => json_fields(document, members),
    };
    if body.format == BodyFormat::Json && !names.are_free(fields.iter().map(|field| field.name.as_str())) {
        return Ok(vec![whole_body(body, names)]);
    }
    let argument = |field: Field<'a>| {
        let name = names.allocate(&field.name, Location::Body);
        let schema = match body.format {
            BodyFormat::Multipart => part_schema(document, field.schema),
            _ => ValueSchema::Declared(field.schema),
        };
        let is_file = matches!(schema, ValueSchema::File | ValueSchema::Files);
        let location = body_location(&field, &name, is_file, method);
        Argument {
            name,
            is_required: body.is_required && field.is_required,
            schema,
            description: is_file.then(|| field.schema.get("description")?.as_str()).flatten(),
            is_deprecated: false,
            location,
            is_in_body: true,
            variable: None,
        }
    };
    Ok(fields.into_iter().map(argument).collect())
}

/// The place of a member of the body; none for the default of the method.
fn body_location(field: &Field<'_>, name: &str, is_file: bool, method: &str) -> Option<Value> {
    let sent_as = &field.sent_as;
    match (name == sent_as, defaults_to_query(method)) {
        (true, _) if is_file => Some(json!({"in": "body", "file": true})),
        (false, _) if is_file => Some(json!({"in": "body", "name": sent_as, "file": true})),
        _ if field.is_open => Some(json!({"in": "body", "name": sent_as, "style": "deep_object"})),
        (true, false) => None,
        (true, true) => Some(json!("body")),
        (false, _) => Some(json!({"in": "body", "name": sent_as})),
    }
}

/// A part is a file, several files, or a value.
fn part_schema<'a>(document: &'a Document, schema: &'a Value) -> ValueSchema<'a> {
    let items = document.resolve(schema).ok().and_then(|schema| schema.get("items"));
    match items {
        _ if is_file_schema(document, schema) => ValueSchema::File,
        Some(items) if is_file_schema(document, items) => ValueSchema::Files,
        _ => ValueSchema::Declared(schema),
    }
}

/// The members of a JSON body or the parts of another as fields; each can hold any value, so none is left out.
fn json_fields<'a>(document: &'a Document, members: &Members<'a>) -> Vec<Field<'a>> {
    let sent = members.properties.iter();
    let sent = sent.filter(|(_, schema)| !Direction::Request.is_hidden(document, schema));
    sent.map(|(name, schema)| Field {
        name: (*name).to_owned(),
        sent_as: (*name).to_owned(),
        schema,
        is_required: members.required.contains(name),
        is_open: false,
    })
    .collect()
}

fn whole_body<'a>(body: &Body<'a>, names: &mut NameAllocator) -> Argument<'a> {
    Argument {
        name: names.allocate("body", Location::Body),
        is_required: body.is_required,
        schema: match (body.format, body.schema) {
            (BodyFormat::Text, _) => ValueSchema::AnyText,
            (BodyFormat::Binary, _) => ValueSchema::File,
            (_, schema) => ValueSchema::Declared(schema.unwrap_or(&Value::Null)),
        },
        description: body.description,
        is_deprecated: false,
        location: Some(json!({"in": "body", "whole": true})),
        is_in_body: true,
        variable: None,
    }
}

/// Gives each argument a name of its own.
#[derive(Default)]
struct NameAllocator {
    used: BTreeSet<String>,
}

impl NameAllocator {
    /// Returns the original name if it is free, else the name behind its location, else the name with a number.
    fn allocate(&mut self, original: &str, location: Location) -> String {
        let plain = argument_name(original);
        let placed = argument_name(&format!("{}_{plain}", location.as_str()));
        let numbered = (2..).map(|number| {
            let end = format!("_{number}");
            let start = plain.get(..plain.len().min(NAME_BYTES - end.len())).unwrap_or_default();
            format!("{start}{end}")
        });
        let mut names = [plain.clone(), placed].into_iter().chain(numbered);
        let name = names.find(|name| !self.used.contains(name)).unwrap_or_default();
        self.used.insert(name.clone());
        name
    }

    /// Whether all of these names are free and distinct.
    fn are_free<'a>(&self, originals: impl Iterator<Item = &'a str>) -> bool {
        let mut own = BTreeSet::new();
        let mut originals = originals.map(argument_name);
        originals.all(|name| !self.used.contains(&name) && own.insert(name))
    }
}

/// The original with every run of characters that a model provider might reject replaced by `_`.
fn argument_name(original: &str) -> String {
    let mut name = String::new();
    for letter in original.chars() {
        match letter {
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.') => {
                name.push(letter)
            }
            _ if name.is_empty() || name.ends_with('_') => {}
            _ => name.push('_'),
        }
    }
    let name = if name == original { name.as_str() } else { name.trim_end_matches('_') };
    let name = name.get(..name.len().min(NAME_BYTES)).unwrap_or_default();
    if name.is_empty() { "argument".to_owned() } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_what_every_provider_takes() {
        for (original, name) in [
            ("per_page", "per_page"),
            ("filter[status]", "filter_status"),
            ("$top", "top"),
            ("X-Trace", "X-Trace"),
            ("a.b", "a.b"),
            ("日本", "argument"),
            ("_x_", "_x_"),
        ] {
            assert_eq!(argument_name(original), name, "{original}");
        }
        assert_eq!(argument_name(&"a".repeat(90)).len(), 64);
    }

    #[test]
    fn a_repeated_name_gets_its_location_as_a_prefix_and_then_a_number() {
        let mut names = NameAllocator::default();
        let locations = [Location::Path, Location::Query, Location::Query];
        let given = locations.map(|location| names.allocate("id", location));
        assert_eq!(given, ["id", "query_id", "id_2"]);
    }
}
