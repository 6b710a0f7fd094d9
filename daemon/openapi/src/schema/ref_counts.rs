//! Counts how often the schemas of an action refer to the same target: once means inline, more often means `$defs`. A
//! recursive schema has at least two references.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::document::Document;

/// Values visited. A larger schema cannot be written completely anyway.
const VALUES: usize = 30_000;
/// Keywords that hold values of the API instead of schemas.
const NO_SCHEMAS: [&str; 5] = ["example", "examples", "default", "enum", "const"];

/// The number of uses of each reference.
pub(crate) struct RefCounts<'a> {
    counts: BTreeMap<&'a str, usize>,
    is_complete: bool,
}

impl<'a> RefCounts<'a> {
    pub(crate) fn count(document: &'a Document, schemas: Vec<&'a Value>) -> Self {
        let mut counted = Self { counts: BTreeMap::new(), is_complete: true };
        let mut open = schemas;
        let mut values = 0;
        while let Some(value) = open.pop() {
            values += 1;
            if values > VALUES {
                counted.is_complete = false;
                break;
            }
            match value {
                Value::Array(items) => open.extend(items),
                Value::Object(map) => {
                    if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                        open.extend(counted.add(document, reference));
                    }
                    let parts = map.iter().filter(|(key, _)| !NO_SCHEMAS.contains(&key.as_str()));
                    open.extend(parts.map(|(_, value)| value));
                }
                _ => {}
            }
        }
        document.spend(4 * values);
        counted
    }

    /// Whether all values were visited; if not, the schema is too large for the plans without a level limit.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    pub(super) fn is_shared(&self, reference: &str) -> bool {
        self.counts.get(reference).is_some_and(|count| *count > 1)
    }

    /// Counts a use, and returns the target on the first one.
    fn add(&mut self, document: &'a Document, reference: &'a str) -> Option<&'a Value> {
        let count = self.counts.entry(reference).or_default();
        *count += 1;
        if *count > 1 { None } else { document.target(reference).ok() }
    }
}
