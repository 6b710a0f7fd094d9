//! Validation of a document under the current rules: the replacement that it causes, and its warnings.

use std::collections::BTreeSet;

use toolgate_admission::{
    Rules, Warning, agent_warnings, check_platform, no_tools_warning, organization_warnings, parse_platform,
    platform_warnings,
};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::policy::{AgentDocument, OrgDocument};
use toolgate_api::read::ReadError;
use toolgate_api::tools::ToolPattern;
use toolgate_sandbox::Component;
use toolgate_state::documents::DocumentKey;

use super::{Replacement, Snapshot};

/// Key of a document that decides calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleKey {
    Platform,
    Policy(Name),
    Agent(Name, Name),
}

/// A valid document.
pub struct ValidDocument {
    pub replacement: Replacement,
    pub warnings: Vec<Warning>,
}

impl RuleKey {
    /// Returns the key of a document that decides calls; `None` for other documents.
    pub fn of(key: &DocumentKey) -> Option<Self> {
        match key {
            DocumentKey::Platform => Some(Self::Platform),
            DocumentKey::Policy(organization) => Some(Self::Policy(organization.clone())),
            DocumentKey::Agent { organization, agent } => {
                Some(Self::Agent(organization.clone(), agent.clone()))
            }
            _ => None,
        }
    }

    /// Parses and validates the text of a document with this key; an error has the JSON pointer of the wrong value.
    pub fn read(&self, text: &str, snapshot: &Snapshot) -> Result<ValidDocument, ReadError> {
        let (replacement, mut warnings) = match self {
            Self::Platform => {
                let document = parse_platform(text)?;
                check_platform(&document, snapshot.catalogue())?;
                let mut warnings = platform_warnings(&document, snapshot.catalogue());
                drop_custom_tools(&mut warnings, snapshot);
                (Replacement::Platform(document), warnings)
            }
            Self::Policy(organization) => {
                let document = OrgDocument::parse(text)?;
                let mut warnings = organization_warnings(&document, &snapshot.catalogue_of(organization));
                let replacement = Replacement::Policy(organization.clone(), document);
                let after = snapshot.with_document(replacement.clone());
                warnings.extend(missing_consents(&after, organization));
                (replacement, warnings)
            }
            Self::Agent(organization, agent) => {
                let document = AgentDocument::parse(text)?;
                let rules = snapshot.rules_with(organization, document.clone());
                document.check(rules.platform.document(), rules.organization.document())?;
                let warnings = warnings_of_agent(&rules);
                (Replacement::Agent(organization.clone(), agent.clone(), document), warnings)
            }
        };
        if !snapshot.compiling().is_empty() {
            let after = snapshot.with_document(replacement.clone());
            warnings.retain(|warning| !self.is_premature(warning, &after));
        }
        Ok(ValidDocument { replacement, warnings })
    }

    /// Whether a warning is about tools of a plugin that is still being compiled, so that it may be untrue a moment later.
    fn is_premature(&self, warning: &Warning, after: &Snapshot) -> bool {
        let mut compiling = after.compiling().iter();
        match (self, &warning.unresolved) {
            (_, Some(tools)) => compiling.any(|plugin| tools.namespace().is_none_or(|named| named == plugin)),
            (Self::Agent(organization, agent), None) if warning.code == NO_TOOLS => {
                compiling.any(|plugin| after.may_use(organization, agent, plugin))
            }
            _ => false,
        }
    }

    /// Returns the warnings about a stored document. The document was valid when it was written, and may name objects
    /// that were deleted since.
    pub fn warnings(&self, text: &str, snapshot: &Snapshot) -> Vec<Warning> {
        let now_unsound =
            |error: ReadError| Warning::new("UNDEFINED", error.place.clone(), error.to_string());
        match self {
            // For an agent, this warning is among those of its own document.
            Self::Agent(organization, _) => match AgentDocument::parse(text) {
                Ok(document) => warnings_of_agent(&snapshot.rules_with(organization, document)),
                Err(error) => vec![now_unsound(error)],
            },
            _ => self
                .read(text, snapshot)
                .map_or_else(|error| vec![now_unsound(error)], |sound| sound.warnings),
        }
    }
}

/// Warns of each plugin that the policy enables and the organization has not accepted (C6).
fn missing_consents(snapshot: &Snapshot, organization: &Name) -> Vec<Warning> {
    let Some(rules) = snapshot.organization(organization) else { return Vec::new() };
    let catalogue = snapshot.catalogue_of(organization);
    let tools = catalogue.tools().iter().filter(|tool| rules.lacks_consent(tool.index()));
    let plugins: BTreeSet<&Namespace> = tools.map(|tool| &tool.id().namespace).collect();
    let warning = |plugin: &Namespace| {
        let message = format!(
            "no agent has the tools of `{plugin}` until the organization accepts the plugin: `toolgate org enable {organization} {plugin} --accept`"
        );
        Warning::new("NO_CONSENT", "/enabled", message)
    };
    plugins.into_iter().map(warning).collect()
}

/// Drops warnings about custom tools: a document of the platform can name those too, which only some organizations have.
pub fn drop_custom_tools(warnings: &mut Vec<Warning>, snapshot: &Snapshot) {
    let organizations = snapshot.organizations(None);
    let is_somebodys =
        |tools: &ToolPattern| organizations.iter().any(|organization| answers(snapshot, organization, tools));
    warnings.retain(|warning| !warning.unresolved.as_ref().is_some_and(is_somebodys));
}

