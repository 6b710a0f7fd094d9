//! The versions of one plugin: which serves, which served before, and their views for the HTTP interface.

use std::cmp::Ordering;
use std::sync::Arc;

use toolgate_admission::{Descriptor, Digest, Plugin, ToolDescriptor};
use toolgate_api::grant::{Capabilities, FilesystemAccess, Grant};
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{
    CapabilitiesView, HintsState, PluginState, PluginView, ToolDetails, ToolView, VersionView,
};
use toolgate_sandbox::Component;
use toolgate_state::store::{PluginRow, PluginVersionRow, TrustRow};

use super::canary::CanaryVersion;
use super::trust::{Holder, Signer};
use super::{FileHandle, LoadSource};

/// Versions of a plugin that are kept for a roll back, the serving one included. Each costs memory and a file.
const KEPT_VERSIONS: usize = 4;

/// A plugin with a serving version.
#[derive(Clone)]
pub(super) struct History {
    /// Oldest first.
    versions: Vec<KeptVersion>,
    /// Index of the version that should serve: the last one loaded, or the target of a roll back.
    chosen: usize,
    /// Index of the version that serves: the chosen one or, if that failed to load at start, the last ready one before
    /// it. Never one after it, from which an operator rolled back.
    serving: usize,
    /// The plugin at `serving`.
    current: Arc<Plugin<Component>>,
    /// A version on trial beside the serving one.
    pub(super) canary: Option<CanaryVersion>,
    /// A version that waits for consent. It is none of `versions`, so that no roll back and no failed start serves it.
    pub(super) quarantined: Option<KeptVersion>,
    disabled: bool,
    built_in: bool,
}

/// A stored plugin of which this start could serve no version. It keeps its namespace until it is loaded again or
/// removed.
#[derive(Clone)]
pub(super) struct FailedPlugin {
    publisher: Option<String>,
    versions: Vec<KeptVersion>,
    quarantined: Option<KeptVersion>,
    chosen: usize,
    disabled: bool,
}

/// A version that is kept.
#[derive(Clone)]
pub(super) enum KeptVersion {
    Ready(Version),
    /// Not loaded by this start. It is kept, since a later start may succeed.
    Failed(FailedVersion),
}

/// A version that can serve.
#[derive(Clone)]
pub(super) struct Version {
    pub(super) plugin: Arc<Plugin<Component>>,
    pub(super) handle: FileHandle,
    pub(super) loaded_ms: u64,
    pub(super) source: LoadSource,
    /// The publisher's key that signed it.
    pub(super) signer: Option<Signer>,
}

/// A version that could not be loaded at start.
#[derive(Clone)]
pub(super) struct FailedVersion {
    pub(super) row: PluginVersionRow,
    /// `None` if the stored digest cannot be parsed. The file may be damaged or missing.
    pub(super) handle: Option<FileHandle>,
    pub(super) reason: String,
}

impl Version {
    pub(super) fn new(plugin: Plugin<Component>, handle: FileHandle, loaded_ms: u64) -> Self {
        Self { plugin: Arc::new(plugin), handle, loaded_ms, source: LoadSource::Upload, signer: None }
    }

    /// The version with its stored trust.
    pub(super) fn with_trust(mut self, trust: &TrustRow) -> Self {
        self.signer = trust.signer.as_ref().and_then(Signer::from_row);
        if trust.hints_confirmed { self.with_confirmed_hints() } else { self }
    }

    /// The version whose hints count (rule 9.11).
    pub(super) fn with_confirmed_hints(self) -> Self {
        let plugin = Plugin { has_trusted_hints: true, ..Plugin::clone(&self.plugin) };
        Self { plugin: Arc::new(plugin), ..self }
    }

    /// The publisher: the owner of the key that signed it, else the publisher that it names.
    pub(super) fn holder(&self) -> Holder<'_> {
        let declared = self.plugin.descriptor.publisher.as_deref();
        let proven = self.signer.as_ref().map(|signer| signer.publisher.as_str());
        Holder { publisher: proven.or(declared), is_signed: proven.is_some() }
    }
}

impl KeptVersion {
    pub(super) fn ready(&self) -> Option<&Version> {
        match self {
            Self::Ready(version) => Some(version),
            Self::Failed(_) => None,
        }
    }

