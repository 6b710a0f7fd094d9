//! Plugins that an organization loads for itself, where the platform's policy allows it (rule 9.16).
//!
//! A file takes the steps of any load. The plugin is served in the catalogue of its organization alone, with the reach of a
//! custom tool: the hosts that it names, at public addresses, with credentials of the organization. An operator can grant
//! something else. Number and bytes are bounded, and an organization loads one file at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use toolgate_admission::{Digest, Warning, grant_warnings};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::limits::Limits;
use toolgate_api::name::{Name, Namespace};
use toolgate_api::network::HostPattern;
use toolgate_api::plugin::{GrantAfterApproval, PluginView};

use super::background_loads::LoadToken;
use super::differences::asks_for_the_same;
use super::history::FailedPlugin;
use super::load::digest_of;
use super::quarantine::grant_after;
use super::trust::check_holder;
use super::{FileHandle, History, LoadRequest, Plugins, Provenance, ServedPlugin, Version, lock, not_found};
use crate::clock::now_ms;
use crate::documents::{DocumentKey, ToolKey};
use crate::registry::Replacement;
use crate::store::{PluginRow, StoreError};

/// The plugins of organizations.
#[derive(Default)]
pub(super) struct OwnedPlugins {
    entries: Mutex<BTreeMap<ToolKey, Entry>>,
    /// Held from the checks of a change until it serves.
    changing: tokio::sync::Mutex<()>,
    /// The organizations that load a file.
    loading: Mutex<BTreeSet<Name>>,
}

#[expect(clippy::large_enum_variant, reason = "nearly every entry is ready")]
enum Entry {
    Ready(History),
    Failed(FailedPlugin),
}

/// The bounds of an organization's loads.
#[derive(Clone, Copy, Debug)]
pub struct OwnedBounds {
    /// Most plugins.
    pub plugins: u64,
    /// Most bytes of the files of all kept versions.
    pub bytes: u64,
}

/// A file of an organization that can serve, before it is installed.
pub struct OwnedLoad {
    key: ToolKey,
    handle: FileHandle,
    version: Version,
    file_bytes: u64,
}

/// A change of a plugin, before it is stored.
struct OwnedChange {
    next: History,
    /// The files of the versions that are no longer kept.
    dropped: Vec<FileHandle>,
    /// Whether the grant of an operator stays.
    keeps_grant: bool,
}

impl Plugins {
    /// Whether the organization loaded a plugin under this namespace.
    pub fn is_owned(&self, key: &ToolKey) -> bool {
        lock(&self.0.owned.entries).contains_key(key)
    }

    /// Takes a file of an organization through every step before its installation, and keeps it.
    pub async fn prepare_owned(
        &self,
        key: &ToolKey,
        file: Bytes,
        request: &LoadRequest,
    ) -> Result<OwnedLoad, CallError> {
        self.check_owned_place(key).await?;
        let organization = &key.organization;
        if !lock(&self.0.owned.loading).insert(organization.clone()) {
            let message = format!("another load of `{organization}` is running");
            let hint = "an organization loads one plugin at a time: try again in some seconds";
            return Err(CallError::new(ErrorType::Overloaded, message, hint).with_retry_after_ms(1_000));
        }
        let _loading = scopeguard::guard((), |()| {
            lock(&self.0.owned.loading).remove(organization);
        });
        let handle = self.0.files.handle(&digest_of(&file));
        let file_bytes = file.len() as u64;
        match self.make_version(&LoadToken::default(), &handle, file, request).await {
            Ok(version) => Ok(OwnedLoad { key: key.clone(), handle, version, file_bytes }),
            Err(error) => {
                self.0.files.release(handle).await;
                Err(error)
            }
        }
    }

    /// Serves a prepared file to its organization. A version that differs from the serving one waits for consent.
    pub async fn install_owned(&self, load: OwnedLoad, bounds: OwnedBounds) -> Result<PluginView, CallError> {
        let OwnedLoad { key, handle, version, file_bytes } = load;
        let installed = self.try_install_owned(&key, version, file_bytes, bounds).await;
        if installed.is_err() {
            self.0.files.release(handle).await;
        }
        installed
    }

    async fn try_install_owned(
        &self,
        key: &ToolKey,
        version: Version,
        file_bytes: u64,
        bounds: OwnedBounds,
    ) -> Result<PluginView, CallError> {
        let _in_order = self.0.owned.changing.lock().await;
        // Anything may have changed while the file was compiled.
        self.check_owned_place(key).await?;
        self.check_owned_bounds(key, &version.plugin.digest, file_bytes, bounds).await?;
        self.check_signer(Some(&key.organization), &version)?;
        let digest = version.plugin.digest.clone();
        let change = self.owned_with(key, version)?;
        let (history, view, _) = self.put_owned(key, change).await?;
        Ok(history.view_of_load(&digest, view))
    }

