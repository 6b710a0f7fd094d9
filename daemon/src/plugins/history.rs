//! The versions of one plugin: which serves, which served before, and how they look from outside.

use std::sync::Arc;

use serde::Serialize;
use toolgate_admission::{CallError, Capabilities, Digest, FilesystemAccess, Namespace, Plugin};
use toolgate_sandbox::Component;
use utoipa::ToSchema;

use super::Held;
use crate::store::{PluginRow, PluginVersionRow};

/// Versions of a plugin that stay ready to roll back to, the serving one included. Each costs memory and
/// a file.
const KEPT_VERSIONS: usize = 4;

/// All that is kept of a plugin.
#[derive(Clone)]
pub(super) struct History {
    /// Oldest first.
    versions: Vec<Kept>,
    /// The index of the one that is to serve: the last one loaded, or what was rolled back to.
    chosen: usize,
    /// The index of the one that serves: the chosen one, or where that could not be loaded again, the last before it
    /// that could. One from behind it was rolled back from, and never stands in.
    serving: usize,
    /// The one at that index.
    current: Arc<Plugin<Component>>,
    disabled: bool,
    built_in: bool,
}

/// A plugin of which this start could serve nothing. It holds its namespace until it is loaded anew or removed.
pub(super) struct Unserved {
    publisher: Option<String>,
    versions: Vec<Kept>,
    chosen: usize,
    disabled: bool,
}

/// A version that is kept.
#[derive(Clone)]
pub(super) enum Kept {
    /// It can serve.
    Ready(Version),
    /// This start could not load it again. It stays, for one that can.
    Lost(Lost),
}

/// One version, ready to run.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) plugin: Arc<Plugin<Component>>,
    /// Its file.
    pub(super) held: Held,
    pub(super) loaded_ms: u64,
}

impl Version {
    pub(super) fn new(plugin: Plugin<Component>, held: Held, loaded_ms: u64) -> Self {
        Self { plugin: Arc::new(plugin), held, loaded_ms }
    }

    fn row(&self) -> PluginVersionRow {
        PluginVersionRow {
            version: self.plugin.descriptor.version.clone(),
            digest: self.plugin.digest.to_string(),
            loaded_ms: self.loaded_ms,
        }
    }
}

/// One version that could not be loaded again.
#[derive(Clone)]
pub(super) struct Lost {
    /// As it is stored.
    pub(super) row: PluginVersionRow,
    /// Its file, which may be damaged or gone; none where the store does not say which.
    pub(super) held: Option<Held>,
    /// Why.
    pub(super) reason: String,
}

impl Kept {
    fn ready(&self) -> Option<&Version> {
        match self {
            Self::Ready(version) => Some(version),
            Self::Lost(_) => None,
        }
    }

    fn is_of(&self, digest: &Digest) -> bool {
        match self {
            Self::Ready(version) => version.plugin.digest == *digest,
            Self::Lost(lost) => lost.row.digest == digest.as_str(),
        }
    }

    fn row(&self) -> PluginVersionRow {
        match self {
            Self::Ready(version) => version.row(),
            Self::Lost(lost) => lost.row.clone(),
        }
    }

    /// How it is shown, where one that can serve stands so.
    fn view(&self, ready: Standing) -> VersionView {
        let PluginVersionRow { version, digest, loaded_ms } = self.row();
        let (state, reason) = match self {
            Self::Ready(_) => ready,
            Self::Lost(lost) => (PluginState::Failed, Some(lost.reason.clone())),
        };
        VersionView { version, digest, loaded_ms: Some(loaded_ms), state, reason }
    }

    fn into_held(self) -> Option<Held> {
        match self {
            Self::Ready(version) => Some(version.held),
            Self::Lost(lost) => lost.held,
        }
    }
}

impl History {
    pub(super) fn first(version: Version, built_in: bool) -> Self {
        let current = Arc::clone(&version.plugin);
        Self {
            versions: vec![Kept::Ready(version)],
            chosen: 0,
            serving: 0,
            current,
            disabled: false,
            built_in,
        }
    }

