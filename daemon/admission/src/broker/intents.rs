//! The intents of a policy with their tools as sets over one catalogue.

use std::sync::Arc;

use toolgate_api::policy::IntentTable;
use toolgate_api::read::ReadError;

use crate::rules::{Catalogue, IntentPatterns, ToolSet};

/// The compiled intents of a policy, for the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct Intents {
    patterns: IntentPatterns,
    tools: Vec<ToolSet>,
}

impl Intents {
    /// No intents: only the words of the tools decide.
    pub fn empty() -> Self {
        Self { patterns: IntentPatterns::empty(), tools: Vec::new() }
    }

    /// Compiles the intents that are at the JSON pointer `place` of their document. A tool that is not loaded is in no
    /// intent.
    pub fn compile<P>(
        intents: &IntentTable,
        place: &str,
        catalogue: &Catalogue<P>,
    ) -> Result<Self, ReadError> {
        let patterns = IntentPatterns::compile(intents, place)?;
        let tools = intents.values().map(|intent| ToolSet::compile(&intent.tools, catalogue)).collect();
        Ok(Self { patterns, tools })
    }

    /// Returns the intents that a message has, in the order of their names, with their tools.
    pub fn matching(&self, message: &str) -> Vec<(&Arc<str>, &ToolSet)> {
        let matching = self.patterns.matching(message);
        matching.filter_map(|(intent, name)| Some((name, self.tools.get(intent)?))).collect()
    }
}