    /// The change by a new version.
    fn owned_with(&self, key: &ToolKey, version: Version) -> Result<OwnedChange, CallError> {
        let (next, dropped, keeps_grant) = match lock(&self.0.owned.entries).get(key) {
            None => (History::new(version, false), Vec::new(), true),
            Some(Entry::Failed(failed)) => {
                check_holder(&key.namespace, failed.holder(), version.holder())?;
                // Nothing serves that another version could be compared with.
                let keeps_grant = failed.has_served(&version.plugin.digest);
                let (next, dropped) = failed.replace_with(version);
                (next, dropped, keeps_grant)
            }
            Some(Entry::Ready(history)) => {
                check_holder(&key.namespace, history.holder(), version.holder())?;
                let mut next = history.clone();
                let dropped = next.take(version);
                (next, dropped, true)
            }
        };
        Ok(OwnedChange { next, dropped, keeps_grant })
    }

    /// Serves the version that waits for the consent of its organization, and confirms its hints. The grant of an operator is
    /// removed if the version asks for other capabilities or limits.
    pub async fn approve_owned(
        &self,
        key: &ToolKey,
        digest: &str,
    ) -> Result<(PluginView, GrantAfterApproval), CallError> {
        let _in_order = self.0.owned.changing.lock().await;
        let mut next = match lock(&self.0.owned.entries).get(key) {
            Some(Entry::Ready(history)) => history.clone(),
            _ => return Err(not_found(&key.namespace)),
        };
        let waiting = next.waiting(&key.namespace, digest)?;
        self.check_signer(Some(&key.organization), waiting)?;
        let keeps_grant = asks_for_the_same(&next.serving().descriptor, &waiting.plugin.descriptor);
        let dropped = next.approve(&key.namespace, digest)?;
        let (_, view, grant) = self.put_owned(key, OwnedChange { next, dropped, keeps_grant }).await?;
        Ok((view, grant))
    }

    /// Removes a plugin of an organization with all its versions.
    pub async fn remove_owned(&self, key: &ToolKey) -> Result<(), CallError> {
        let _in_order = self.0.owned.changing.lock().await;
        if !self.is_owned(key) {
            return Err(not_found(&key.namespace));
        }
        let _checked = self.0.registry.check_own_plugin(key, None).await?;
        self.0.store.remove_owned_plugin(&key.organization, &key.namespace, now_ms()).await?;
        let removed = lock(&self.0.owned.entries).remove(key);
        self.0.registry.serve_to(&key.organization, &key.namespace, None);
        let enabled = Replacement::Enabled(key.organization.clone(), key.namespace.clone(), None);
        self.0.registry.put(enabled);
        self.release_entries(removed).await;
        Ok(())
    }

    /// Forgets the plugins of an organization that was deleted from the store.
    pub async fn forget_organization(&self, organization: &Name) {
        let _in_order = self.0.owned.changing.lock().await;
        let is_theirs = |key: &ToolKey, _: &mut Entry| key.organization == *organization;
        let removed: Vec<Entry> = {
            let mut entries = lock(&self.0.owned.entries);
            entries.extract_if(.., is_theirs).map(|(_, entry)| entry).collect()
        };
        self.release_entries(removed).await;
    }

    /// Lists the plugins of an organization by namespace.
    pub fn list_owned(&self, organization: &Name) -> Vec<PluginView> {
        let entries = lock(&self.0.owned.entries);
        let theirs = entries.iter().filter(|(key, _)| key.organization == *organization);
        theirs.map(|(key, entry)| self.entry_view(key, entry)).collect()
    }

    /// Returns the provenance of each plugin of an organization that serves.
    pub fn owned_provenance(&self, organization: &Name) -> Vec<(Namespace, Provenance)> {
        let entries = lock(&self.0.owned.entries);
        let of_entry = |(key, entry): (&ToolKey, &Entry)| match entry {
            Entry::Ready(history) if key.organization == *organization => {
                Some((key.namespace.clone(), self.provenance_of(Some(organization), history)?))
            }
            Entry::Ready(_) | Entry::Failed(_) => None,
        };
        entries.iter().filter_map(of_entry).collect()
    }

    /// Returns one plugin of an organization with all its versions.
    pub fn find_owned(&self, key: &ToolKey) -> Result<PluginView, CallError> {
        let entries = lock(&self.0.owned.entries);
        let entry = entries.get(key).ok_or_else(|| not_found(&key.namespace))?;
        Ok(self.entry_view(key, entry))
    }

    /// Returns the warnings about the description of a plugin of an organization, and about its grant.
    pub fn owned_warnings(&self, key: &ToolKey) -> Vec<Warning> {
        let Some(plugin) = self.served_to(key) else { return Vec::new() };
        let mut warnings = plugin.descriptor.warnings(&Limits::platform(&self.0.limits));
        warnings.extend(grant_warnings(&plugin.granted, &plugin.descriptor.capabilities));
        warnings
    }

