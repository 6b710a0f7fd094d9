//! A schema in JSON Schema 2020-12 with what every provider demands.
//!
//! Schemas arrive in drafts 6 and 7, 2019-09 and 2020-12. A client that checks them as 2020-12 refuses `$schema` of another
//! draft, and `items` as a list. Providers refuse an array without `items` and an empty `enum`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::SchemaForm;
use super::names::{self, NameRule, PropertyNames};
use super::notes::Notes;
use super::root;
use crate::percent::percent_decode;

/// Most subschemas of an advertised schema, as many as an enforced one may have.
const NODES: usize = 10_000;
/// Deepest nesting of subschemas that is written, far more than an enforced schema may have.
const DEPTH: usize = 96;
/// Longest name of a definition.
const DEFINITION_BYTES: usize = 64;

/// Keywords that have no meaning for a reader of an advertised schema. A client that reads `x-mcp-header` would repeat the
/// argument in a header field for the server that is mounted, which the mount does itself.
const DROPPED: &[&str] =
    &["$schema", "$id", "$anchor", "$comment", "$vocabulary", "$defs", "definitions", "x-mcp-header"];
/// Keywords whose value is one schema.
const SINGLE: &[&str] =
    &["not", "if", "then", "else", "propertyNames", "items", "contains", "unevaluatedItems", "contentSchema"];
/// Keywords whose value is one schema, in which booleans stay: every provider reads them.
const OPEN: &[&str] = &["additionalProperties", "unevaluatedProperties"];
/// Keywords whose value is a list of schemas.
const LISTS: &[&str] = &["allOf", "anyOf", "oneOf", "prefixItems"];
/// Keywords whose value is a table of schemas.
const TABLES: &[&str] = &["properties", "patternProperties", "dependentSchemas"];
/// Keywords that keep their meaning beside a `$ref` in the drafts in which `$ref` replaces its siblings.
const ANNOTATIONS: &[&str] = &["$ref", "title", "description", "default", "examples", "deprecated"];

/// A schema in JSON Schema 2020-12.
pub(super) struct Normalized {
    /// The schema. Each `$ref` in it is `#` or names a member of `$defs`.
    pub schema: Map<String, Value>,
    /// Whether the enforced root has no alternatives, conditions and references.
    pub has_plain_root: bool,
}

/// Translates a schema. The error says why it cannot be advertised.
pub(super) fn normalize(source: &Value, form: SchemaForm, notes: &mut Notes) -> Result<Normalized, String> {
    let names = match form.names() {
        NameRule::Any => PropertyNames::default(),
        _ => PropertyNames::of(source),
    };
    let renamed: BTreeMap<&str, &str> =
        names.refused_by(form.names()).map(|(safe, original)| (original, safe)).collect();
    let has_plain_root = root::is_plain(source);
    let is_flat = !has_plain_root && (form.has_plain_root() || !renamed.is_empty());
    let mut root = if is_flat {
        notes.add("the alternatives and conditions of the root are shown as one object");
        root::flatten(source)
    } else {
        source.as_object().cloned().unwrap_or_default()
    };
    if !renamed.is_empty() {
        names::rename(&mut root, &renamed);
        for (original, safe) in &renamed {
            notes.inside(&["properties", safe], |notes| notes.add(format!("renamed from `{original}`")));
        }
    }
    if form != SchemaForm::McpOutput {
        root.insert("type".into(), "object".into());
        if form.has_plain_root() {
            root.entry("properties").or_insert_with(|| json!({}));
        }
    }
    let mut normalizer = Normalizer {
        source,
        // Drafts 6 and 7: `$ref` replaces its siblings, and `dependencies` has a meaning.
        is_old: source["$schema"].as_str().is_some_and(|dialect| dialect.contains("draft-0")),
        // A reference to a root that is not as the enforced one means the enforced one.
        root_is_shown: renamed.is_empty() && !is_flat,
        definitions: Definitions::default(),
        nodes: 0,
        depth: 0,
    };
    normalizer.object(&mut root, notes)?;
    let definitions = normalizer.definitions(notes)?;
    root.extend((!definitions.is_empty()).then(|| ("$defs".into(), definitions.into())));
    Ok(Normalized { schema: root, has_plain_root })
}

