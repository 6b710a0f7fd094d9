//! Loads of plugins that no upload brings: from the watched folder, and from registries.

use bytes::Bytes;
use serde_json::json;
use serde_json::value::to_raw_value;
use toolgate_api::error::CallError;
use toolgate_api::plugin::PluginView;

use super::{Actor, Admin, AuditedAction};
use crate::documents::ToolKey;
use crate::identity::Access;
use crate::oci::{Pulled, Reference};
use crate::plugins::{
    BackgroundLoad, LoadRequest, LoadSource, OrganizationRegistries, OwnedBounds, Registries,
};

/// A plugin in a registry.
#[derive(Clone, Copy)]
pub struct RegistryPlugin<'a> {
    /// The registries that may be used: the operator's, or an organization's own.
    pub registries: &'a Registries,
    /// The plugin.
    pub reference: &'a Reference,
    /// The largest file.
    pub limit_bytes: u64,
}

/// A plugin in a registry of an organization.
#[derive(Clone, Copy)]
pub struct OwnedRegistryPlugin<'a> {
    /// Finds the organization's registries.
    pub registries: &'a OrganizationRegistries,
    /// The plugin.
    pub reference: &'a Reference,
    /// The largest file.
    pub limit_bytes: u64,
    /// What the organization may load.
    pub bounds: OwnedBounds,
}

impl Admin {
    /// Loads a file that no request waits for. An error is shown with the plugin, too.
    pub async fn load_and_show_failure(
        &self,
        actor: Actor<'_>,
        file: Bytes,
        request: LoadRequest,
    ) -> Result<PluginView, CallError> {
        let plugins = &self.parts().plugins;
        let (load, _) = plugins.start_background_load(file, request);
        let action = actor.action(None, "plugin.load", load.namespace().as_str());
        let loading = async {
            actor.caller.may(Access::Operate)?;
            plugins.run_background_load(&load).await
        };
        let loaded = self.run_audited(action, loading).await;
        loaded.inspect_err(|error| plugins.record_load_failure(&load, error))
    }

    /// Gets a plugin from a registry and loads it. The act is recorded with the reference before the registry is asked.
    pub async fn load_plugin_from_registry(
        &self,
        actor: Actor<'_>,
        plugin: RegistryPlugin<'_>,
        request: LoadRequest,
    ) -> Result<PluginView, CallError> {
        actor.caller.may(Access::Operate)?;
        let RegistryPlugin { registries, reference, limit_bytes } = plugin;
        let namespace = request.namespace.clone();
        let details = to_raw_value(&json!({"reference": reference.to_string()})).ok();
        let action = actor.action(None, "plugin.load", namespace.as_str());
        let action = AuditedAction { details: details.as_deref(), ..action };
        let loading = async {
            let Pulled { file, signature, digest } = registries.pull(reference, limit_bytes).await?;
            let (reference, digest) = (reference.to_string(), digest.to_string());
            let source = LoadSource::Registry { reference, digest };
            let signature = request.signature.clone().or(signature);
            self.parts().plugins.load(file, LoadRequest { source, signature, ..request }).await
        };
        self.run_audited(action, loading).await
    }

    /// Gets a plugin from a registry that an organization has a credential for, and loads it for the organization.
    pub async fn load_owned_plugin_from_registry(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        plugin: OwnedRegistryPlugin<'_>,
        request: LoadRequest,
    ) -> Result<PluginView, CallError> {
        let OwnedRegistryPlugin { registries, reference, limit_bytes, bounds } = plugin;
        let loading = async {
            // No request leaves for an organization that may load nothing.
            self.parts().plugins.check_owned_place(key)?;
            let registries = registries.find(&key.organization, reference).await?;
            let Pulled { file, signature, digest } = registries.pull(reference, limit_bytes).await?;
            let (reference, digest) = (reference.to_string(), digest.to_string());
            let source = LoadSource::Registry { reference, digest };
            let signature = request.signature.clone().or(signature);
            let request = LoadRequest { source, signature, ..request };
            self.install_owned_file(key, file, &request, bounds).await
        };
        self.change_owned_plugin(actor, key, "plugin.load", loading).await
    }

    /// Gets and loads what [`Plugins::start_background_pull`](crate::plugins::Plugins::start_background_pull) registered. Its
    /// error is shown with the plugin.
    pub async fn run_background_pull(
        &self,
        actor: Actor<'_>,
        plugin: RegistryPlugin<'_>,
        load: &mut BackgroundLoad,
    ) {
        let plugins = &self.parts().plugins;
        let RegistryPlugin { registries, reference, limit_bytes } = plugin;
        let namespace = load.namespace().clone();
        let details = to_raw_value(&json!({"reference": reference.to_string()})).ok();
        let action = actor.action(None, "plugin.load", namespace.as_str());
        let action = AuditedAction { details: details.as_deref(), ..action };
        let loading = async {
            actor.caller.may(Access::Operate)?;
            plugins.pull_for(load, registries.pull(reference, limit_bytes), reference).await?;
            plugins.run_background_load(load).await
        };
        if let Err(error) = self.run_audited(action, loading).await {
            plugins.record_load_failure(load, &error);
        }
    }
}