    pub(super) fn has_digest(&self, digest: &Digest) -> bool {
        match self {
            Self::Ready(version) => version.plugin.digest == *digest,
            Self::Failed(failed) => failed.row.digest == digest.as_str(),
        }
    }

    pub(super) fn row(&self) -> PluginVersionRow {
        match self {
            Self::Ready(version) => PluginVersionRow {
                version: version.plugin.descriptor.version.clone(),
                digest: version.plugin.digest.to_string(),
                loaded_ms: version.loaded_ms,
                source: version.source.clone(),
                canary: None,
                trust: TrustRow {
                    quarantined: false,
                    hints_confirmed: version.plugin.has_trusted_hints,
                    signer: version.signer.as_ref().map(Signer::row),
                },
            },
            Self::Failed(failed) => failed.row.clone(),
        }
    }

    /// The view of this version, which has the state `ready` unless it failed.
    pub(super) fn view(&self, ready: StateReason) -> VersionView {
        let PluginVersionRow { version, digest, loaded_ms, source, trust, .. } = self.row();
        let signed_by = trust.signer.as_ref().and_then(Signer::from_row).as_ref().map(Signer::view);
        let (state, reason) = match self {
            Self::Ready(_) => ready,
            Self::Failed(failed) => (PluginState::Failed, Some(failed.reason.clone())),
        };
        let (loaded_ms, source) = (Some(loaded_ms), Some(source));
        VersionView {
            version,
            digest,
            loaded_ms,
            source,
            state,
            reason,
            signed_by,
            diff: Vec::new(),
            canary: None,
        }
    }

    fn source(&self) -> &LoadSource {
        match self {
            Self::Ready(version) => &version.source,
            Self::Failed(failed) => &failed.row.source,
        }
    }

    pub(super) fn into_handle(self) -> Option<FileHandle> {
        match self {
            Self::Ready(version) => Some(version.handle),
            Self::Failed(failed) => failed.handle,
        }
    }
}

impl History {
    pub(super) fn new(version: Version, built_in: bool) -> Self {
        let current = Arc::clone(&version.plugin);
        let versions = vec![KeptVersion::Ready(version)];
        Self {
            versions,
            chosen: 0,
            serving: 0,
            current,
            canary: None,
            quarantined: None,
            disabled: false,
            built_in,
        }
    }

    /// Serves a new version. Returns the files of the versions that are no longer kept.
    pub(super) fn push(&mut self, version: Version) -> Vec<FileHandle> {
        let (current, digest) = (Arc::clone(&version.plugin), version.plugin.digest.clone());
        // Versions after the chosen one were rolled back and are dropped.
        let behind = self.versions.len().min(self.chosen + 1);
        let mut dropped: Vec<KeptVersion> = self.versions.drain(behind..).collect();
        dropped.extend(self.canary.take().map(CanaryVersion::into_kept));
        dropped.retain(|old| !old.has_digest(&digest));
        self.versions.retain(|old| !old.has_digest(&digest));
        self.versions.push(KeptVersion::Ready(version));
        let excess = self.versions.len().saturating_sub(KEPT_VERSIONS);
        dropped.extend(self.versions.drain(..excess));
        self.serve(self.versions.len() - 1, current);
        dropped.into_iter().filter_map(KeptVersion::into_handle).collect()
    }

    /// Serves the last ready version before the current one.
    pub(super) fn roll_back(&mut self) -> Option<()> {
        let (at, before) = last_ready(&self.versions[..self.serving])?;
        let before = Arc::clone(&before.plugin);
        self.serve(at, before);
        Some(())
    }

    /// Serves the latest kept version of this name or digest. `None` if no such version is ready.
    pub(super) fn serve_version(&mut self, wanted: &str) -> Option<()> {
        let is_wanted = |version: &Version| {
            version.plugin.descriptor.version == wanted || version.plugin.digest.as_str() == wanted
        };
        let found = self.versions.iter().enumerate().rev().find_map(|(at, kept)| {
            kept.ready().filter(|version| is_wanted(version)).map(|version| (at, version))
        });
        let (at, plugin) = found.map(|(at, version)| (at, Arc::clone(&version.plugin)))?;
        self.serve(at, plugin);
        Some(())
    }

    fn serve(&mut self, at: usize, plugin: Arc<Plugin<Component>>) {
        (self.chosen, self.serving, self.current) = (at, at, plugin);
    }

