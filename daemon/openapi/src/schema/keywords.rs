//! Writes one schema, keyword by keyword.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use toolgate_api::text::escape_for_display;

use super::{Depth, Members, TooLarge, Writer, object_members};
use crate::document::reference;
use crate::text::{clean, clean_line, is_visible};

/// Longest example or default, as JSON text.
const SAMPLE_BYTES: usize = 200;
/// Most values of an `enum`. A longer list is a lookup table, which the API checks.
const ENUM_VALUES: usize = 500;
/// Most alternatives of one `allOf`, `anyOf` or `oneOf`.
const ALTERNATIVES: usize = 50;

/// Keywords that apply further schemas to the same value.
const COMBINING: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
const COUNTS: [&str; 8] = [
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
];
/// Formats that documents use for something else than JSON Schema: times without a zone, durations like `5m`, patterns
/// of another regular expression engine.
const LOOSE_FORMATS: [&str; 3] = ["time", "duration", "regex"];

impl<'a> Writer<'a, '_> {
    /// Writes a schema without `$ref`.
    pub(super) fn keywords(
        &mut self,
        schema: &'a Value,
        map: &'a Map<String, Value>,
        depth: Depth,
    ) -> Result<Value, TooLarge> {
        let mut written = self.annotations(map);
        let types = types(map);
        written.extend(type_value(&types).map(|types| ("type".to_owned(), types)));
        self.values(map, &types, &mut written);
        numbers(map, &mut written);
        self.texts(map, &mut written);
        self.arrays(map, depth, &mut written)?;
        match map.contains_key("allOf").then(|| object_members(self.document, schema)).flatten() {
            Some(members) => self.merged_object(&members, depth, &mut written)?,
            None => {
                self.objects(map, depth, &mut written)?;
                self.combinators(map, depth, &mut written)?;
            }
        }
        let is_combined = COMBINING.iter().any(|keyword| map.contains_key(*keyword));
        let written = Value::Object(written);
        Ok(if is_nullable(map) && types.is_empty() && is_combined { or_null(written) } else { written })
    }

    /// `enum`, `const`, `default` and one example.
    fn values(&mut self, map: &Map<String, Value>, types: &[&str], written: &mut Map<String, Value>) {
        if let Some(values) = map.get("enum").and_then(Value::as_array) {
            let mut kept: Vec<Value> = Vec::new();
            let mut known = BTreeSet::new();
            for value in values.iter().take(ENUM_VALUES + 1).map(|value| as_typed(value, types)) {
                if is_flat(&value) && known.insert(value.to_string()) {
                    kept.push(value);
                }
            }
            if (types.contains(&"null") || is_nullable(map)) && !kept.contains(&Value::Null) {
                kept.push(Value::Null);
            }
            match kept.len() {
                0 => {}
                1..=ENUM_VALUES => drop(written.insert("enum".to_owned(), Value::Array(kept))),
                _ => self.note("a list of values is too long and is dropped"),
            }
        }
        if let Some(value) = map.get("const").filter(|value| is_flat(value)) {
            written.insert("const".to_owned(), value.clone());
        }
        if let Some(value) = map.get("default").filter(|value| is_sample(value)) {
            written.insert("default".to_owned(), value.clone());
        }
        let samples = map.get("examples").and_then(Value::as_array).and_then(|samples| samples.first());
        if let Some(value) = map.get("example").or(samples).filter(|value| is_sample(value)) {
            written.insert("examples".to_owned(), json!([value]));
        }
    }

    fn texts(&mut self, map: &Map<String, Value>, written: &mut Map<String, Value>) {
        if let Some(format) = map.get("format").and_then(Value::as_str)
            && !LOOSE_FORMATS.contains(&format)
            && format.len() <= 40
            && format.bytes().all(|byte| byte.is_ascii_graphic())
        {
            written.insert("format".to_owned(), json!(format));
        }
        if let Some(pattern) = map.get("pattern").and_then(Value::as_str)
            && self.plan.is_checking
        {
            match self.patterns.is_usable(pattern) {
                true => drop(written.insert("pattern".to_owned(), json!(pattern))),
                false => {
                    self.note(format!("the pattern `{}` is not checked", escape_for_display(pattern, 80)))
                }
            }
        }
    }

    fn arrays(
        &mut self,
        map: &'a Map<String, Value>,
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        match map.get("items") {
            Some(Value::Array(items)) => self.prefix_items(items, depth, written)?,
            items => self.part("items", items, depth, written)?,
        }
        if let Some(items) = map.get("prefixItems").and_then(Value::as_array) {
            self.prefix_items(items, depth, written)?;
        }
        self.part("contains", map.get("contains"), depth, written)?;
        if map.get("uniqueItems") == Some(&Value::Bool(true)) && self.plan.is_checking {
            written.insert("uniqueItems".to_owned(), json!(true));
        }
        Ok(())
    }

    fn prefix_items(
        &mut self,
        items: &'a [Value],
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let items: Result<Vec<Value>, TooLarge> =
            items.iter().map(|item| self.schema(item, depth.inward())).collect();
        // JSON Schema does not allow an empty list there.
        let items = items?;
        if !items.is_empty() {
            written.insert("prefixItems".to_owned(), Value::Array(items));
        }
        Ok(())
    }

    /// Writes a keyword whose value is a schema for parts of the value.
    fn part(
        &mut self,
        keyword: &str,
        schema: Option<&'a Value>,
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let part = schema.map(|schema| self.schema(schema, depth.inward())).transpose()?;
        let part = part.filter(|part| *part != json!({}));
        written.extend(part.map(|part| (keyword.to_owned(), part)));
        Ok(())
    }

    fn objects(
        &mut self,
        map: &'a Map<String, Value>,
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let properties = map.get("properties").and_then(Value::as_object).into_iter().flatten();
        let required = map.get("required").and_then(Value::as_array).into_iter().flatten();
        self.properties(
            properties.map(|(name, property)| (name.as_str(), property)).collect(),
            &required.filter_map(Value::as_str).collect(),
            depth,
            written,
        )?;
        self.part("additionalProperties", map.get("additionalProperties"), depth, written)?;
        self.part("propertyNames", map.get("propertyNames"), depth, written)?;
        self.pattern_properties(map, depth, written)
    }

    fn pattern_properties(
        &mut self,
        map: &'a Map<String, Value>,
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let patterns = map.get("patternProperties").and_then(Value::as_object).into_iter().flatten();
        let mut kept = Map::new();
        for (pattern, schema) in patterns {
            match self.plan.is_checking && self.patterns.is_usable(pattern) {
                true => drop(kept.insert(pattern.clone(), self.schema(schema, depth.inward())?)),
                // Properties that match a dropped pattern must not be rejected.
                false => drop(written.remove("additionalProperties")),
            }
        }
        if !kept.is_empty() {
            written.insert("patternProperties".to_owned(), Value::Object(kept));
        }
        Ok(())
    }

    /// `properties` and `required`, without properties that are absent in this direction.
    fn properties(
        &mut self,
        properties: Vec<(&'a str, &'a Value)>,
        required: &BTreeSet<&str>,
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let mut kept = Map::new();
        let mut hidden = BTreeSet::new();
        for (name, property) in properties {
            if !is_visible(name) || self.direction.is_hidden(self.document, property) {
                hidden.insert(name);
                continue;
            }
            kept.insert(name.to_owned(), self.schema(property, depth.inward())?);
        }
        let is_kept = |name: &&&str| !hidden.contains(**name) && is_visible(name);
        let required: Vec<&&str> = required.iter().filter(is_kept).collect();
        if !required.is_empty() {
            written.insert("required".to_owned(), json!(required));
        }
        if !kept.is_empty() {
            written.insert("properties".to_owned(), Value::Object(kept));
        }
        Ok(())
    }

    /// Writes an object whose `allOf` parts were merged.
    fn merged_object(
        &mut self,
        members: &Members<'a>,
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        written.entry("type").or_insert_with(|| json!("object"));
        if let Some(description) = members.description
            && !written.contains_key("description")
        {
            let description = clean(description, super::DESCRIPTION_CHARS);
            if !description.is_empty() {
                written.insert("description".to_owned(), json!(description));
            }
        }
        let properties = members.properties.iter().map(|(name, property)| (*name, *property)).collect();
        self.properties(properties, &members.required, depth, written)?;
        self.part("additionalProperties", members.additional, depth, written)
    }

    /// `allOf`, `anyOf`, `oneOf` and `not`.
    fn combinators(
        &mut self,
        map: &'a Map<String, Value>,
        depth: Depth,
        written: &mut Map<String, Value>,
    ) -> Result<(), TooLarge> {
        let mut all = self.list(map.get("allOf"), depth)?;
        all.retain(|part| *part != json!({}));
        let alternatives = [map.get("anyOf"), map.get("oneOf")];
        for (index, alternatives) in alternatives.into_iter().enumerate() {
            let alternatives = self.list(alternatives, depth)?;
            // If one alternative accepts anything, all of them do.
            if alternatives.is_empty() || alternatives.contains(&json!({})) {
                continue;
            }
            match index > 0 && written.contains_key("anyOf") {
                true => all.push(json!({"anyOf": alternatives})),
                false => drop(written.insert("anyOf".to_owned(), Value::Array(alternatives))),
            }
        }
        if !all.is_empty() {
            written.insert("allOf".to_owned(), Value::Array(all));
        }
        if let Some(not) = map.get("not") {
            let not = self.schema(not, depth.deeper())?;
            // Parts that were cut inside `not` would make it reject more than the document does.
            if self.plan.levels.is_none() && not != json!({}) {
                written.insert("not".to_owned(), not);
            }
        }
        Ok(())
    }

    fn list(&mut self, schemas: Option<&'a Value>, depth: Depth) -> Result<Vec<Value>, TooLarge> {
        let schemas = schemas.and_then(Value::as_array).into_iter().flatten();
        schemas
            .take(ALTERNATIVES)
            .map(|schema| {
                let mut written = self.schema(schema, depth.deeper())?;
                let title =
                    schema.get("title").and_then(Value::as_str).filter(|_| reference(schema).is_none());
                if let (Value::Object(written), Some(title)) = (&mut written, title)
                    && !written.is_empty()
                {
                    written.insert("title".to_owned(), json!(clean_line(title, 100)));
                }
                Ok(written)
            })
            .collect()
    }
}

