//! Describes a schema in one line, for a hint that a model can follow.
//!
//! The line does not render the whole schema: it lists the properties of the root with their types, the required ones first, up
//! to a limit. It never fails; for an unusual schema the hint is less useful.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toolgate_api::text::{escape_for_display, json_start};

/// Properties that a hint names.
const PROPERTIES: usize = 24;
/// Values of an `enum` that are named.
const OPTIONS: usize = 12;
/// Longest value shown, in characters.
const VALUE_CHARS: usize = 40;
/// Longest description of a type, in characters: nested alternatives multiply.
const KIND_CHARS: usize = 800;
/// Most levels of a value that are followed to the object around a fault.
const PLACE_DEPTH: usize = 16;
/// Most levels of alternatives and references that are followed.
const DEPTH: usize = 4;

/// The type of a schema that names none.
pub(super) const ANY_VALUE: &str = "any value";

/// Describes the properties of an object schema with their types, and the forms of which one must fit. `{}` is offered only
/// to a schema that takes it.
pub(super) fn properties(root: &Value, takes_nothing: bool) -> String {
    properties_of(root, root, "an object", takes_nothing)
}

/// Describes the innermost object around the value at a JSON pointer. None where that is the root.
pub(super) fn properties_around(root: &Value, pointer: &str) -> Option<String> {
    let (mut schema, mut place, mut innermost) = (root, String::new(), None);
    for token in pointer.split('/').skip(1).take(PLACE_DEPTH) {
        let named = with_keyword(root, schema, "properties")
            .and_then(|own| own["properties"].get(unescape_token(token)));
        let item = || with_keyword(root, schema, "items")?.get("items");
        let Some(below) = named.or_else(item) else { break };
        schema = below;
        place = format!("{place}/{token}");
        if let Some(object) = with_keyword(root, schema, "properties") {
            innermost = Some((object, place.clone()));
        }
    }
    let (object, place) = innermost?;
    let place = escape_for_display(&place, VALUE_CHARS);
    Some(properties_of(root, object, &format!("at `{place}` an object"), false))
}

/// The schema itself, or the first of its alternatives, that has a keyword.
fn with_keyword<'s>(root: &'s Value, schema: &'s Value, keyword: &str) -> Option<&'s Value> {
    let schema = follow_references(root, schema);
    let forms = ["anyOf", "oneOf", "allOf"].iter().filter_map(|forms| schema.get(*forms)?.as_array());
    let forms = forms.flatten().take(OPTIONS).map(|form| follow_references(root, form));
    std::iter::once(schema).chain(forms).find(|form| form.get(keyword).is_some())
}

/// The target of the references of a schema.
fn follow_references<'s>(root: &'s Value, mut schema: &'s Value) -> &'s Value {
    for _ in 0..DEPTH {
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        match target.and_then(|target| root.pointer(target)) {
            Some(target) => schema = target,
            None => break,
        }
    }
    schema
}

/// A token of a JSON pointer as the name that it stands for (RFC 6901).
fn unescape_token(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

fn properties_of(root: &Value, schema: &Value, object: &str, takes_nothing: bool) -> String {
    let parts = parts(root, schema, DEPTH);
    let properties: Map<String, Value> = parts
        .iter()
        .filter_map(|part| part.get("properties")?.as_object())
        .flat_map(|own| own.iter().map(|(name, schema)| (name.clone(), schema.clone())))
        .collect();
    let required: &HashSet<&str> = &parts.iter().flat_map(|part| required_names(part)).collect();
    let of = |is_required: bool, word: &'static str| {
        let group =
            properties.iter().filter(move |(name, _)| required.contains(name.as_str()) == is_required);
        group.map(move |(name, schema)| format!("{} ({word})", argument(root, name, Some(schema))))
    };
    let required_ones = of(true, "required");
    let mut shown: Vec<String> = required_ones.chain(of(false, "optional")).take(PROPERTIES + 1).collect();
    let rest = if shown.len() > PROPERTIES { ", …" } else { "" };
    shown.truncate(PROPERTIES);
    match (shown.is_empty(), forms(root, &parts, &properties)) {
        (true, Some(forms)) => format!("send {object} with {forms}"),
        (false, Some(forms)) => format!("send {object} with {}{rest}; and with {forms}", shown.join(", ")),
        (false, None) => format!("send {object} with {}{rest}", shown.join(", ")),
        (true, None) if takes_nothing => "send an object without arguments: {}".to_owned(),
        (true, None) => "read the schema of the tool's arguments, and send an object that fits it".to_owned(),
    }
}

