//! Lists of tools in documents: `"*"`, or a list of `namespace/tool`, `namespace/*` and `*`. An empty list means no tool.
//!
//! Patterns that match no loaded tool stay in the list: policies are written before plugins are loaded, and a block must
//! survive a reload.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::name::{NameError, Namespace, ToolId, read_called_name};
use crate::pattern_list::{Pattern, PatternList};
use crate::read::deserialize_parsed;

/// One entry of a list of tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ToolPattern {
    /// `*`: every tool that the layer above allows.
    All,
    /// `namespace/*`: every tool of one plugin.
    Plugin(Namespace),
    /// `namespace/tool`: one tool.
    Tool(ToolId),
}

impl ToolPattern {
    /// Parses an entry.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            return Ok(Self::All);
        }
        if let Some(namespace) = text.strip_suffix("/*") {
            return Namespace::parse(namespace).map(Self::Plugin);
        }
        ToolId::parse(text).map(Self::Tool)
    }

    /// The namespace of the one plugin whose tools this entry matches, if it is one.
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::All => None,
            Self::Plugin(namespace) => Some(namespace),
            Self::Tool(id) => Some(&id.namespace),
        }
    }

    /// Whether this entry matches the tool.
    pub fn matches(&self, id: &ToolId) -> bool {
        match self {
            Self::All => true,
            Self::Plugin(namespace) => *namespace == id.namespace,
            Self::Tool(tool) => tool == id,
        }
    }
}

impl fmt::Display for ToolPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("*"),
            Self::Plugin(namespace) => write!(formatter, "{namespace}/*"),
            Self::Tool(id) => id.fmt(formatter),
        }
    }
}

/// The entry of a document. A wire name gets a hint with the right form.
fn parse_entry(text: &str) -> Result<ToolPattern, HintedError> {
    ToolPattern::parse(text).map_err(|error| HintedError {
        message: error.message,
        hint: read_called_name(text).map_or_else(|| error.hint.to_owned(), |id| format!("write `{id}`")),
    })
}

struct HintedError {
    message: String,
    hint: String,
}

deserialize_parsed!(ToolPattern, parse_entry);

impl Serialize for ToolPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A list of tools.
pub type ToolList = PatternList<ToolPattern>;

impl Pattern for ToolPattern {
    const ALL: &'static [Self] = &[Self::All];
    const MAX_ENTRIES: usize = 10_000;
    const LIST: &'static str = "a list of tools";
    const HINT: &'static str = "write \"*\", or a list of `namespace/tool` and `namespace/*`";

    fn is_all(&self) -> bool {
        *self == Self::All
    }
}

impl ToolList {
    /// Returns the first entry that matches the tool.
    pub fn entry_for(&self, id: &ToolId) -> Option<&ToolPattern> {
        self.patterns().iter().find(|pattern| pattern.matches(id))
    }
}