    pub(super) fn set_disabled(&mut self, disabled: bool) {
        self.disabled = disabled;
    }

    /// Restores a stored plugin. Fails if neither the chosen version nor one before it is ready.
    #[expect(clippy::result_large_err, reason = "the failure is kept as it is, and made at a start alone")]
    pub(super) fn restore(mut versions: Vec<KeptVersion>, row: &PluginRow) -> Result<Self, FailedPlugin> {
        let mut rows = row.versions.as_slice();
        let quarantined = take_quarantined(&mut versions, &mut rows);
        let canary = take_canary(&mut versions, rows);
        let last = versions.len().saturating_sub(1);
        let chosen = usize::try_from(row.serving).map_or(last, |chosen| chosen.min(last));
        let disabled = row.disabled;
        match last_ready(&versions[..versions.len().min(chosen + 1)]) {
            Some((serving, version)) => {
                let current = Arc::clone(&version.plugin);
                Ok(Self {
                    versions,
                    chosen,
                    serving,
                    current,
                    canary,
                    quarantined,
                    disabled,
                    built_in: false,
                })
            }
            None => {
                let publisher = row.publisher.clone();
                versions.extend(canary.map(CanaryVersion::into_kept));
                Err(FailedPlugin { publisher, versions, quarantined, chosen, disabled })
            }
        }
    }

    /// The origin of the chosen version.
    pub(super) fn source(&self) -> LoadSource {
        self.versions.get(self.chosen).map(|chosen| chosen.source().clone()).unwrap_or_default()
    }

    /// Whether an operator rolled back from the version with this digest, or it is or was a canary.
    pub(super) fn is_held_back(&self, digest: &Digest) -> bool {
        self.canary.as_ref().is_some_and(|canary| canary.has_digest(digest))
            || self.versions.iter().skip(self.chosen + 1).any(|later| later.has_digest(digest))
    }

    pub(super) fn is_built_in(&self) -> bool {
        self.built_in
    }

    /// The version that serves.
    pub(super) fn serving_version(&self) -> Option<&Version> {
        self.versions.get(self.serving)?.ready()
    }

    /// The description of the version that serves.
    pub(super) fn descriptor(&self) -> &Descriptor {
        &self.current.descriptor
    }

    /// Takes the signer and the confirmed hints of another load of the version that serves.
    pub(super) fn renew_serving(&mut self, loaded: Version) {
        let Some(mut version) = self.serving_version().cloned() else { return };
        version.signer = loaded.signer.or(version.signer);
        if loaded.plugin.has_trusted_hints {
            version = version.with_confirmed_hints();
        }
        self.current = Arc::clone(&version.plugin);
        self.versions[self.serving] = KeptVersion::Ready(version);
    }

    /// The kept version with this digest, of those that serve or have served.
    pub(super) fn kept_version(&self, digest: &Digest) -> Option<&KeptVersion> {
        self.versions.iter().find(|version| version.has_digest(digest))
    }

