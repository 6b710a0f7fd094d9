//! Response types for custom tools.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toolgate_admission::{Name, Plugin, ToolPattern, Warning};
use toolgate_sandbox::Component;
use utoipa::ToSchema;

use super::mount::{Mount, Waiting};
use crate::documents::ToolKey;
use crate::plugins::{CapabilitiesView, DefinitionKind, ToolView};
use crate::registry::Snapshot;

/// A custom tool of an organization.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = CustomTool)]
pub struct CustomToolView {
    /// Namespace of its actions.
    pub namespace: String,
    /// Source of the tool: an `http` API, or a server of the Model Context Protocol (`mcp`).
    #[schema(pattern = "^(http|mcp)$")]
    pub kind: &'static str,
    /// Version from the definition.
    pub version: String,
    /// Digest of the built-in component, the definition and the server's tools: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Publisher from the definition.
    #[schema(required)]
    pub publisher: Option<String>,
    /// Category for catalogues.
    #[schema(required)]
    pub category: Option<String>,
    /// Purpose, in a sentence.
    #[schema(required)]
    pub purpose: Option<String>,
    /// Its actions.
    pub tools: Vec<ToolView>,
    /// Requested capabilities.
    pub capabilities: CapabilitiesView,
    /// Current state.
    pub state: CustomState,
    /// Reason for the state, if any.
    #[schema(required)]
    pub reason: Option<String>,
    /// Newer tools of a mounted server that wait for consent.
    #[schema(required)]
    pub waiting: Option<WaitingView>,
    /// Tools of the server that are not mounted, with the reason.
    #[schema(value_type = Vec<Object>)]
    pub left_out: Vec<LeftOut>,
}

/// State of a custom tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CustomState {
    /// The tool accepts calls.
    Active,
    /// The tool can no longer be built; the daemon's log has the reason.
    Failed,
}

/// A tool list that waits for consent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = WaitingTools)]
pub struct WaitingView {
    /// Digest to send with the consent.
    pub digest: String,
    /// New tools, by the server's names.
    pub added: Vec<String>,
    /// Removed tools.
    pub removed: Vec<String>,
    /// Tools whose description or schema changed.
    pub changed: Vec<String>,
    /// New and changed tools as the server describes them, the subject of the consent. Empty in lists.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Box<RawValue>>,
    /// The changed tools as previously consented to. Empty in lists.
    #[schema(value_type = Vec<Object>)]
    pub before: Vec<Box<RawValue>>,
    /// Tools that would not be mounted, with the reason.
    #[schema(value_type = Vec<Object>)]
    pub left_out: Vec<LeftOut>,
    /// Protocol revision of future requests, if it differs.
    #[schema(required, value_type = Option<String>)]
    pub protocol: Option<Box<RawValue>>,
}

/// An item of a server's list that cannot be called here.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeftOut {
    name: String,
    why: String,
}

/// The parsed fields of a discovered list.
#[derive(Default, Deserialize)]
struct Discovered<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    protocol: Option<&'a RawValue>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
}

impl CustomToolView {
    /// Returns the view as an item of a list: without the descriptions of the waiting tools.
    pub(super) fn in_list(mut self) -> Self {
        if let Some(waiting) = &mut self.waiting {
            waiting.tools.clear();
            waiting.before.clear();
        }
        self
    }

    pub(super) fn of(
        key: &ToolKey,
        kind: DefinitionKind,
        plugin: &Plugin<Component>,
        mount: Option<&Mount>,
    ) -> Self {
        let descriptor = &plugin.descriptor;
        let discovered = mount.map(|mount| read(&mount.discovered));
        let waiting = mount.and_then(|mount| Some(WaitingView::of(mount, mount.waiting.as_ref()?)));
        Self {
            namespace: key.namespace.to_string(),
            kind: kind.as_str(),
            version: descriptor.version.clone(),
            digest: plugin.digest.to_string(),
            publisher: descriptor.publisher.clone(),
            category: descriptor.category.clone(),
            purpose: descriptor.purpose.clone(),
            tools: descriptor.tools.iter().map(ToolView::of).collect(),
            capabilities: CapabilitiesView::of(&descriptor.capabilities),
            state: CustomState::Active,
            reason: waiting
                .is_some()
                .then(|| "its server has something else now, which waits for consent".to_owned()),
            waiting,
            left_out: discovered.map(|discovered| discovered.left_out).unwrap_or_default(),
        }
    }

