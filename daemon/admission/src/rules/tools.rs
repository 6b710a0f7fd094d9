//! Lists of tools as documents write them, and the sets that they compile to.
//!
//! A document says `"*"`, or a list of `namespace/tool`, `namespace/*` and `*`; an empty list means nothing. A set
//! is bits over the numbers of one catalogue. Patterns that match no loaded tool stay in the list: policies
//! come before plugins, and a block must outlive a reload.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, SerializeSeq, Serializer};

use super::catalogue::{Catalogue, Tool};
use crate::name::{NameError, Namespace, ToolId, read_called_name};

/// Longest list of tools in a document.
const PATTERNS: usize = 10_000;

/// One entry of a list of tools.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ToolPattern {
    /// `*`: every tool that the layer above gives.
    All,
    /// `namespace/*`: every tool of one plugin.
    Plugin(Namespace),
    /// `namespace/tool`: one tool.
    Tool(ToolId),
}

impl ToolPattern {
    /// Reads an entry.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == "*" {
            return Ok(Self::All);
        }
        if let Some(namespace) = text.strip_suffix("/*") {
            return Namespace::parse(namespace).map(Self::Plugin);
        }
        ToolId::parse(text).map(Self::Tool)
    }

    /// The plugin that this entry is about, where it is about one.
    pub fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::All => None,
            Self::Plugin(namespace) => Some(namespace),
            Self::Tool(id) => Some(&id.namespace),
        }
    }

    /// Whether this entry names the tool.
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

/// A list of tools, or all of them. In a document `"*"` and `["*"]` are the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToolList {
    /// `"*"`: everything that the layer above gives.
    All,
    /// These; an empty list means none.
    List(Vec<ToolPattern>),
}

impl ToolList {
    /// The entries, of which `"*"` has one.
    pub fn patterns(&self) -> &[ToolPattern] {
        match self {
            Self::All => &[ToolPattern::All],
            Self::List(patterns) => patterns,
        }
    }
}

