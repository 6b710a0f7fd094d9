//! The subset of JSON Schema that Gemini takes in `parametersJsonSchema`.
//!
//! References are written out: recursion is allowed in optional properties only, and a `$ref` may have no siblings. A union may
//! have no siblings either, so these become part of each alternative. Constraints that are not in the subset are told in
//! the description.

use serde_json::{Map, Value, json};

use super::normal::{drop_meaningless, may_be};
use super::notes::Notes;

/// Keywords of the published subset. `maxItems` is left out: more than some 960 of it together are refused.
const KEYWORDS: &[&str] = &[
    "type",
    "format",
    "title",
    "description",
    "enum",
    "items",
    "prefixItems",
    "minItems",
    "minimum",
    "maximum",
    "anyOf",
    "properties",
    "additionalProperties",
    "required",
];
/// Formats that are documented.
const FORMATS: &[&str] = &["date-time", "date", "time", "int32", "int64", "float", "double"];
/// Most levels of objects and arrays inside each other. The limit is not published; reports of refusals begin above six.
const LEVELS: usize = 6;
/// Most subschemas. References that are written out at each use can multiply.
const NODES: usize = 2_000;
/// Most JSON values that are copied where references are written out and unions get their siblings.
const COPIED: usize = 50_000;
/// Most references and parts that are followed at one place.
const STEPS: usize = 32;
/// Types in the order in which alternatives are shown.
const TYPES: &[&str] = &["string", "integer", "number", "boolean", "array", "object", "null"];