/// The types that a schema names, or that its other keywords imply.
pub(super) fn types(map: &Map<String, Value>) -> Vec<&str> {
    let known = |name: &&str| TYPES.contains(name);
    let mut types: Vec<&str> = match map.get("type") {
        Some(Value::String(name)) => Some(name.as_str()).filter(known).into_iter().collect(),
        Some(Value::Array(names)) => {
            let names: BTreeSet<&str> = names.iter().filter_map(Value::as_str).filter(known).collect();
            names.into_iter().collect()
        }
        _ if map.contains_key("properties") => vec!["object"],
        _ if map.contains_key("items") => vec!["array"],
        _ => Vec::new(),
    };
    if is_nullable(map) && !types.is_empty() && !types.contains(&"null") {
        types.push("null");
    }
    types
}

pub(super) fn type_value(types: &[&str]) -> Option<Value> {
    match types {
        [] => None,
        [one] => Some(json!(one)),
        many => Some(json!(many)),
    }
}

pub(super) fn or_null(schema: Value) -> Value {
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// Whether OpenAPI 3.0 allows null here.
pub(super) fn is_nullable(map: &Map<String, Value>) -> bool {
    map.get("nullable") == Some(&Value::Bool(true))
}

/// Bounds of numbers and counts. In OpenAPI 3.0, `exclusiveMinimum: true` modifies the `minimum` beside it.
fn numbers(map: &Map<String, Value>, written: &mut Map<String, Value>) {
    for (bound, exclusive) in [("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")] {
        let value = map.get(bound).filter(|value| value.is_number());
        match (value, map.get(exclusive)) {
            (Some(value), Some(Value::Bool(true))) => {
                drop(written.insert(exclusive.to_owned(), value.clone()))
            }
            (value, other) => {
                written.extend(value.map(|value| (bound.to_owned(), value.clone())));
                let other = other.filter(|other| other.is_number());
                written.extend(other.map(|other| (exclusive.to_owned(), other.clone())));
            }
        }
    }
    let step = map.get("multipleOf").filter(|step| step.as_f64().is_some_and(|step| step > 0.0));
    written.extend(step.map(|step| ("multipleOf".to_owned(), step.clone())));
    for keyword in COUNTS {
        let count = map.get(keyword).and_then(Value::as_u64);
        written.extend(count.map(|count| (keyword.to_owned(), json!(count))));
    }
}

/// Converts an `enum` value to its text type: YAML reads `1.0` and `true` as number and boolean.
fn as_typed(value: &Value, types: &[&str]) -> Value {
    let is_text = types.contains(&"string") && types.iter().all(|kind| matches!(*kind, "string" | "null"));
    match value {
        Value::Number(number) if is_text => json!(number.to_string()),
        Value::Bool(flag) if is_text => json!(flag.to_string()),
        value => value.clone(),
    }
}

/// Whether a value is a scalar or one level of scalars, without hidden characters.
fn is_flat(value: &Value) -> bool {
    let is_scalar = |value: &Value| match value {
        Value::String(text) => is_visible(text),
        Value::Array(_) | Value::Object(_) => false,
        _ => true,
    };
    match value {
        Value::Array(items) => items.iter().all(is_scalar),
        Value::Object(map) => map.iter().all(|(key, value)| is_visible(key) && is_scalar(value)),
        value => is_scalar(value),
    }
}

fn is_sample(value: &Value) -> bool {
    !value.is_null() && is_flat(value) && value.to_string().len() <= SAMPLE_BYTES
}