/// Whether the pattern matches a custom tool of the organization.
fn answers(snapshot: &Snapshot, organization: &Name, tools: &ToolPattern) -> bool {
    let own = snapshot.own_plugins(organization).iter();
    own.flat_map(|plugin| &plugin.descriptor.tools).any(|tool| tools.matches(&tool.id))
}

/// The code of a warning that an agent has no callable tool.
const NO_TOOLS: &str = "NO_TOOLS";
/// Limit of decisions evaluated to find agents without a callable tool.
const DECISIONS: usize = 1_000_000;
/// Decisions that suffice to find a callable tool for most agents.
const USUAL: usize = 50;
/// Limit of agents that a warning names.
const NAMED: usize = 10;

/// Warns of a policy that leaves agents without a callable tool: agents that had one before, or might have had one if
/// the state before is unknown. The document of a single agent has a warning of its own for this.
///
/// The check may evaluate many decisions, so it must not run on a thread that executes calls.
pub fn left_with_nothing(key: &RuleKey, before: Option<&Snapshot>, after: &Snapshot) -> Option<Warning> {
    let organization = match key {
        RuleKey::Platform => None,
        RuleKey::Policy(organization) => Some(organization),
        RuleKey::Agent(..) => return None,
    };
    let has_tools = |snapshot: &Snapshot, organization: &Name, agent: &Name| {
        let is_expected =
            || snapshot.compiling().iter().any(|plugin| snapshot.may_use(organization, agent, plugin));
        snapshot.rules(organization, agent).is_some_and(|rules| no_tools_warning(&rules).is_none())
            || is_expected()
    };
    let (mut left, mut named, mut decisions) = (0_usize, Vec::new(), 0);
    for organization in after.organizations(organization) {
        for agent in after.agents(&organization) {
            let had = before.is_none_or(|before| has_tools(before, &organization, &agent));
            let has = has_tools(after, &organization, &agent);
            decisions += if had && has { USUAL } else { after.catalogue_of(&organization).tools().len() };
            if had && !has {
                left += 1;
                named.extend((named.len() < NAMED).then(|| format!("`{organization}/{agent}`")));
            }
            if decisions > DECISIONS {
                return no_tools(left, &named, ", of the agents that were looked at");
            }
        }
    }
    no_tools(left, &named, "")
}

fn no_tools(left: usize, named: &[String], of: &str) -> Option<Warning> {
    let more = left.checked_sub(named.len()).filter(|more| *more > 0);
    let more = more.map(|more| format!(" and {more} more")).unwrap_or_default();
    let message = format!(
        "no loaded tool is left for {}{more}{of}: no session can be opened for them",
        named.join(", ")
    );
    (left > 0).then(|| Warning::new(NO_TOOLS, "", message))
}

/// Returns the warnings about the document of the agent of these rules: first those of its text, then those of its
/// decisions.
fn warnings_of_agent(rules: &Rules<Component>) -> Vec<Warning> {
    let mut warnings = agent_warnings(rules.agent.document(), rules);
    warnings.extend(no_tools_warning(rules));
    warnings
}

impl From<RuleKey> for DocumentKey {
    fn from(key: RuleKey) -> Self {
        match key {
            RuleKey::Platform => Self::Platform,
            RuleKey::Policy(organization) => Self::Policy(organization),
            RuleKey::Agent(organization, agent) => Self::Agent { organization, agent },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use toolgate_api::limits::LimitsPatch;

    use super::super::Registry;
    use super::*;

    /// G16: what a first start is still compiling is neither unknown nor missing.
    #[test]
    fn g16_no_warning_is_about_a_plugin_that_is_being_compiled() {
        let registry = Registry::new(LimitsPatch::new(), Default::default());
        let (acme, bot) = (Name::parse("acme").unwrap(), Name::parse("bot").unwrap());
        registry.put_organization(acme.clone(), BTreeSet::new());
        let key = RuleKey::Agent(acme.clone(), bot);
        let codes = |key: &RuleKey, text: &str| {
            let warnings = key.read(text, &registry.snapshot()).unwrap().warnings;
            warnings.iter().map(|warning| (warning.code, warning.path.clone())).collect::<Vec<_>>()
        };
        let agent = r#"{"enabled":["files/*","crm/search"]}"#;
        let policy = r#"{"enabled":["files/*","crm/search"]}"#;
        let unknown = |at: usize| ("UNRESOLVED_TOOL", format!("/enabled/{at}"));
        registry.set_compiling([Namespace::parse("files").unwrap()].into());
        assert_eq!(codes(&key, agent), [unknown(1)]);
        assert_eq!(codes(&RuleKey::Policy(acme.clone()), policy), [unknown(1)]);
        assert_eq!(codes(&key, r#"{"enabled":["crm/search"]}"#), [unknown(0), ("NO_TOOLS", String::new())]);
        registry.set_compiling([].into());
        assert_eq!(codes(&key, agent), [unknown(0), unknown(1), ("NO_TOOLS", String::new())]);
        assert_eq!(codes(&RuleKey::Policy(acme), policy), [unknown(0), unknown(1)]);
    }
}