/// Returns the subschemas that apply to the same value as `schema`: itself, the target of its `$ref`, and `allOf`.
fn parts<'s>(root: &'s Value, schema: &'s Value, depth: usize) -> Vec<&'s Value> {
    let Some(depth) = depth.checked_sub(1) else { return Vec::new() };
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
    let target = target.and_then(|target| root.pointer(target));
    let all = schema.get("allOf").and_then(Value::as_array).into_iter().flatten().take(OPTIONS);
    let inner = target.into_iter().chain(all).flat_map(|inner| parts(root, inner, depth));
    std::iter::once(schema).chain(inner).collect()
}

/// Describes alternatives by the arguments that each requires: "either `a`: string, or `b`: string".
fn forms(root: &Value, shared: &[&Value], known: &Map<String, Value>) -> Option<String> {
    let alternatives = shared.iter().find_map(|part| {
        let alternatives = part.get("oneOf").or_else(|| part.get("anyOf"))?.as_array()?;
        Some(alternatives).filter(|alternatives| alternatives.len() > 1)
    })?;
    let form = |alternative: &Value| {
        let parts = parts(root, alternative, DEPTH);
        let schema = |name: &str| {
            let mut own = parts.iter().filter_map(|part| part.get("properties")?.get(name));
            own.next().or_else(|| known.get(name))
        };
        let names = distinct(parts.iter().flat_map(|part| required_names(part)).map(str::to_owned), OPTIONS);
        let arguments: Vec<_> = names.iter().map(|name| argument(root, name, schema(name))).collect();
        Some(arguments.join(" and ")).filter(|form| !form.is_empty())
    };
    let forms: Option<Vec<String>> = alternatives.iter().take(OPTIONS).map(form).collect();
    Some(format!("either {}", distinct(forms?.into_iter(), OPTIONS).join(", or ")))
}

fn argument(root: &Value, name: &str, schema: Option<&Value>) -> String {
    let name = escape_for_display(name, VALUE_CHARS);
    schema.map_or_else(|| format!("`{name}`"), |schema| format!("`{name}`: {}", kind(root, schema)))
}

fn required_names(schema: &Value) -> impl Iterator<Item = &str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str)
}

/// Describes the type that a schema requires: `string`, `integer or null`, `"a" or "b"`.
pub(super) fn kind(root: &Value, schema: &Value) -> String {
    kind_within(root, schema, DEPTH)
        .map_or_else(|| ANY_VALUE.to_owned(), |kind| escape_for_display(&kind, KIND_CHARS))
}

fn kind_within(root: &Value, schema: &Value, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    if let Some(options) = schema.get("enum").and_then(Value::as_array) {
        return Some(either(options.iter().map(value), OPTIONS));
    }
    if let Some(constant) = schema.get("const") {
        return Some(value(constant));
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => return Some(array(root, schema, depth)),
        Some(Value::String(name)) => return Some(escape_for_display(name, VALUE_CHARS)),
        Some(Value::Array(names)) => {
            return Some(either(
                names.iter().filter_map(Value::as_str).map(|name| escape_for_display(name, VALUE_CHARS)),
                OPTIONS,
            ));
        }
        _ => {}
    }
    if ["properties", "required"].iter().any(|keyword| schema.get(*keyword).is_some()) {
        return Some("object".to_owned());
    }
    if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
        return kind_within(root, root.pointer(target.strip_prefix('#')?)?, depth);
    }
    let alternatives =
        schema.get("anyOf").or_else(|| schema.get("oneOf")).or_else(|| schema.get("allOf"))?.as_array()?;
    let kinds: Option<Vec<String>> =
        alternatives.iter().take(OPTIONS).map(|alternative| kind_within(root, alternative, depth)).collect();
    Some(either(kinds?.into_iter(), OPTIONS))
}

fn array(root: &Value, schema: &Value, depth: usize) -> String {
    match schema.get("items").and_then(|items| kind_within(root, items, depth)) {
        Some(items) => format!("array of {items}"),
        None => "array".to_owned(),
    }
}

/// Joins alternatives with "or", without duplicates.
pub(super) fn either(words: impl Iterator<Item = String>, most: usize) -> String {
    distinct(words, most).join(" or ")
}

/// Returns the first `most` words, without duplicates.
pub(super) fn distinct(words: impl Iterator<Item = String>, most: usize) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for word in words {
        if shown.contains(&word) {
            continue;
        }
        if shown.len() == most {
            shown.push("…".to_owned());
            break;
        }
        shown.push(word);
    }
    shown
}

/// Formats a value of the schema as short JSON.
pub(super) fn value(value: &Value) -> String {
    json_start(value, VALUE_CHARS)
}
