//! What a decision looks at: the loaded tools, and what each layer says about them.
//!
//! Everything that a decision needs is compiled when a plugin or a document changes. Tools are numbered
//! densely, an agent's layer is some sets of those numbers, what stands above it is a byte for each tool, and a name is
//! looked up once. So a decision takes the same steps with ten tools as with ten thousand.
//!
//! [`Rules`] is one revision of all that, a tree of `Arc`s: take one per call, after every wait, and keep it
//! to the end of the call. `P` is the component, which nothing here looks into. What a layer compiles to holds for
//! the very layers above it that it was compiled under: each carries the mark of the one above.

mod catalogue;
mod names;
mod set;
mod standing;
mod tools;

mod document;

mod channels;

mod agent;
mod organization;
mod platform;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use agent::{AgentDocument, AgentRules, Autonomy};
pub use catalogue::{Catalogue, Digest, DigestError, Plugin, Tool};
pub use document::{DocumentError, Warning};
pub(crate) use document::{Fields, Part, limits_without_effect, read};
pub use organization::{BrokerSettings, OrgDocument, OrgRules};
pub use platform::{PlatformDocument, PlatformRules};
pub use set::{SharedSet, ToolSet};
pub(crate) use standing::{Rule, Standing};
pub use tools::{ToolList, ToolPattern};

/// One revision of everything that decides about the calls of one agent.
#[derive(Debug)]
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
    /// Compiles the documents of all layers.
    pub fn compile(
        catalogue: Arc<Catalogue<P>>,
        platform: PlatformDocument,
        organization: OrgDocument,
        connected: BTreeSet<String>,
        agent: AgentDocument,
    ) -> Self {
        let platform = PlatformRules::compile(Arc::new(platform), &catalogue);
        let organization =
            OrgRules::compile(Arc::new(organization), Arc::new(connected), &platform, &catalogue);
        let agent = AgentRules::compile(Arc::new(agent), &organization, &platform, &catalogue);
        Self {
            catalogue,
            platform: Arc::new(platform),
            organization: Arc::new(organization),
            agent: Arc::new(agent),
        }
    }

    /// Rules that give an agent everything that is loaded, without a person. For the tools of one plugin on an author's
    /// machine, not for documents.
    pub fn everything(catalogue: Arc<Catalogue<P>>) -> Self {
        let everything = (OrgDocument::everything(), AgentDocument::everything());
        let integrations = catalogue.tools().iter().flat_map(|tool| &tool.descriptor().required_integrations);
        let connected = integrations.cloned().collect();
        Self::compile(catalogue, PlatformDocument::default(), everything.0, connected, everything.1)
    }

    /// Whether each layer was compiled under those above it. Sets over the numbers of another catalogue would answer
    /// for other tools.
    pub fn fit(&self) -> bool {
        self.agent.is_under(&self.organization)
            && self.organization.is_under(&self.platform)
            && self.platform.is_for(&self.catalogue)
    }
}

impl<P> Clone for Rules<P> {
    fn clone(&self) -> Self {
        Self {
            catalogue: Arc::clone(&self.catalogue),
            platform: Arc::clone(&self.platform),
            organization: Arc::clone(&self.organization),
            agent: Arc::clone(&self.agent),
        }
    }
}
