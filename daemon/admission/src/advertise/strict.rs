//! The strict forms: OpenAI and Anthropic then write only arguments that match the schema.
//!
//! Every object is closed. OpenAI demands every property, so an optional one is shown as nullable, and the `null` is removed
//! from a call. A schema that says more than the subset can is refused here, and is shown without `strict`. Bounds of numbers
//! and texts are told in the description.

use serde_json::{Map, Value, json};

use super::StrictCost;
use super::gemini::tell;
use super::normal::{drop_meaningless, may_be};
use super::notes::Notes;

/// The strict form of one provider.
pub(super) struct StrictRules {
    /// Whether every property is required.
    requires_all: bool,
    /// Whether a schema may contain itself.
    is_recursive: bool,
    keywords: &'static [&'static str],
    formats: &'static [&'static str],
    /// Most `minItems`.
    min_items: u64,
    limits: Limits,
}

/// Most of each in one schema.
struct Limits {
    levels: usize,
    properties: usize,
    enum_values: usize,
    /// Names of properties and definitions, and texts of `enum` and `const`, in characters.
    characters: usize,
    /// Characters of one `enum` of more than 250 texts.
    long_enum_characters: usize,
}

/// <https://developers.openai.com/api/docs/guides/structured-outputs>, "Supported schemas".
pub(super) const OPENAI: StrictRules = StrictRules {
    requires_all: true,
    is_recursive: true,
    keywords: &[
        "type",
        "title",
        "description",
        "enum",
        "const",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "maxItems",
        "pattern",
        "format",
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
    ],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"],
    min_items: u64::MAX,
    limits: Limits {
        levels: 10,
        properties: 5_000,
        enum_values: 1_000,
        characters: 120_000,
        long_enum_characters: 15_000,
    },
};

/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>, "JSON Schema limitations". Patterns are taken
/// in part only, so they are told.
pub(super) const ANTHROPIC: StrictRules = StrictRules {
    requires_all: false,
    is_recursive: false,
    keywords: &[
        "type",
        "title",
        "description",
        "default",
        "enum",
        "const",
        "anyOf",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "minItems",
        "format",
    ],
    formats: &["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"],
    min_items: 1,
    limits: Limits {
        levels: usize::MAX,
        properties: usize::MAX,
        enum_values: usize::MAX,
        characters: usize::MAX,
        long_enum_characters: usize::MAX,
    },
};

/// Keywords that say more about a value than either subset can.
const UNSAYABLE: &[&str] = &[
    "allOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "patternProperties",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "prefixItems",
];
/// Keywords that may stand beside `anyOf`.
const BESIDE_UNION: &[&str] = &["anyOf", "title", "description", "default", "examples", "deprecated"];

/// Why a schema has no strict form.
#[derive(Debug)]
pub(super) struct NotStrict {
    /// The place that cannot be said.
    pub pointer: String,
    pub reason: String,
}

/// Returns the strict form of a normalized schema.
pub(super) fn restrict(
    schema: &Map<String, Value>,
    has_plain_root: bool,
    rules: &'static StrictRules,
    notes: &mut Notes,
) -> Result<(Map<String, Value>, StrictCost), NotStrict> {
    let mut writer = Writer { rules, cost: StrictCost::default(), counted: Counted::default() };
    if !has_plain_root {
        return Err(writer.refuse(notes, "the root has alternatives or conditions"));
    }
    let mut root = schema.clone();
    let definitions = root.remove("$defs");
    if !rules.is_recursive && is_recursive(&root, definitions.as_ref()) {
        return Err(writer.refuse(notes, "the schema contains itself"));
    }
    writer.object(&mut root, 1, true, notes)?;
    if let Some(Value::Object(mut definitions)) = definitions {
        for (name, definition) in &mut definitions {
            writer.counted.characters += name.chars().count();
            notes.inside(&["$defs", name], |notes| writer.schema(definition, 1, notes))?;
        }
        root.insert("$defs".into(), definitions.into());
    }
    writer.check_limits(notes)?;
    Ok((root, writer.cost))
}

#[derive(Default)]
struct Counted {
    properties: usize,
    enum_values: usize,
    characters: usize,
}

struct Writer {
    rules: &'static StrictRules,
    cost: StrictCost,
    counted: Counted,
}

impl Writer {
    fn refuse(&self, notes: &Notes, reason: impl Into<String>) -> NotStrict {
        NotStrict { pointer: notes.place().to_owned(), reason: reason.into() }
    }

    fn check_limits(&self, notes: &Notes) -> Result<(), NotStrict> {
        let Limits { properties, enum_values, characters, .. } = self.rules.limits;
        for (count, most, what) in [
            (self.counted.properties, properties, "properties"),
            (self.counted.enum_values, enum_values, "values of `enum`"),
            (self.counted.characters, characters, "characters of names and values of `enum`"),
        ] {
            if count > most {
                let reason =
                    format!("the schema has {count} {what}, more than the {most} that the provider takes");
                return Err(self.refuse(notes, reason));
            }
        }
        Ok(())
    }

