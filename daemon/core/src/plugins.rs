//! Loading, replacing, rolling back and removing plugins while calls run.
//!
//! Steps of a load: compile (in the worker, or from the cache), link and check imports, call `describe`, validate the
//! description and the owner of the namespace, store, swap the registry. A failure at any step leaves the old version
//! serving. Calls in flight keep the snapshot that they started with.

mod background_loads;
mod canary;
mod checked;
mod differences;
mod examples;
mod files;
mod from_definition;
mod history;
mod load;
mod load_request;
mod owned;
mod sources;
mod quarantine;
mod table;
mod trust;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use toolgate_admission::{
    Plugin, Warning, description_warnings, descriptor_warnings, grant_warnings, unconfirmed_hints,
};
use toolgate_api::definition::DefinitionKind;
use toolgate_api::embedded::Embedded;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::Grant;
use toolgate_api::limits::{Limits, LimitsPatch};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::plugin::PluginView;
use toolgate_macros::boxed;
use toolgate_sandbox::{Component, Sandbox};
use toolgate_state::clock::now_ms;
use toolgate_state::config::Signatures;
use toolgate_state::documents::{PluginKey, ToolKey};
use toolgate_state::store::Store;

pub use background_loads::PluginLoad;
pub use canary::FailingCanary;
pub use from_definition::Definition;
pub use history::{capabilities_view, hints_state, tool_details, tool_views};
pub use load::{BuiltIn, BuiltInCompiled};
pub use load_request::{CanaryShare, LoadRequest, LoadSource};
pub use owned::{OwnedBounds, OwnedLoad};
pub use sources::{LoginSource, OrganizationRegistries, PluginRegistry, Registries};
pub use trust::PublisherKey;

use crate::compile::Compiler;
use crate::registry::{Registry, Replacement};
use background_loads::BackgroundLoads;
use files::{FileHandle, PluginFiles};
use history::{History, Version};
use table::{Entry, PluginTable};
use trust::{PublisherKeys, Signer};

/// Facts about a plugin that its description does not have.
#[derive(Clone, Copy, Debug)]
pub struct Provenance {
    /// Time of the load of the serving version, in milliseconds since 1970.
    pub loaded_ms: u64,
    /// Whether a publisher's key that was neither revoked nor removed signed the serving version.
    pub is_signed: bool,
}

/// A plugin as the catalogue serves it.
type ServedPlugin = Arc<Plugin<Component>>;

/// The loaded plugins. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(Arc<Shared>);

struct Shared {
    sandbox: Sandbox,
    compiler: Compiler,
    registry: Registry,
    store: Store,
    files: PluginFiles,
    limits: LimitsPatch,
    /// The plugins of the platform and of organizations. Its changes are locked to store and swap, not to compile.
    table: PluginTable,
    /// The organizations that load a file.
    loading: Mutex<BTreeSet<Name>>,
    /// The operators' grants for plugins of the platform; one without has its default grant. Changed only while changes of the
    /// table are locked.
    grants: Mutex<BTreeMap<Namespace, Arc<Grant>>>,
    /// The built-in components that build plugins from definitions.
    definition_components: Mutex<BTreeMap<DefinitionKind, (FileHandle, Component)>>,
    /// Files of stored plugins whose namespace this version cannot parse.
    unparsable: Mutex<Vec<FileHandle>>,
    publisher_keys: PublisherKeys,
    signatures: Signatures,
    built_in: &'static [Embedded],
    background: BackgroundLoads,
}

/// The dependencies of [`Plugins`].
pub struct PluginParts {
    /// Runs `describe`.
    pub sandbox: Sandbox,
    /// Compiles components.
    pub compiler: Compiler,
    /// Serves the loaded plugins.
    pub registry: Registry,
    /// Stores which plugins are loaded.
    pub store: Store,
    /// The folder of the plugin files.
    pub folder: PathBuf,
    /// The platform's limits, for the catalogue.
    pub limits: LimitsPatch,
    /// Whether each loaded file needs a signature.
    pub signatures: Signatures,
    /// The components in the program.
    pub built_in: &'static [Embedded],
}

