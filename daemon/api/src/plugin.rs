//! Loaded plugins and their versions.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use toolgate_macros::optional_fields;
use utoipa::ToSchema;

use crate::descriptor::{DescriptionSource, Example, Hints, LeftOut};
use crate::document::DocumentWarning;
use crate::network::NetworkRule;

/// The state of a version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// It is being compiled.
    #[default]
    Compiling,
    /// It serves calls.
    Active,
    /// It serves a share of the calls, until it proves itself or is taken back.
    Canary,
    /// It waits for consent while the version before serves.
    Quarantined,
    /// Loading failed; `reason` says why.
    Failed,
    /// It is kept and serves no calls.
    Disabled,
}

/// The origin of a plugin file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum PluginSource {
    /// The body of a request.
    #[default]
    Upload,
    /// The watched folder.
    Folder,
    /// An OCI registry.
    Registry {
        /// The reference as it was asked for, with its tag.
        reference: String,
        /// The digest of the manifest that the reference named: this version stays, wherever the tag moves.
        digest: String,
    },
}

/// The body of a load from a registry.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RegistryLoad {
    /// The reference, as `oci://HOST/REPOSITORY:TAG` or `oci://HOST/REPOSITORY@sha256:…`.
    #[schema(example = "oci://registry.example.org/tools/weather:1.2.0")]
    pub source: String,
}

/// A plugin and its versions.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct PluginView {
    /// Its namespace, the first part of its tools' names.
    pub namespace: String,
    /// The serving version, as the plugin declares it; empty while it compiles.
    pub version: String,
    /// SHA-256 of the serving component: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// The publisher, as the plugin declares it.
    #[schema(required)]
    pub publisher: Option<String>,
    /// Its category in a catalogue.
    #[schema(required)]
    pub category: Option<String>,
    /// Its purpose in a sentence.
    #[schema(required)]
    pub purpose: Option<String>,
    /// Whether it is part of the daemon.
    pub built_in: bool,
    /// Its tools.
    pub tools: Vec<ToolView>,
    /// The capabilities that it requests.
    pub capabilities: CapabilitiesView,
    /// The state of the serving version.
    pub state: PluginState,
    /// The reason for the state, if there is one.
    #[schema(required)]
    pub reason: Option<String>,
    /// JSON pointers of description fields that this daemon does not know and ignores.
    pub ignored_fields: Vec<String>,
    /// Functions of its component that are no tools, with the reason. Only components without the plugin contract have them.
    #[serde(default)]
    #[schema(required)]
    pub left_out: Vec<LeftOut>,
    /// The publisher's key that signed the serving version; null without a signature.
    #[serde(default)]
    #[schema(required)]
    pub signed_by: Option<SignerView>,
    /// In the answer to the load of a version that waits for consent: its differences from the serving version.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diff: Vec<VersionDifference>,
    /// The kept versions, newest first.
    pub versions: Vec<VersionView>,
}

impl PluginView {
    /// Sets the state of a load that failed.
    pub fn fail(&mut self, reason: &str) {
        self.state = PluginState::Failed;
        self.reason = Some(reason.to_owned());
    }

    /// A background load as an entry of `versions`.
    pub fn as_version(&self) -> VersionView {
        VersionView {
            version: self.version.clone(),
            digest: self.digest.clone(),
            loaded_ms: None,
            source: None,
            state: self.state,
            reason: self.reason.clone(),
            signed_by: None,
            diff: Vec::new(),
            canary: None,
        }
    }
}

/// A tool of a loaded plugin.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct ToolView {
    /// Its name inside the plugin.
    pub name: String,
    /// The name that models call.
    pub wire_name: String,
    /// Its name in the source, if it differs.
    pub original_name: Option<String>,
    /// Its description.
    pub description: String,
    /// The origin of the description. A description that is made from a `signature` tells a model little: write a better one into
    /// `descriptions` of the grant.
    #[serde(default)]
    #[schema(required)]
    pub description_source: DescriptionSource,
    /// Whether it declares that it changes nothing.
    pub read_only: bool,
    /// Its details.
    #[serde(flatten)]
    pub details: ToolDetails,
}

/// The details of a tool beside its name, description and schemas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ToolDetails {
    /// How to call it well, for a model that has chosen it.
    #[schema(required)]
    pub usage: String,
    /// The hints on its effects, as the plugin declares them.
    #[schema(required)]
    pub hints: Hints,
    /// Whether the hints count. The hints of an uploaded plugin count once its load, its approval or its grant
    /// (`confirmed_hints`) has confirmed them for its digest; until then the tool counts as changing, destructive and open-world.
    #[schema(required)]
    pub hints_state: HintsState,
    /// Integrations that the organization must have connected.
    #[schema(required)]
    pub required_integrations: Vec<String>,
    /// Steps that a person must complete first.
    #[schema(required)]
    pub prerequisites: Vec<String>,
    /// Search words.
    #[schema(required)]
    pub tags: Vec<String>,
    /// Sample calls.
    #[schema(required)]
    pub examples: Vec<Example>,
}