impl Serialize for ToolList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("*"),
            Self::List(patterns) => {
                let mut list = serializer.serialize_seq(Some(patterns.len()))?;
                patterns.iter().try_for_each(|pattern| list.serialize_element(&pattern.to_string()))?;
                list.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for ToolList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;

        impl<'de> Visitor<'de> for ListVisitor {
            type Value = ToolList;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("`\"*\"` or a list of `namespace/tool`, `namespace/*` or `*`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ToolList, E> {
                match text {
                    "*" => Ok(ToolList::All),
                    other => Err(E::invalid_value(de::Unexpected::Str(other), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ToolList, A::Error> {
                let mut patterns = Vec::new();
                while let Some(text) = items.next_element::<String>()? {
                    if patterns.len() == PATTERNS {
                        return Err(de::Error::custom(format_args!(
                            "a list of tools has at most {PATTERNS} entries"
                        )));
                    }
                    patterns.push(
                        ToolPattern::parse(&text)
                            .map_err(|error| de::Error::custom(explain(&text, &error)))?,
                    );
                }
                match patterns.contains(&ToolPattern::All) {
                    true => Ok(ToolList::All),
                    false => Ok(ToolList::List(patterns)),
                }
            }
        }

        deserializer.deserialize_any(ListVisitor)
    }
}

/// What is wrong with an entry, and for a wire name how a document writes it.
fn explain(text: &str, error: &NameError) -> String {
    match read_called_name(text) {
        Some(id) => format!("{}; write `{id}`", error.message),
        None => format!("{}; {}", error.message, error.hint),
    }
}

/// A set of tools of one catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolSet {
    words: Box<[u64]>,
}

impl ToolSet {
    /// No tool of `count`.
    pub fn empty(count: usize) -> Self {
        Self { words: vec![0; count.div_ceil(64)].into() }
    }

    /// Every tool of the catalogue.
    pub fn all<P>(catalogue: &Catalogue<P>) -> Self {
        Self::matching(catalogue, |_| true)
    }

    /// The tools that a list names.
    pub fn compile<P>(list: &ToolList, catalogue: &Catalogue<P>) -> Self {
        let mut set = Self::empty(catalogue.tools().len());
        for pattern in list.patterns() {
            match pattern {
                ToolPattern::All => return Self::all(catalogue),
                ToolPattern::Plugin(namespace) => {
                    let tools = catalogue.tools().iter().filter(|tool| tool.id().namespace == *namespace);
                    tools.for_each(|tool| set.insert(tool.index()));
                }
                ToolPattern::Tool(id) => {
                    // A pattern is written as a called name is read, so the name table finds it at once.
                    catalogue.find(&id.to_string()).into_iter().for_each(|tool| set.insert(tool.index()));
                }
            }
        }
        set
    }

    /// The tools for which `is_in` holds.
    pub fn matching<P>(catalogue: &Catalogue<P>, is_in: impl Fn(&Tool<P>) -> bool) -> Self {
        let mut set = Self::empty(catalogue.tools().len());
        catalogue.tools().iter().filter(|tool| is_in(tool)).for_each(|tool| set.insert(tool.index()));
        set
    }

    /// Adds a tool by number; a number that no tool of the catalogue has changes nothing.
    pub fn insert(&mut self, index: usize) {
        if let Some(word) = self.words.get_mut(index / 64) {
            *word |= 1 << (index % 64);
        }
    }

    /// Takes out the tools for which `stays` does not hold.
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        for (place, word) in self.words.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                if !stays(place * 64 + bit) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// Whether the tool with this number is in the set.
    pub fn contains(&self, index: usize) -> bool {
        self.words.get(index / 64).is_some_and(|word| word >> (index % 64) & 1 == 1)
    }

    /// How many tools are in the set.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no tool is in the set.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::plugin;
    use crate::limits::LimitsPatch;

    fn list(text: &str) -> ToolList {
        serde_json::from_str(text).expect(text)
    }

    fn names(text: &str) -> Vec<String> {
        let catalogue = Catalogue::new(
            LimitsPatch::new(),
            vec![plugin("crm", &["delete", "search"]), plugin("files", &["read"])],
        );
        let set = ToolSet::compile(&list(text), &catalogue);
        let tools: Vec<String> = catalogue
            .tools()
            .iter()
            .filter(|tool| set.contains(tool.index()))
            .map(|tool| tool.id().to_string())
            .collect();
        assert_eq!(tools.len(), set.len());
        tools
    }

    #[test]
    fn a_list_names_tools_plugins_or_everything() {
        assert_eq!(names(r#"["crm/search"]"#), ["crm/search"]);
        assert_eq!(names(r#"["crm/*"]"#), ["crm/delete", "crm/search"]);
        assert_eq!(names(r#""*""#), ["crm/delete", "crm/search", "files/read"]);
        assert_eq!(names(r#"["*"]"#), names(r#""*""#));
    }

    /// Requirements 9.1.
    #[test]
    fn an_empty_list_means_nothing() {
        assert!(names("[]").is_empty());
    }

    #[test]
    fn an_entry_that_nothing_answers_to_is_kept_and_matches_nothing() {
        assert!(names(r#"["later/tool","later/*"]"#).is_empty());
        assert_eq!(list(r#"["later/tool"]"#).patterns().len(), 1);
    }

    #[test]
    fn what_is_no_list_of_tools_is_refused() {
        for text in [
            "null",
            "1",
            r#""crm/*""#,
            r#""""#,
            r#"["crm"]"#,
            r#"["CRM/x"]"#,
            r#"["*/x"]"#,
            r#"["crm/"]"#,
            r#"[1]"#,
            "{}",
        ] {
            assert!(serde_json::from_str::<ToolList>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_wire_name_in_a_list_is_answered_with_how_to_write_it() {
        let refused = serde_json::from_str::<ToolList>(r#"["call_crm_search"]"#).unwrap_err().to_string();
        assert!(refused.contains("write `crm/search`"), "{refused}");
    }

    #[test]
    fn a_list_is_written_as_it_was_read() {
        for text in [r#""*""#, "[]", r#"["crm/*","files/read"]"#] {
            assert_eq!(serde_json::to_string(&list(text)).unwrap(), text);
        }
    }

    #[test]
    fn a_number_beyond_the_catalogue_is_in_no_set() {
        let mut set = ToolSet::empty(3);
        set.insert(1_000);
        assert!(set.is_empty() && !set.contains(1_000) && !set.contains(usize::MAX));
    }
}