#[boxed]
impl Plugins {
    /// Creates an empty set; [`Plugins::restore`] and [`Plugins::load_built_in`] fill it.
    pub fn new(parts: PluginParts) -> Self {
        let PluginParts { sandbox, compiler, registry, store, folder, limits, signatures, built_in } = parts;
        Self(Arc::new(Shared {
            sandbox,
            files: PluginFiles::new(folder, compiler.clone()),
            compiler,
            registry,
            store,
            limits,
            table: PluginTable::default(),
            loading: Default::default(),
            grants: Default::default(),
            definition_components: Default::default(),
            unparsable: Default::default(),
            publisher_keys: PublisherKeys::default(),
            signatures,
            built_in,
            background: BackgroundLoads::default(),
        }))
    }

    /// Lists the plugins of the platform (`None`) or of an organization by namespace. The platform's include plugins that
    /// load in the background.
    pub fn list(&self, owner: Option<&Name>) -> Vec<PluginView> {
        let mut views = match owner {
            None => self.0.background.latest(),
            Some(_) => BTreeMap::new(),
        };
        views.extend(self.0.table.filter_map(owner, |(namespace, entry)| {
            let key = PluginKey { owner: owner.cloned(), namespace: namespace.clone() };
            let mut view = self.entry_view(&key, entry);
            // Differences may be long, and a list is for an overview.
            view.versions.iter_mut().for_each(|version| version.diff.clear());
            Some((namespace.clone(), self.with_background_loads(&key, view)))
        }));
        views.into_values().collect()
    }

    /// Returns the provenance of each plugin of an owner that serves.
    pub fn provenance(&self, owner: Option<&Name>) -> BTreeMap<Namespace, Provenance> {
        let of_entry = |(namespace, entry): (&Namespace, &Entry)| {
            let Version { loaded_ms, signer, .. } = entry.ready()?.serving_version()?;
            let stands = |signer: &Signer| self.0.publisher_keys.objection(owner, signer).is_none();
            let is_signed = signer.as_ref().is_some_and(stands);
            Some((namespace.clone(), Provenance { loaded_ms: *loaded_ms, is_signed }))
        };
        self.0.table.filter_map(owner, of_entry).into_iter().collect()
    }

    /// Returns one plugin with all its versions.
    pub fn find(&self, key: &PluginKey) -> Result<PluginView, CallError> {
        // Under one lock, so that a load that was installed is not shown as compiling beside its version.
        self.0.table.look(key, |entry| match entry {
            Some(entry) => Ok(self.with_background_loads(key, self.entry_view(key, entry))),
            None => self.background_loads(key).pop().ok_or_else(|| not_found(&key.namespace)),
        })
    }

    /// Returns the warnings about the description of the version in `view`, if that version serves or waits for consent, and about
    /// the grant.
    pub fn warnings(&self, key: &PluginKey, view: &PluginView) -> Vec<Warning> {
        let shown = self.0.table.look(key, |entry| entry?.ready()?.plugin_in_view(&view.digest));
        let limits = Limits::platform(&self.0.limits);
        let mut warnings =
            shown.map_or_else(Vec::new, |plugin| descriptor_warnings(&plugin.descriptor, &limits));
        if let Some(served) = self.find_served(key) {
            warnings.extend(grant_warnings(&served.granted, &served.descriptor.capabilities));
            warnings.extend(description_warnings(&served.granted, Some(&served.descriptor)));
            warnings.extend(unconfirmed_hints(&served));
        }
        warnings
    }

    fn entry_view(&self, key: &PluginKey, entry: &Entry) -> PluginView {
        match entry {
            Entry::Failed(failed) => failed.view(&key.namespace),
            Entry::Ready(history) => {
                let granted = match &key.owner {
                    None => self.grant_of(&key.namespace),
                    Some(_) => self.find_served(key).map(|served| Arc::clone(&served.granted)),
                };
                self.view(key, history, granted.as_ref())
            }
        }
    }

