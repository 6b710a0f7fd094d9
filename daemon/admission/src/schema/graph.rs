//! A schema as a graph of subschemas, from which `cost.rs` computes the cost of validation.
//!
//! Every object or boolean that acts as a schema is a node. Edges are of two kinds: in place (`allOf`, `anyOf`, `$ref` and
//! the like apply to the same value) and inward (`properties`, `items` and the like apply to a child of it).
//!
//! References are resolved within the schema alone. Keywords that could give a reference another meaning (a nested `$id`,
//! dynamic references, another dialect) are errors, so that the graph and the validator cannot differ.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use toolgate_api::dialect::canonical_dialect;
use toolgate_api::read;
use toolgate_api::text::escape_for_display;

use super::SchemaError;
use super::pattern;
use super::validation_cost::{ERROR_BYTES, copy_bytes};
use crate::percent::percent_decode;

/// Most subschemas of one schema.
const NODES: usize = 10_000;
/// Most nested subschemas, without references.
const DEPTH: usize = 32;
/// Most `$ref`s of one schema.
const REFERENCES: usize = 2_000;
/// Most `uniqueItems` of one schema: each compares whole items.
const UNIQUE_ITEMS: usize = 32;
/// Most patterns of one schema, those of `patternProperties` included: each is a compiled program.
const PATTERNS: usize = 64;

/// One subschema.
#[derive(Default)]
pub(super) struct Node<'a> {
    pub(super) pointer: String,
    /// Its own cost at a place, in keywords.
    pub(super) keywords: u64,
    /// Its own cost for each byte of text at a place, in pattern states.
    pub(super) text_states: u64,
    /// Most errors of its own at a place.
    pub(super) errors: u64,
    /// Bytes of these errors, without parts of the value.
    pub(super) error_bytes: u64,
    /// Whether its own errors have a copy of the value.
    pub(super) copies: bool,
    /// Nodes that apply to the same place.
    pub(super) in_place: Vec<usize>,
    /// The nodes in place whose errors are kept with a copy of the value.
    pub(super) alternatives: Vec<usize>,
    /// The nodes in place that are targets of references.
    pub(super) targets: Vec<usize>,
    /// Nodes that apply to the property of that name.
    pub(super) properties: BTreeMap<&'a str, usize>,
    /// Nodes that may apply to any property.
    pub(super) any_property: Vec<usize>,
    /// Nodes that apply to properties which are not in `properties`.
    pub(super) other_properties: Vec<usize>,
    /// Nodes that apply to the names of properties.
    pub(super) names: Vec<usize>,
    /// Nodes that apply to the items at their index.
    pub(super) prefix: Vec<usize>,
    /// Nodes that apply to the items after those.
    pub(super) other_items: Vec<usize>,
    /// Nodes that apply to every item.
    pub(super) every_item: Vec<usize>,
}

impl Node<'_> {
    /// The nested subschemas, without the targets of references.
    pub(super) fn inside(&self) -> impl Iterator<Item = usize> + '_ {
        let inward = [
            &self.any_property,
            &self.other_properties,
            &self.names,
            &self.prefix,
            &self.other_items,
            &self.every_item,
        ];
        let in_place = self.in_place.iter().filter(|node| !self.targets.contains(node));
        in_place.chain(self.properties.values()).chain(inward.into_iter().flatten()).copied()
    }
}

