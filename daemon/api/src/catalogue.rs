//! The catalogue of tools (C4), and what an organization has enabled of it, with its settings and its consent (C5, C6).

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::consent::{ConsentState, RiskView};
use crate::descriptor::{Example, Hints};
use crate::plugin::{CapabilitiesView, HintsState};
use crate::read::{invalid, visible_json};
use crate::words::words;

/// A page of the catalogue.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Catalogue)]
pub struct CatalogueView {
    /// The entries, in the order that was asked for.
    pub items: Vec<CatalogueEntry>,
    /// The `cursor` of the next page; null on the last page.
    #[schema(required)]
    pub next_cursor: Option<String>,
    /// The categories of all entries that match, on any page and of any category, by name.
    pub categories: Vec<CategoryCount>,
    /// Namespaces that the platform has a plugin of too, in place of which the organization has its own.
    pub collisions: Vec<String>,
}

/// A category and the number of its entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CategoryCount {
    /// The category; empty for entries without one.
    pub category: String,
    /// Entries of it.
    pub count: u64,
}

/// The facts by which people judge a plugin: in the catalogue, and before they accept it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct PluginFacts {
    /// The namespace.
    pub namespace: String,
    /// The party that answers for the plugin.
    pub kind: PluginKind,
    /// The serving version.
    pub version: String,
    /// SHA-256 of the serving version, which a consent names: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The publisher, as the plugin declares it.
    #[schema(required)]
    pub publisher: Option<String>,
    /// Whether a signature proves the publisher, or the plugin is part of the daemon.
    pub publisher_proven: bool,
    /// The access that it asks for, in words; empty for a plugin that only computes.
    pub permissions: Vec<String>,
    /// Its risk: what can go wrong with it.
    pub risk: RiskView,
    /// The organization's consent. `not_needed` in the operator's list of the platform.
    pub consent: ConsentState,
}

/// A plugin in the catalogue.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CatalogueEntry {
    /// The facts to judge it by.
    #[serde(flatten)]
    pub facts: PluginFacts,
    /// Its purpose in a sentence.
    #[schema(required)]
    pub purpose: Option<String>,
    /// Its category.
    #[schema(required)]
    pub category: Option<String>,
    /// Steps that a person must complete first.
    pub prerequisites: Vec<String>,
    /// Integrations that must be connected before all of its tools work.
    pub integrations: Vec<String>,
    /// Its tools that the platform allows.
    pub tools: Vec<CatalogueTool>,
    /// Whether the organization's policy enables one of its tools. False in the operator's list of the platform.
    pub enabled: bool,
    /// Calls of its tools in the last 30 days: the organization's, or all in the operator's list.
    pub calls_30d: u64,
    /// Its place among the platform's plugins by the calls of all organizations in the last 30 days, from 1; null without calls.
    #[schema(required)]
    pub rank: Option<u64>,
    /// Time of its load, in milliseconds since 1970.
    pub loaded_ms: u64,
}

words! {
    /// The party that answers for a plugin.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
    pub enum PluginKind {
        /// The operator: it is built in, or marked `standard` in its grant.
        Standard = "standard",
        /// The organization, which made or loaded it for itself.
        Custom = "custom",
        /// Its publisher: an operator loaded it, and does not vouch for it.
        ThirdParty = "third_party",
    }
}

/// A tool of an entry.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct CatalogueTool {
    /// `namespace/tool`.
    pub tool: String,
    /// Its description.
    pub description: String,
    /// A sample call; null if it has none.
    #[schema(required)]
    pub example: Option<Example>,
    /// Search words.
    pub tags: Vec<String>,
    /// The hints on its effects, as the plugin declares them.
    #[serde(default)]
    #[schema(required)]
    pub hints: Hints,
    /// Whether the hints count.
    #[serde(default)]
    #[schema(required)]
    pub hints_state: HintsState,
}

/// The settings of an organization for a plugin, and its consent.
#[optional_fields]
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = EnabledPluginDocument)]
#[serde(deny_unknown_fields)]
pub struct EnabledDocument {
    /// The settings, valid under the plugin's `config_schema`. Secrets are not settings: keep them as credentials. Default: none.
    #[serde(default, deserialize_with = "settings", skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub config: Map<String, Value>,
    /// The consent. Without it, the one that was given stays.
    pub consent: Option<PluginConsent>,
}

fn settings<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    match visible_json::<_, Value>(from)? {
        Value::Object(settings) => Ok(settings),
        Value::Null => Ok(Map::new()),
        _ => Err(invalid("the settings are not an object", "write them by name: `{\"region\":\"eu\"}`")),
    }
}

/// Consent to what a plugin may reach.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginConsent {
    /// The digest of the version whose permissions, publisher and risk were shown.
    #[schema(pattern = "^sha256:[0-9a-f]{64}$")]
    pub digest: String,
    /// True accepts; false withdraws what was accepted.
    pub accept: bool,
}

/// A plugin as an organization has it, and what its consent accepts.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = EnabledPlugin)]
pub struct EnabledView {
    /// The facts that its consent accepts.
    #[serde(flatten)]
    pub facts: PluginFacts,
    /// The access that it asks for.
    pub capabilities: CapabilitiesView,
    /// Integrations that must be connected before all of its tools work, and are not.
    pub missing_integrations: Vec<String>,
    /// Whether the organization's policy enables all of its tools that the platform allows.
    pub enabled: bool,
    /// The last acceptance; null if nothing was accepted.
    #[schema(required)]
    pub accepted: Option<AcceptanceView>,
    /// The settings.
    #[schema(value_type = Object)]
    pub config: Map<String, Value>,
    /// Why the settings do not reach the plugin: its present version takes others. Null if they do.
    #[schema(required)]
    pub config_error: Option<String>,
    /// The JSON Schema of the settings; null if the plugin has none.
    #[schema(required, value_type = Value)]
    pub config_schema: Option<Value>,
}

/// A consent that was given.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PluginAcceptance)]
pub struct AcceptanceView {
    /// The id of the token that accepted; `upgrade` for what was enabled before consent was asked for.
    pub by: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The digest of the version that was accepted.
    pub digest: String,
    /// The publisher that was accepted.
    #[schema(required)]
    pub publisher: Option<String>,
    /// The access that it may have, in words.
    pub permissions: Vec<String>,
}
