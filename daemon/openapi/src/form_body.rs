//! The fields of a form body (`application/x-www-form-urlencoded`).
//!
//! A form holds scalars and lists of scalars. OpenAPI fixes no encoding for objects in a form, but documents that say
//! `deepObject` mean the one that most servers parse: `address[city]=…` for members, `ids[]=…` for items. Such an object
//! becomes one field for each member; every other object is left out.

use serde_json::{Map, Value};
use toolgate_api::text::escape_for_display;

use crate::document::Document;
use crate::parameters::{Shape, shape};
use crate::schema::{Direction, Members, object_members};

/// Levels of nested objects that become fields.
const DEPTH: usize = 3;
/// Most fields of one form.
const FIELDS: usize = 150;

pub(crate) struct Field<'a> {
    /// Its argument name, like `address_city`.
    pub(crate) name: String,
    /// Its name in the form, like `address[city]`.
    pub(crate) sent_as: String,
    pub(crate) schema: &'a Value,
    pub(crate) is_required: bool,
    /// Whether it is an object with arbitrary member names, sent with brackets: `metadata[plan]`.
    pub(crate) is_open: bool,
}

/// The fields of a form; the error names a required member that no form can hold.
pub(crate) fn fields<'a>(
    document: &'a Document,
    members: &Members<'a>,
    encoding: Option<&Map<String, Value>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Field<'a>>, String> {
    let mut fields = Vec::new();
    // Scalars and lists come first, so that nested objects cannot use up the limit before them.
    let (nested, single): (Vec<_>, Vec<_>) =
        members.properties.iter().partition(|(_, schema)| shape(document, schema) == Shape::Nested);
    for (name, schema) in single.into_iter().chain(nested) {
        if Direction::Request.is_hidden(document, schema) {
            continue;
        }
        let has_brackets = encoding.is_some_and(|encoding| is_deep(encoding.get(*name)));
        let field = Field {
            name: (*name).to_owned(),
            sent_as: (*name).to_owned(),
            schema,
            is_required: members.required.contains(name),
            is_open: false,
        };
        let is_required = field.is_required;
        let before = fields.len();
        let is_written = write(document, field, has_brackets, 0, &mut fields) && fields.len() <= FIELDS;
        if is_written {
            continue;
        }
        let shown = escape_for_display(name, 80);
        if is_required && fields.len() == before {
            return Err(format!("it needs `{shown}`, whose value a form cannot hold"));
        }
        if fields.len() > FIELDS {
            fields.truncate(before);
        }
        let part = if fields.len() == before { "" } else { "a part of " };
        notes.push(format!("{part}`{shown}` is left out: a form cannot hold such a value"));
    }
    Ok(fields)
}

fn is_deep(encoding: Option<&Value>) -> bool {
    encoding.and_then(|encoding| encoding.get("style")).is_some_and(|style| style == "deepObject")
}

/// Adds the fields of one value; returns false if a part of it cannot be written.
fn write<'a>(
    document: &'a Document,
    field: Field<'a>,
    has_brackets: bool,
    depth: usize,
    fields: &mut Vec<Field<'a>>,
) -> bool {
    match shape(document, field.schema) {
        Shape::Single => fields.push(field),
        Shape::List => {
            let end = if has_brackets { "[]" } else { "" };
            fields.push(Field { sent_as: format!("{}{end}", field.sent_as), ..field });
        }
        Shape::Nested if !has_brackets || depth == DEPTH => return false,
        Shape::Nested => match named_members(document, field.schema) {
            Some(members) => return write_members(document, &field, &members, depth, fields),
            None if is_open_object(document, field.schema) => fields.push(Field { is_open: true, ..field }),
            None => return false,
        },
    }
    true
}

fn write_members<'a>(
    document: &'a Document,
    field: &Field<'a>,
    members: &Members<'a>,
    depth: usize,
    fields: &mut Vec<Field<'a>>,
) -> bool {
    let mut is_whole = true;
    for (name, schema) in &members.properties {
        // One field above the limit is enough for `fields` to see that there are too many.
        if fields.len() > FIELDS {
            return false;
        }
        let inner = Field {
            name: format!("{}_{name}", field.name),
            sent_as: format!("{}[{name}]", field.sent_as),
            schema,
            is_required: field.is_required && members.required.contains(name),
            is_open: false,
        };
        is_whole &= write(document, inner, true, depth + 1, fields);
    }
    is_whole
}

/// The members of the only object among the values that the schema allows.
fn named_members<'a>(document: &'a Document, schema: &'a Value) -> Option<Members<'a>> {
    let named =
        |schema: &'a Value| object_members(document, schema).filter(|members| !members.properties.is_empty());
    named(schema).or_else(|| named(only_object(document, schema)?))
}

/// Whether the schema allows one object with arbitrary names for members that are scalars or lists.
fn is_open_object(document: &Document, schema: &Value) -> bool {
    let open = |schema: &Value| {
        let others = document.resolve(schema).ok()?.get("additionalProperties")?;
        Some(others.is_object() && shape(document, others) != Shape::Nested)
    };
    let is_open = |schema| open(schema).unwrap_or_default();
    is_open(schema) || only_object(document, schema).is_some_and(is_open)
}

/// The only alternative that is not a scalar.
fn only_object<'a>(document: &'a Document, schema: &'a Value) -> Option<&'a Value> {
    let schema = document.resolve(schema).ok()?;
    let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    let mut objects = alternatives.iter().filter(|alternative| shape(document, alternative) != Shape::Single);
    let only = objects.next()?;
    objects.next().is_none().then_some(only)
}