/// The subschemas of one schema; the root is node 0.
pub(super) struct Graph<'a> {
    pub(super) nodes: Vec<Node<'a>>,
    /// Whether `unevaluatedProperties` or `unevaluatedItems` occur.
    pub(super) has_unevaluated: bool,
    root: &'a Value,
    asserts_format: bool,
    by_address: HashMap<usize, usize>,
    anchors: HashMap<&'a str, usize>,
    references: Vec<(usize, &'a str)>,
    /// Nodes to read, with their depth.
    unread: Vec<(usize, &'a Value, usize)>,
    unique_items: usize,
    patterns: usize,
}

impl<'a> Graph<'a> {
    pub(super) fn build(root: &'a Value, asserts_format: bool) -> Result<Self, SchemaError> {
        let mut graph = Graph {
            nodes: Vec::new(),
            has_unevaluated: false,
            root,
            asserts_format,
            by_address: HashMap::new(),
            anchors: HashMap::new(),
            references: Vec::new(),
            unread: Vec::new(),
            unique_items: 0,
            patterns: 0,
        };
        graph.node(root, String::new(), 0)?;
        graph.read_all()?;
        graph.link()?;
        Ok(graph)
    }

    fn read_all(&mut self) -> Result<(), SchemaError> {
        while let Some((node, schema, depth)) = self.unread.pop() {
            if let Value::Object(schema) = schema {
                self.read(node, schema, depth)?;
            }
        }
        Ok(())
    }

    /// Resolves the references; a target that was not a node yet is read too.
    fn link(&mut self) -> Result<(), SchemaError> {
        let mut linked = 0;
        while let Some((node, reference)) = self.references.get(linked).copied() {
            linked += 1;
            if linked > REFERENCES {
                return Err(self.too_many("references", REFERENCES));
            }
            let target = self.resolve(node, reference)?;
            self.read_all()?;
            self.nodes[node].in_place.push(target);
            self.nodes[node].targets.push(target);
        }
        Ok(())
    }

    /// Returns the node of a subschema, and adds it if it is new.
    fn node(&mut self, schema: &'a Value, pointer: String, depth: usize) -> Result<usize, SchemaError> {
        let address = std::ptr::from_ref(schema).addr();
        if let Some(node) = self.by_address.get(&address) {
            return Ok(*node);
        }
        if depth > DEPTH {
            let message = format!("the schema is nested deeper than {DEPTH} levels");
            return Err(SchemaError::new(pointer, message, "move inner parts to `$defs`"));
        }
        let node = self.nodes.len();
        if node == NODES {
            return Err(self.too_many("subschemas", NODES));
        }
        self.nodes.push(Node {
            pointer,
            keywords: 1,
            errors: 1,
            error_bytes: ERROR_BYTES,
            ..Node::default()
        });
        self.by_address.insert(address, node);
        self.unread.push((node, schema, depth));
        Ok(node)
    }

    fn read(&mut self, node: usize, schema: &'a Map<String, Value>, depth: usize) -> Result<(), SchemaError> {
        self.check_identity(node, schema)?;
        self.nodes[node].keywords = own_cost(schema);
        (self.nodes[node].errors, self.nodes[node].error_bytes) = own_errors(schema);
        for (keyword, value) in schema {
            let pointer = read::pointer(&self.nodes[node].pointer, keyword);
            match keyword.as_str() {
                "$ref" => self.references.extend(value.as_str().map(|reference| (node, reference))),
                "$anchor" => self.anchors.extend(value.as_str().map(|anchor| (anchor, node))),
                "pattern" => value.as_str().map_or(Ok(()), |pattern| self.pattern(node, pattern))?,
                "format" if self.asserts_format => self.nodes[node].text_states += format_states(value),
                "contentEncoding" | "contentMediaType" => {
                    self.nodes[node].text_states += CONTENT_STATES;
                    self.nodes[node].copies = true;
                }
                "uniqueItems" if value == &Value::Bool(true) => {
                    self.unique_items += 1;
                    if self.unique_items > UNIQUE_ITEMS {
                        return Err(self.too_many("`uniqueItems`", UNIQUE_ITEMS));
                    }
                }
                "allOf" | "anyOf" | "oneOf" | "prefixItems" => {
                    self.read_list(node, keyword, value, &pointer, depth)?;
                }
                "items" if value.is_array() => self.read_list(node, "prefixItems", value, &pointer, depth)?,
                "$defs" | "definitions" | "dependentSchemas" | "dependencies" | "properties"
                | "patternProperties" => self.read_table(node, keyword, value, &pointer, depth)?,
                keyword => self.read_single(node, keyword, value, pointer, depth)?,
            }
        }
        Ok(())
    }

    /// Reads a keyword with a list of subschemas.
    fn read_list(
        &mut self,
        node: usize,
        keyword: &str,
        value: &'a Value,
        pointer: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let children = self.children(value, pointer, depth)?;
        let node = &mut self.nodes[node];
        match keyword {
            "prefixItems" => node.prefix.extend(children),
            "allOf" => node.in_place.extend(children),
            _ => {
                node.alternatives.extend(&children);
                node.in_place.extend(children);
            }
        }
        Ok(())
    }

    /// Reads a keyword with subschemas by name.
    fn read_table(
        &mut self,
        node: usize,
        keyword: &str,
        value: &'a Value,
        pointer: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let children = self.children_by_name(value, pointer, depth)?;
        match keyword {
            "properties" => self.nodes[node].properties.extend(children),
            "patternProperties" => {
                children.iter().try_for_each(|(name, _)| self.pattern(node, name))?;
                self.nodes[node].any_property.extend(children.into_iter().map(|(_, child)| child));
            }
            "$defs" | "definitions" => {}
            _ => self.nodes[node].in_place.extend(children.into_iter().map(|(_, child)| child)),
        }
        Ok(())
    }

    /// Reads a keyword with one subschema; any other keyword has none.
    fn read_single(
        &mut self,
        node: usize,
        keyword: &str,
        value: &'a Value,
        pointer: String,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let nodes: for<'n> fn(&'n mut Node<'a>) -> &'n mut Vec<usize> = match keyword {
            "not" | "if" | "then" | "else" => |node| &mut node.in_place,
            "additionalProperties" | "unevaluatedProperties" => |node| &mut node.other_properties,
            "propertyNames" => |node| &mut node.names,
            "items" | "additionalItems" | "unevaluatedItems" => |node| &mut node.other_items,
            "contains" => |node| &mut node.every_item,
            _ => return Ok(()),
        };
        self.has_unevaluated |= keyword.starts_with("unevaluated");
        let child = self.node(value, pointer, depth + 1)?;
        nodes(&mut self.nodes[node]).push(child);
        Ok(())
    }

    fn children(&mut self, list: &'a Value, pointer: &str, depth: usize) -> Result<Vec<usize>, SchemaError> {
        let items = list.as_array().into_iter().flatten().enumerate();
        items.map(|(index, schema)| self.node(schema, format!("{pointer}/{index}"), depth + 1)).collect()
    }

    /// The subschemas of an object by name, without lists of names (in `dependencies`).
    fn children_by_name(
        &mut self,
        map: &'a Value,
        pointer: &str,
        depth: usize,
    ) -> Result<Vec<(&'a str, usize)>, SchemaError> {
        let schemas = map.as_object().into_iter().flatten().filter(|(_, schema)| !schema.is_array());
        schemas
            .map(|(name, schema)| {
                let child = self.node(schema, read::pointer(pointer, name), depth + 1)?;
                Ok((name.as_str(), child))
            })
            .collect()
    }

    fn pattern(&mut self, node: usize, source: &str) -> Result<(), SchemaError> {
        self.patterns += 1;
        if self.patterns > PATTERNS {
            return Err(self.too_many("patterns", PATTERNS));
        }
        let states = &mut self.nodes[node].text_states;
        *states = states.saturating_add(pattern::states(source));
        Ok(())
    }

    fn check_identity(&self, node: usize, schema: &Map<String, Value>) -> Result<(), SchemaError> {
        let refuse = |keyword: &str, message: &str, hint: &str| {
            let pointer = format!("{}/{keyword}", self.nodes[node].pointer);
            Err(SchemaError::new(pointer, message, hint))
        };
        for keyword in ["$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor"] {
            if schema.contains_key(keyword) {
                return refuse(keyword, &format!("`{keyword}` is not supported"), "use `$ref` and `$anchor`");
            }
        }
        match schema.get("$schema").and_then(Value::as_str) {
            _ if node != 0 && (schema.contains_key("$id") || schema.contains_key("$schema")) => {
                let keyword = if schema.contains_key("$id") { "$id" } else { "$schema" };
                refuse(
                    keyword,
                    &format!("`{keyword}` stands inside the schema"),
                    "keep it at the root, or leave it out",
                )
            }
            Some(dialect) if canonical_dialect(dialect).is_none() => {
                let message = format!("the dialect `{}` is not known", escape_for_display(dialect, 100));
                refuse(
                    "$schema",
                    &message,
                    "leave `$schema` out, or write `https://json-schema.org/draft/2020-12/schema`",
                )
            }
            _ => Ok(()),
        }
    }

    fn resolve(&mut self, node: usize, reference: &str) -> Result<usize, SchemaError> {
        let pointer = format!("{}/$ref", self.nodes[node].pointer);
        let hint = "a `$ref` names a place in the same schema, like `#/$defs/item`";
        let Some(fragment) = reference.strip_prefix('#') else {
            let message = format!("the reference `{}` leaves the schema", escape_for_display(reference, 100));
            return Err(SchemaError::new(pointer, message, hint));
        };
        let missing = || {
            SchemaError::new(
                pointer.clone(),
                format!("the reference `{}` leads nowhere", escape_for_display(reference, 100)),
                hint,
            )
        };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            return self.anchors.get(fragment).copied().ok_or_else(missing);
        }
        let target = percent_decode(fragment).ok_or_else(missing)?;
        let schema = self.root.pointer(&target).filter(|schema| schema.is_object() || schema.is_boolean());
        let schema = schema.ok_or_else(missing)?;
        self.node(schema, target, 0)
    }

    fn too_many(&self, what: &str, most: usize) -> SchemaError {
        SchemaError::new("", format!("the schema has more than {most} {what}"), "describe less in it")
    }
}