    /// Serves a new version; answers the files of those that fell out of what is kept.
    pub(super) fn push(&mut self, version: Version) -> Vec<Held> {
        let (current, digest) = (Arc::clone(&version.plugin), version.plugin.digest.clone());
        // What was rolled back from is gone for good once something newer is loaded.
        let behind = self.versions.len().min(self.chosen + 1);
        let mut dropped: Vec<Kept> = self.versions.drain(behind..).collect();
        dropped.retain(|old| !old.is_of(&digest));
        self.versions.retain(|old| !old.is_of(&digest));
        self.versions.push(Kept::Ready(version));
        let excess = self.versions.len().saturating_sub(KEPT_VERSIONS);
        dropped.extend(self.versions.drain(..excess));
        self.serve(self.versions.len() - 1, current);
        dropped.into_iter().filter_map(Kept::into_held).collect()
    }

    /// Serves the last version before the current one that can.
    pub(super) fn roll_back(&mut self) -> Option<()> {
        let (at, before) = last_ready(&self.versions[..self.serving])?;
        let before = Arc::clone(&before.plugin);
        self.serve(at, before);
        Some(())
    }

    fn serve(&mut self, at: usize, plugin: Arc<Plugin<Component>>) {
        (self.chosen, self.serving, self.current) = (at, at, plugin);
    }

    pub(super) fn set_disabled(&mut self, disabled: bool) {
        self.disabled = disabled;
    }

    /// As it was before a stop, unless neither the chosen version nor one before it can serve.
    pub(super) fn restore(versions: Vec<Kept>, row: &PluginRow) -> Result<Self, Unserved> {
        let last = versions.len().saturating_sub(1);
        let chosen = usize::try_from(row.serving).map_or(last, |chosen| chosen.min(last));
        let disabled = row.disabled;
        match last_ready(&versions[..versions.len().min(chosen + 1)]) {
            Some((serving, version)) => {
                let current = Arc::clone(&version.plugin);
                Ok(Self { versions, chosen, serving, current, disabled, built_in: false })
            }
            None => Err(Unserved { publisher: row.publisher.clone(), versions, chosen, disabled }),
        }
    }

    pub(super) fn built_in(&self) -> bool {
        self.built_in
    }

    pub(super) fn publisher(&self) -> Option<&str> {
        self.current.descriptor.publisher.as_deref()
    }

    /// Whether a version serves and is the one that is to.
    pub(super) fn serves(&self, digest: &Digest) -> bool {
        self.serving == self.chosen && self.current.digest == *digest
    }

    /// The files of all its versions.
    pub(super) fn into_files(self) -> impl Iterator<Item = Held> {
        self.versions.into_iter().filter_map(Kept::into_held)
    }

    /// The plugin as the catalogue takes it.
    pub(super) fn serving(&self) -> Arc<Plugin<Component>> {
        if self.current.disabled == self.disabled {
            return Arc::clone(&self.current);
        }
        let mut plugin = Plugin::clone(&self.current);
        plugin.disabled = self.disabled;
        Arc::new(plugin)
    }

    /// What a start needs to bring it back, with the versions that this one could not: whatever else is changed of the
    /// plugin, what it is chosen to serve stays chosen.
    pub(super) fn row(&self, namespace: &Namespace) -> PluginRow {
        PluginRow {
            namespace: namespace.to_string(),
            disabled: self.disabled,
            built_in: self.built_in,
            publisher: self.publisher().map(str::to_owned),
            serving: self.chosen as u64,
            versions: self.versions.iter().map(Kept::row).collect(),
        }
    }

