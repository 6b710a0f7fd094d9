//! A document's text under the rules in force: what it would put in place of what, and what is odd about it.

use toolgate_admission::{
    AgentDocument, DocumentError, Name, OrgDocument, PlatformDocument, Rules, ToolPattern, Warning,
    no_tools_warning,
};
use toolgate_sandbox::Component;

use crate::registry::{Replacement, Snapshot};

/// A document that decides about calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleKey {
    Platform,
    Policy(Name),
    Agent(Name, Name),
}

/// A sound document.
pub struct Sound {
    pub replacement: Replacement,
    pub warnings: Vec<Warning>,
}

impl RuleKey {
    /// The key of a document that decides calls; none for other documents.
    pub fn of(key: &super::DocumentKey) -> Option<Self> {
        match key {
            super::DocumentKey::Platform => Some(Self::Platform),
            super::DocumentKey::Policy(organization) => Some(Self::Policy(organization.clone())),
            super::DocumentKey::Agent { organization, agent } => {
                Some(Self::Agent(organization.clone(), agent.clone()))
            }
            _ => None,
        }
    }

    /// Reads a text that is to stand under this key, or says what is wrong with it and where.
    pub fn read(&self, text: &str, snapshot: &Snapshot) -> Result<Sound, DocumentError> {
        match self {
            Self::Platform => {
                let document = PlatformDocument::parse(text)?;
                document.check(snapshot.catalogue())?;
                let mut warnings = document.warnings(snapshot.catalogue());
                // What only some organization has, the platform can allow and block all the same.
                let is_somebodys = |tools: &ToolPattern| {
                    snapshot
                        .organizations(None)
                        .iter()
                        .any(|organization| answers(snapshot, organization, tools))
                };
                warnings.retain(|warning| !warning.unresolved.as_ref().is_some_and(is_somebodys));
                Ok(Sound { replacement: Replacement::Platform(document), warnings })
            }
            Self::Policy(organization) => {
                let document = OrgDocument::parse(text)?;
                let warnings = document.warnings(&snapshot.catalogue_of(organization));
                Ok(Sound { replacement: Replacement::Policy(organization.clone(), document), warnings })
            }
            Self::Agent(organization, agent) => {
                let document = AgentDocument::parse(text)?;
                let rules = snapshot.rules_with(organization, document.clone());
                document.check(rules.platform.document(), rules.organization.document())?;
                let warnings = warnings_of_agent(&rules);
                let replacement = Replacement::Agent(organization.clone(), agent.clone(), document);
                Ok(Sound { replacement, warnings })
            }
        }
    }

    /// What is odd about a document that is in force. It was sound when it was written, and what it names may be gone
    /// since.
    pub fn warnings(&self, text: &str, snapshot: &Snapshot) -> Vec<Warning> {
        let now_unsound =
            |error: DocumentError| Warning::new("UNDEFINED", error.place.clone(), error.to_string());
        match self {
            // An agent says so itself, among the other things that are odd.
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

/// Whether a tool that an organization made for itself is meant.
fn answers(snapshot: &Snapshot, organization: &Name, tools: &ToolPattern) -> bool {
    let own = snapshot.own_plugins(organization).iter();
    own.flat_map(|plugin| &plugin.descriptor.tools).any(|tool| tools.matches(&tool.id))
}

/// Decisions that are looked at to see whom a policy leaves with nothing.
const DECISIONS: usize = 1_000_000;
/// Decisions until most agents are known to have something.
const USUAL: usize = 50;
/// Agents that a warning names.
const NAMED: usize = 10;

/// What is odd about a policy because of the agents under it: some are left without any tool that had one before, or
/// that might have had one, where nothing is known of before. An agent's own document says so of itself.
///
/// It may look at many decisions, so it is not for a thread that carries out calls.
pub fn left_with_nothing(key: &RuleKey, before: Option<&Snapshot>, after: &Snapshot) -> Option<Warning> {
    let organization = match key {
        RuleKey::Platform => None,
        RuleKey::Policy(organization) => Some(organization),
        RuleKey::Agent(..) => return None,
    };
    let has_tools = |snapshot: &Snapshot, organization: &Name, agent: &Name| {
        snapshot.rules(organization, agent).is_some_and(|rules| no_tools_warning(&rules).is_none())
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
    (left > 0).then(|| Warning::new("NO_TOOLS", "", message))
}

/// What is odd about the document of these rules' agent: what it says, and then what comes of it.
fn warnings_of_agent(rules: &Rules<Component>) -> Vec<Warning> {
    let mut warnings = rules.agent.document().warnings(rules);
    warnings.extend(no_tools_warning(rules));
    warnings
}

impl From<RuleKey> for super::DocumentKey {
    fn from(key: RuleKey) -> Self {
        match key {
            RuleKey::Platform => Self::Platform,
            RuleKey::Policy(organization) => Self::Policy(organization),
            RuleKey::Agent(organization, agent) => Self::Agent { organization, agent },
        }
    }
}
