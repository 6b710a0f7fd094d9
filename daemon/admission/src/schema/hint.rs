//! Describes a schema in one line, for a hint that a model can follow.
//!
//! This does not render the whole schema: it lists the properties of the root with their types, the required ones first, up
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
/// Most levels of alternatives and references that are followed.
const DEPTH: usize = 4;

/// Describes the properties of an object schema with their types.
pub(super) fn properties(root: &Value) -> String {
    let none = Map::new();
    let properties = root.get("properties").and_then(Value::as_object).unwrap_or(&none);
    if properties.is_empty() {
        return "send an object without arguments: {}".to_owned();
    }
    let required = root.get("required").and_then(Value::as_array).into_iter().flatten();
    let required: &HashSet<&str> = &required.filter_map(Value::as_str).collect();
    let of = |is_required: bool, word: &'static str| {
        let group =
            properties.iter().filter(move |(name, _)| required.contains(name.as_str()) == is_required);
        group.map(move |(name, schema)| {
            format!("`{}`: {} ({word})", escape_for_display(name, VALUE_CHARS), kind(root, schema))
        })
    };
    let mut shown: Vec<String> =
        of(true, "required").chain(of(false, "optional")).take(PROPERTIES + 1).collect();
    let rest = if shown.len() > PROPERTIES { ", …" } else { "" };
    shown.truncate(PROPERTIES);
    format!("send an object with {}{rest}", shown.join(", "))
}

/// Describes the type that a schema requires: `string`, `integer or null`, `"a" or "b"`.
pub(super) fn kind(root: &Value, schema: &Value) -> String {
    kind_within(root, schema, DEPTH)
        .map_or_else(|| "any value".to_owned(), |kind| escape_for_display(&kind, KIND_CHARS))
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
