//! Schemas of a server's tools, made such that the daemon takes them, or refused with the reason.
//!
//! The daemon bounds what a schema can cost and refuses what it cannot bound; one schema that it refuses would keep the
//! whole server out. So each is looked at when it is discovered. Where something can be taken away without harm it is: what
//! whole server out. So each is looked at when it is discovered. Parts that can be removed without harm are: what
//! a pattern leaves out of the daemon's check, the server still checks. The list here has what schemas in the

use toolgate_api::dialect::canonical_dialect;
use toolgate_api::text::hidden_character;
use toolgate_sdk::serde_json::{self, Map, Value, json};

use crate::text::{clean, display};

/// Longest schema as JSON text that the daemon takes.
const SCHEMA_BYTES: usize = 256 * 1024;
/// Subschemas of one schema that the daemon takes.
const SUBSCHEMAS: usize = 10_000;
/// Nesting of subschemas that it takes.
const LEVELS: usize = 32;
/// Nesting of JSON that it takes in a whole description, less what stands around a schema.
const JSON_LEVELS: usize = 80;
/// References in one schema that it takes.
const REFERENCES: usize = 2_000;
/// `uniqueItems` of one schema that it takes.
const UNIQUE_ITEMS: usize = 32;
/// Patterns of one schema that it takes.
const PATTERNS: usize = 64;
/// Longest description of a part, in characters: it stands in each prompt.
const PART_CHARS: usize = 4_096;

/// Keywords whose value is a schema.
const ONE: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keywords whose value is a list of schemas.
const SEVERAL: [&str; 5] = ["allOf", "anyOf", "items", "oneOf", "prefixItems"];
/// Keywords whose value names schemas.
const NAMED: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords that make the same text mean something else.
const DYNAMIC: [&str; 4] = ["$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"];

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// A schema that the daemon takes, as far as can be told here.
#[derive(Debug)]
pub struct Sound {
    pub schema: Value,
    /// Its length as JSON text, before something was taken away.
    pub bytes: usize,
    /// The removed parts, in words.
    pub changes: Vec<String>,
    pub subschemas: usize,
}

/// The schema of a tool's arguments; null means that it takes any.
pub fn input(schema: Value) -> Result<Sound, String> {
    let mut schema = if schema.is_null() { json!({}) } else { schema };
    let root = schema.as_object_mut().ok_or("its input schema is no object")?;
    root.retain(|_, value| !value.is_null());
    match root.get("type").and_then(only_type) {
        // Arguments are an object in any case.
        Some("object") => drop(root.insert("type".to_owned(), json!("object"))),
        None if !root.contains_key("type") => drop(root.insert("type".to_owned(), json!("object"))),
        _ => return Err("its input schema describes no object".to_owned()),
    }
    sound(schema)
}

/// The schema of a tool's results.
pub fn output(schema: Value) -> Result<Sound, String> {
    if !schema.is_object() {
        return Err("it is no object".to_owned());
    }
    sound(schema)
}

fn only_type(kind: &Value) -> Option<&str> {
    match kind {
        Value::Array(kinds) if kinds.len() == 1 => kinds.first()?.as_str(),
        kind => kind.as_str(),
    }
}

fn sound(mut schema: Value) -> Result<Sound, String> {
    let bytes = serde_json::to_string(&schema).map_or(usize::MAX, |text| text.len());
    if bytes > SCHEMA_BYTES {
        return Err(format!("its schema has {bytes} bytes, more than {SCHEMA_BYTES}"));
    }
    if levels(&schema) > JSON_LEVELS {
        return Err(format!("its schema is nested deeper than {JSON_LEVELS} levels"));
    }
    mend_dialect(&mut schema)?;
    let mut walk = Walk::default();
    walk.mend(&mut schema, 0)?;
    walk.references.iter().try_for_each(|reference| resolve(&schema, reference, &walk.anchors))?;
    Ok(Sound { schema, bytes, changes: walk.changes, subschemas: walk.subschemas })
}

fn levels(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(levels).max().unwrap_or(0),
        Value::Object(map) => 1 + map.values().map(levels).max().unwrap_or(0),
        _ => 0,
    }
}

fn mend_dialect(schema: &mut Value) -> Result<(), String> {
    let Some(dialect) = schema.get_mut("$schema") else { return Ok(()) };
    let Some(written) = dialect.as_str() else { return Ok(()) };
    match canonical_dialect(written) {
        Some(canonical) => {
            *dialect = canonical.into();
            Ok(())
        }
        None => Err(format!(
            "its schema is written in the dialect `{}`, which is not known",
            display(written, 100)
        )),
    }
}

