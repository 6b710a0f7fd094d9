//! Changes of plugins and grants: checked against the assertions of policies (G17), stored, and put in force.

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_admission::Warning;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::Grant;
use toolgate_api::name::{Name, Namespace};
use toolgate_api::plugin::{GrantAfterApproval, PluginState, PluginView};
use toolgate_macros::boxed;
use toolgate_state::clock::now_ms;
use toolgate_state::documents::{PluginKey, ToolKey};
use toolgate_state::store::PluginRow;

use super::background_loads::LoadToken;
use super::canary::no_serving_version;
use super::owned::default_grant;
use super::quarantine::grant_after;
use super::table::Entry;
use super::trust::check_holder;
use super::{CanaryShare, FileHandle, History, Plugins, ServedPlugin, Version};
use crate::registry::{ChangeScope, CheckedChange, Snapshot};

/// A change of a plugin, before it is stored.
pub(super) struct PluginChange {
    pub(super) next: History,
    /// The files of the versions that are no longer kept.
    pub(super) dropped: Vec<FileHandle>,
    /// Whether the grant of an operator stays.
    pub(super) keeps_grant: bool,
    /// The load that is no longer shown as compiling, once its version is in the table.
    pub(super) load: Option<LoadToken>,
}

impl PluginChange {
    /// The change by a new version.
    fn by_version(
        namespace: &Namespace,
        before: Option<&Entry>,
        version: Version,
        canary: Option<CanaryShare>,
        load: Option<LoadToken>,
    ) -> Result<Self, CallError> {
        let (next, dropped, keeps_grant) = match (before, canary) {
            (None | Some(Entry::Failed(_)), Some(_)) => return Err(no_serving_version(namespace)),
            (None, None) => (History::new(version, false), Vec::new(), true),
            (Some(Entry::Failed(failed)), None) => {
                check_holder(namespace, failed.holder(), version.holder())?;
                // Nothing serves that another version could be compared with.
                let keeps_grant = failed.has_served(&version.plugin.digest);
                let (next, dropped) = failed.replace_with(version);
                (next, dropped, keeps_grant)
            }
            (Some(Entry::Ready(history)), canary) => {
                check_holder(namespace, history.holder(), version.holder())?;
                let mut next = history.clone();
                let dropped = match canary {
                    Some(share) => next.start_canary(version, share)?,
                    None => next.take(version),
                };
                (next, dropped, true)
            }
        };
        Ok(Self { next, dropped, keeps_grant, load })
    }
}

#[boxed]
impl Plugins {
    /// Changes the versions of a plugin that serves.
    pub(super) async fn change(
        &self,
        key: &PluginKey,
        act: impl FnOnce(&mut History) -> Result<(), CallError>,
    ) -> Result<PluginView, CallError> {
        self.wait_until_compiled(&key.namespace).await;
        let _changing = self.0.table.change().await;
        let mut next = self.0.table.history(key)?;
        act(&mut next)?;
        let change = PluginChange { next, dropped: Vec::new(), keeps_grant: true, load: None };
        Ok(self.store_and_serve(key, change).await?.0)
    }

    /// Installs a version under its key. The caller has locked the changes of the table.
    pub(super) async fn install_version(
        &self,
        key: &PluginKey,
        version: Version,
        canary: Option<CanaryShare>,
        token: Option<&LoadToken>,
    ) -> Result<PluginView, CallError> {
        // A key may have been revoked since the signature was verified.
        self.check_signer(key.owner.as_ref(), &version)?;
        let digest = version.plugin.digest.clone();
        let load = token.cloned();
        let change = self
            .0
            .table
            .look(key, |entry| PluginChange::by_version(&key.namespace, entry, version, canary, load))?;
        let next = change.next.clone();
        let (view, _) = self.store_and_serve(key, change).await?;
        let view = next.view_of_load(&digest, view);
        if view.state == PluginState::Quarantined {
            let (organization, namespace) = (key.owner.as_ref().map(Name::as_str), &key.namespace);
            let version = &view.version;
            tracing::warn!(event = "plugin_quarantined", organization, %namespace, version, %digest, "a new version waits for consent");
        }
        Ok(view)
    }

    /// Stores and serves a changed plugin, unless it breaks an assertion. Returns its view, and what became of the operator's
    /// grant. The caller has locked the changes of the table.
    pub(super) async fn store_and_serve(
        &self,
        key: &PluginKey,
        change: PluginChange,
    ) -> Result<(PluginView, GrantAfterApproval), CallError> {
        let PluginChange { next, dropped, keeps_grant, load } = change;
        let stored = self.operators_grant(key).await?;
        let grant = grant_after(stored.is_some(), keeps_grant);
        let granted = stored.filter(|_| keeps_grant);
        let view = self.view(key, &next, granted.as_ref());
        let plugin = served_plugin(key, &next, granted);
        let checked = self.check_assertions(key, &plugin).await?;
        let owner = key.owner.as_ref().map(ToString::to_string).unwrap_or_default();
        let row = PluginRow { owner, ..next.row(&key.namespace) };
        self.0.store.put_plugin(key, row, keeps_grant, now_ms()).await?;
        if key.owner.is_none() && !keeps_grant {
            self.0.grants.lock().remove(&key.namespace);
        }
        self.0.table.put_and(key, Entry::Ready(next), || {
            load.iter().for_each(|load| self.0.background.complete(&key.namespace, load));
        });
        self.serve(key, Some(plugin));
        drop(checked);
        self.0.files.release_all(dropped).await;
        Ok((view, grant))
    }

