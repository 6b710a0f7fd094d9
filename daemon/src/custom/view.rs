//! How tools of an organization look from outside.

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

/// A tool that an organization made.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = CustomTool)]
pub struct CustomToolView {
    /// What its actions are called by.
    pub namespace: String,
    /// What it is made of: an `http` API, or a server of the Model Context Protocol (`mcp`).
    #[schema(pattern = "^(http|mcp)$")]
    pub kind: &'static str,
    /// As its definition says.
    pub version: String,
    /// Of what makes it, its definition, and what its server has: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Who answers for it, as its definition says.
    #[schema(required)]
    pub publisher: Option<String>,
    /// Where a catalogue lists it.
    #[schema(required)]
    pub category: Option<String>,
    /// What it is for.
    #[schema(required)]
    pub purpose: Option<String>,
    /// Its actions.
    pub tools: Vec<ToolView>,
    /// What it asks for.
    pub capabilities: CapabilitiesView,
    /// What it is doing.
    pub state: CustomState,
    /// Why, where there is something to say.
    #[schema(required)]
    pub reason: Option<String>,
    /// What its server has had since, of a mounted one.
    #[schema(required)]
    pub waiting: Option<WaitingView>,
    /// What its server has and is not mounted, with the reason.
    #[schema(value_type = Vec<Object>)]
    pub left_out: Vec<LeftOut>,
}

/// What a tool of an organization is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CustomState {
    /// It takes calls.
    Active,
    /// It cannot be made any more; the daemon's log says why.
    Failed,
}

/// A list of tools that waits for consent.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = WaitingTools)]
pub struct WaitingView {
    /// What to name when consenting to it.
    pub digest: String,
    /// Tools that are new, by their server's names.
    pub added: Vec<String>,
    /// Tools that are gone.
    pub removed: Vec<String>,
    /// Tools that are described in another way.
    pub changed: Vec<String>,
    /// Those that are new or changed, as their server describes them: what is consented to. None in lists.
    #[schema(value_type = Vec<Object>)]
    pub tools: Vec<Box<RawValue>>,
    /// Those of them that are changed, as they were consented to before. None in lists.
    #[schema(value_type = Vec<Object>)]
    pub before: Vec<Box<RawValue>>,
    /// What would not be mounted, with the reason.
    #[schema(value_type = Vec<Object>)]
    pub left_out: Vec<LeftOut>,
    /// The revision of the protocol that it would be asked by, where that is another.
    #[schema(required, value_type = Option<String>)]
    pub protocol: Option<Box<RawValue>>,
}

/// Something that a server has and nobody here can call.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeftOut {
    name: String,
    why: String,
}

/// What is looked at of what a server has.
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
    /// As one of many: without the descriptions of what waits.
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

/// Why agents may not be able to call a tool that is in force.
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
