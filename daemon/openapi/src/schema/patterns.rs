//! Regular expressions that the daemon's compiler accepts.
//!
//! Documents are written for engines with look-around and backreferences, which the daemon's engine lacks. Each pattern is
//! compiled once to find out.

use std::collections::BTreeMap;

use serde_json::json;
use toolgate_admission::{Schema, SchemaRole};

use crate::text::is_visible;

/// Longest pattern, in bytes. Patterns that list hundreds of words are left to the API.
const PATTERN_BYTES: usize = 500;

/// Cache of the patterns compiled so far.
#[derive(Default)]
pub(crate) struct Patterns {
    is_usable: BTreeMap<String, bool>,
}

impl Patterns {
    /// Whether a schema with this pattern compiles.
    pub(super) fn is_usable(&mut self, pattern: &str) -> bool {
        if pattern.len() > PATTERN_BYTES || !is_visible(pattern) {
            return false;
        }
        if let Some(known) = self.is_usable.get(pattern) {
            return *known;
        }
        let usable = Schema::compile(&json!({"pattern": pattern}), SchemaRole::Output).is_ok();
        self.is_usable.insert(pattern.to_owned(), usable);
        usable
    }
}
