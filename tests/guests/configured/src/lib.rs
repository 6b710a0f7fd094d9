//! Settings guest: returns what its organization has set.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolgate_sdk::{Context, Error, plugin, tool};

/// The settings of an organization.
#[derive(Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where data is kept
    #[serde(default)]
    region: Option<String>,
    /// How often something is tried again
    #[serde(default)]
    #[schemars(range(max = 9))]
    retries: u32,
    /// A secret, which does not belong here
    #[serde(default)]
    #[schemars(extend("writeOnly" = true))]
    pin: Option<String>,
}

/// Returns the settings.
#[tool(read_only)]
fn settings(context: &Context) -> Result<Settings, Error> {
    context.settings()
}

plugin!("configured", config = Settings, settings);
