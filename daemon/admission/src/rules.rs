//! What a decision looks at: the loaded tools, and what each layer says about them.
//!
//! Everything that a decision needs is compiled when a plugin or a document changes. Tools are numbered
//! densely, a layer is a set of bits over those numbers, and a name is looked up once. So a decision costs
//! the same with ten tools as with ten thousand.
//!
//! [`Rules`] is one revision of all that, a tree of `Arc`s: take one per call, after every wait, and keep it
//! to the end of the call. `P` is the component, which nothing here looks into.

mod catalogue;
mod tools;

mod document;

mod agent;
mod organization;

use std::sync::Arc;

pub use agent::{AgentDocument, AgentRules};
pub use catalogue::{Catalogue, Digest, DigestError, Plugin, Tool};
pub use document::{DocumentError, Warning};
pub use organization::{OrgDocument, OrgRules};
pub use tools::{ToolList, ToolPattern, ToolSet};

/// One revision of everything that decides about the calls of one agent.
///
/// The agent's rules hold for the catalogue they were compiled against; with another one every call is
/// refused.
#[derive(Debug)]
pub struct Rules<P> {
    /// The platform: loaded tools and its limits.
    pub catalogue: Arc<Catalogue<P>>,
    /// The organization.
    pub organization: Arc<OrgRules>,
    /// The agent.
    pub agent: Arc<AgentRules>,
}

impl<P> Clone for Rules<P> {
    fn clone(&self) -> Self {
        Self {
            catalogue: Arc::clone(&self.catalogue),
            organization: Arc::clone(&self.organization),
            agent: Arc::clone(&self.agent),
        }
    }
}