    fn schema(&mut self, schema: &mut Value, level: usize, notes: &mut Notes) -> Result<(), NotStrict> {
        match schema {
            Value::Object(members) => self.object(members, level, false, notes),
            _ => Err(self.refuse(notes, "it says no type")),
        }
    }

    fn object(
        &mut self,
        schema: &mut Map<String, Value>,
        level: usize,
        is_root: bool,
        notes: &mut Notes,
    ) -> Result<(), NotStrict> {
        if level > self.rules.limits.levels {
            let reason = format!("it is nested deeper than {} levels", self.rules.limits.levels);
            return Err(self.refuse(notes, reason));
        }
        flatten_one_part(schema);
        if schema.contains_key("$ref") {
            // Keywords beside a `$ref` are refused, also descriptions.
            schema.retain(|keyword, _| keyword == "$ref");
            return Ok(());
        }
        if let Some(keyword) = UNSAYABLE.iter().find(|keyword| schema.contains_key(**keyword)) {
            return Err(self.refuse(notes, format!("`{keyword}` cannot be said")));
        }
        if let Some(Value::Array(mut union)) = schema.remove("anyOf") {
            if let Some(other) = schema.keys().find(|keyword| !BESIDE_UNION.contains(&keyword.as_str())) {
                return Err(self.refuse(notes, format!("`{other}` stands beside `anyOf`")));
            }
            self.cost.unions += 1;
            for (index, alternative) in union.iter_mut().enumerate() {
                let steps = ["anyOf", &index.to_string()];
                notes.inside(&steps, |notes| self.schema(alternative, level, notes))?;
            }
            schema.insert("anyOf".into(), union.into());
        } else {
            self.with_type(schema, level, is_root, notes)?;
        }
        self.keep_known(schema, notes);
        Ok(())
    }

    fn with_type(
        &mut self,
        schema: &mut Map<String, Value>,
        level: usize,
        is_root: bool,
        notes: &mut Notes,
    ) -> Result<(), NotStrict> {
        self.check_values(schema, notes)?;
        if !schema.contains_key("type") {
            let Some(types) = types_of_values(schema) else {
                return Err(self.refuse(notes, "it says no type"));
            };
            schema.insert("type".into(), types);
        }
        drop_meaningless(schema);
        if schema.get("type").is_some_and(Value::is_array) {
            self.cost.unions += 1;
        }
        if may_be(schema, "object") {
            self.properties(schema, level, is_root, notes)?;
        }
        if may_be(schema, "array") {
            match schema.get_mut("items") {
                Some(items) if items.as_object().is_some_and(|items| !items.is_empty()) => {
                    notes.inside(&["items"], |notes| self.schema(items, level + 1, notes))?;
                }
                _ => return Err(self.refuse(notes, "it is an array of anything")),
            }
        }
        Ok(())
    }

    /// Counts the values of `enum` and `const`.
    fn check_values(&mut self, schema: &Map<String, Value>, notes: &Notes) -> Result<(), NotStrict> {
        let values: Vec<&Value> = match (schema.get("enum"), schema.get("const")) {
            (Some(Value::Array(values)), _) => values.iter().collect(),
            (_, Some(value)) => vec![value],
            _ => return Ok(()),
        };
        if values.iter().any(|value| value.is_object() || value.is_array()) {
            return Err(self.refuse(notes, "a value of `enum` or `const` is an object or a list"));
        }
        let characters: usize =
            values.iter().filter_map(|value| value.as_str()).map(|text| text.chars().count()).sum();
        self.counted.enum_values += values.len();
        self.counted.characters += characters;
        if values.len() > 250 && characters > self.rules.limits.long_enum_characters {
            return Err(self.refuse(notes, "its `enum` is too long"));
        }
        Ok(())
    }

    fn properties(
        &mut self,
        schema: &mut Map<String, Value>,
        level: usize,
        is_root: bool,
        notes: &mut Notes,
    ) -> Result<(), NotStrict> {
        let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        let is_open = !is_closed && schema.contains_key("additionalProperties");
        let mut properties = match schema.remove("properties") {
            Some(Value::Object(properties)) => properties,
            _ => Map::new(),
        };
        // An object that declares no property and is not closed takes any.
        if is_open || (properties.is_empty() && !is_closed && !is_root) {
            return Err(self.refuse(notes, "it is an object with properties of any name"));
        }
        properties.retain(|_, property| *property != json!({"not": {}}));
        let required = schema.remove("required");
        let required = required.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
        let required: Vec<String> =
            required.filter(|name| properties.contains_key(*name)).map(str::to_owned).collect();
        for (name, property) in &mut properties {
            self.counted.properties += 1;
            self.counted.characters += name.chars().count();
            notes.inside(&["properties", name], |notes| {
                self.schema(property, level + 1, notes)?;
                if !required.contains(name) {
                    self.optional(property, notes);
                }
                Ok(())
            })?;
        }
        let required = if self.rules.requires_all { properties.keys().cloned().collect() } else { required };
        schema.insert("properties".into(), properties.into());
        schema.insert("required".into(), required.into());
        schema.insert("additionalProperties".into(), false.into());
        Ok(())
    }

