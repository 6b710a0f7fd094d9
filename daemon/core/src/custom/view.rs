//! Response types for custom tools.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use toolgate_admission::{Plugin, Warning};
use toolgate_api::custom_tool::{CustomState, CustomToolView, LeftOut, NoteView, WaitingView};
use toolgate_api::definition::DefinitionKind;
use toolgate_api::json::PlainValue;
use toolgate_api::name::Name;
use toolgate_api::read::pointer;
use toolgate_api::text::escape_for_display;
use toolgate_api::tools::ToolPattern;
use toolgate_sandbox::Component;
use toolgate_state::documents::ToolKey;

use super::mount::{Mount, Waiting};
use crate::plugins;
use crate::registry::Snapshot;

/// Names that are warned about.
const NAMES_WARNED: usize = 20;

/// The parsed fields of a discovered list.
#[derive(Default, Deserialize)]
struct Discovered<'a> {
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    protocol: Option<&'a RawValue>,
    #[serde(default)]
    left_out: Vec<LeftOut>,
    #[serde(default)]
    simplified: Vec<Simplified>,
}

/// A difference between a mounted tool, or the list, and what the server said.
#[derive(Deserialize)]
struct Simplified {
    name: String,
    what: String,
}

impl From<Simplified> for NoteView {
    fn from(Simplified { name, what }: Simplified) -> Self {
        Self { about: name, text: what }
    }
}

/// Returns the view as an item of a list: without the descriptions of the waiting tools and the notes.
pub(super) fn in_list(mut view: CustomToolView) -> CustomToolView {
    if let Some(waiting) = &mut view.waiting {
        waiting.tools.clear();
        waiting.before.clear();
    }
    view.notes.clear();
    view
}

/// Returns the view of a served tool.
pub(super) fn tool_view(
    key: &ToolKey,
    kind: DefinitionKind,
    plugin: &Plugin<Component>,
    mount: Option<&Mount>,
) -> CustomToolView {
    let descriptor = &plugin.descriptor;
    let Discovered { left_out, simplified, .. } =
        mount.map(|mount| read(&mount.discovered)).unwrap_or_default();
    let waiting = mount.and_then(|mount| Some(waiting_view(mount, mount.waiting.as_ref()?)));
    CustomToolView {
        namespace: key.namespace.to_string(),
        kind: kind.as_str().into(),
        version: descriptor.version.clone(),
        digest: plugin.digest.to_string(),
        publisher: descriptor.publisher.clone(),
        category: descriptor.category.clone(),
        purpose: descriptor.purpose.clone(),
        tools: plugins::tool_views(plugin),
        capabilities: plugins::capabilities_view(&descriptor.capabilities),
        state: CustomState::Active,
        reason: waiting
            .is_some()
            .then(|| "its server has something else now, which waits for consent".to_owned()),
        waiting,
        left_out,
        notes: simplified.into_iter().map(NoteView::from).collect(),
    }
}

/// Returns the view of a tool that can no longer be built.
pub(super) fn failed_tool_view(key: &ToolKey, kind: DefinitionKind) -> CustomToolView {
    CustomToolView {
        namespace: key.namespace.to_string(),
        kind: kind.as_str().into(),
        version: String::new(),
        digest: String::new(),
        publisher: None,
        category: None,
        purpose: None,
        tools: Vec::new(),
        capabilities: plugins::capabilities_view(&Default::default()),
        state: CustomState::Failed,
        reason: Some("it cannot be made any more; put its definition again to see why".to_owned()),
        waiting: None,
        left_out: Vec::new(),
        notes: Vec::new(),
    }
}

fn waiting_view(mount: &Mount, waiting: &Waiting) -> WaitingView {
    let (before, after) = (read(&mount.discovered), read(&waiting.discovered));
    let is_other = |protocol: &&RawValue| before.protocol.map(RawValue::get) != Some(protocol.get());
    let protocol =
        after.protocol.filter(is_other).and_then(|protocol| serde_json::from_str(protocol.get()).ok());
    let left_out = after.left_out;
    let (before, after) = (by_name(&before.tools), by_name(&after.tools));
    let not_in = |tools: &BTreeMap<String, &str>, others: &BTreeMap<String, &str>| {
        tools.keys().filter(|name| !others.contains_key(*name)).cloned().collect()
    };
    let differs = |(name, text): &(&String, &&str)| before.get(*name).is_some_and(|old| old != *text);
    let parse = |text: &str| serde_json::from_str(text).ok().map(|PlainValue(tool)| tool);
    WaitingView {
        digest: waiting.digest.clone(),
        protocol,
        added: not_in(&after, &before),
        removed: not_in(&before, &after),
        changed: after.iter().filter(differs).map(|(name, _)| name.clone()).collect(),
        tools: after
            .iter()
            .filter(|(name, text)| before.get(*name) != Some(text))
            .filter_map(|(_, text)| parse(text))
            .collect(),
        before: after.iter().filter(differs).filter_map(|(name, _)| parse(before.get(name)?)).collect(),
        left_out,
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
    if snapshot.catalogue().plugin(namespace).is_some() {
        let message =
            format!("the platform has a plugin `{namespace}` too; agents of the organization have this tool");
        warnings.push(Warning::new("HIDES_PLUGIN", "", message));
    }
    if !is_enabled(snapshot, organization, plugin) {
        let message =
            format!("no agent has it: add `{namespace}/*` to `enabled` of the organization's policy");
        warnings.push(Warning::new("NOT_ENABLED", "", message));
    }
    warnings
}

/// Arguments of a declared API with names that a model provider refuses: Anthropic takes letters, digits, `_`, `.` and `-`, at
/// most 64 of them. A mounted server names its arguments itself.
pub(super) fn refused_names(plugin: &Plugin<Component>) -> Vec<Warning> {
    let is_taken = |name: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        (1..=64).contains(&name.len()) && name.bytes().all(is_letter)
    };
    let names = plugin.descriptor.tools.iter().enumerate().flat_map(|(index, tool)| {
        let properties = tool.input.source().get("properties").and_then(Value::as_object);
        properties.into_iter().flat_map(Map::keys).map(move |name| (index, name))
    });
    let warning = |(index, name): (usize, &String)| {
        let shown = escape_for_display(name, 80);
        let message = format!(
            "some model providers refuse the name `{shown}` of an argument: give it another one, and send it by its own name with \
             `arguments`: `{{\"in\":\"query\",\"name\":\"{shown}\"}}`"
        );
        Warning::new(
            "REFUSED_NAME",
            pointer(&format!("/actions/{index}/input_schema/properties"), name),
            message,
        )
    };
    names.filter(|(_, name)| !is_taken(name)).map(warning).take(NAMES_WARNED).collect()
}

fn is_enabled(snapshot: &Snapshot, organization: &Name, plugin: &Plugin<Component>) -> bool {
    let Some(rules) = snapshot.organization(organization) else { return false };
    let Some(enabled) = &rules.document().enabled else { return false };
    let names = |pattern: &ToolPattern| plugin.descriptor.tools.iter().any(|tool| pattern.matches(&tool.id));
    enabled.patterns().iter().any(names)
}