/// Finds the target of a reference within the schema.
pub(super) fn resolve<'s>(whole: &'s Value, reference: &str) -> Option<&'s Value> {
    let fragment = reference.strip_prefix('#')?;
    match fragment.is_empty() || fragment.starts_with('/') {
        true => whole.pointer(&percent_decode(fragment)?),
        false => find_anchor(whole, fragment),
    }
}

/// Finds an anchor. Enforced schemas are nested 32 levels at most.
fn find_anchor<'s>(schema: &'s Value, anchor: &str) -> Option<&'s Value> {
    match schema {
        Value::Object(members) if members.get("$anchor").and_then(Value::as_str) == Some(anchor) => {
            Some(schema)
        }
        Value::Object(members) => members.values().find_map(|member| find_anchor(member, anchor)),
        Value::Array(items) => items.iter().find_map(|item| find_anchor(item, anchor)),
        _ => None,
    }
}

/// The targets of references, by the reference: the name, and the schema once it is written.
#[derive(Default)]
struct Definitions {
    names: BTreeMap<String, String>,
    unwritten: Vec<(String, String)>,
}

impl Definitions {
    /// Returns the name of the target of a reference.
    fn name(&mut self, reference: &str) -> String {
        if let Some(name) = self.names.get(reference) {
            return name.clone();
        }
        let last = reference.rsplit(['/', '#']).next().unwrap_or_default();
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        let mut plain: String =
            last.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
        plain.truncate(DEFINITION_BYTES - 8);
        if plain.is_empty() {
            plain.push_str("root");
        }
        let numbered = (2..u32::MAX).map(|number| format!("{plain}_{number}"));
        let is_free = |name: &String| !self.names.values().any(|taken| taken == name);
        let name = std::iter::once(plain.clone()).chain(numbered).find(is_free).unwrap_or_default();
        self.names.insert(reference.to_owned(), name.clone());
        self.unwritten.push((reference.to_owned(), name.clone()));
        name
    }
}

struct Normalizer<'s> {
    source: &'s Value,
    is_old: bool,
    root_is_shown: bool,
    definitions: Definitions,
    nodes: usize,
    depth: usize,
}