fn resolve(root: &Value, reference: &str, anchors: &[String]) -> Result<(), String> {
    let Some(fragment) = reference.strip_prefix('#') else {
        return Err(format!("its schema refers to another document, `{}`", display(reference, 100)));
    };
    let is_there = match fragment.is_empty() || fragment.starts_with('/') {
        true => root.pointer(fragment).is_some_and(|schema| schema.is_object() || schema.is_boolean()),
        false => anchors.iter().any(|anchor| anchor == fragment),
    };
    match is_there {
        true => Ok(()),
        false => Err(format!("its schema refers to `{}`, where there is nothing", display(reference, 100))),
    }
}

/// What one schema has, while it is gone through.
#[derive(Default)]
struct Walk {
    changes: Vec<String>,
    references: Vec<String>,
    anchors: Vec<String>,
    subschemas: usize,
    unique_items: usize,
    patterns: usize,
}

impl Walk {
    fn mend(&mut self, schema: &mut Value, level: usize) -> Result<(), String> {
        self.subschemas += 1;
        if self.subschemas > SUBSCHEMAS {
            return Err(format!("its schema has more than {SUBSCHEMAS} subschemas"));
        }
        if level > LEVELS {
            return Err(format!("its schema is nested deeper than {LEVELS} levels"));
        }
        let map = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(map) => map,
            _ => return Err("its schema has a part that is no schema".to_owned()),
        };
        // Serializers write null for a keyword that is not there; as a value of these it is meant.
        map.retain(|keyword, value| !value.is_null() || matches!(keyword.as_str(), "const" | "default"));
        if level > 0 && (map.contains_key("$id") || map.contains_key("$schema")) {
            return Err("its schema has an `$id` or `$schema` inside".to_owned());
        }
        if let Some(keyword) = DYNAMIC.iter().find(|keyword| map.contains_key(**keyword)) {
            return Err(format!("its schema uses `{keyword}`, which is not supported"));
        }
        check_kinds(map)?;
        self.mend_texts(map)?;
        self.mend_patterns(map)?;
        self.note(map)?;
        parts_mut(map).into_iter().try_for_each(|part| self.mend(part, level + 1))
    }

    /// Descriptions are cleaned; samples with hidden characters go; elsewhere such a character changes what fits.
    fn mend_texts(&mut self, map: &mut Map<String, Value>) -> Result<(), String> {
        for keyword in ["title", "description", "$comment"] {
            if let Some(text) = map.get(keyword).and_then(Value::as_str)
                && (hidden_character(text).is_some() || text.chars().count() > PART_CHARS)
            {
                let text = clean(text, PART_CHARS).unwrap_or_default();
                map.insert(keyword.to_owned(), text.into());
            }
        }
        map.retain(|keyword, value| !matches!(keyword.as_str(), "default" | "examples") || is_visible(value));
        let is_schema = |keyword: &str| is_applied(keyword);
        let own = map.iter().filter(|(keyword, _)| !is_schema(keyword));
        let names = map.iter().filter(|(keyword, _)| NAMED.contains(&keyword.as_str()));
        let are_names_visible = names
            .filter_map(|(_, named)| named.as_object())
            .all(|named| named.keys().all(|name| hidden_character(name).is_none()));
        let is_own_visible =
            own.into_iter().all(|(keyword, value)| hidden_character(keyword).is_none() && is_visible(value));
        match are_names_visible && is_own_visible {
            true => Ok(()),
            false => Err("its schema has invisible characters".to_owned()),
        }
    }

    fn mend_patterns(&mut self, map: &mut Map<String, Value>) -> Result<(), String> {
        let pattern = map.get("pattern").and_then(Value::as_str);
        match pattern {
            Some(pattern) if looks_around(pattern) || self.patterns == PATTERNS => {
                self.changes.push(format!("the pattern `{}` is left to the server", display(pattern, 60)));
                map.remove("pattern");
            }
            Some(_) => self.patterns += 1,
            None => {}
        }
        let named = map.get("patternProperties").and_then(Value::as_object);
        for name in named.into_iter().flatten().map(|(name, _)| name) {
            self.patterns += 1;
            if looks_around(name) || self.patterns > PATTERNS {
                return Err(format!("its schema names properties by the pattern `{}`", display(name, 60)));
            }
        }
        Ok(())
    }

    fn note(&mut self, map: &Map<String, Value>) -> Result<(), String> {
        self.references.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
        self.anchors.extend(map.get("$anchor").and_then(Value::as_str).map(str::to_owned));
        self.unique_items += usize::from(map.get("uniqueItems") == Some(&Value::Bool(true)));
        if self.references.len() > REFERENCES || self.unique_items > UNIQUE_ITEMS {
            return Err("its schema has too many references or `uniqueItems`".to_owned());
        }
        Ok(())
    }
}