    pub(super) fn failed(key: &ToolKey, kind: DefinitionKind) -> Self {
        Self {
            namespace: key.namespace.to_string(),
            kind: kind.as_str(),
            version: String::new(),
            digest: String::new(),
            publisher: None,
            category: None,
            purpose: None,
            tools: Vec::new(),
            capabilities: CapabilitiesView::of(&Default::default()),
            state: CustomState::Failed,
            reason: Some("it cannot be made any more; put its definition again to see why".to_owned()),
            waiting: None,
            left_out: Vec::new(),
        }
    }
}

impl WaitingView {
    fn of(mount: &Mount, waiting: &Waiting) -> Self {
        let (before, after) = (read(&mount.discovered), read(&waiting.discovered));
        let is_other = |protocol: &&RawValue| before.protocol.map(RawValue::get) != Some(protocol.get());
        let protocol = after.protocol.filter(is_other).map(ToOwned::to_owned);
        let left_out = after.left_out;
        let (before, after) = (by_name(&before.tools), by_name(&after.tools));
        let not_in = |tools: &BTreeMap<String, &str>, others: &BTreeMap<String, &str>| {
            tools.keys().filter(|name| !others.contains_key(*name)).cloned().collect()
        };
        let differs = |(name, text): &(&String, &&str)| before.get(*name).is_some_and(|old| old != *text);
        let raw = |text: &str| RawValue::from_string(text.to_owned()).ok();
        Self {
            digest: waiting.digest.clone(),
            protocol,
            added: not_in(&after, &before),
            removed: not_in(&before, &after),
            changed: after.iter().filter(differs).map(|(name, _)| name.clone()).collect(),
            tools: after
                .iter()
                .filter(|(name, text)| before.get(*name) != Some(text))
                .filter_map(|(_, text)| raw(text))
                .collect(),
            before: after.iter().filter(differs).filter_map(|(name, _)| raw(before.get(name)?)).collect(),
            left_out,
        }
    }
}

fn read(discovered: &RawValue) -> Discovered<'_> {
    serde_json::from_str(discovered.get()).unwrap_or_default()
}

fn by_name<'a>(tools: &[&'a RawValue]) -> BTreeMap<String, &'a str> {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    let named =
        |tool: &&'a RawValue| Some((serde_json::from_str::<Named>(tool.get()).ok()?.name, tool.get()));
    tools.iter().filter_map(named).collect()
}

/// Returns the reasons why agents may be unable to call a served tool.
pub(super) fn warnings(snapshot: &Snapshot, key: &ToolKey, plugin: &Plugin<Component>) -> Vec<Warning> {
    let (organization, namespace) = (&key.organization, &key.namespace);
    let connected = snapshot.connected_integrations(organization);
    let missing = plugin.descriptor.capabilities.credentials.iter().filter(|name| !connected.contains(*name));
    let mut warnings: Vec<Warning> = missing
        .map(|provider| {
            let message = format!(
                "there is no usable credential of provider `{provider}`, so its calls answer INTEGRATION_MISSING"
            );
            Warning::new("NO_CREDENTIAL", "/authentication/provider", message)
        })
        .collect();
    if !is_enabled(snapshot, organization, plugin) {
        let message =
            format!("no agent has it: add `{namespace}/*` to `enabled` of the organization's policy");
        warnings.push(Warning::new("NOT_ENABLED", "", message));
    }
    warnings
}

fn is_enabled(snapshot: &Snapshot, organization: &Name, plugin: &Plugin<Component>) -> bool {
    let Some(rules) = snapshot.organization(organization) else { return false };
    let Some(enabled) = &rules.document().enabled else { return false };
    let names = |pattern: &ToolPattern| plugin.descriptor.tools.iter().any(|tool| pattern.matches(&tool.id));
    enabled.patterns().iter().any(names)
}
