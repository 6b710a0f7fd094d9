//! The agent's layer: its document, and what it compiles to.
//!
//! A document is strict (`document.rs`). A tool of another server than the one that the agent is bound to is
//! refused when it is written (G5); a tool that is not loaded is only warned of.

use serde::{Deserialize, Serialize};

use super::catalogue::{Catalogue, CatalogueMark};
use super::document::{DocumentError, Fields, Warning, field, limits_without_effect};
use super::tools::{ToolList, ToolPattern, ToolSet};
use crate::limits::LimitsPatch;
use crate::name::Namespace;
use crate::nearest::nearest;
use crate::text::show;

/// Longest display name, in characters.
const DISPLAY_CHARS: usize = 200;

const FIELDS: Fields = Fields {
    whose: "an agent's",
    known: &["name", "enabled", "disabled", "server", "require_approval_for", "limits"],
    to_come: &["autonomy", "profile", "subtype", "network", "quotas", "channels"],
};

/// An agent's document, as it is stored and shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentDocument {
    /// What people call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The tools it may call. Absent: what its profile gives, and without a profile none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<ToolList>,
    /// The tools it may not call, whatever else says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled: Option<ToolList>,
    /// The one plugin it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tools whose calls a person must approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub require_approval_for: Option<ToolList>,
    /// Its limits.
    #[serde(default, skip_serializing_if = "LimitsPatch::is_empty")]
    pub limits: LimitsPatch,
}

impl AgentDocument {
    /// Reads a document, or says what is wrong with it and where.
    pub fn parse(json: &str) -> Result<Self, DocumentError> {
        let value = FIELDS.read(json)?;
        let document = Self {
            name: field(&value, "name")?,
            enabled: field(&value, "enabled")?,
            disabled: field(&value, "disabled")?,
            server: field(&value, "server")?,
            require_approval_for: field(&value, "require_approval_for")?,
            limits: field(&value, "limits")?.unwrap_or_default(),
        };
        document.validate()?;
        Ok(document)
    }

    /// What no parser of single fields sees: that the fields fit each other.
    pub fn validate(&self) -> Result<(), DocumentError> {
        let name = self.name.as_deref().unwrap_or("-");
        if name.trim().is_empty()
            || name.chars().count() > DISPLAY_CHARS
            || crate::text::hidden_character(name).is_some()
        {
            let hint = format!("write at most {DISPLAY_CHARS} visible characters, or leave it out");
            return Err(DocumentError::new(
                "/name",
                "the name is empty, too long or holds hidden characters",
                hint,
            ));
        }
        let Some(server) = &self.server else { return Ok(()) };
        let server = Namespace::parse(server)
            .map_err(|error| DocumentError::new("/server", error.message, error.hint))?;
        let lists = [("enabled", &self.enabled), ("require_approval_for", &self.require_approval_for)];
        lists.into_iter().try_for_each(|(field, list)| check_binding(field, list.as_ref(), &server))
    }

    /// What is accepted and probably not meant, given what is loaded.
    pub fn warnings<P>(&self, catalogue: &Catalogue<P>) -> Vec<Warning> {
        let lists = [
            ("enabled", &self.enabled),
            ("disabled", &self.disabled),
            ("require_approval_for", &self.require_approval_for),
        ];
        let mut warnings: Vec<Warning> =
            lists.iter().flat_map(|(field, list)| unresolved(field, list.as_ref(), catalogue)).collect();
        warnings.extend(self.unresolved_server(catalogue));
        warnings.extend(limits_without_effect(&self.limits));
        if AgentRules::compile(self, catalogue).usable().is_empty() {
            let message = "no loaded tool is left for this agent: no session can be opened for it".to_owned();
            warnings.push(Warning { code: "NO_TOOLS", path: "/enabled".to_owned(), message, nearest: None });
        }
        warnings
    }

    fn unresolved_server<P>(&self, catalogue: &Catalogue<P>) -> Option<Warning> {
        let server = self.server.as_deref()?;
        if catalogue.plugins().any(|plugin| plugin.descriptor.namespace.as_str() == server) {
            return None;
        }
        let nearest = nearest(server, catalogue.plugins().map(|plugin| plugin.descriptor.namespace.as_str()));
        Some(Warning {
            code: "UNRESOLVED_SERVER",
            path: "/server".to_owned(),
            message: format!("no loaded plugin is called `{}`", show(server, 64)),
            nearest: nearest.map(str::to_owned),
        })
    }
}

