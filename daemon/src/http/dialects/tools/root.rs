//! The root of a JSON Schema as providers accept it: an object without a union.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Keywords that OpenAI and Anthropic refuse at the root of a schema.
const REFUSED: &[&str] = &["oneOf", "anyOf", "allOf", "not", "enum", "const", "if", "then", "else"];
/// Longest chain of `$ref` that is followed at the root.
const MOST_REFERENCES: usize = 8;

/// Returns the schema with `type` set to `object`.
pub fn of_an_object(schema: &Value) -> Value {
    let mut root = schema.as_object().cloned().unwrap_or_default();
    root.insert("type".into(), "object".into());
    root.into()
}

/// Returns an object schema with all properties at its root. It accepts every value that the original accepts: a
/// property of any alternative is optional, and a property that all alternatives require is required.
pub fn plain(schema: &Value) -> Value {
    let mut root = resolve_ref(schema, schema);
    let alternatives: Vec<Vec<Map<String, Value>>> =
        ["oneOf", "anyOf"].iter().map(|keyword| parts(schema, &root, keyword)).collect();
    let all = parts(schema, &root, "allOf");
    let mut properties = taken_properties(&mut root);
    let mut required: BTreeSet<String> = names(&root, "required");
    for part in all.iter().chain(alternatives.iter().flatten()) {
        for (name, property) in part.get("properties").and_then(Value::as_object).into_iter().flatten() {
            add_property(&mut properties, name, property);
        }
    }
    required.extend(all.iter().flat_map(|part| names(part, "required")));
    for parts in &alternatives {
        required.extend(common(parts.iter().map(|part| names(part, "required"))));
    }
    if !(all.is_empty() && alternatives.iter().all(Vec::is_empty)) {
        // These keywords can forbid a property that only an alternative declares.
        root.remove("additionalProperties");
        root.remove("unevaluatedProperties");
    }
    root.retain(|keyword, _| !REFUSED.contains(&keyword.as_str()));
    root.insert("type".into(), "object".into());
    root.insert("properties".into(), properties.into());
    if !required.is_empty() {
        root.insert("required".into(), required.into_iter().collect());
    }
    root.into()
}

/// Returns the members of a schema, with its `$ref` resolved.
fn resolve_ref(whole: &Value, schema: &Value) -> Map<String, Value> {
    let mut members = schema.as_object().cloned().unwrap_or_default();
    for _ in 0..MOST_REFERENCES {
        let Some(Value::String(reference)) = members.remove("$ref") else { break };
        let target = reference.strip_prefix('#').and_then(|pointer| whole.pointer(pointer));
        for (keyword, value) in target.and_then(Value::as_object).into_iter().flatten() {
            // Keywords beside a `$ref` apply too; of two equal keywords, the nearer one is kept.
            members.entry(keyword).or_insert_with(|| value.clone());
        }
    }
    members.remove("$ref");
    members
}

/// Returns the schemas under a keyword of the root.
fn parts(whole: &Value, root: &Map<String, Value>, keyword: &str) -> Vec<Map<String, Value>> {
    let parts = root.get(keyword).and_then(Value::as_array);
    parts.into_iter().flatten().map(|part| resolve_ref(whole, part)).collect()
}

fn taken_properties(root: &mut Map<String, Value>) -> Map<String, Value> {
    match root.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}

/// Adds a property of an alternative; two different schemas of one property become an `anyOf`.
fn add_property(properties: &mut Map<String, Value>, name: &str, property: &Value) {
    let Some(known) = properties.get_mut(name) else {
        properties.insert(name.to_owned(), property.clone());
        return;
    };
    if known == property {
        return;
    }
    // Only an `anyOf` without other keywords can take one more schema.
    let is_union =
        known.as_object().is_some_and(|members| members.len() == 1 && members.contains_key("anyOf"));
    match known.get_mut("anyOf").and_then(Value::as_array_mut).filter(|_| is_union) {
        Some(several) if several.contains(property) => {}
        Some(several) => several.push(property.clone()),
        None => *known = json!({"anyOf": [known.take(), property]}),
    }
}

fn names(schema: &Map<String, Value>, keyword: &str) -> BTreeSet<String> {
    let names = schema.get(keyword).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the intersection of the sets.
fn common(mut sets: impl Iterator<Item = BTreeSet<String>>) -> BTreeSet<String> {
    let first = sets.next().unwrap_or_default();
    sets.fold(first, |common, set| common.intersection(&set).cloned().collect())
}