/// Restricts a schema to the subset.
pub(super) fn restrict(mut root: Map<String, Value>, notes: &mut Notes) -> Map<String, Value> {
    let definitions = match root.remove("$defs") {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let open = vec!["#".to_owned()];
    let mut writer = Writer { definitions: &definitions, open, nodes: 0, copied: 0 };
    match writer.schema(root, 0, notes) {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

struct Writer<'d> {
    definitions: &'d Map<String, Value>,
    /// References that are being written out.
    open: Vec<String>,
    nodes: usize,
    copied: usize,
}

impl Writer<'_> {
    /// Whether so many more values may be copied.
    fn may_copy(&mut self, values: usize) -> bool {
        self.copied = self.copied.saturating_add(values);
        self.copied <= COPIED
    }

    fn any(&mut self, schema: Value, level: usize, notes: &mut Notes) -> Value {
        match schema {
            Value::Object(members) => self.schema(members, level, notes),
            _ => json!({}),
        }
    }

    fn schema(&mut self, mut schema: Map<String, Value>, level: usize, notes: &mut Notes) -> Value {
        self.nodes += 1;
        let before = self.open.len();
        let is_recursive = !self.expand(&mut schema);
        let inner = level + usize::from(may_be(&schema, "object") || may_be(&schema, "array"));
        let written = if is_recursive || self.nodes > NODES || inner > LEVELS {
            notes.add("what is inside is not shown: Gemini refuses deep and recursive schemas");
            cut_schema(&schema, inner <= LEVELS)
        } else if let Some(union) = self.alternatives(&mut schema) {
            let written = union.into_iter().enumerate().map(|(index, alternative)| {
                notes.inside(&["anyOf", &index.to_string()], |notes| self.any(alternative, level, notes))
            });
            json!({"anyOf": written.collect::<Vec<_>>()})
        } else {
            drop_meaningless(&mut schema);
            reduce(&mut schema, notes);
            self.subschemas(&mut schema, inner, notes);
            schema.into()
        };
        self.open.truncate(before);
        written
    }

    /// Replaces `$ref` and `allOf` by the members of their targets. Returns false if a target contains itself.
    fn expand(&mut self, schema: &mut Map<String, Value>) -> bool {
        let definitions = self.definitions;
        for _ in 0..STEPS {
            if let Some(Value::String(reference)) = schema.remove("$ref") {
                if self.open.contains(&reference) {
                    return false;
                }
                let name = reference.strip_prefix("#/$defs/");
                if let Some(Value::Object(target)) = name.and_then(|name| definitions.get(name)) {
                    if !self.may_copy(target.values().map(count).sum()) {
                        return false;
                    }
                    merge(schema, target.clone());
                }
                self.open.push(reference);
            } else if let Some(Value::Array(parts)) = schema.remove("allOf") {
                for part in parts {
                    if let Value::Object(part) = part {
                        merge(schema, part);
                    }
                }
            } else {
                return true;
            }
        }
        false
    }

    /// Splits a schema with alternatives, or with several types beside null, into whole alternatives.
    fn alternatives(&mut self, schema: &mut Map<String, Value>) -> Option<Vec<Value>> {
        let union = match (schema.remove("anyOf"), schema.remove("oneOf")) {
            (Some(Value::Array(any)), _) => any,
            (_, Some(Value::Array(one))) => one,
            _ => return several_types(schema),
        };
        if !self.may_copy(schema.values().map(count).sum::<usize>().saturating_mul(union.len())) {
            schema.retain(|keyword, _| matches!(keyword.as_str(), "type" | "title" | "description"));
        }
        let beside = |alternative: Value| match alternative {
            Value::Object(mut members) => {
                merge(&mut members, schema.clone());
                members.into()
            }
            other => other,
        };
        let is_possible = |alternative: &Value| *alternative != json!({"not": {}});
        let alternatives: Vec<Value> = union.into_iter().filter(is_possible).map(beside).collect();
        (!alternatives.is_empty()).then_some(alternatives)
    }

    fn subschemas(&mut self, schema: &mut Map<String, Value>, level: usize, notes: &mut Notes) {
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            properties.retain(|_, property| *property != json!({"not": {}}));
            for (name, property) in properties.iter_mut() {
                let written =
                    notes.inside(&["properties", name], |notes| self.any(property.take(), level, notes));
                *property = written;
            }
        }
        if let Some(Value::Array(tuple)) = schema.get_mut("prefixItems") {
            for (index, item) in tuple.iter_mut().enumerate() {
                let steps = ["prefixItems", &index.to_string()];
                *item = notes.inside(&steps, |notes| self.any(item.take(), level, notes));
            }
        }
        for keyword in ["items", "additionalProperties"] {
            if let Some(inner) = schema.get_mut(keyword).filter(|inner| inner.is_object()) {
                *inner = notes.inside(&[keyword], |notes| self.any(inner.take(), level, notes));
            }
        }
        let declared = schema.get("properties").and_then(Value::as_object);
        let is_declared = |name: &Value| {
            name.as_str().is_some_and(|name| declared.is_some_and(|declared| declared.contains_key(name)))
        };
        let required = schema.get("required").and_then(Value::as_array);
        let required: Vec<Value> =
            required.into_iter().flatten().filter(|name| is_declared(name)).cloned().collect();
        match required.is_empty() {
            true => drop(schema.remove("required")),
            false => drop(schema.insert("required".into(), required.into())),
        }
    }
}

/// Adds the members of a schema that applies too. Of two equal keywords, the nearer one is kept.
fn merge(schema: &mut Map<String, Value>, other: Map<String, Value>) {
    for (keyword, value) in other {
        match (schema.get_mut(&keyword), value) {
            (Some(Value::Object(near)), Value::Object(far)) if keyword == "properties" => {
                for (name, property) in far {
                    near.entry(name).or_insert(property);
                }
            }
            (Some(Value::Array(near)), Value::Array(far))
                if matches!(keyword.as_str(), "required" | "allOf") =>
            {
                for item in far {
                    if keyword == "allOf" || !near.contains(&item) {
                        near.push(item);
                    }
                }
            }
            (Some(_), _) => {}
            (None, value) => drop(schema.insert(keyword, value)),
        }
    }
}