    /// Checks the assertions as if the plugin were served. Other changes wait until the result is dropped.
    async fn check_assertions(
        &self,
        key: &PluginKey,
        plugin: &ServedPlugin,
    ) -> Result<CheckedChange<'_>, CallError> {
        let registry = &self.0.registry;
        if let Some(own) = key.in_organization() {
            return registry.check_own_plugin(&own, Some(Arc::clone(plugin))).await;
        }
        let change = |rules: &Snapshot| {
            let next = Some((key.namespace.clone(), Arc::clone(plugin)));
            rules.with_plugins(self.0.limits.clone(), self.serving_with(next))
        };
        registry.check_change(ChangeScope::PLATFORM, change).await
    }

    /// Stores a grant with `storing`, unless it breaks an assertion, and puts it in force for calls that start from now on;
    /// a dry run stores nothing, returns `None`, and the grant before stays in force. `storing` gets the warnings of the
    /// assertions that the grant breaks of organizations, and the result has them.
    pub async fn grant_and_store<T, S: Future<Output = Result<Option<T>, CallError>>>(
        &self,
        namespace: &Namespace,
        granted: Grant,
        storing: impl FnOnce(Vec<Warning>) -> S,
    ) -> Result<(Option<T>, Vec<Warning>), CallError> {
        let key = PluginKey::from(namespace);
        let _changing = self.0.table.change().await;
        // The plugin may have been removed since the grant was checked; the next one of its name must not get it.
        let history = self.0.table.history(&key)?;
        let granted = Arc::new(granted);
        let plugin = served_plugin(&key, &history, Some(Arc::clone(&granted)));
        let mut checked = self.check_assertions(&key, &plugin).await?;
        let warnings = std::mem::take(&mut checked.warnings);
        let stored = storing(warnings.clone()).await?;
        if stored.is_some() {
            self.0.grants.lock().insert(namespace.clone(), granted);
            self.serve(&key, Some(plugin));
        }
        Ok((stored, warnings))
    }

    /// The grant of an operator, if there is one.
    pub async fn operators_grant(&self, key: &PluginKey) -> Result<Option<Arc<Grant>>, CallError> {
        if key.owner.is_none() {
            return Ok(self.grant_of(&key.namespace));
        }
        let stored = self.0.store.find_document(&key.grant()).await?;
        let grant = stored.map(|document| Grant::parse(&document.body)).transpose();
        Ok(grant.map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?.map(Arc::new))
    }

    /// Puts the stored plugin of an organization in force, under the stored grant.
    pub(super) async fn serve_restored(&self, key: &PluginKey, history: &History) {
        let plugin = match self.operators_grant(key).await {
            Ok(granted) => served_plugin(key, history, granted),
            Err(error) => {
                let (namespace, reason) = (&key.namespace, error.message);
                tracing::error!(%namespace, reason, "the grant of a plugin cannot be read, so that it has none");
                served_plugin(key, history, Some(Arc::default()))
            }
        };
        self.serve(key, Some(plugin));
    }

    /// Puts a changed plugin in force, or its removal. The platform's plugins are those of the table.
    pub(super) fn serve(&self, key: &PluginKey, plugin: Option<ServedPlugin>) {
        match key.in_organization() {
            Some(ToolKey { organization, namespace }) => {
                self.0.registry.serve_to(&organization, &namespace, plugin);
            }
            None => self.serve_platform(),
        }
    }

    /// Swaps the registry's shared plugins for those of the table.
    pub(super) fn serve_platform(&self) {
        self.0.registry.serve(self.0.limits.clone(), self.serving_with(None));
    }

    /// The platform's plugins that serve, each with its grant. `next` takes the place of the one with its namespace.
    fn serving_with(&self, next: Option<(Namespace, ServedPlugin)>) -> Vec<ServedPlugin> {
        let grants = self.0.grants.lock().clone();
        let served = |(namespace, entry): (&Namespace, &Entry)| {
            let granted = grants.get(namespace).cloned();
            Some((namespace.clone(), served_plugin(&namespace.into(), entry.ready()?, granted)))
        };
        let served = self.0.table.filter_map(None, served);
        let plugins: BTreeMap<_, _> = served.into_iter().chain(next).collect();
        plugins.into_values().collect()
    }
}

/// The serving version with its canary, under the grant of an operator; without one, under that of its kind.
pub(super) fn served_plugin(key: &PluginKey, history: &History, granted: Option<Arc<Grant>>) -> ServedPlugin {
    let plugin = history.serving();
    let is_owned = key.owner.is_some();
    let default = || is_owned.then(|| Arc::new(default_grant(&plugin.descriptor.capabilities)));
    match granted.or_else(default) {
        Some(granted) => Arc::new(plugin.with_grant(granted)),
        None => plugin,
    }
}