    /// Serves the stored plugins of organizations, which must be known to the registry.
    pub async fn restore_owned(&self) -> Result<(), CallError> {
        for row in self.0.store.owned_plugins().await? {
            let (Ok(organization), Ok(namespace)) =
                (Name::parse(&row.owner), Namespace::parse(&row.namespace))
            else {
                self.keep_files_of(&row);
                continue;
            };
            let key = ToolKey { organization, namespace };
            let entry = match self.restore_history(&key.namespace, &row).await {
                Ok(history) => {
                    let granted = match self.operators_grant(&key).await {
                        Ok(granted) => granted_or_default(granted, &history),
                        Err(error) => {
                            let reason = error.message;
                            tracing::error!(plugin = %key, reason, "the grant of a plugin cannot be read, so that it has none");
                            Arc::default()
                        }
                    };
                    self.serve_owned(&key, owned_plugin(&history, granted));
                    Entry::Ready(history)
                }
                Err(failed) => {
                    let ToolKey { organization, namespace } = &key;
                    tracing::error!(%organization, %namespace, "a plugin of an organization is not served");
                    Entry::Failed(failed)
                }
            };
            lock(&self.0.owned.entries).insert(key, entry);
        }
        Ok(())
    }

    /// Stores and serves a plugin, unless it breaks an assertion of a policy. Returns it with its view, and what became of the
    /// operator's grant.
    async fn put_owned(
        &self,
        key: &ToolKey,
        change: OwnedChange,
    ) -> Result<(History, PluginView, GrantAfterApproval), CallError> {
        let OwnedChange { next, dropped, keeps_grant } = change;
        let stored = self.operators_grant(key).await?;
        let grant = grant_after(stored.is_some(), keeps_grant);
        let granted = granted_or_default(stored.filter(|_| keeps_grant), &next);
        let view = self.owned_view(key, &next, &granted);
        let plugin = owned_plugin(&next, granted);
        let checked = self.0.registry.check_own_plugin(key, Some(Arc::clone(&plugin))).await?;
        let row = PluginRow { owner: key.organization.to_string(), ..next.row(&key.namespace) };
        self.0.store.put_owned_plugin(key, row, keeps_grant, now_ms()).await?;
        lock(&self.0.owned.entries).insert(key.clone(), Entry::Ready(next.clone()));
        self.serve_owned(key, plugin);
        drop(checked);
        self.0.files.release_all(dropped).await;
        Ok((next, view, grant))
    }

    fn serve_owned(&self, key: &ToolKey, plugin: ServedPlugin) {
        self.0.registry.serve_to(&key.organization, &key.namespace, Some(plugin));
    }

    /// Returns the serving version under another grant; none unless the organization loaded the plugin.
    pub fn owned_under(&self, key: &ToolKey, granted: &Arc<Grant>) -> Option<ServedPlugin> {
        match lock(&self.0.owned.entries).get(key)? {
            Entry::Ready(history) => Some(owned_plugin(history, Arc::clone(granted))),
            Entry::Failed(_) => None,
        }
    }

    fn served_to(&self, key: &ToolKey) -> Option<ServedPlugin> {
        self.0.registry.snapshot().own_plugin(key).cloned()
    }

