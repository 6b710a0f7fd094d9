//! Plugins that an organization loads for itself, where the platform's policy allows it (rule 9.16).
//!
//! A file takes the steps of any load. The plugin is served in the catalogue of its organization alone, with the reach of a
//! custom tool: the hosts that it names, at public addresses, with credentials of the organization. An operator can grant
//! something else. Number and bytes are bounded, and an organization loads one file at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{Capabilities, Grant};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::network::HostPattern;
use toolgate_api::plugin::PluginView;
use toolgate_macros::boxed;
use toolgate_state::documents::{DocumentKey, PluginKey, ToolKey};
use toolgate_state::store::StoreError;

use super::background_loads::LoadToken;
use super::checked::served_plugin;
use super::table::Entry;
use super::{CanaryShare, FileHandle, LoadRequest, Plugins, ServedPlugin, Version};
use crate::digest::digest_of;

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
    canary: Option<CanaryShare>,
}

#[boxed]
impl Plugins {
    /// Whether the organization loaded a plugin under this namespace.
    pub fn is_owned(&self, key: &ToolKey) -> bool {
        self.0.table.contains(&key.into())
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
        if !self.0.loading.lock().insert(organization.clone()) {
            let message = format!("another load of `{organization}` is running");
            let hint = "an organization loads one plugin at a time: try again in some seconds";
            return Err(CallError::new(ErrorType::Overloaded, message, hint).with_retry_after_ms(1_000));
        }
        let _loading = scopeguard::guard((), |()| {
            self.0.loading.lock().remove(organization);
        });
        let handle = self.0.files.handle(&digest_of(&file));
        let file_bytes = file.len() as u64;
        match self.make_version(&LoadToken::default(), &handle, file, request).await {
            Ok(version) => {
                Ok(OwnedLoad { key: key.clone(), handle, version, file_bytes, canary: request.canary })
            }
            Err(error) => {
                self.0.files.release(handle).await;
                Err(error)
            }
        }
    }

    /// Serves a prepared file to its organization. A version that differs from the serving one waits for consent.
    pub async fn install_owned(&self, load: OwnedLoad, bounds: OwnedBounds) -> Result<PluginView, CallError> {
        let OwnedLoad { key, handle, version, file_bytes, canary } = load;
        let installing = async {
            let _changing = self.0.table.change().await;
            // Anything may have changed while the file was compiled.
            self.check_owned_place(&key).await?;
            self.check_owned_bounds(&key, &version.plugin.digest, file_bytes, bounds).await?;
            self.install_version(&PluginKey::from(&key), version, canary, None).await
        };
        let installed = installing.await;
        if installed.is_err() {
            self.0.files.release(handle).await;
        }
        installed
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
            let key = PluginKey { owner: Some(organization), namespace };
            let entry = self.restore_entry(&key, &row).await;
            if let Entry::Ready(history) = &entry {
                self.serve_restored(&key, history).await;
            }
            self.0.table.put(&key, entry);
        }
        Ok(())
    }

    /// Returns the serving version under another grant; none unless the organization loaded the plugin.
    pub fn owned_under(&self, key: &ToolKey, granted: &Arc<Grant>) -> Option<ServedPlugin> {
        let key = PluginKey::from(key);
        self.0.table.look(&key, |entry| Some(served_plugin(&key, entry?.ready()?, Some(Arc::clone(granted)))))
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
            || self.0.table.contains(&namespace.into());
        let taken = |holder| {
            let message = format!("the namespace `{namespace}` belongs to {holder}");
            Err(CallError::new(ErrorType::Conflict, message, "give the plugin another name"))
        };
        if is_of_platform {
            return taken("a plugin of the platform");
        }
        // The store also has a tool that could not be built when the daemon started.
        match self.0.store.find_document(&DocumentKey::Tool(key.clone())).await? {
            Some(_) => taken("a custom tool of the organization"),
            None => Ok(()),
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
        let plugins = self.0.table.filter_map(Some(organization), |(_, entry)| Some(entry.handles()));
        let count = plugins.len() as u64;
        let handles = plugins.into_iter().flatten().map(|handle| (handle.digest().clone(), handle));
        let by_digest: BTreeMap<Digest, FileHandle> = handles.collect();
        (count, by_digest.into_values().collect())
    }
}

/// The most that an owner can grant without an operator: what the plugin asks for, of hosts those that it names.
pub(super) fn default_grant(requested: &Capabilities) -> Grant {
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