/// The kinds of value that the common keywords take; a schema with others is not valid.
fn check_kinds(map: &Map<String, Value>) -> Result<(), String> {
    let are_strings = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
    let wrong = map.iter().find(|(keyword, value)| match keyword.as_str() {
        "type" => !is_type(value),
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            !value.is_object()
        }
        "required" => !are_strings(value),
        "enum" | "examples" => !value.is_array(),
        "anyOf" | "oneOf" | "allOf" => value.as_array().is_none_or(Vec::is_empty),
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => !value.is_number(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.as_f64().is_none_or(|number| number < 0.0 || number.fract() != 0.0)
        }
        "pattern" | "format" | "$ref" | "$anchor" | "title" | "description" | "$comment" => {
            !value.is_string()
        }
        "uniqueItems" => !value.is_boolean(),
        _ => false,
    });
    match wrong {
        None => Ok(()),
        Some((keyword, _)) => {
            Err(format!("its schema is not valid: `{keyword}` has a value of the wrong kind"))
        }
    }
}

fn is_type(kind: &Value) -> bool {
    let is_known = |kind: &Value| kind.as_str().is_some_and(|kind| TYPES.contains(&kind));
    match kind {
        Value::Array(kinds) => !kinds.is_empty() && kinds.iter().all(is_known),
        kind => is_known(kind),
    }
}

/// Whether a pattern needs an engine that goes back, which the daemon's does not: that one is linear.
fn looks_around(pattern: &str) -> bool {
    let has_group = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|group| pattern.contains(group));
    let escapes = pattern.replace("\\\\", "");
    let refers_back = |pair: &[u8]| pair[0] == b'\\' && (matches!(pair[1], b'1'..=b'9' | b'k'));
    has_group || escapes.as_bytes().windows(2).any(refers_back)
}

fn is_visible(value: &Value) -> bool {
    match value {
        Value::String(text) => hidden_character(text).is_none(),
        Value::Array(items) => items.iter().all(is_visible),
        Value::Object(map) => {
            map.iter().all(|(key, value)| hidden_character(key).is_none() && is_visible(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_applied(keyword: &str) -> bool {
    ONE.contains(&keyword) || SEVERAL.contains(&keyword) || NAMED.contains(&keyword)
}

/// The subschemas right inside one.
fn parts_mut(map: &mut Map<String, Value>) -> Vec<&mut Value> {
    let parts = map.iter_mut().flat_map(|(keyword, value)| match Shape::of(keyword, value) {
        // A list in `dependencies` names properties.
        Shape::Named => values_mut(value).into_iter().filter(|schema| !schema.is_array()).collect(),
        Shape::Several => values_mut(value),
        Shape::One => vec![value],
        Shape::None => Vec::new(),
    });
    parts.collect()
}

fn values_mut(value: &mut Value) -> Vec<&mut Value> {
    match value {
        Value::Array(values) => values.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    }
}

/// How schemas stand in the value of a keyword.
enum Shape {
    One,
    Several,
    Named,
    None,
}

impl Shape {
    fn of(keyword: &str, value: &Value) -> Self {
        match value {
            Value::Array(_) if SEVERAL.contains(&keyword) => Self::Several,
            Value::Object(_) if NAMED.contains(&keyword) => Self::Named,
            _ if ONE.contains(&keyword) => Self::One,
            _ => Self::None,
        }
    }
}

/// The subschemas right inside one, and the property that each is about where it stands in `properties`.
pub fn parts(map: &Map<String, Value>) -> Vec<(Option<&str>, &Value)> {
    let mut parts = Vec::new();
    for (keyword, value) in map {
        match value {
            Value::Array(schemas) if SEVERAL.contains(&keyword.as_str()) => {
                parts.extend(schemas.iter().map(|schema| (None, schema)));
            }
            Value::Object(schemas) if NAMED.contains(&keyword.as_str()) => {
                let is_property = keyword == "properties";
                parts.extend(
                    schemas.iter().map(|(name, schema)| (is_property.then_some(name.as_str()), schema)),
                );
            }
            schema if ONE.contains(&keyword.as_str()) => parts.push((None, schema)),
            _ => {}
        }
    }
    parts
}