    /// Checks that the organization exists and may load plugins, and that its new plugin takes no other's namespace (9.4).
    pub async fn check_owned_place(&self, key: &ToolKey) -> Result<(), CallError> {
        let ToolKey { organization, namespace } = key;
        let snapshot = self.0.registry.snapshot();
        if !snapshot.knows(organization) {
            return Err(StoreError::no_document(&DocumentKey::Organization(organization.clone())).into());
        }
        if !snapshot.policy().owners_load_plugins {
            return Err(CallError::new(
                ErrorType::Forbidden,
                "the platform does not let organizations load plugins of their own",
                "ask an operator to load it, or to set `owners_load_plugins` in the platform's policy",
            ));
        }
        if self.is_owned(key) {
            return Ok(());
        }
        let is_of_platform = snapshot.catalogue().plugin(namespace).is_some()
            || snapshot.compiling().contains(namespace)
            || lock(&self.0.failed).contains_key(namespace);
        let taken = |holder| {
            let message = format!("the namespace `{namespace}` belongs to {holder}");
            Err(CallError::new(ErrorType::Conflict, message, "give the plugin another name"))
        };
        if is_of_platform {
            return taken("a plugin of the platform");
        }
        // The store also has a tool that could not be built when the daemon started.
        match self.0.store.document(&DocumentKey::Tool(key.clone())).await {
            Ok(_) => taken("a custom tool of the organization"),
            Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    async fn check_owned_bounds(
        &self,
        key: &ToolKey,
        digest: &Digest,
        file_bytes: u64,
        bounds: OwnedBounds,
    ) -> Result<(), CallError> {
        let (count, handles) = self.owned_files(&key.organization);
        let is_new = !self.is_owned(key);
        if is_new && count >= bounds.plugins {
            return Err(bound_error(
                format!("the organization has {count} plugins of its own, and no more are kept"),
                "remove one that no agent uses",
            ));
        }
        let mut bytes = file_bytes;
        for handle in handles.iter().filter(|handle| handle.digest() != digest) {
            bytes = bytes.saturating_add(self.0.files.bytes(handle).await);
        }
        if bytes <= bounds.bytes {
            return Ok(());
        }
        Err(bound_error(
            format!(
                "the organization's plugins would have {bytes} bytes with it, more than the {} allowed",
                bounds.bytes
            ),
            "remove a plugin that no agent uses, or load a smaller file; four versions of each are kept",
        ))
    }

    /// The number of an organization's plugins, and their files, each once.
    fn owned_files(&self, organization: &Name) -> (u64, Vec<FileHandle>) {
        let entries = lock(&self.0.owned.entries);
        let theirs = || entries.iter().filter(move |(key, _)| key.organization == *organization);
        let of_entry = |(_, entry): (&ToolKey, &Entry)| match entry {
            Entry::Ready(history) => history.clone().into_handles().collect::<Vec<_>>(),
            Entry::Failed(failed) => failed.clone().into_handles().collect(),
        };
        let by_digest: BTreeMap<Digest, FileHandle> =
            theirs().flat_map(of_entry).map(|handle| (handle.digest().clone(), handle)).collect();
        (theirs().count() as u64, by_digest.into_values().collect())
    }

    /// The grant of an operator for this organization.
    async fn operators_grant(&self, key: &ToolKey) -> Result<Option<Grant>, CallError> {
        match self.0.store.document(&DocumentKey::ToolGrant(key.clone())).await {
            Ok(document) => {
                let grant = Grant::parse(&document.body);
                Ok(Some(grant.map_err(|error| error.into_call_error(ErrorType::InvalidPolicy))?))
            }
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn owned_view(&self, key: &ToolKey, history: &History, granted: &Arc<Grant>) -> PluginView {
        let mut view = history.view(&key.namespace, Some(granted));
        self.0.publisher_keys.add_objections(Some(&key.organization), &mut view);
        view
    }

    fn entry_view(&self, key: &ToolKey, entry: &Entry) -> PluginView {
        match entry {
            Entry::Failed(failed) => failed.view(&key.namespace),
            Entry::Ready(history) => {
                let granted = self.served_to(key).map(|plugin| Arc::clone(&plugin.granted));
                self.owned_view(key, history, &granted.unwrap_or_default())
            }
        }
    }

    async fn release_entries(&self, removed: impl IntoIterator<Item = Entry>) {
        for entry in removed {
            let handles: Vec<FileHandle> = match entry {
                Entry::Ready(history) => history.into_handles().collect(),
                Entry::Failed(failed) => failed.into_handles().collect(),
            };
            self.0.files.release_all(handles).await;
        }
    }
}

fn owned_plugin(history: &History, granted: Arc<Grant>) -> ServedPlugin {
    Arc::new(history.serving().with_grant(granted))
}

/// The grant of an operator, or the reach of a custom tool.
fn granted_or_default(granted: Option<Grant>, history: &History) -> Arc<Grant> {
    granted.unwrap_or_else(|| default_grant(&history.serving().descriptor.capabilities)).into()
}

/// The most that an owner can grant without an operator: what the plugin asks for, of hosts those that it names.
fn default_grant(requested: &Capabilities) -> Grant {
    let mut requested = requested.clone();
    requested.network.retain(|rule| matches!(rule.host, HostPattern::Exact(_)));
    Grant { user_credentials: true, ..Grant::from(requested) }
}

fn bound_error(message: String, hint: &str) -> CallError {
    CallError::new(ErrorType::QuotaExceeded, message, hint).retryable(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_16_an_owners_plugin_gets_the_hosts_that_it_names() {
        let requested = r#"{"network":[{"host":"api.example.com"},{"host":"*"},{"host":"*.example.com"}],
            "credentials":["stripe"]}"#;
        let granted = default_grant(&serde_json::from_str(requested).expect("capabilities"));
        let hosts: Vec<String> = granted.network.iter().map(|rule| rule.host.to_string()).collect();
        assert_eq!(hosts, ["api.example.com"]);
        assert_eq!(granted.credentials, ["stripe"]);
        assert!(granted.private_networks.is_empty() && granted.plain_http.is_empty());
    }
}