    pub(super) fn view(&self, namespace: &Namespace) -> PluginView {
        let plugin = &self.current;
        let (state, reason) = self.state_of(self.serving);
        PluginView {
            namespace: namespace.to_string(),
            version: plugin.descriptor.version.clone(),
            digest: plugin.digest.to_string(),
            publisher: plugin.descriptor.publisher.clone(),
            category: plugin.descriptor.category.clone(),
            purpose: plugin.descriptor.purpose.clone(),
            built_in: self.built_in,
            tools: plugin.descriptor.tools.iter().map(ToolView::of).collect(),
            capabilities: CapabilitiesView::of(&plugin.descriptor.capabilities),
            state,
            reason,
            ignored_fields: plugin.descriptor.unknown_fields.clone(),
            versions: (self.versions.iter().enumerate().rev())
                .map(|(at, kept)| kept.view(self.state_of(at)))
                .collect(),
        }
    }

    /// The state of a version that can serve, and why it has it.
    fn state_of(&self, at: usize) -> Standing {
        match (at.cmp(&self.serving), self.disabled) {
            (std::cmp::Ordering::Equal, false) => (PluginState::Active, None),
            (std::cmp::Ordering::Equal, true) => {
                (PluginState::Disabled, Some("an operator disabled the plugin".into()))
            }
            (std::cmp::Ordering::Less, _) => (PluginState::Disabled, Some("replaced".into())),
            (std::cmp::Ordering::Greater, _) => rolled_back(),
        }
    }
}

/// A state, and why it is so.
type Standing = (PluginState, Option<String>);

fn rolled_back() -> Standing {
    (PluginState::Disabled, Some("rolled back".into()))
}

impl Unserved {
    /// Who holds the namespace.
    pub(super) fn publisher(&self) -> Option<&str> {
        self.publisher.as_deref()
    }

    /// What it comes to with a version that can serve, and the files of those that fall out of what is kept.
    pub(super) fn followed_by(&self, version: Version) -> (History, Vec<Held>) {
        let mut history = History {
            versions: self.versions.clone(),
            disabled: self.disabled,
            chosen: self.chosen,
            ..History::first(version.clone(), false)
        };
        let dropped = history.push(version);
        (history, dropped)
    }

    /// The files of all its versions.
    pub(super) fn into_files(self) -> impl Iterator<Item = Held> {
        self.versions.into_iter().filter_map(Kept::into_held)
    }

    /// As it is shown: failed, as the version that was to serve.
    pub(super) fn view(&self, namespace: &Namespace) -> PluginView {
        // One that can serve is behind the chosen one: of the others none can.
        let versions: Vec<_> = self.versions.iter().map(|kept| kept.view(rolled_back())).collect();
        let shown = versions.get(self.chosen);
        PluginView {
            version: shown.map(|shown| shown.version.clone()).unwrap_or_default(),
            digest: shown.map(|shown| shown.digest.clone()).unwrap_or_default(),
            publisher: self.publisher.clone(),
            state: PluginState::Failed,
            reason: shown.and_then(|shown| shown.reason.clone()),
            versions: versions.into_iter().rev().collect(),
            ..PluginView::nothing(namespace)
        }
    }
}

/// The last version that can serve, and where it is.
fn last_ready(versions: &[Kept]) -> Option<(usize, &Version)> {
    versions.iter().enumerate().rev().find_map(|(at, kept)| Some((at, kept.ready()?)))
}

/// What a version is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginState {
    /// It is being compiled.
    Compiling,
    /// It takes calls.
    Active,
    /// It could not be loaded; the reason says why.
    Failed,
    /// It is kept and takes no calls.
    Disabled,
}

