//! Merges objects that are written in parts (`allOf`).
//!
//! Documents use `allOf` of objects for inheritance. A merged object is shorter and easier for a model, and a part with
//! `additionalProperties: false` does not reject the properties of the other parts.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::document::{Document, breadth};

/// Levels of nested parts.
const DEPTH: usize = 12;
/// Parts and properties visited, since parts can multiply.
const STEPS: usize = 5_000;

/// The properties that an object allows and requires.
#[derive(Default)]
pub(crate) struct Members<'a> {
    pub(crate) properties: BTreeMap<&'a str, &'a Value>,
    pub(crate) required: BTreeSet<&'a str>,
    /// `additionalProperties`; of several parts, the most permissive.
    pub(crate) additional: Option<&'a Value>,
    /// The description of the outermost part that has one.
    pub(crate) description: Option<&'a str>,
    /// Whether conditions between properties (`anyOf` of `required`) were dropped.
    pub(crate) has_conditions: bool,
    steps: usize,
}

/// The members of a schema that describes only an object, possibly in parts; none if it describes more.
pub(crate) fn object_members<'a>(document: &'a Document, schema: &'a Value) -> Option<Members<'a>> {
    let mut members = Members::default();
    members.add(document, schema, 0).then_some(members)
}

impl<'a> Members<'a> {
    fn add(&mut self, document: &'a Document, schema: &'a Value, depth: usize) -> bool {
        let Ok(Value::Object(map)) = document.resolve(schema) else { return false };
        let breadth = breadth(map);
        document.spend(breadth);
        self.steps += 1 + breadth;
        if document.is_exhausted()
            || depth > DEPTH
            || self.steps > STEPS
            || !map.iter().all(|(key, value)| is_object_keyword(key, value))
        {
            return false;
        }
        // A description beside a reference is about this use of it.
        let beside = schema.get("description").and_then(Value::as_str);
        let description = beside.or_else(|| map.get("description").and_then(Value::as_str));
        self.description = self.description.or(description);
        let parts = map.get("allOf").and_then(Value::as_array).into_iter().flatten();
        if !parts.into_iter().all(|part| self.add(document, part, depth + 1)) {
            return false;
        }
        self.has_conditions |= ["anyOf", "oneOf"].iter().any(|keyword| map.contains_key(*keyword));
        self.add_own(map);
        true
    }

    fn add_own(&mut self, map: &'a Map<String, Value>) {
        let properties = map.get("properties").and_then(Value::as_object).into_iter().flatten();
        self.properties.extend(properties.map(|(name, property)| (name.as_str(), property)));
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        self.required.extend(required.filter_map(Value::as_str));
        let additional = map.get("additionalProperties");
        self.additional = match (self.additional, additional) {
            (Some(Value::Bool(false)) | None, Some(more)) => Some(more),
            (known, _) => known,
        };
    }
}

/// Whether a keyword only describes an object or annotates it.
fn is_object_keyword(key: &str, value: &Value) -> bool {
    match key {
        "type" => match value {
            Value::String(kind) => kind == "object",
            Value::Array(kinds) => {
                kinds.iter().all(|kind| kind == "object" || kind == "null")
                    && kinds.contains(&Value::from("object"))
            }
            _ => false,
        },
        "anyOf" | "oneOf" => are_conditions(value),
        "properties"
        | "required"
        | "additionalProperties"
        | "allOf"
        | "description"
        | "title"
        | "example"
        | "examples"
        | "default"
        | "nullable"
        | "discriminator"
        | "xml"
        | "externalDocs"
        | "deprecated"
        | "readOnly"
        | "writeOnly"
        | "minProperties"
        | "maxProperties"
        | "$comment"
        | "$schema"
        | "$id" => true,
        key => key.starts_with("x-"),
    }
}

/// Whether all alternatives only state which properties must occur together.
fn are_conditions(alternatives: &Value) -> bool {
    let is_condition = |alternative: &Value| {
        let keys = alternative.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        keys.into_iter().all(|key| matches!(key, "required" | "title" | "description"))
    };
    alternatives.as_array().is_some_and(|alternatives| alternatives.iter().all(is_condition))
}