    /// The publisher that holds the namespace.
    pub(super) fn holder(&self) -> Holder<'_> {
        let declared = self.current.descriptor.publisher.as_deref();
        let holder = self.serving_version().map(Version::holder);
        holder.unwrap_or(Holder { publisher: declared, is_signed: false })
    }

    /// Whether the chosen version serves and has this digest.
    pub(super) fn serves(&self, digest: &Digest) -> bool {
        self.serving == self.chosen && self.current.digest == *digest
    }

    /// The files of all versions.
    pub(super) fn into_handles(self) -> impl Iterator<Item = FileHandle> {
        let canary = self.canary.map(CanaryVersion::into_kept);
        self.versions.into_iter().chain(canary).chain(self.quarantined).filter_map(KeptVersion::into_handle)
    }

    /// The serving plugin with its canary, for the catalogue.
    pub(super) fn serving(&self) -> Arc<Plugin<Component>> {
        if self.current.disabled == self.disabled {
            return self.with_canary(Arc::clone(&self.current));
        }
        self.with_canary(Arc::new(Plugin { disabled: self.disabled, ..Plugin::clone(&self.current) }))
    }

    /// The stored row. It contains the failed versions and the chosen index, so that another change of the plugin does
    /// not change the chosen version.
    pub(super) fn row(&self, namespace: &Namespace) -> PluginRow {
        PluginRow {
            owner: String::new(),
            namespace: namespace.to_string(),
            disabled: self.disabled,
            built_in: self.built_in,
            publisher: self.holder().publisher.map(str::to_owned),
            serving: self.chosen as u64,
            versions: self
                .versions
                .iter()
                .map(KeptVersion::row)
                .chain(self.canary.iter().map(CanaryVersion::row))
                .chain(self.quarantined.iter().map(KeptVersion::quarantined_row))
                .collect(),
        }
    }

    /// The view. `granted` is the operator's grant, if there is one.
    pub(super) fn view(&self, namespace: &Namespace, granted: Option<&Arc<Grant>>) -> PluginView {
        let descriptor = &self.current.descriptor;
        let granted = granted.map(|granted| self.current.with_grant(Arc::clone(granted)));
        let (state, reason) = self.state_of(self.serving);
        PluginView {
            namespace: namespace.to_string(),
            version: descriptor.version.clone(),
            digest: self.current.digest.to_string(),
            publisher: descriptor.publisher.clone(),
            category: descriptor.category.clone(),
            purpose: descriptor.purpose.clone(),
            built_in: self.built_in,
            tools: tool_views(granted.as_ref().unwrap_or(&self.current)),
            capabilities: capabilities_view(&descriptor.capabilities),
            state,
            reason,
            left_out: descriptor.left_out.clone(),
            ignored_fields: descriptor.unknown_fields.clone(),
            signed_by: self.serving_version().and_then(|version| version.signer.as_ref()).map(Signer::view),
            diff: Vec::new(),
            versions: self.version_views(),
        }
    }

    /// The views of the versions, newest first.
    fn version_views(&self) -> Vec<VersionView> {
        let versions = self.versions.iter().enumerate().rev();
        let views = versions.map(|(at, kept)| kept.view(self.state_of(at)));
        let waiting = self.quarantined_view();
        waiting.into_iter().chain(self.canary.iter().map(CanaryVersion::view)).chain(views).collect()
    }

    /// The state of the ready version at an index.
    fn state_of(&self, at: usize) -> StateReason {
        match (at.cmp(&self.serving), self.disabled) {
            (Ordering::Equal, false) => (PluginState::Active, None),
            (Ordering::Equal, true) => (PluginState::Disabled, Some("the plugin was disabled".into())),
            (Ordering::Less, _) => (PluginState::Disabled, Some("replaced".into())),
            (Ordering::Greater, _) => rolled_back_state(),
        }
    }
}

/// A state and its reason.
pub(super) type StateReason = (PluginState, Option<String>);

fn rolled_back_state() -> StateReason {
    (PluginState::Disabled, Some("rolled back".into()))
}

impl FailedPlugin {
    /// The origin of the chosen version.
    pub(super) fn source(&self) -> LoadSource {
        self.versions.get(self.chosen).map(|chosen| chosen.source().clone()).unwrap_or_default()
    }

    /// The publisher that holds the namespace.
    pub(super) fn holder(&self) -> Holder<'_> {
        let chosen = self.versions.get(self.chosen);
        let is_signed = chosen.is_some_and(|chosen| chosen.row().trust.signer.is_some());
        Holder { publisher: self.publisher.as_deref(), is_signed }
    }

    /// Whether the version with this digest waits for consent, or an operator rolled back from it.
    pub(super) fn holds_back(&self, digest: &Digest) -> bool {
        let later = self.versions.iter().skip(self.chosen + 1);
        later.chain(&self.quarantined).any(|version| version.has_digest(digest))
    }

    /// Whether the version with this digest serves or has served.
    pub(super) fn has_served(&self, digest: &Digest) -> bool {
        self.versions.iter().any(|version| version.has_digest(digest))
    }

    /// The history with a new version that can serve, and the files of the versions that are no longer kept.
    pub(super) fn replace_with(&self, version: Version) -> (History, Vec<FileHandle>) {
        let mut history = History {
            versions: self.versions.clone(),
            disabled: self.disabled,
            chosen: self.chosen,
            ..History::new(version.clone(), false)
        };
        let mut dropped = history.push(version);
        dropped.extend(self.quarantined.clone().and_then(KeptVersion::into_handle));
        (history, dropped)
    }

    /// The files of all versions.
    pub(super) fn into_handles(self) -> impl Iterator<Item = FileHandle> {
        self.versions.into_iter().chain(self.quarantined).filter_map(KeptVersion::into_handle)
    }

    /// The view: failed, with the chosen version.
    pub(super) fn view(&self, namespace: &Namespace) -> PluginView {
        // A ready version can only stand after the chosen one, so it was rolled back.
        let versions: Vec<_> = self.versions.iter().map(|kept| kept.view(rolled_back_state())).collect();
        let chosen = versions.get(self.chosen);
        PluginView {
            version: chosen.map(|chosen| chosen.version.clone()).unwrap_or_default(),
            digest: chosen.map(|chosen| chosen.digest.clone()).unwrap_or_default(),
            publisher: self.publisher.clone(),
            state: PluginState::Failed,
            reason: chosen.and_then(|chosen| chosen.reason.clone()),
            versions: versions.into_iter().rev().collect(),
            ..empty_view(namespace)
        }
    }
}

