//! The plugins of the platform and of organizations: each with the versions that serve or served, or failed at start.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_state::documents::PluginKey;

use super::history::FailedPlugin;
use super::{FileHandle, History, LoadSource, not_found};

/// The plugins by owner (`None` for the platform) and namespace.
#[derive(Default)]
pub(super) struct PluginTable {
    /// Locked for one look or one write.
    entries: Mutex<BTreeMap<Option<Name>, BTreeMap<Namespace, Entry>>>,
    changing: tokio::sync::Mutex<()>,
}

#[expect(clippy::large_enum_variant, reason = "nearly every entry is ready")]
pub(super) enum Entry {
    Ready(History),
    /// Stored, but this start could load no version. Its files are kept, since a later start may succeed.
    Failed(FailedPlugin),
}

impl Entry {
    pub(super) fn ready(&self) -> Option<&History> {
        match self {
            Self::Ready(history) => Some(history),
            Self::Failed(_) => None,
        }
    }

    /// The origin of the chosen version.
    pub(super) fn source(&self) -> LoadSource {
        match self {
            Self::Ready(history) => history.source(),
            Self::Failed(failed) => failed.source(),
        }
    }

    /// The files of all versions.
    pub(super) fn handles(&self) -> Vec<FileHandle> {
        match self {
            Self::Ready(history) => history.clone().into_handles().collect(),
            Self::Failed(failed) => failed.clone().into_handles().collect(),
        }
    }
}

impl PluginTable {
    /// Locks changes of all plugins. INVARIANT: held from the checks of a change until it serves.
    pub(super) async fn change(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    /// Looks at one plugin.
    pub(super) fn look<T>(&self, key: &PluginKey, look: impl FnOnce(Option<&Entry>) -> T) -> T {
        let entries = self.entries.lock();
        look(entries.get(&key.owner).and_then(|owned| owned.get(&key.namespace)))
    }

    pub(super) fn contains(&self, key: &PluginKey) -> bool {
        self.look(key, |entry| entry.is_some())
    }

    /// Looks at the plugins of an owner, by namespace. Returns what `look` returns.
    pub(super) fn filter_map<T>(
        &self,
        owner: Option<&Name>,
        look: impl FnMut((&Namespace, &Entry)) -> Option<T>,
    ) -> Vec<T> {
        let entries = self.entries.lock();
        entries.get(&owner.cloned()).into_iter().flatten().filter_map(look).collect()
    }

    /// The owners that have a plugin.
    pub(super) fn owners(&self) -> Vec<Option<Name>> {
        self.entries.lock().keys().cloned().collect()
    }

    /// The versions of a plugin that serves.
    pub(super) fn history(&self, key: &PluginKey) -> Result<History, CallError> {
        let PluginKey { namespace, .. } = key;
        self.look(key, |entry| match entry {
            None => Err(not_found(namespace)),
            Some(Entry::Ready(history)) => Ok(history.clone()),
            Some(Entry::Failed(_)) => Err(CallError::new(
                ErrorType::NotFound,
                format!(
                    "no version of plugin `{namespace}` could be loaded when the daemon started, so none serves"
                ),
                "see its `reason`, then load a version that works or remove the plugin",
            )),
        })
    }

    pub(super) fn put(&self, key: &PluginKey, entry: Entry) {
        self.put_and(key, entry, || ());
    }

    /// Puts an entry, and calls `act` before anything else looks at the table.
    pub(super) fn put_and(&self, key: &PluginKey, entry: Entry, act: impl FnOnce()) {
        let mut entries = self.entries.lock();
        let before = entries.entry(key.owner.clone()).or_default().insert(key.namespace.clone(), entry);
        act();
        drop(entries);
        drop(before);
    }

    pub(super) fn remove(&self, key: &PluginKey) -> Option<Entry> {
        self.entries.lock().get_mut(&key.owner)?.remove(&key.namespace)
    }

    /// Removes the plugins of an organization.
    pub(super) fn remove_all(&self, organization: &Name) -> Vec<Entry> {
        let removed = self.entries.lock().remove(&Some(organization.clone()));
        removed.unwrap_or_default().into_values().collect()
    }
}