impl Normalizer<'_> {
    /// Writes the targets of the references, and of the references in those.
    fn definitions(&mut self, notes: &mut Notes) -> Result<Map<String, Value>, String> {
        let mut written = Map::new();
        while let Some((reference, name)) = self.definitions.unwritten.pop() {
            let mut target = resolve(self.source, &reference).cloned().unwrap_or_else(|| json!({}));
            notes.inside(&["$defs", &name], |notes| self.schema(&mut target, notes))?;
            written.insert(name, target);
        }
        Ok(written)
    }

    /// Writes a subschema. A boolean becomes an object, which every provider reads.
    fn schema(&mut self, schema: &mut Value, notes: &mut Notes) -> Result<(), String> {
        match schema {
            Value::Bool(true) => *schema = json!({}),
            Value::Bool(false) => *schema = json!({"not": {}}),
            Value::Object(members) => return self.object(members, notes),
            _ => {}
        }
        Ok(())
    }

    fn object(&mut self, schema: &mut Map<String, Value>, notes: &mut Notes) -> Result<(), String> {
        self.nodes += 1;
        self.depth += 1;
        if self.nodes > NODES || self.depth > DEPTH {
            return Err(format!(
                "its schema has more than {NODES} subschemas, or {DEPTH} levels, in this form: describe less in it"
            ));
        }
        if let Some(dialect) = schema.get("$schema").and_then(Value::as_str)
            && !dialect.contains("2020-12")
        {
            notes.add(format!("translated from `{dialect}` to JSON Schema 2020-12"));
        }
        schema.retain(|keyword, _| !DROPPED.contains(&keyword.as_str()));
        self.translate(schema);
        if let Some(Value::String(reference)) = schema.get_mut("$ref")
            && !(self.root_is_shown && reference == "#")
        {
            *reference = format!("#/$defs/{}", self.definitions.name(reference));
        }
        complete(schema, notes);
        self.subschemas(schema, notes)?;
        self.depth -= 1;
        Ok(())
    }

    /// Translates the keywords that 2020-12 has not, or reads in another way.
    fn translate(&self, schema: &mut Map<String, Value>) {
        if self.is_old && schema.contains_key("$ref") {
            schema.retain(|keyword, _| ANNOTATIONS.contains(&keyword.as_str()));
        }
        let additional = schema.remove("additionalItems");
        if schema.get("items").is_some_and(Value::is_array) {
            let tuple = schema.remove("items");
            schema.extend(tuple.map(|tuple| ("prefixItems".to_owned(), tuple)));
            schema.extend(additional.map(|items| ("items".to_owned(), items)));
        }
        if schema.get("prefixItems").and_then(Value::as_array).is_some_and(Vec::is_empty) {
            schema.remove("prefixItems");
        }
        let Some(Value::Object(dependencies)) = schema.remove("dependencies") else { return };
        if self.is_old {
            let (lists, schemas): (Map<_, _>, Map<_, _>) =
                dependencies.into_iter().partition(|(_, needed)| needed.is_array());
            let translated = [("dependentRequired", lists), ("dependentSchemas", schemas)];
            let present = translated.into_iter().filter(|(_, table)| !table.is_empty());
            schema.extend(present.map(|(keyword, table)| (keyword.to_owned(), table.into())));
        }
    }

    fn subschemas(&mut self, schema: &mut Map<String, Value>, notes: &mut Notes) -> Result<(), String> {
        for (keyword, value) in schema {
            match (keyword.as_str(), value) {
                (keyword, Value::Object(table)) if TABLES.contains(&keyword) => {
                    for (name, schema) in table {
                        notes.inside(&[keyword, name], |notes| self.schema(schema, notes))?;
                    }
                }
                (keyword, Value::Array(list)) if LISTS.contains(&keyword) => {
                    for (index, schema) in list.iter_mut().enumerate() {
                        notes.inside(&[keyword, &index.to_string()], |notes| self.schema(schema, notes))?;
                    }
                }
                (keyword, Value::Object(schema)) if OPEN.contains(&keyword) => {
                    notes.inside(&[keyword], |notes| self.object(schema, notes))?;
                }
                (keyword, schema) if SINGLE.contains(&keyword) => {
                    notes.inside(&[keyword], |notes| self.schema(schema, notes))?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Adds what providers demand beyond the standard, and takes away what they refuse.
fn complete(schema: &mut Map<String, Value>, notes: &mut Notes) {
    if may_be(schema, "array") && !schema.contains_key("items") {
        schema.insert("items".into(), json!({}));
        notes.add("`items` is added: an array without it is refused");
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        let before = values.len();
        let mut distinct: Vec<Value> = Vec::with_capacity(before);
        for value in values.drain(..) {
            // Long lists are rarely repeated, and comparing each pair of them would take too long.
            if before > ENUM_COMPARED || !distinct.contains(&value) {
                distinct.push(value);
            }
        }
        if distinct.len() < before {
            notes.add("repeated values of `enum` are left out");
        }
        *values = distinct;
        if values.is_empty() {
            schema.remove("enum");
            // No value matches either.
            schema.insert("not".into(), json!({}));
            notes.add("`enum` without a value is shown as `not`");
        }
    }
}

/// Longest `enum` whose values are compared with each other.
const ENUM_COMPARED: usize = 1_000;

/// Whether `type` names a type.
pub(super) fn may_be(schema: &Map<String, Value>, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(types)) => types.iter().any(|one| one == name),
        _ => false,
    }
}

/// Takes away the keywords that are about values of other types than `type` names.
pub(super) fn drop_meaningless(schema: &mut Map<String, Value>) {
    let types: Vec<String> = match schema.get("type") {
        Some(Value::String(only)) => vec![only.clone()],
        Some(Value::Array(types)) => types.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => return,
    };
    let has = |about: &[&str]| about.iter().any(|name| types.iter().any(|one| one == name));
    schema.retain(|keyword, _| type_of_keyword(keyword).is_none_or(has));
}

/// The types of values that a keyword is about; none for keywords about all values.
fn type_of_keyword(keyword: &str) -> Option<&'static [&'static str]> {
    Some(match keyword {
        "properties" | "required" | "additionalProperties" | "minProperties" | "maxProperties" => &["object"],
        "items" | "prefixItems" | "minItems" | "maxItems" | "uniqueItems" => &["array"],
        "minLength" | "maxLength" | "pattern" => &["string"],
        "format" => &["string", "integer", "number"],
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf" => {
            &["integer", "number"]
        }
        _ => return None,
    })
}
