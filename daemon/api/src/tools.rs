//! Lists of tools in documents: `"*"`, or a list of `namespace/tool`, `namespace/*` and `*`. An empty list means no tool.
//!
//! Patterns that match no loaded tool stay in the list: policies are written before plugins are loaded, and a block must
//! survive a reload.

use std::fmt;

use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::{NameError, Namespace, ToolId, read_called_name};
use crate::read::{deserialize_parsed, invalid};

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

/// A list of tools, or all of them. In a document `"*"` and `["*"]` are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolList {
    /// `"*"`: every tool that the layer above allows.
    All,
    /// These; an empty list matches no tool.
    List(Vec<ToolPattern>),
}

impl Default for ToolList {
    fn default() -> Self {
        Self::NONE
    }
}

impl ToolList {
    /// The list that matches nothing.
    pub const NONE: Self = Self::List(Vec::new());

    /// Longest list of tools in a document.
    const MAX_ENTRIES: usize = 10_000;

    /// A list of these entries; one `*` among them makes it [`ToolList::All`].
    pub fn from_patterns(patterns: Vec<ToolPattern>) -> Self {
        match patterns.contains(&ToolPattern::All) {
            true => Self::All,
            false => Self::List(patterns),
        }
    }

    /// Returns the first entry that matches the tool.
    pub fn entry_for(&self, id: &ToolId) -> Option<&ToolPattern> {
        self.patterns().iter().find(|pattern| pattern.matches(id))
    }

    /// The entries; `"*"` is one entry.
    pub fn patterns(&self) -> &[ToolPattern] {
        match self {
            Self::All => &[ToolPattern::All],
            Self::List(patterns) => patterns,
        }
    }
}

const LIST_HINT: &str = "write \"*\", or a list of `namespace/tool` and `namespace/*`";

impl<'de> Deserialize<'de> for ToolList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ListVisitor)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = ToolList;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\"*\" or a list of `namespace/tool` and `namespace/*`")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ToolList, E> {
        match text {
            "*" => Ok(ToolList::All),
            _ => Err(invalid("the value is not a list of tools", LIST_HINT)),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ToolList, A::Error> {
        let mut patterns = Vec::new();
        while let Some(pattern) = items.next_element()? {
            if patterns.len() == ToolList::MAX_ENTRIES {
                let message = format!("the list has more than {} entries", ToolList::MAX_ENTRIES);
                return Err(invalid(message, LIST_HINT));
            }
            patterns.push(pattern);
        }
        Ok(ToolList::from_patterns(patterns))
    }
}
