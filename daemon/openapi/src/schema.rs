//! Writes the document's schemas anew, as JSON Schema 2020-12 that the daemon's compiler accepts.
//!
//! A known keyword with a valid value is written; everything else is dropped, so the result is valid for any input. `oneOf`
//! becomes `anyOf`: documents use it for alternatives that overlap, and the API validates anyway. A property that requests
//! cannot set (`readOnly`) is dropped.
//!
//! A reference that is used once is inlined, and one that is used more often goes into `$defs`. Schemas of published APIs
//! can exceed what a model can follow or the daemon's limits; a schema that is too large is written again under a smaller
//! [`Plan`], down to bare types, and any value is accepted for the parts that were cut.

mod keywords;
mod objects;
mod patterns;
mod ref_counts;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};
use toolgate_admission::SchemaRole;

use crate::document::{Document, breadth, reference};
use crate::text::clean;

pub(crate) use objects::{Members, object_members};
pub(crate) use patterns::Patterns;
pub(crate) use ref_counts::RefCounts;

/// Subschemas that are written for one action. The largest that a model can follow have some hundreds.
const WRITTEN_NODES: usize = 3_000;
/// Work steps of writing a subschema.
const WRITE_STEPS: usize = 100;
/// Nesting of subschemas; the daemon's compiler accepts 32, and the input schema adds some.
const NESTING: usize = 26;
/// Longest description of a part, in characters.
const DESCRIPTION_CHARS: usize = 500;

/// Which parts of a schema are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Levels of objects and arrays that are described; none for all.
    pub(crate) levels: Option<usize>,
    /// Whether `pattern` and `uniqueItems` are kept, of which the daemon accepts few.
    pub(crate) is_checking: bool,
}

/// In order: from the complete schema to the bare types of the arguments.
pub(crate) const PLANS: [Plan; 8] = [
    Plan { levels: None, is_checking: true },
    Plan { levels: None, is_checking: false },
    Plan { levels: Some(5), is_checking: false },
    Plan { levels: Some(4), is_checking: false },
    Plan { levels: Some(3), is_checking: false },
    Plan { levels: Some(2), is_checking: false },
    Plan { levels: Some(1), is_checking: false },
    Plan { levels: Some(0), is_checking: false },
];

/// Whether a schema describes a request or a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Response,
}

impl Direction {
    pub(crate) fn role(self) -> SchemaRole {
        match self {
            Self::Request => SchemaRole::Input,
            Self::Response => SchemaRole::Output,
        }
    }

    /// Whether a property, or the target of its reference, is absent in this direction (`readOnly`, `writeOnly`).
    pub(crate) fn is_hidden(self, document: &Document, property: &Value) -> bool {
        let flag = match self {
            Self::Request => "readOnly",
            Self::Response => "writeOnly",
        };
        let has_flag = |schema: &Value| schema.get(flag) == Some(&Value::Bool(true));
        has_flag(property) || document.resolve(property).is_ok_and(has_flag)
    }
}

/// The schema exceeds a limit under this plan.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// Writes the schemas of one action under one plan.
pub(crate) struct Writer<'a, 'p> {
    document: &'a Document,
    direction: Direction,
    plan: Plan,
    counts: &'p RefCounts<'a>,
    patterns: &'p mut Patterns,
    /// The name of each referenced schema in `$defs`.
    names: BTreeMap<&'a str, String>,
    /// References that are being inlined, each with the level of the value at which it occurs.
    inlining: Vec<(usize, &'a str)>,
    /// References whose definition is still to be written.
    pending: VecDeque<&'a str>,
    nodes: usize,
    notes: BTreeSet<String>,
}

impl<'a, 'p> Writer<'a, 'p> {
    pub(crate) fn new(
        document: &'a Document,
        direction: Direction,
        plan: Plan,
        counts: &'p RefCounts<'a>,
        patterns: &'p mut Patterns,
    ) -> Self {
        Self {
            document,
            direction,
            plan,
            counts,
            patterns,
            names: BTreeMap::new(),
            inlining: Vec::new(),
            pending: VecDeque::new(),
            nodes: 0,
            notes: BTreeSet::new(),
        }
    }

    pub(crate) fn write(&mut self, schema: &'a Value) -> Result<Value, TooLarge> {
        self.schema(schema, Depth::default())
    }

    /// Adds `$defs` with the definitions that the schemas written so far refer to.
    pub(crate) fn add_definitions(&mut self, mut schema: Value) -> Result<Value, TooLarge> {
        let mut definitions = Map::new();
        while let Some(reference) = self.pending.pop_front() {
            let name = self.names.get(reference).cloned().unwrap_or_default();
            let written = match self.document.target(reference) {
                Ok(target) => self.inline(reference, target, Depth::default())?,
                Err(_) => json!({}),
            };
            definitions.insert(name, written);
        }
        if !definitions.is_empty() {
            schema["$defs"] = Value::Object(definitions);
        }
        Ok(schema)
    }

