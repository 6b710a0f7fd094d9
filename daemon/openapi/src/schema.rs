//! Schemas of the document, written anew as JSON Schema 2020-12 that the daemon's compiler takes.
//!
//! A keyword that is known is written if its value is what it should be, and everything else is left away, so what comes out
//! is valid whatever came in. `oneOf` becomes `anyOf`: documents use it for alternatives that overlap, and the API decides
//! anyway. What a request may not set (`readOnly`) is not in it.
//!
//! References are written where they stand if they stand there once, else into `$defs`. Schemas of published APIs can be far
//! larger than a model reads, or the daemon holds; what is too large is tried again in a smaller [`Plan`], down to bare
//! types, and what was cut is accepted as it comes.

mod keywords;
mod objects;
mod patterns;
mod uses;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value, json};

use crate::document::{Document, breadth, reference};
use crate::text::clean;

pub(crate) use objects::{Members, gather};
pub(crate) use patterns::Patterns;
use uses::Uses;

/// Subschemas that are written for one action. The largest that a model can follow have some hundreds.
const WRITTEN_NODES: usize = 3_000;
/// Steps of writing a subschema.
const WRITTEN: usize = 100;
/// Subschemas inside each other; the daemon's compiler takes 32, and some are around.
const NESTING: usize = 26;
/// Longest description of a part, in characters.
const DESCRIPTION_CHARS: usize = 500;

/// How much of a schema is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Levels of objects and arrays that are described; none means all.
    pub(crate) levels: Option<usize>,
    /// Whether patterns and uniqueness are checked: the daemon takes few of them.
    pub(crate) is_checking: bool,
}

/// From everything to the bare types of the arguments.
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

/// Whether a schema is for what is sent or for what is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Answer,
}

impl Direction {
    /// The keyword of properties that do not travel this way.
    fn hides(self) -> &'static str {
        match self {
            Self::Request => "readOnly",
            Self::Answer => "writeOnly",
        }
    }

    /// Whether a property does not travel this way.
    pub(crate) fn is_hidden(self, document: &Document, property: &Value) -> bool {
        keywords::is_marked(document, property, self.hides())
    }
}

/// The plan has no room for the schema.
#[derive(Debug)]
pub(crate) struct TooLarge;

/// Writes the schemas of one action under one plan.
pub(crate) struct Writer<'a, 'p> {
    document: &'a Document,
    direction: Direction,
    plan: Plan,
    uses: &'p Uses<'a>,
    patterns: &'p mut Patterns,
    /// Names in `$defs` by reference.
    names: BTreeMap<&'a str, String>,
    /// References that are being written out, each with the level at which it stands.
    written_out: Vec<(usize, &'a str)>,
    /// References whose definition is still to be written.
    open: VecDeque<&'a str>,
    nodes: usize,
    notes: BTreeSet<String>,
}

/// How often the schemas of one action refer to what.
pub(crate) fn count_uses<'a>(document: &'a Document, schemas: impl Iterator<Item = &'a Value>) -> Uses<'a> {
    Uses::count(document, schemas)
}

impl<'a, 'p> Writer<'a, 'p> {
    pub(crate) fn new(
        document: &'a Document,
        direction: Direction,
        plan: Plan,
        uses: &'p Uses<'a>,
        patterns: &'p mut Patterns,
    ) -> Self {
        Self {
            document,
            direction,
            plan,
            uses,
            patterns,
            names: BTreeMap::new(),
            written_out: Vec::new(),
            open: VecDeque::new(),
            nodes: 0,
            notes: BTreeSet::new(),
        }
    }

    /// The schema of one argument, or of a whole.
    pub(crate) fn write(&mut self, schema: &'a Value) -> Result<Value, TooLarge> {
        self.schema(schema, Depth::default())
    }

    /// What the schemas written so far refer to, for `$defs`.
    pub(crate) fn definitions(&mut self) -> Result<Map<String, Value>, TooLarge> {
        let mut definitions = Map::new();
        while let Some(reference) = self.open.pop_front() {
            let name = self.names.get(reference).cloned().unwrap_or_default();
            let written = match self.document.target(reference) {
                Ok(target) => self.written_out(reference, target, Depth::default())?,
                Err(_) => json!({}),
            };
            definitions.insert(name, written);
        }
        Ok(definitions)
    }

    /// What is otherwise than the document says.
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
        self.document.spend(WRITTEN + schema.as_object().map_or(0, breadth));
        if self.nodes > WRITTEN_NODES || self.document.is_exhausted() {
            return Err(TooLarge);
        }
        if depth.nesting > NESTING {
            return if self.plan.levels.is_some() { Ok(json!({})) } else { Err(TooLarge) };
        }
        match schema {
            Value::Bool(false) => Ok(json!(false)),
            Value::Object(map) => match reference(schema) {
                Some(reference) => self.referred(reference, map, depth),
                None if self.is_below(depth) => Ok(self.outline(map)),
                None => self.keywords(schema, map, depth),
            },
            _ => Ok(json!({})),
        }
    }

    /// Whether the plan ends above this level.
    fn is_below(&self, depth: Depth) -> bool {
        self.plan.levels.is_some_and(|levels| depth.level >= levels)
    }

    /// A `$ref`, and what stands beside it.
    fn referred(
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
            None if self.uses.is_shared(reference) => json!({"$ref": self.definition(reference)}),
            _ => self.written_out(reference, target, depth.deeper())?,
        };
        let beside = self.annotations(map);
        if let Value::Object(written) = &mut written {
            written.extend(beside);
        }
        Ok(if keywords::is_nullable(map) { keywords::or_null(written) } else { written })
    }

    /// What a reference leads to. One that leads to itself at the same place describes nothing.
    fn written_out(
        &mut self,
        reference: &'a str,
        target: &'a Value,
        depth: Depth,
    ) -> Result<Value, TooLarge> {
        if self.written_out.contains(&(depth.level, reference)) {
            self.note("a schema is defined by itself, so anything is accepted there");
            return Ok(json!({}));
        }
        self.written_out.push((depth.level, reference));
        let written = self.schema(target, depth);
        self.written_out.pop();
        written
    }

    fn definition(&mut self, reference: &'a str) -> String {
        if let Some(name) = self.names.get(reference) {
            return format!("#/$defs/{name}");
        }
        let last = reference.rsplit('/').next().unwrap_or_default();
        let base: String = last.chars().filter(|letter| is_name_letter(*letter)).take(60).collect();
        let base = if base.is_empty() { "part".to_owned() } else { base };
        let is_taken = |name: &String| self.names.values().any(|other| other == name);
        let numbered = (2..).map(|number| format!("{base}_{number}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(|name| !is_taken(name));
        let name = name.unwrap_or(base);
        self.names.insert(reference, name.clone());
        self.open.push_back(reference);
        format!("#/$defs/{name}")
    }

    /// What is left of a schema below the last level: its type, and what it is.
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

/// How deep a schema lies: in levels of a value, and in subschemas.
#[derive(Clone, Copy, Default)]
struct Depth {
    level: usize,
    nesting: usize,
}

impl Depth {
    /// Further in, at a part of the value.
    fn inward(self) -> Self {
        Self { level: self.level + 1, nesting: self.nesting + 1 }
    }

    /// Further in, at the same value.
    fn deeper(self) -> Self {
        Self { nesting: self.nesting + 1, ..self }
    }
}

fn is_name_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.')
}