/// The own cost of a subschema at a place, in keywords. Long lists are compared item by item.
fn own_cost(schema: &Map<String, Value>) -> u64 {
    let list =
        |keyword: &str| schema.get(keyword).and_then(Value::as_array).map_or(0, |list| list.len() as u64 / 8);
    let heavy = |keyword: &str| if schema.contains_key(keyword) { 4 } else { 0 };
    1 + schema.len() as u64
        + list("enum")
        + list("required")
        + heavy("format")
        + 2 * heavy("uniqueItems")
        + heavy("const")
}

/// Whether a keyword has no errors of its own; its subschemas may have.
fn is_silent(keyword: &str) -> bool {
    matches!(
        keyword,
        "$anchor"
            | "$comment"
            | "$defs"
            | "$id"
            | "$ref"
            | "$schema"
            | "allOf"
            | "default"
            | "definitions"
            | "dependentSchemas"
            | "deprecated"
            | "description"
            | "else"
            | "examples"
            | "if"
            | "patternProperties"
            | "properties"
            | "readOnly"
            | "then"
            | "title"
            | "writeOnly"
    )
}

/// The most errors of its own that a subschema can have at a place, and their bytes.
fn own_errors(schema: &Map<String, Value>) -> (u64, u64) {
    let mut errors = 0;
    let mut error_bytes = 0;
    for (keyword, value) in schema.iter().filter(|(keyword, _)| !is_silent(keyword)) {
        let (more, bytes) = match (keyword.as_str(), value) {
            ("required", Value::Array(names)) => (names.len() as u64, copy_bytes(value)),
            ("dependentRequired" | "dependencies", Value::Object(lists)) => {
                let names = lists.values().filter_map(Value::as_array).map(|names| names.len() as u64);
                (names.sum(), copy_bytes(value))
            }
            ("not", schema) => (1, copy_bytes(schema)),
            (_, Value::String(text)) => (1, text.len() as u64),
            _ => (1, 0),
        };
        errors += more;
        error_bytes += more * ERROR_BYTES + bytes;
    }
    (errors, error_bytes)
}

/// Pattern states that take as long for a byte as decoding text, or as parsing it as JSON.
const CONTENT_STATES: u64 = 8;

/// Pattern states that take as long for a byte as the format does, measured with worst-case texts.
fn format_states(format: &Value) -> u64 {
    match format.as_str() {
        Some("regex") => 40,
        Some("email" | "idn-email") => 4,
        Some("uri" | "uri-reference" | "iri" | "iri-reference") => 2,
        _ => 1,
    }
}