/// A plugin as the interface shows it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PluginView {
    /// Its namespace: what its tools are called by.
    pub namespace: String,
    /// The serving version, as the plugin says; empty while it is not known.
    pub version: String,
    /// SHA-256 of the serving component: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Who answers for it, as the plugin says.
    #[schema(required)]
    pub publisher: Option<String>,
    /// Where a catalogue lists it.
    #[schema(required)]
    pub category: Option<String>,
    /// What it is for.
    #[schema(required)]
    pub purpose: Option<String>,
    /// Whether it came with the daemon.
    pub built_in: bool,
    /// Its tools.
    pub tools: Vec<ToolView>,
    /// What it asks for.
    pub capabilities: CapabilitiesView,
    /// What the serving version is doing.
    pub state: PluginState,
    /// Why, where there is something to say.
    #[schema(required)]
    pub reason: Option<String>,
    /// Fields of its description that this daemon does not know and ignores.
    pub ignored_fields: Vec<String>,
    /// All versions that are kept, newest first.
    pub versions: Vec<VersionView>,
}

impl PluginView {
    /// A plugin that is not there yet.
    pub(super) fn compiling(namespace: &Namespace, digest: &Digest) -> Self {
        Self { digest: digest.to_string(), ..Self::nothing(namespace) }
    }

    /// One of which only the name is known.
    fn nothing(namespace: &Namespace) -> Self {
        Self {
            namespace: namespace.to_string(),
            version: String::new(),
            digest: String::new(),
            publisher: None,
            category: None,
            purpose: None,
            built_in: false,
            tools: Vec::new(),
            capabilities: CapabilitiesView::of(&Capabilities::default()),
            state: PluginState::Compiling,
            reason: None,
            ignored_fields: Vec::new(),
            versions: Vec::new(),
        }
    }

    /// It could not be loaded.
    pub(super) fn fail(&mut self, error: &CallError) {
        self.state = PluginState::Failed;
        self.reason = Some(error.message.clone());
    }

    /// One that is not there yet, or could not be, beside the versions that are.
    pub(super) fn as_version(&self) -> VersionView {
        VersionView {
            version: self.version.clone(),
            digest: self.digest.clone(),
            loaded_ms: None,
            state: self.state,
            reason: self.reason.clone(),
        }
    }
}

/// A tool of a loaded plugin.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ToolView {
    /// Its name in the plugin.
    pub name: String,
    /// The name that a model calls.
    pub wire_name: String,
    /// Its name where it comes from, if that is another.
    pub original_name: Option<String>,
    /// What it does.
    pub description: String,
    /// Whether it changes nothing.
    pub read_only: bool,
}

impl ToolView {
    /// How a tool is shown.
    pub fn of(tool: &toolgate_admission::ToolDescriptor) -> Self {
        Self {
            name: tool.name.to_string(),
            wire_name: tool.wire.to_string(),
            original_name: tool.original_name.as_deref().map(str::to_owned),
            description: tool.description.clone(),
            read_only: tool.hints.read_only,
        }
    }
}

/// What a plugin asks for beyond computing. Its calls get of it what is granted.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CapabilitiesView {
    /// Which files: `none`, or those of the session's `workspace`.
    #[schema(pattern = "^(none|workspace)$")]
    pub filesystem: &'static str,
    /// Which requests, in the form in which they are granted.
    #[schema(value_type = Vec<Object>)]
    pub network: Vec<toolgate_admission::NetworkRule>,
    /// Which credentials, by provider.
    pub credentials: Vec<String>,
}

impl CapabilitiesView {
    /// How what a plugin asks for is shown.
    pub fn of(asked: &Capabilities) -> Self {
        Self {
            filesystem: match asked.filesystem {
                FilesystemAccess::None => "none",
                FilesystemAccess::Workspace => "workspace",
            },
            network: asked.network.clone(),
            credentials: asked.credentials.clone(),
        }
    }
}

/// One kept version.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct VersionView {
    /// As the plugin says; empty while it is not known.
    pub version: String,
    /// SHA-256 of the component.
    pub digest: String,
    /// When it was loaded, in milliseconds since 1970; none of one that is not there yet, or could not be.
    #[schema(value_type = Option<u64>, required)]
    pub loaded_ms: Option<u64>,
    /// What it is doing.
    pub state: PluginState,
    /// Why, where there is something to say.
    #[schema(required)]
    pub reason: Option<String>,
}
