//! The fields of a form (`application/x-www-form-urlencoded`).
//!
//! A form holds words and lists of words. An object in it is written in one of many ways, of which OpenAPI fixes none; but
//! where a document says `deepObject` it means what most servers read: `address[city]=…` for what an object has, `ids[]=…`
//! for what a list has. So such an object becomes a field for each of its members, and every other one is left out.

use serde_json::{Map, Value};
use toolgate_admission::show;

use crate::document::Document;
use crate::parameters::{Kind, kind};
use crate::schema::{Direction, Members, gather};

/// Objects inside each other that are written out.
const DEPTH: usize = 3;
/// Fields that objects may be written out to, together with all others.
const FIELDS: usize = 150;

/// A field of a form.
pub(crate) struct Field<'a> {
    /// Its name as an argument: `address_city`.
    pub(crate) name: String,
    /// Its name in the form: `address[city]`.
    pub(crate) sent_as: String,
    pub(crate) schema: &'a Value,
    pub(crate) is_required: bool,
    /// Whether it is an object whose members nobody names, which stands there with brackets: `metadata[plan]`.
    pub(crate) is_open: bool,
}

/// The fields of a form with these members; an error names a required one that cannot be written.
pub(crate) fn fields<'a>(
    document: &'a Document,
    members: &Members<'a>,
    encoding: Option<&Map<String, Value>>,
    notes: &mut Vec<String>,
) -> Result<Vec<Field<'a>>, String> {
    let mut fields = Vec::new();
    // What needs no writing out comes first, and is never crowded out.
    let (nested, single): (Vec<_>, Vec<_>) =
        members.properties.iter().partition(|(_, schema)| kind(document, schema) == Kind::Nested);
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
        let shown = show(name, 80);
        if is_required && fields.len() == before {
            return Err(format!("it needs `{shown}`, whose value no form holds"));
        }
        if fields.len() > FIELDS {
            fields.truncate(before);
        }
        let part = if fields.len() == before { "" } else { "a part of " };
        notes.push(format!("{part}`{shown}` is left out: no form holds such a value"));
    }
    Ok(fields)
}

fn is_deep(encoding: Option<&Value>) -> bool {
    encoding.and_then(|encoding| encoding.get("style")).is_some_and(|style| style == "deepObject")
}

/// Adds the fields of a value; false where some of it cannot be written.
fn write<'a>(
    document: &'a Document,
    field: Field<'a>,
    has_brackets: bool,
    depth: usize,
    fields: &mut Vec<Field<'a>>,
) -> bool {
    match kind(document, field.schema) {
        Kind::Single => fields.push(field),
        Kind::List => {
            let end = if has_brackets { "[]" } else { "" };
            fields.push(Field { sent_as: format!("{}{end}", field.sent_as), ..field });
        }
        Kind::Nested if !has_brackets || depth == DEPTH => return false,
        Kind::Nested => match object(document, field.schema) {
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
        // A field too many says that there are too many.
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

/// The members of the one object that a value may be, whatever single values it may be beside.
fn object<'a>(document: &'a Document, schema: &'a Value) -> Option<Members<'a>> {
    let named = |schema: &'a Value| gather(document, schema).filter(|members| !members.properties.is_empty());
    named(schema).or_else(|| named(only_object(document, schema)?))
}

/// Whether it may be one object, whose members nobody names and which are words or lists of them.
fn is_open_object(document: &Document, schema: &Value) -> bool {
    let open = |schema: &Value| {
        let others = document.resolve(schema).ok()?.get("additionalProperties")?;
        Some(others.is_object() && kind(document, others) != Kind::Nested)
    };
    let is_open = |schema| open(schema).unwrap_or_default();
    is_open(schema) || only_object(document, schema).is_some_and(is_open)
}

/// The one alternative that is no single value.
fn only_object<'a>(document: &'a Document, schema: &'a Value) -> Option<&'a Value> {
    let schema = document.resolve(schema).ok()?;
    let alternatives = schema.get("anyOf").or_else(|| schema.get("oneOf"))?.as_array()?;
    let mut objects = alternatives.iter().filter(|alternative| kind(document, alternative) != Kind::Single);
    let only = objects.next()?;
    objects.next().is_none().then_some(only)
}
