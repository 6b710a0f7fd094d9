//! Lists of tools in documents. `document.rs` parses them; they compile to the sets of `set.rs`.
//!
//! A list is `"*"`, or an array of `namespace/tool`, `namespace/*` and `*`; an empty list matches nothing. Patterns that
//! match no loaded tool stay in the list: policies are written before plugins are loaded, and a block must survive a
//! reload.

use std::fmt;

use crate::name::{NameError, Namespace, ToolId};

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
    pub(super) const LONGEST: usize = 10_000;

    /// A list of these entries; one `*` among them makes it [`ToolList::All`].
    pub(super) fn of(patterns: Vec<ToolPattern>) -> Self {
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

#[cfg(test)]
mod tests {
    use super::super::{Catalogue, DocumentError, PlatformDocument, ToolSet};
    use super::*;
    use crate::check::tests::plugin;
    use crate::limits::LimitsPatch;

    fn read(text: &str) -> Result<ToolList, DocumentError> {
        PlatformDocument::parse(&format!("{{\"blocked\":{text}}}")).map(|document| document.blocked)
    }

    fn list(text: &str) -> ToolList {
        read(text).expect(text)
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
    fn an_entry_for_an_unknown_tool_is_kept_and_matches_nothing() {
        assert!(names(r#"["later/tool","later/*"]"#).is_empty());
        assert_eq!(list(r#"["later/tool"]"#).patterns().len(), 1);
    }

    #[test]
    fn an_invalid_list_of_tools_is_refused() {
        for text in [
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
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_hint_for_a_wire_name_in_a_list_is_the_tool_id() {
        let refused = read(r#"["call_crm_search"]"#).unwrap_err();
        assert_eq!(refused.hint, "write `crm/search`", "{refused}");
    }

    #[test]
    fn an_entry_displays_as_it_was_written() {
        let shown =
            |text: &str| -> Vec<_> { list(text).patterns().iter().map(ToString::to_string).collect() };
        assert_eq!(shown(r#""*""#), ["*"]);
        assert_eq!(shown(r#"["crm/*","files/read"]"#), ["crm/*", "files/read"]);
        assert!(shown("[]").is_empty());
    }
}
