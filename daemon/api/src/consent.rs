//! Consent to plugins, and the risk that it accepts, in the words of documents (C6).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::words;

/// The risk of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = PluginRisk))]
pub struct RiskView {
    /// The level: the highest of all reasons.
    pub level: RiskLevel,
    /// The reasons in words, the most severe first.
    pub reasons: Vec<String>,
}

/// A level of risk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum RiskLevel {
    /// The plugin computes, or its changes can be undone.
    Low,
    /// The plugin changes or sends something, within named bounds.
    Medium,
    /// The plugin can take data out, act as the organization, or reach places that it does not name.
    High,
}

words! {
    /// An organization's consent to a plugin.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
    pub enum ConsentState {
        /// The operator vouches for the plugin, the organization made it, or the daemon asks for no consent.
        NotNeeded = "not_needed",
        /// The plugin was accepted.
        Accepted = "accepted",
        /// The plugin was not accepted, so no agent has its tools.
        Missing = "missing",
        /// The plugin was accepted, and now asks for more or has another publisher, so no agent has its tools.
        Outdated = "outdated",
    }
}

impl fmt::Display for RiskLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        })
    }
}

impl ConsentState {
    /// Whether agents have no tool of the plugin until the organization accepts it.
    pub fn keeps_out(self) -> bool {
        matches!(self, Self::Missing | Self::Outdated)
    }
}
