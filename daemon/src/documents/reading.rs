//! A document's text under the rules in force: what it would put in place of what, and what is odd about it.

use toolgate_admission::{
    AgentDocument, DocumentError, Name, OrgDocument, PlatformDocument, Rules, Warning, nothing_left,
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
    /// Reads a text that is to stand under this key, or says what is wrong with it and where.
    pub fn read(&self, text: &str, snapshot: &Snapshot) -> Result<Sound, DocumentError> {
        match self {
            Self::Platform => {
                let document = PlatformDocument::parse(text)?;
                document.check(snapshot.catalogue())?;
                let warnings = document.warnings(snapshot.catalogue());
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
        let now_unsound = |error: DocumentError| Warning {
            code: "UNDEFINED",
            path: error.place.clone(),
            message: error.to_string(),
            nearest: None,
        };
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

/// What is odd about the document of these rules' agent: what it says, and then what comes of it.
fn warnings_of_agent(rules: &Rules<Component>) -> Vec<Warning> {
    let mut warnings = rules.agent.document().warnings(rules);
    warnings.extend(nothing_left(rules));
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