/// The number of JSON values in a value.
fn count(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(count).sum::<usize>(),
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn several_types(schema: &Map<String, Value>) -> Option<Vec<Value>> {
    let types = schema.get("type").and_then(Value::as_array)?;
    if types.iter().filter(|name| *name != "null").count() < 2 {
        return None;
    }
    let alternatives = TYPES.iter().filter(|name| types.iter().any(|one| one == *name)).map(|name| {
        let mut alternative = schema.clone();
        alternative.insert("type".into(), (*name).into());
        drop_meaningless(&mut alternative);
        alternative.into()
    });
    Some(alternatives.collect())
}

/// Takes away what the subset has not, and tells it in the description.
fn reduce(schema: &mut Map<String, Value>, notes: &mut Notes) {
    if let Some(value) = schema.remove("const") {
        schema.entry("enum").or_insert_with(|| json!([value]));
    }
    if let Some(Value::Array(values)) = schema.remove("enum") {
        reduce_enum(schema, values, notes);
    }
    let is_known = |format: &Value| format.as_str().is_some_and(|format| FORMATS.contains(&format));
    let (kept, told): (Map<_, _>, Map<_, _>) =
        std::mem::take(schema).into_iter().partition(|(keyword, value)| {
            KEYWORDS.contains(&keyword.as_str()) && (keyword != "format" || is_known(value))
        });
    *schema = kept;
    tell(schema, told, notes);
}

/// Keeps an `enum` of texts, or of numbers. The subset has no others.
fn reduce_enum(schema: &mut Map<String, Value>, mut values: Vec<Value>, notes: &mut Notes) {
    let has_null = values.iter().any(Value::is_null);
    values.retain(|value| !value.is_null());
    let kind = if values.iter().all(Value::is_string) {
        "string"
    } else if values.iter().all(|value| value.is_i64() || value.is_u64()) {
        "integer"
    } else if values.iter().all(Value::is_number) {
        "number"
    } else if values.iter().all(Value::is_boolean) {
        "boolean"
    } else {
        return tell(schema, Map::from_iter([("enum".to_owned(), values.into())]), notes);
    };
    if values.is_empty() {
        schema.insert("type".into(), "null".into());
        return;
    }
    let types = if has_null { json!([kind, "null"]) } else { json!(kind) };
    schema.insert("type".into(), types);
    match kind {
        "boolean" if values.len() > 1 => {}
        "boolean" => tell(schema, Map::from_iter([("enum".to_owned(), values.into())]), notes),
        _ => drop(schema.insert("enum".into(), values.into())),
    }
}

/// Tells keywords that are taken away in the description.
pub(super) fn tell(schema: &mut Map<String, Value>, told: Map<String, Value>, notes: &mut Notes) {
    let is_told = |keyword: &str| TOLD.contains(&keyword);
    let words: Vec<String> = told
        .iter()
        .filter(|(keyword, _)| is_told(keyword))
        .map(|(keyword, value)| format!("{keyword}: {value}"))
        .filter(|words| words.len() <= TOLD_BYTES)
        .collect();
    if !words.is_empty() {
        let described = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let separator = if described.is_empty() { "" } else { " " };
        let description = format!("{described}{separator}({})", words.join(", "));
        schema.insert("description".into(), description.into());
    }
    let names: Vec<&str> = told.keys().map(String::as_str).filter(|name| !SILENT.contains(name)).collect();
    match names.as_slice() {
        [] => {}
        [name] => notes.add(format!("`{name}` is not in this form")),
        names => notes.add(format!("`{}` are not in this form", names.join("`, `"))),
    }
}

/// Keywords that are told in the description.
const TOLD: &[&str] = &[
    "const",
    "default",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "pattern",
    "uniqueItems",
];
/// Keywords that say nothing about values.
const SILENT: &[&str] = &["examples", "deprecated", "readOnly", "writeOnly", "title"];
/// Longest keyword with its value that is told.
const TOLD_BYTES: usize = 200;

/// A schema without its inner part; without its type where an object or a list is too deep.
fn cut_schema(schema: &Map<String, Value>, has_type: bool) -> Value {
    let mut kept = Map::new();
    for keyword in ["title", "description"] {
        if let Some(value) = schema.get(keyword) {
            kept.insert(keyword.into(), value.clone());
        }
    }
    // Several types would need alternatives.
    if let Some(Value::String(name)) = schema.get("type").filter(|_| has_type) {
        kept.insert("type".into(), name.clone().into());
        if name == "array" {
            kept.insert("items".into(), json!({}));
        }
    }
    kept.into()
}
