//! Loads of plugins from registries, and what the audit log tells of each load.

use std::borrow::Cow;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use toolgate_admission::Digest;
use toolgate_api::error::CallError;
use toolgate_api::plugin::PluginView;
use toolgate_audit::AdminRecord;
use toolgate_macros::boxed;
use toolgate_state::documents::ToolKey;

use super::{Actor, Admin, AuditedAction};
use crate::digest::digest_of;
use crate::oci::Reference;
use crate::plugins::{CanaryShare, LoadRequest, OrganizationRegistries, OwnedBounds, Registries};

/// The act that tells which file a registry sent.
pub(super) const PULLED: &str = "plugin.pull";

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
    /// The bounds of the organization's loads.
    pub bounds: OwnedBounds,
}

#[boxed]
impl Admin {
    /// Gets a plugin from a registry that an organization has a credential for, and loads it for the organization. The act is
    /// recorded with the reference before the registry is asked.
    pub async fn load_owned_plugin_from_registry(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        plugin: OwnedRegistryPlugin<'_>,
        mut request: LoadRequest,
    ) -> Result<PluginView, CallError> {
        let OwnedRegistryPlugin { registries, reference, limit_bytes, bounds } = plugin;
        let details = load_details(&request, None, Some(reference));
        let loading = async {
            // No request leaves for an organization that may load nothing.
            self.services().plugins.check_owned_place(key).await?;
            let registries = registries.find(&key.organization, reference).await?;
            let file = request.take_pulled(registries.pull(reference, limit_bytes).await?, reference);
            let details = load_details(&request, Some(digest_of(&file)), Some(reference));
            let pulled = actor.action(Some(&key.organization), PULLED, key.namespace.as_str());
            self.record_pulled(pulled, details.as_deref()).await?;
            self.install_owned_file(key, file, &request, bounds).await
        };
        self.change_plugin(actor, &key.into(), "plugin.load", details.as_deref(), loading).await
    }

    /// Records which file a registry sent, as an act of its own: the intent of the load was recorded before.
    pub(super) async fn record_pulled(
        &self,
        pulled: AuditedAction<'_>,
        details: Option<&RawValue>,
    ) -> Result<(), CallError> {
        let act = AdminRecord {
            organization: pulled.organization.map(|name| name.as_str().into()),
            principal: pulled.principal.into(),
            action: pulled.action.into(),
            target: pulled.target.into(),
            outcome: "ok".into(),
            revision: None,
            details: details.map(Cow::Borrowed),
            source: pulled.source.into(),
        };
        let recorded = self.services().audit.admin(act).await;
        recorded.map_err(CallError::from)
    }
}

/// The details of a load for the audit log. `digest` is that of the file; `None` before a registry sent it.
pub(super) fn load_details(
    request: &LoadRequest,
    digest: Option<Digest>,
    reference: Option<&Reference>,
) -> Option<Box<RawValue>> {
    let details = json!({
        "digest": digest.as_ref().map(Digest::as_str),
        "reference": reference.map(Reference::to_string),
        "confirm_hints": request.confirm_hints,
        "canary": request.canary.map(CanaryShare::percent),
    });
    to_raw_value(&details).ok()
}