/// Whether the hints of a tool count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HintsState {
    /// No operator has confirmed them for this version.
    #[default]
    Unconfirmed,
    /// They count.
    Confirmed,
}

/// The capabilities that a plugin requests. Its calls have those that are granted.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
pub struct CapabilitiesView {
    /// File access: `none`, or the session's `workspace`.
    #[schema(pattern = "^(none|workspace)$")]
    pub filesystem: Cow<'static, str>,
    /// Network rules, in the form of a grant.
    #[schema(value_type = Vec<Object>)]
    pub network: Vec<NetworkRule>,
    /// Providers of the credentials that it uses.
    pub credentials: Vec<String>,
    /// Whether it calls other tools.
    #[serde(default)]
    pub calls: bool,
    /// Whether it sends and reads messages between agents.
    #[serde(default)]
    pub messages: bool,
    /// Capabilities that its language runtime imports without using them (`filesystem`, `network`). No call gets them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unused: Vec<Cow<'static, str>>,
}

/// A version of a plugin.
#[optional_fields]
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct VersionView {
    /// The version, as the plugin declares it; empty while it compiles.
    pub version: String,
    /// SHA-256 of the component: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Load time, in milliseconds since 1970; null while it compiles and when its load failed.
    #[schema(value_type = Option<u64>, required)]
    pub loaded_ms: Option<u64>,
    /// The origin of its file; null while it compiles and when its load failed.
    #[serde(default)]
    #[schema(required)]
    pub source: Option<PluginSource>,
    /// Its state.
    pub state: PluginState,
    /// The reason for the state, if there is one; of a serving version, why its signature would not verify any more.
    #[schema(required)]
    pub reason: Option<String>,
    /// The publisher's key that signed it; null without a signature.
    #[serde(default)]
    #[schema(required)]
    pub signed_by: Option<SignerView>,
    /// The differences from the serving version, if this version waits for consent. A list of plugins leaves them out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diff: Vec<VersionDifference>,
    /// The share of the calls and their outcomes, if this version is a canary.
    pub canary: Option<CanaryView>,
}

/// A canary in numbers, since its load or since the start of the daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Canary)]
pub struct CanaryView {
    /// Its share of the calls.
    #[schema(minimum = 1, maximum = 50)]
    pub percent: u8,
    /// Its calls that ran.
    pub calls: u64,
    /// The calls of `calls` that failed by a fault of the plugin.
    pub failures: u64,
    /// The calls of the version that serves the rest.
    pub serving_calls: u64,
    /// The calls of `serving_calls` that failed by a fault of the plugin.
    pub serving_failures: u64,
}

/// The publisher's key that signed a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignerView {
    /// The publisher, as the key's document names it.
    pub publisher: String,
    /// The id of the key: 16 hexadecimal digits.
    #[schema(example = "21fe31dfa154a261")]
    pub key: String,
    /// The key: `ed25519:` and its 32 bytes in base64.
    pub public_key: String,
}

/// A difference between two versions of a plugin that a person should see before the newer one serves.
#[optional_fields]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct VersionDifference {
    /// The tool, by its name in the plugin; left out for the plugin as a whole.
    pub tool: Option<String>,
    /// The field in words, with the place inside it, such as `input schema /properties/city/type`.
    #[schema(example = "description")]
    pub field: String,
    /// The old value as text; null where it is new.
    #[schema(required)]
    pub before: Option<String>,
    /// The new value as text; null where it is gone.
    #[schema(required)]
    pub after: Option<String>,
}

/// Consent to a version that waits for it.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginApproval {
    /// The digest of the version, so that a version that was loaded meanwhile is not approved unseen.
    #[schema(
        pattern = "^sha256:[0-9a-f]{64}$",
        example = "sha256:21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"
    )]
    pub digest: String,
    /// Keeps the plugin's grant although the version asks for other capabilities or limits. Default: `false`.
    #[serde(default)]
    #[schema(required = false, default = false)]
    pub keep_grant: bool,
}

/// An approved version, which serves.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct PluginApproved {
    /// The plugin.
    #[serde(flatten)]
    pub plugin: PluginView,
    /// The state of the operator's grant after the approval.
    pub grant: GrantAfterApproval,
}

/// The state of a plugin's grant after the approval of another version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum GrantAfterApproval {
    /// The plugin had no grant.
    None,
    /// The grant holds: the version asks for the same capabilities and limits, or `keep_grant` was set.
    Kept,
    /// The grant is removed: the version asks for other capabilities or limits. Grant anew what the version needs.
    Removed,
}

/// A plugin with warnings: its author may not have intended these.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = PluginWithWarnings)]
pub struct PluginLoaded {
    /// The plugin.
    #[serde(flatten)]
    pub plugin: PluginView,
    /// Limits in its description that are above the platform's (`LIMIT_WITHOUT_EFFECT`), or with which no call can run
    /// (`NOTHING_RUNS`).
    pub warnings: Vec<DocumentWarning>,
}
