//! Which regular expressions of the document the daemon can use.
//!
//! Documents are written for engines that look around and go back; the daemon's does neither. The answer comes
//! from its compiler itself, once for each pattern.

use std::collections::BTreeMap;

use serde_json::json;
use toolgate_admission::{Schema, SchemaRole};

use crate::text::is_visible;

/// Longest pattern, in bytes. Those that list hundreds of words are better checked by the API.
const PATTERN_BYTES: usize = 500;

/// The patterns asked for so far.
#[derive(Default)]
pub(crate) struct Patterns {
    known: BTreeMap<String, bool>,
}

impl Patterns {
    /// Whether a schema with this pattern compiles.
    pub(super) fn is_usable(&mut self, pattern: &str) -> bool {
        if pattern.len() > PATTERN_BYTES || !is_visible(pattern) {
            return false;
        }
        if let Some(known) = self.known.get(pattern) {
            return *known;
        }
        let usable = Schema::compile(&json!({"pattern": pattern}), SchemaRole::Output).is_ok();
        self.known.insert(pattern.to_owned(), usable);
        usable
    }
}
