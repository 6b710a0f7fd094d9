//! Policy diffs: what a document would change.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::document::DocumentWarning;
use crate::explain::ToolVerdict;

/// The changes that a document would make.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Preview {
    /// Names that resolve to nothing, and the like.
    pub warnings: Vec<DocumentWarning>,
    /// Members of the document that differ from the one in force, also those that decide no call, such as `limits`.
    pub members: Vec<String>,
    /// The agents with changes, by name.
    pub agents: Vec<AgentChange>,
    /// The number of agents without changes.
    pub unchanged: usize,
    /// Whether every agent and tool was compared, and every change is listed.
    pub complete: bool,
}

/// The changes for one agent.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct AgentChange {
    /// `ORGANIZATION/AGENT`.
    pub agent: String,
    /// The tools that change, by name.
    pub tools: Vec<ToolChange>,
}

/// The change of one tool.
#[optional_fields]
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolChange {
    /// `namespace/tool`.
    pub tool: String,
    /// The verdict now.
    pub before: ToolVerdict,
    /// The verdict with the document.
    pub after: ToolVerdict,
    /// The layer that would decide.
    pub layer: Cow<'static, str>,
    /// The rule that would decide. Tenants do not see the platform's rules.
    pub rule: Option<Cow<'static, str>>,
    /// The channels of the change; left out where it holds on every channel and without one.
    pub channels: Option<Vec<String>>,
}
