//! Changes of plugins and grants, checked against the assertions of policies before they are stored (G17).

use std::collections::BTreeMap;
use std::sync::Arc;

use toolgate_api::error::CallError;
use toolgate_api::grant::Grant;
use toolgate_api::name::Namespace;

use super::{History, Plugins, lock};
use crate::registry::{ChangeScope, CheckedChange, Snapshot};

impl Plugins {
    /// Checks the assertions as if `next` were the plugin of the namespace. Other changes wait until the result is dropped.
    pub(super) async fn check_assertions(
        &self,
        loaded: &BTreeMap<Namespace, History>,
        namespace: &Namespace,
        next: &History,
    ) -> Result<CheckedChange<'_>, CallError> {
        let grants = lock(&self.0.grants).clone();
        self.check_assertions_under(&grants, loaded, namespace, next).await
    }

    /// Checks the assertions as if `next` were the plugin of the namespace, and these the grants.
    pub(super) async fn check_assertions_under(
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
    pub async fn grant_and_store<T>(
        &self,
        namespace: &Namespace,
        granted: Grant,
        storing: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let loaded = self.0.loaded.lock().await;
        let mut grants = lock(&self.0.grants).clone();
        grants.insert(namespace.clone(), Arc::new(granted));
        let change =
            |rules: &Snapshot| rules.with_plugins(self.0.limits.clone(), serving(loaded.iter(), &grants));
        let _checked = self.0.registry.check_change(ChangeScope::PLATFORM, change).await?;
        let stored = storing.await?;
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