    /// The differences from the document, as notes.
    pub(crate) fn finish(mut self) -> BTreeSet<String> {
        if self.plan.levels.is_none() && !self.plan.is_checking {
            self.notes.insert("its arguments are not checked for patterns and uniqueness".to_owned());
        }
        self.notes
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.insert(note.into());
    }

    fn schema(&mut self, schema: &'a Value, depth: Depth) -> Result<Value, TooLarge> {
        self.nodes += 1;
        self.document.spend(WRITE_STEPS + schema.as_object().map_or(0, breadth));
        if self.nodes > WRITTEN_NODES || self.document.is_exhausted() {
            return Err(TooLarge);
        }
        if depth.nesting > NESTING {
            return if self.plan.levels.is_some() { Ok(json!({})) } else { Err(TooLarge) };
        }
        match schema {
            Value::Bool(false) => Ok(json!(false)),
            Value::Object(map) => match reference(schema) {
                Some(reference) => self.reference(reference, map, depth),
                None if self.plan.levels.is_some_and(|levels| depth.level >= levels) => Ok(self.outline(map)),
                None => self.keywords(schema, map, depth),
            },
            _ => Ok(json!({})),
        }
    }

    /// Writes a `$ref` and the annotations beside it.
    fn reference(
        &mut self,
        reference: &'a str,
        map: &'a Map<String, Value>,
        depth: Depth,
    ) -> Result<Value, TooLarge> {
        let target = match self.document.target(reference) {
            Ok(target) => target,
            Err(why) => {
                self.note(format!("{why}, so anything is accepted there"));
                return Ok(Value::Object(self.annotations(map)));
            }
        };
        let mut written = match self.plan.levels {
            None if self.counts.is_shared(reference) => json!({"$ref": self.definition(reference)}),
            _ => self.inline(reference, target, depth.deeper())?,
        };
        let beside = self.annotations(map);
        if let Value::Object(written) = &mut written {
            written.extend(beside);
        }
        Ok(if keywords::is_nullable(map) { keywords::or_null(written) } else { written })
    }

    /// Writes the target of a reference in its place. A reference to itself at the same level describes nothing.
    fn inline(&mut self, reference: &'a str, target: &'a Value, depth: Depth) -> Result<Value, TooLarge> {
        if self.inlining.contains(&(depth.level, reference)) {
            self.note("a schema refers to itself, so anything is accepted there");
            return Ok(json!({}));
        }
        self.inlining.push((depth.level, reference));
        let written = self.schema(target, depth);
        self.inlining.pop();
        written
    }

    /// The reference into `$defs`; on first use the definition gets a name and becomes pending.
    fn definition(&mut self, reference: &'a str) -> String {
        if let Some(name) = self.names.get(reference) {
            return format!("#/$defs/{name}");
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let is_letter = |letter: &char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        let base: String = last.chars().filter(is_letter).take(60).collect();
        let base = if base.is_empty() { "part".to_owned() } else { base };
        let is_taken = |name: &String| self.names.values().any(|other| other == name);
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
        let name = name.unwrap_or(base);
        self.names.insert(reference, name.clone());
        self.pending.push_back(reference);
        format!("#/$defs/{name}")
    }

    /// The type and the annotations: what is kept of a schema below the last level.
    fn outline(&mut self, map: &'a Map<String, Value>) -> Value {
        let mut outline = self.annotations(map);
        let types = keywords::types(map);
        if types.iter().any(|kind| matches!(*kind, "object" | "array")) || map.contains_key("allOf") {
            self.note("its arguments are described down to some level; what is deeper is not checked");
        }
        outline.extend(keywords::type_value(&types).map(|types| ("type".to_owned(), types)));
        Value::Object(outline)
    }

    fn annotations(&self, map: &Map<String, Value>) -> Map<String, Value> {
        let mut annotations = Map::new();
        let description = map.get("description").and_then(Value::as_str);
        let description = description.map(|text| clean(text, DESCRIPTION_CHARS));
        let description = description.filter(|text| !text.is_empty());
        annotations.extend(description.map(|text| ("description".to_owned(), json!(text))));
        if map.get("deprecated") == Some(&Value::Bool(true)) {
            annotations.insert("deprecated".to_owned(), json!(true));
        }
        annotations
    }
}

/// Depth in levels of the value, and in nested subschemas.
#[derive(Clone, Copy, Default)]
struct Depth {
    level: usize,
    nesting: usize,
}

impl Depth {
    /// For a part of the value.
    fn inward(self) -> Self {
        Self { level: self.level + 1, nesting: self.nesting + 1 }
    }

    /// For another schema of the same value.
    fn deeper(self) -> Self {
        Self { nesting: self.nesting + 1, ..self }
    }
}
