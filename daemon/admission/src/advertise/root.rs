//! The root of a schema as OpenAI, Anthropic and Gemini accept it: one object without alternatives.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::normal::resolve;

/// Keywords that OpenAI and Anthropic refuse at the root of a schema, with those that mean nothing without them.
const REFUSED: &[&str] = &["oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else"];
/// Most `$ref`s that are followed at one place.
const REFERENCES: usize = 8;
/// Most parts of a root, nested ones included. A root of more is shown without the rest.
const PARTS: usize = 64;

/// Whether the root is one object, without alternatives, conditions and references.
pub(super) fn is_plain(schema: &Value) -> bool {
    let is_refused = |keyword: &&str| schema.get(keyword).is_some();
    schema.is_object() && !REFUSED.iter().any(is_refused) && schema.get("$ref").is_none()
}

/// The names of all properties that the root or an alternative of it declares.
pub(super) fn property_names(schema: &Value) -> BTreeSet<String> {
    let flat = flatten(schema);
    let properties = flat.get("properties").and_then(Value::as_object);
    properties.into_iter().flat_map(|properties| properties.keys().cloned()).collect()
}

/// Returns an object schema with all properties at its root: a property of an alternative is optional, and a property that
/// all alternatives require is required.
pub(super) fn flatten(schema: &Value) -> Map<String, Value> {
    let mut root = resolve_refs(schema, schema);
    let mut parts_left = PARTS;
    let members = Members::of(schema, &root, &mut parts_left);
    if members.is_composed {
        // These keywords can forbid a property that only an alternative declares.
        root.remove("additionalProperties");
        root.remove("unevaluatedProperties");
    }
    root.retain(|keyword, _| !REFUSED.contains(&keyword.as_str()));
    root.insert("properties".into(), members.properties.into());
    root.remove("required");
    if !members.required.is_empty() {
        root.insert("required".into(), members.required.into_iter().collect());
    }
    root
}

/// The properties of an object schema and of its parts.
#[derive(Default)]
struct Members {
    properties: Map<String, Value>,
    required: BTreeSet<String>,
    is_composed: bool,
}

impl Members {
    fn of(whole: &Value, schema: &Map<String, Value>, parts_left: &mut usize) -> Self {
        let mut members = Self::default();
        members.add_properties(schema.get("properties").and_then(Value::as_object));
        members.required = names(schema, "required");
        for keyword in ["allOf", "anyOf", "oneOf", "then", "else"] {
            let parts = match schema.get(keyword) {
                Some(Value::Array(parts)) => parts.as_slice(),
                Some(part) if part.is_object() => std::slice::from_ref(part),
                _ => continue,
            };
            let mut required: Option<BTreeSet<String>> = None;
            for part in parts {
                let part = match parts_left.checked_sub(1) {
                    Some(left) => {
                        *parts_left = left;
                        Self::of(whole, &resolve_refs(whole, part), parts_left)
                    }
                    // Nothing is known to be required by a part that is left out.
                    None => Self::default(),
                };
                members.add_properties(Some(&part.properties));
                required = Some(match required {
                    Some(required) if keyword == "allOf" => required.union(&part.required).cloned().collect(),
                    Some(required) => required.intersection(&part.required).cloned().collect(),
                    None => part.required,
                });
            }
            members.is_composed = true;
            if !matches!(keyword, "then" | "else") {
                members.required.extend(required.unwrap_or_default());
            }
        }
        members
    }

    fn add_properties(&mut self, properties: Option<&Map<String, Value>>) {
        for (name, schema) in properties.into_iter().flatten() {
            match self.properties.get_mut(name) {
                None => drop(self.properties.insert(name.clone(), schema.clone())),
                Some(known) if known == schema => {}
                Some(known) => add_alternative(known, schema),
            }
        }
    }
}

/// Makes an `anyOf` of two different schemas of one property.
fn add_alternative(known: &mut Value, schema: &Value) {
    // Only an `anyOf` without other keywords can take one more schema.
    let is_union =
        known.as_object().is_some_and(|members| members.len() == 1 && members.contains_key("anyOf"));
    match known.get_mut("anyOf").and_then(Value::as_array_mut).filter(|_| is_union) {
        Some(several) if several.contains(schema) => {}
        Some(several) => several.push(schema.clone()),
        None => *known = json!({"anyOf": [known.take(), schema]}),
    }
}

/// Returns the members of a schema, with its `$ref` replaced by the members of the target.
fn resolve_refs(whole: &Value, schema: &Value) -> Map<String, Value> {
    let mut members = schema.as_object().cloned().unwrap_or_default();
    for _ in 0..REFERENCES {
        let Some(Value::String(reference)) = members.remove("$ref") else { break };
        for (keyword, value) in resolve(whole, &reference).and_then(Value::as_object).into_iter().flatten() {
            // Keywords beside a `$ref` apply too; of two equal keywords, the nearer one is kept.
            members.entry(keyword).or_insert_with(|| value.clone());
        }
    }
    members.remove("$ref");
    members
}

fn names(schema: &Map<String, Value>, keyword: &str) -> BTreeSet<String> {
    let names = schema.get(keyword).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
