//! Changes of plugins and grants, checked against the assertions of policies before they are stored (G17).

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_admission::Warning;
use toolgate_api::error::CallError;
use toolgate_api::grant::Grant;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::PluginView;

use super::{History, Plugins, lock};
use crate::clock::now_ms;
use crate::registry::{ChangeScope, CheckedChange, Snapshot};

impl Plugins {
    /// Stores and serves `next` as the plugin of the namespace, unless it breaks an assertion. The plugin's grant is removed with the
    /// same write unless `keeps_grant`.
    pub(super) async fn store_and_serve(
        &self,
        loaded: &mut BTreeMap<Namespace, History>,
        namespace: &Namespace,
        next: History,
        keeps_grant: bool,
    ) -> Result<PluginView, CallError> {
        let mut grants = lock(&self.0.grants).clone();
        if !keeps_grant {
            grants.remove(namespace);
        }
        let _checked = self.check_assertions(&grants, loaded, namespace, &next).await?;
        let row = next.row(namespace);
        match keeps_grant {
            true => self.0.store.put_plugin(row).await?,
            false => self.0.store.put_plugin_without_grant(namespace, row, now_ms()).await?,
        }
        // INVARIANT: grants change only while `loaded` is locked, so none was lost meanwhile.
        *lock(&self.0.grants) = grants;
        let view = self.view(namespace, &next);
        loaded.insert(namespace.clone(), next);
        self.serve(loaded);
        Ok(view)
    }

    /// Checks the assertions as if `next` were the plugin of the namespace, and these the grants. Other changes wait until the
    /// result is dropped.
    async fn check_assertions(
        &self,
        grants: &BTreeMap<Namespace, Arc<Grant>>,
        loaded: &BTreeMap<Namespace, History>,
        namespace: &Namespace,
        next: &History,
    ) -> Result<CheckedChange<'_>, CallError> {
        let change = |rules: &Snapshot| {
            let others = loaded.iter().filter(|(name, _)| *name != namespace);
            let histories = others.chain([(namespace, next)]);
            rules.with_plugins(self.0.limits.clone(), serving(histories, grants))
        };
        self.0.registry.check_change(ChangeScope::PLATFORM, change).await
    }

    /// Stores a grant with `storing`, unless it breaks an assertion, and puts it in force for calls that start from now on.
    /// `storing` gets the warnings of the assertions that it breaks of organizations.
    pub async fn grant_and_store<T, S: Future<Output = Result<T, CallError>>>(
        &self,
        namespace: &Namespace,
        granted: Grant,
        storing: impl FnOnce(Vec<Warning>) -> S,
    ) -> Result<T, CallError> {
        let loaded = self.0.loaded.lock().await;
        // The plugin may have been removed since the grant was checked; the next one of its name must not get it.
        loaded.get(namespace).ok_or_else(|| self.not_loaded(namespace))?;
        let mut grants = lock(&self.0.grants).clone();
        grants.insert(namespace.clone(), Arc::new(granted));
        let change =
            |rules: &Snapshot| rules.with_plugins(self.0.limits.clone(), serving(loaded.iter(), &grants));
        let mut checked = self.0.registry.check_change(ChangeScope::PLATFORM, change).await?;
        let stored = storing(std::mem::take(&mut checked.warnings)).await?;
        // INVARIANT: grants change only while `loaded` is locked, so none was lost meanwhile.
        *lock(&self.0.grants) = grants;
        self.serve(&loaded);
        Ok(stored)
    }
}

/// The plugins that serve, each with its grant.
pub(super) fn serving<'a>(
    histories: impl Iterator<Item = (&'a Namespace, &'a History)>,
    grants: &BTreeMap<Namespace, Arc<Grant>>,
) -> Vec<super::ServedPlugin> {
    histories
        .map(|(namespace, history)| {
            let plugin = history.serving();
            match grants.get(namespace) {
                Some(granted) => Arc::new(plugin.with_grant(Arc::clone(granted))),
                None => plugin,
            }
        })
        .collect()
}
