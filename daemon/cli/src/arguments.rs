//! Arguments that several groups of commands have.

use clap::Args;

use super::client::escape;
use super::failure::Result;
use super::history::{DocumentArguments, DocumentName};

#[derive(Args)]
pub struct OrganizationArgument {
    /// The organization
    #[arg(value_name = "ORG")]
    pub organization: String,
}

impl OrganizationArgument {
    /// The path of a list of the organization, such as `agents`.
    pub fn list_path(&self, list: &str) -> String {
        format!("/v1/orgs/{}/{list}", escape(&self.organization))
    }
}

#[derive(Args)]
pub struct AgentArgument {
    /// The agent
    #[arg(value_name = "ORG/AGENT")]
    pub agent: AgentName,
}

/// A parsed `ORG/AGENT`. The daemon validates the two names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentName {
    pub organization: String,
    pub agent: String,
}

impl AgentName {
    /// The path of the agent's document.
    pub fn path(&self) -> String {
        format!("/v1/orgs/{}/agents/{}", escape(&self.organization), escape(&self.agent))
    }

    /// The agent's document, for its history.
    pub fn document(&self) -> DocumentName {
        DocumentName {
            kind: "agent",
            organization: Some(self.organization.clone()),
            name: Some(self.agent.clone()),
            path: self.path(),
            label: format!("agent `{self}`"),
        }
    }
}

impl std::fmt::Display for AgentName {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.organization, self.agent)
    }
}

impl std::str::FromStr for AgentName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('/') {
            Some((organization, agent))
                if !organization.is_empty() && !agent.is_empty() && !agent.contains('/') =>
            {
                Ok(Self { organization: organization.to_owned(), agent: agent.to_owned() })
            }
            _ => Err("write it like `acme/bot`: the organization, a slash, the agent".into()),
        }
    }
}

impl DocumentArguments for AgentArgument {
    fn document(&self) -> Result<DocumentName> {
        Ok(self.agent.document())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_an_organization_a_slash_and_a_name() {
        for text in ["acme", "acme/", "/bot", "a/b/c", ""] {
            assert!(text.parse::<AgentName>().is_err(), "{text}");
        }
    }
}