    /// The view of a plugin, with the objections to the keys that signed its versions.
    fn view(&self, key: &PluginKey, history: &History, granted: Option<&Arc<Grant>>) -> PluginView {
        let mut view = history.view(&key.namespace, granted);
        self.0.publisher_keys.add_objections(key.owner.as_ref(), &mut view);
        view
    }

    /// The plugin in force under a key.
    fn find_served(&self, key: &PluginKey) -> Option<ServedPlugin> {
        let snapshot = self.0.registry.snapshot();
        match key.in_organization() {
            Some(own) => snapshot.own_plugin(&own).cloned(),
            None => snapshot.catalogue().plugin(&key.namespace).cloned(),
        }
    }

    /// Puts a publisher's key in force; `owner` is `None` for the platform.
    pub fn put_publisher_key(&self, owner: Option<Name>, name: Name, key: PublisherKey) {
        self.0.publisher_keys.put(owner, name, key);
    }

    /// Removes a publisher's key.
    pub fn remove_publisher_key(&self, owner: Option<Name>, name: Name) {
        self.0.publisher_keys.remove(owner, name);
    }

    /// Removes the publishers' keys of an organization.
    pub fn remove_publisher_keys(&self, organization: &Name) {
        self.0.publisher_keys.remove_organization(organization);
    }

    fn with_background_loads(&self, key: &PluginKey, mut view: PluginView) -> PluginView {
        for load in self.background_loads(key) {
            view.versions.insert(0, load.as_version());
        }
        view
    }

    /// The background loads of a plugin of the platform; those of organizations are waited for.
    fn background_loads(&self, key: &PluginKey) -> Vec<PluginView> {
        match &key.owner {
            None => self.0.background.of(&key.namespace),
            Some(_) => Vec::new(),
        }
    }

    /// Serves the version before the current one again, or the kept version that `to` names by version or digest, unless its
    /// key would verify it no more. Ends the trial of a canary, and without `to` does nothing else then.
    pub async fn roll_back(&self, key: &PluginKey, to: Option<&str>) -> Result<PluginView, CallError> {
        self.change(key, |history| {
            if history.roll_back_canary().is_some() && to.is_none() {
                return Ok(());
            }
            let (served, missing) = match to {
                Some(version) => (history.serve_version(version), format!("has no kept version `{version}`")),
                None => (history.roll_back(), "has no version before this one".to_owned()),
            };
            served.ok_or_else(|| {
                let hint = "its view lists the kept versions; load the version that you want";
                CallError::new(ErrorType::Conflict, format!("plugin `{}` {missing}", key.namespace), hint)
            })?;
            let target = history.serving_version();
            target.map_or(Ok(()), |target| self.check_signer(key.owner.as_ref(), target))
        })
        .await
    }

    /// Checks that a version may begin to serve: its key still stands, or it needs no signature.
    fn check_signer(&self, owner: Option<&Name>, version: &Version) -> Result<(), CallError> {
        let (signer, signatures) = (version.signer.as_ref(), self.0.signatures);
        let namespace = &version.plugin.descriptor.namespace;
        self.0.publisher_keys.check_signer(owner, namespace, signer, signatures, now_ms())
    }

    /// Disables or enables a loaded plugin. No agent can call the tools of a disabled plugin.
    pub async fn set_disabled(&self, key: &PluginKey, disabled: bool) -> Result<PluginView, CallError> {
        self.change(key, |history| {
            history.set_disabled(disabled);
            Ok(())
        })
        .await
    }

    /// Removes a plugin with all its versions, and cancels its background loads. A built-in plugin cannot be removed.
    pub async fn remove(&self, key: &PluginKey) -> Result<(), CallError> {
        let changing = self.0.table.change().await;
        let own = key.in_organization();
        if own.is_none() {
            self.check_removable(&key.namespace)?;
        }
        if !self.0.table.contains(key) {
            let is_cancelled = own.is_none() && self.0.background.cancel(&key.namespace);
            return if is_cancelled { Ok(()) } else { Err(not_found(&key.namespace)) };
        }
        // Without it, the platform's plugin of that name would be served to the organization.
        let checked = match &own {
            Some(own) => Some(self.0.registry.check_own_plugin(own, None).await?),
            None => None,
        };
        self.0.store.remove_plugin(key, now_ms()).await?;
        let removed = self.0.table.remove(key);
        match own {
            Some(ToolKey { organization, namespace }) => {
                self.serve(key, None);
                self.0.registry.put(Replacement::Enabled(organization, namespace, None));
            }
            None => {
                self.0.background.cancel(&key.namespace);
                self.0.grants.lock().remove(&key.namespace);
                self.0.registry.forget_enabled(&key.namespace);
                self.serve(key, None);
            }
        }
        drop((checked, changing));
        self.release_entries(removed).await;
        Ok(())
    }

