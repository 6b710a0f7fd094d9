//! What a schema asks for, in one line that a model can follow.
//!
//! This is not a rendering of the schema: it names the properties of the root with their types, the
//! required ones first, and stops when it gets long. It only ever reads, so a schema that says odd
//! things gives an odd hint and nothing worse.

use std::collections::HashSet;

use serde_json::{Map, Value};

use toolgate_api::text::{escape_for_display, json_start};

/// Properties that a hint names.
const PROPERTIES: usize = 24;
/// Values of an `enum` that are named.
const OPTIONS: usize = 12;
/// Longest value shown, in characters.
const VALUE_CHARS: usize = 40;
/// Longest kind in words, in characters: alternatives of alternatives multiply.
const KIND_CHARS: usize = 800;
/// How far alternatives and references are followed.
const DEPTH: usize = 4;

/// The properties that an object of this schema has, with their types.
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

/// The kind of value that a schema asks for: `string`, `integer or null`, `"a" or "b"`.
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

/// Alternatives in words, without repetition.
pub(super) fn either(words: impl Iterator<Item = String>, most: usize) -> String {
    distinct(words, most).join(" or ")
}

/// The first words, each once.
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

/// A value of the schema as short JSON.
pub(super) fn value(value: &Value) -> String {
    json_start(value, VALUE_CHARS)
}