fn check_binding(field: &str, list: Option<&ToolList>, server: &Namespace) -> Result<(), DocumentError> {
    let patterns = list.map(ToolList::patterns).unwrap_or_default();
    let foreign = patterns
        .iter()
        .enumerate()
        .find(|(_, pattern)| pattern.namespace().is_some_and(|named| named != server));
    let Some((index, pattern)) = foreign else { return Ok(()) };
    let message = format!("the agent is bound to the server `{server}`, and `{pattern}` is not of it");
    Err(DocumentError::new(
        format!("/{field}/{index}"),
        message,
        "take it out of the list, or leave out `server`",
    ))
}

fn unresolved<P>(field: &str, list: Option<&ToolList>, catalogue: &Catalogue<P>) -> Vec<Warning> {
    let is_loaded = |pattern: &ToolPattern| match pattern {
        ToolPattern::All => true,
        ToolPattern::Plugin(namespace) => catalogue.plugin(namespace).is_some(),
        ToolPattern::Tool(id) => catalogue.find(&id.to_string()).is_some(),
    };
    let patterns = list.map(ToolList::patterns).unwrap_or_default();
    let missing = patterns.iter().enumerate().filter(|(_, pattern)| !is_loaded(pattern));
    missing
        .map(|(index, pattern)| Warning {
            code: "UNRESOLVED_TOOL",
            path: format!("/{field}/{index}"),
            message: format!("no loaded tool answers to `{pattern}`"),
            nearest: nearest_pattern(pattern, catalogue),
        })
        .collect()
}

fn nearest_pattern<P>(pattern: &ToolPattern, catalogue: &Catalogue<P>) -> Option<String> {
    let namespaces = || catalogue.plugins().map(|plugin| plugin.descriptor.namespace.as_str());
    let ToolPattern::Tool(id) = pattern else {
        return nearest(pattern.namespace()?.as_str(), namespaces())
            .map(|namespace| format!("{namespace}/*"));
    };
    // The plugin first: a right plugin with a wrong tool is the common slip.
    let namespace = Namespace::parse(nearest(id.namespace.as_str(), namespaces())?).ok()?;
    let tools = &catalogue.plugin(&namespace)?.descriptor.tools;
    let tool = nearest(id.tool.as_str(), tools.iter().map(|tool| tool.name.as_str()))?;
    Some(format!("{namespace}/{tool}"))
}

/// What an agent's document says, over the tools of one catalogue.
#[derive(Clone, Debug)]
pub struct AgentRules {
    pub(crate) enabled: ToolSet,
    pub(crate) disabled: ToolSet,
    /// The tools of the server that the agent is bound to; all where it is bound to none.
    pub(crate) bound: ToolSet,
    pub(crate) approval: ToolSet,
    limits: LimitsPatch,
    /// The catalogue that the sets are about.
    mark: CatalogueMark,
}

impl AgentRules {
    /// Compiles a document against what is loaded.
    pub fn compile<P>(document: &AgentDocument, catalogue: &Catalogue<P>) -> Self {
        let named = |list: &Option<ToolList>| match list {
            Some(list) => ToolSet::compile(list, catalogue),
            None => ToolSet::empty(catalogue.tools().len()),
        };
        Self {
            enabled: named(&document.enabled),
            disabled: named(&document.disabled),
            bound: match &document.server {
                Some(server) => ToolSet::matching(catalogue, |tool| tool.id().namespace.as_str() == server),
                None => ToolSet::all(catalogue),
            },
            approval: named(&document.require_approval_for),
            limits: document.limits.clone(),
            mark: catalogue.mark().clone(),
        }
    }

    /// An agent that may call everything that is loaded. For tests of a single plugin, not for documents.
    pub fn everything<P>(catalogue: &Catalogue<P>) -> Self {
        Self::compile(&AgentDocument { enabled: Some(ToolList::All), ..AgentDocument::default() }, catalogue)
    }

    /// The agent's limits.
    pub fn limits(&self) -> &LimitsPatch {
        &self.limits
    }

    /// Whether these rules were compiled against this catalogue.
    pub fn is_for<P>(&self, catalogue: &Catalogue<P>) -> bool {
        self.mark == *catalogue.mark()
    }

    /// The tools that this layer lets through, approval or not.
    fn usable(&self) -> ToolSet {
        let mut usable = self.enabled.clone();
        usable.retain(|index| self.bound.contains(index) && !self.disabled.contains(index));
        usable
    }
}

#[cfg(test)]
mod tests;