    fn check_removable(&self, namespace: &Namespace) -> Result<(), CallError> {
        let is_compiling = self.0.registry.snapshot().compiling().contains(namespace);
        let is_built_in =
            |entry: Option<&Entry>| entry.and_then(Entry::ready).is_some_and(History::is_built_in);
        if !is_compiling && !self.0.table.look(&namespace.into(), is_built_in) {
            return Ok(());
        }
        if !is_compiling {
            // Loads under its name fail, and would stay in the list for ever.
            self.0.background.cancel(namespace);
        }
        Err(CallError::new(
            ErrorType::Conflict,
            format!("plugin `{namespace}` is built in and cannot be removed"),
            "disable it instead",
        ))
    }

    /// Forgets the plugins of an organization that was deleted from the store.
    pub async fn forget_organization(&self, organization: &Name) {
        let changing = self.0.table.change().await;
        let removed = self.0.table.remove_all(organization);
        drop(changing);
        self.release_entries(removed).await;
    }

    async fn release_entries(&self, removed: impl IntoIterator<Item = Entry>) {
        let removed: Vec<Entry> = removed.into_iter().collect();
        let handles: Vec<_> = removed.iter().flat_map(Entry::handles).collect();
        // Each entry has handles of its own, which keep the files.
        drop(removed);
        self.0.files.release_all(handles).await;
    }

    /// Components loaded from compiled code, and compiled ones.
    pub fn compile_counts(&self) -> (u64, u64) {
        self.0.compiler.counts()
    }

    /// The operator's grant of a plugin.
    fn grant_of(&self, namespace: &Namespace) -> Option<Arc<Grant>> {
        self.0.grants.lock().get(namespace).cloned()
    }

    /// Returns the serving version of a plugin of the platform under another grant.
    pub async fn under_grant(
        &self,
        namespace: &Namespace,
        granted: &Grant,
    ) -> Result<Arc<Plugin<Component>>, CallError> {
        self.wait_until_compiled(namespace).await;
        let key = PluginKey::from(namespace);
        let history = self.0.table.history(&key)?;
        Ok(checked::served_plugin(&key, &history, Some(Arc::new(granted.clone()))))
    }

    /// Puts a grant in force for calls that start from now on.
    pub async fn grant(&self, namespace: Namespace, granted: Grant) {
        let _changing = self.0.table.change().await;
        self.0.grants.lock().insert(namespace, Arc::new(granted));
        self.serve_platform();
    }

    /// Waits until a built-in plugin is compiled; returns at once for every other one.
    pub async fn wait_until_compiled(&self, namespace: &Namespace) {
        let is_it = |compiling: &&Namespace| *compiling == namespace;
        self.0
            .registry
            .wait_for(|snapshot| snapshot.compiling().iter().filter(is_it).cloned().collect())
            .await;
    }

    fn is_built_in(&self, namespace: &Namespace) -> bool {
        self.0.built_in.iter().any(|built_in| built_in.name == namespace.as_str())
    }

    /// Deletes unreferenced plugin files and unused cache entries. Called once, after everything is restored.
    pub fn remove_unused(&self) {
        self.0.files.remove_unreferenced();
        self.0.compiler.remove_unused();
    }
}

fn not_found(namespace: &Namespace) -> CallError {
    CallError::new(
        ErrorType::NotFound,
        format!("no plugin `{namespace}` is loaded"),
        "list the loaded ones with `toolgate plugin list`",
    )
}
