//! Effects that a tool declares, and that a grant can correct.

use serde::{Deserialize, Serialize};

/// Effects of a tool. The defaults are the careful ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = ToolHints))]
#[serde(default)]
pub struct Hints {
    /// Changes nothing.
    pub read_only: bool,
    /// May destroy something.
    pub destructive: bool,
    /// The same call twice does no more than once.
    pub idempotent: bool,
    /// Reaches beyond this system.
    pub open_world: bool,
}

impl Default for Hints {
    fn default() -> Self {
        Self { read_only: false, destructive: true, idempotent: false, open_world: true }
    }
}