    /// Makes an optional property nullable where every property is required.
    fn optional(&mut self, property: &mut Value, notes: &mut Notes) {
        if !self.rules.requires_all {
            self.cost.optional += 1;
        } else if add_null(property) {
            notes.add("optional, so nullable in the strict form");
        }
    }

    /// Tells the keywords that the provider does not take.
    fn keep_known(&self, schema: &mut Map<String, Value>, notes: &mut Notes) {
        let is_known = |keyword: &str, value: &Value| match keyword {
            "format" => value.as_str().is_some_and(|format| self.rules.formats.contains(&format)),
            "minItems" => value.as_u64().is_some_and(|least| least <= self.rules.min_items),
            _ => self.rules.keywords.contains(&keyword),
        };
        let (kept, told): (Map<_, _>, Map<_, _>) =
            std::mem::take(schema).into_iter().partition(|(keyword, value)| is_known(keyword, value));
        *schema = kept;
        tell(schema, told, notes);
    }
}

/// Puts the only part of an `allOf` in its place, and writes `oneOf` as `anyOf`.
fn flatten_one_part(schema: &mut Map<String, Value>) {
    if schema.get("allOf").and_then(Value::as_array).is_some_and(|parts| parts.len() == 1)
        && let Some(Value::Array(parts)) = schema.remove("allOf")
    {
        let is_free = |part: &Map<String, Value>| {
            part.keys().all(|keyword| !schema.contains_key(keyword) || keyword == "description")
                && (!part.contains_key("$ref")
                    || schema.keys().all(|keyword| BESIDE_UNION.contains(&keyword.as_str())))
        };
        match parts.into_iter().next() {
            Some(Value::Object(part)) if is_free(&part) => {
                for (keyword, value) in part {
                    schema.entry(keyword).or_insert(value);
                }
            }
            part => drop(schema.insert("allOf".into(), part.into_iter().collect())),
        }
    }
    if !schema.contains_key("anyOf")
        && let Some(union) = schema.remove("oneOf")
    {
        schema.insert("anyOf".into(), union);
    }
}

/// The types of the values of `enum` or `const`.
fn types_of_values(schema: &Map<String, Value>) -> Option<Value> {
    let values: Vec<&Value> = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.iter().collect(),
        (_, Some(value)) => vec![value],
        _ => return None,
    };
    let mut types: Vec<&str> = Vec::new();
    for value in values {
        let name = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::String(_) => "string",
            Value::Number(_) => "number",
            Value::Array(_) | Value::Object(_) => return None,
        };
        if !types.contains(&name) {
            types.push(name);
        }
    }
    match types.as_slice() {
        [] => None,
        [only] => Some(json!(only)),
        several => Some(json!(several)),
    }
}

/// Allows null. Returns false if it was allowed before.
fn add_null(schema: &mut Value) -> bool {
    let null = json!({"type": "null"});
    let Some(members) = schema.as_object_mut() else { return false };
    if let Some(Value::Array(union)) = members.get_mut("anyOf") {
        let allows_null = union.iter().filter_map(Value::as_object).any(|one| may_be(one, "null"));
        if !allows_null {
            union.push(null);
        }
        return !allows_null;
    }
    if may_be(members, "null") {
        return false;
    }
    match members.get_mut("type") {
        Some(Value::Array(types)) => types.push("null".into()),
        Some(name) => *name = json!([name.take(), "null"]),
        None => {
            *schema = json!({"anyOf": [schema.take(), {"type": "null"}]});
            return true;
        }
    }
    if let Some(value) = members.remove("const") {
        members.insert("enum".into(), json!([value]));
    }
    if let Some(Value::Array(values)) = members.get_mut("enum") {
        values.push(Value::Null);
    }
    true
}

/// Whether a schema contains itself by references.
fn is_recursive(root: &Map<String, Value>, definitions: Option<&Value>) -> bool {
    let whole = Value::Object(root.clone());
    let mut done = Vec::new();
    let definition = |name: &str| definitions.and_then(|all| all.get(name));
    // Depth first; `None` marks the end of a definition.
    let mut found = references(&whole);
    if found.iter().any(|reference| reference == "#") {
        return true;
    }
    let mut stack: Vec<(String, bool)> = found.drain(..).map(|reference| (reference, true)).collect();
    let mut open: Vec<String> = Vec::new();
    while let Some((reference, is_begin)) = stack.pop() {
        if !is_begin {
            open.retain(|one| *one != reference);
            done.push(reference);
            continue;
        }
        if reference == "#" || open.contains(&reference) {
            return true;
        }
        if done.contains(&reference) {
            continue;
        }
        let inner =
            reference.strip_prefix("#/$defs/").and_then(definition).map(references).unwrap_or_default();
        stack.push((reference.clone(), false));
        open.push(reference);
        stack.extend(inner.into_iter().map(|reference| (reference, true)));
    }
    false
}

/// The references in a normalized schema.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str).map(str::to_owned);
            own.into_iter().chain(members.values().flat_map(references)).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