/// Takes the version that waits for consent, which is stored behind all others, out of the stored versions.
fn take_quarantined(versions: &mut Vec<KeptVersion>, rows: &mut &[PluginVersionRow]) -> Option<KeptVersion> {
    let (last, others) = rows.split_last()?;
    if !last.trust.quarantined {
        return None;
    }
    *rows = others;
    versions.pop()
}

/// Takes the canary, which is stored last, out of the stored versions. Without a version that serves it stays among them.
fn take_canary(versions: &mut Vec<KeptVersion>, rows: &[PluginVersionRow]) -> Option<CanaryVersion> {
    let trial = rows.last()?.canary.as_ref()?;
    if versions.len() != rows.len() || last_ready(&versions[..versions.len() - 1]).is_none() {
        return None;
    }
    versions.pop().map(|kept| CanaryVersion::restore(kept, trial))
}

/// The last version that can serve, with its index.
fn last_ready(versions: &[KeptVersion]) -> Option<(usize, &Version)> {
    versions.iter().enumerate().rev().find_map(|(at, kept)| Some((at, kept.ready()?)))
}

/// The view of a background load that compiles. A file that is still in a registry has no digest yet.
pub(super) fn compiling_view(namespace: &Namespace, digest: Option<&Digest>) -> PluginView {
    let digest = digest.map(Digest::to_string).unwrap_or_default();
    PluginView { digest, ..empty_view(namespace) }
}

fn empty_view(namespace: &Namespace) -> PluginView {
    PluginView {
        namespace: namespace.to_string(),
        capabilities: capabilities_view(&Capabilities::default()),
        ..PluginView::default()
    }
}

/// The views of a plugin's tools.
pub fn tool_views(plugin: &Plugin<Component>) -> Vec<ToolView> {
    let view = |tool: &ToolDescriptor| ToolView {
        name: tool.name.to_string(),
        wire_name: tool.wire.to_string(),
        original_name: tool.original_name.as_deref().map(str::to_owned),
        description: tool.description.clone(),
        description_source: tool.description_source,
        read_only: tool.hints.read_only,
        details: tool_details(plugin, tool),
    };
    plugin.descriptor.tools.iter().map(view).collect()
}

/// The details of a tool (T1).
pub fn tool_details(plugin: &Plugin<Component>, tool: &ToolDescriptor) -> ToolDetails {
    ToolDetails {
        usage: tool.usage.clone(),
        hints: tool.hints,
        hints_state: hints_state(plugin),
        required_integrations: tool.required_integrations.clone(),
        prerequisites: tool.prerequisites.clone(),
        tags: tool.tags.clone(),
        examples: tool.examples.clone(),
    }
}

/// Whether the hints of the plugin's tools count.
pub fn hints_state(plugin: &Plugin<Component>) -> HintsState {
    match plugin.has_confirmed_hints() {
        true => HintsState::Confirmed,
        false => HintsState::Unconfirmed,
    }
}

/// The view of requested capabilities.
pub fn capabilities_view(requested: &Capabilities) -> CapabilitiesView {
    let filesystem = match requested.filesystem {
        FilesystemAccess::None => "none",
        FilesystemAccess::Workspace => "workspace",
    };
    CapabilitiesView {
        filesystem: filesystem.into(),
        network: requested.network.clone(),
        credentials: requested.credentials.clone(),
        calls: requested.calls,
        messages: requested.messages,
        unused: requested.unused.iter().map(|unused| unused.as_str().into()).collect(),
    }
}
