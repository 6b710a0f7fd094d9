//! The compiled rules: the loaded tools, and the flags and sets that each layer of policy compiles to.
//!
//! Everything that a decision needs is compiled when a plugin or a document changes. Tools have dense indexes; an agent's
//! layer is a few sets of indexes, the layers above it are one byte of flags for each tool, and a name is looked up once.
//! So a decision takes the same number of steps with ten tools as with ten thousand.
//!
//! [`Rules`] is one immutable snapshot, a tree of `Arc`s: take one for each call, after every wait, and keep it to the end
//! of the call. `P` is the component, which this crate does not use. The rules of a layer are valid only for the very
//! snapshot of the layer above that they were compiled against, whose [`SnapshotId`](catalogue::SnapshotId) they hold.

mod catalogue;
mod canary;
mod consent;
mod name_table;
mod set;
mod tool_flags;

mod warning;
mod tables;
mod intents;

mod agent;
mod organization;
mod platform;

use std::collections::BTreeSet;
use std::sync::Arc;

use toolgate_api::policy::{AgentDocument, OrgDocument, PlatformDocument};

pub use agent::{AgentRules, agent_warnings};
pub use canary::{Canary, CanaryDraw, VersionCounters, VersionOutcomes, fails_more_often};
pub use catalogue::{Catalogue, Digest, DigestError, Plugin, Tool};
pub use consent::{AcceptedPlugin, Consents};
pub use intents::IntentPatterns;
pub use organization::{OrgFacts, OrgRules, organization_warnings};
pub use platform::{PlatformRules, check_platform, parse_platform, platform_warnings};
pub use set::{SharedSet, ToolSet};
pub(crate) use tool_flags::{ToolFlag, ToolFlags};
pub use warning::{
    Warning, assertion_warnings, description_warnings, descriptor_warnings, grant_warnings, unconfirmed_hints,
};

/// One snapshot of all rules that decide about the calls of one agent.
#[derive(Clone, Debug)]
pub struct Rules<P> {
    /// The loaded tools and the platform's limits.
    pub catalogue: Arc<Catalogue<P>>,
    /// The platform.
    pub platform: Arc<PlatformRules>,
    /// The organization.
    pub organization: Arc<OrgRules>,
    /// The agent.
    pub agent: Arc<AgentRules>,
}

impl<P> Rules<P> {
    /// Compiles the documents of all layers. No plugin needs a consent, and none has settings.
    pub fn compile(
        catalogue: Arc<Catalogue<P>>,
        platform: PlatformDocument,
        organization: OrgDocument,
        connected: BTreeSet<String>,
        agent: AgentDocument,
    ) -> Self {
        let platform = PlatformRules::compile(Arc::new(platform), &catalogue);
        let facts = OrgFacts { connected: Arc::new(connected), ..OrgFacts::default() };
        let organization = OrgRules::compile(Arc::new(organization), facts, &platform, &catalogue);
        let agent = AgentRules::compile(Arc::new(agent), &organization, &platform, &catalogue);
        Self {
            catalogue,
            platform: Arc::new(platform),
            organization: Arc::new(organization),
            agent: Arc::new(agent),
        }
    }

    /// Returns rules that let an agent call every loaded tool without approval: for the tools of one plugin on its author's
    /// machine.
    pub fn allow_all(catalogue: Arc<Catalogue<P>>) -> Self {
        let (organization, agent) = (OrgDocument::allow_all(), AgentDocument::allow_all());
        let integrations = catalogue.tools().iter().flat_map(|tool| &tool.descriptor().required_integrations);
        let connected = integrations.cloned().collect();
        Self::compile(catalogue, PlatformDocument::default(), organization, connected, agent)
    }

    /// Whether every layer was compiled against the layer above it. A set of another catalogue's indexes would decide about
    /// other tools.
    pub fn same_catalogue(&self) -> bool {
        self.agent.is_under(&self.organization)
            && self.organization.is_under(&self.platform)
            && self.platform.is_for(&self.catalogue)
    }
}

#[cfg(test)]
mod tests;
