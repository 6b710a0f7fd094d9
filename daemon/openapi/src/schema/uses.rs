//! How often the schemas of an action refer to the same place.
//!
//! What is referred to once is written where it stands; what is referred to more often, or refers to itself, has
//! at least two references and gets a name.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::document::Document;

/// Values that are looked through. Beyond, the schema is too large to be written whole anyway.
const VALUES: usize = 30_000;
/// What holds values of the API and no schemas.
const NO_SCHEMAS: [&str; 5] = ["example", "examples", "default", "enum", "const"];

/// References, each with the number of its uses.
pub(crate) struct Uses<'a> {
    uses: BTreeMap<&'a str, usize>,
    is_whole: bool,
}

impl<'a> Uses<'a> {
    pub(super) fn count(document: &'a Document, schemas: impl Iterator<Item = &'a Value>) -> Self {
        let mut counted = Self { uses: BTreeMap::new(), is_whole: true };
        let mut open: Vec<&'a Value> = schemas.collect();
        let mut values = 0;
        while let Some(value) = open.pop() {
            values += 1;
            if values > VALUES {
                counted.is_whole = false;
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

    /// Whether all was looked through; if not, the schema has no room in any plan that keeps all of it.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether there is more than one reference to it.
    pub(super) fn is_shared(&self, reference: &str) -> bool {
        self.uses.get(reference).is_some_and(|uses| *uses > 1)
    }

    /// Counts a use; on the first one answers what is behind it.
    fn add(&mut self, document: &'a Document, reference: &'a str) -> Option<&'a Value> {
        let uses = self.uses.entry(reference).or_default();
        *uses += 1;
        if *uses > 1 { None } else { document.target(reference).ok() }
    }
}
