//! Plugins that an organization loads for itself: loaded, approved and removed.

use bytes::Bytes;
use serde_json::value::{RawValue, to_raw_value};
use toolgate_api::error::CallError;
use toolgate_api::plugin::{PluginApproval, PluginApproved, PluginView};

use super::plugin_sources::load_details;
use super::{Actor, Admin, AuditedAction};
use crate::documents::ToolKey;
use crate::plugins::{LoadRequest, OwnedBounds, digest_of};

impl Admin {
    /// Loads a plugin, or a new version of one, for an organization.
    pub async fn load_owned_plugin(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        file: Bytes,
        request: &LoadRequest,
        bounds: OwnedBounds,
    ) -> Result<PluginView, CallError> {
        let details = load_details(request, Some(digest_of(&file)), None);
        let loading = self.install_owned_file(key, file, request, bounds);
        self.change_owned_plugin(actor, key, "plugin.load", details.as_deref(), loading).await
    }

    pub(super) async fn install_owned_file(
        &self,
        key: &ToolKey,
        file: Bytes,
        request: &LoadRequest,
        bounds: OwnedBounds,
    ) -> Result<PluginView, CallError> {
        let plugins = &self.parts().plugins;
        let load = plugins.prepare_owned(key, file, request).await?;
        // A custom tool and a plugin of one namespace would replace each other.
        let _in_order = self.parts().custom.in_order(key).await;
        plugins.install_owned(load, bounds).await
    }

    /// Consents to the version of an organization's plugin that waits, if its digest is this one.
    pub async fn approve_owned_plugin(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        approval: &PluginApproval,
    ) -> Result<PluginApproved, CallError> {
        let approving = async {
            // Consent may remove the operator's grant.
            let _in_order = self.parts().custom.in_order(key).await;
            let (plugin, grant) = self.parts().plugins.approve_owned(key, &approval.digest).await?;
            Ok(PluginApproved { plugin, grant })
        };
        let details = to_raw_value(approval).ok();
        self.change_owned_plugin(actor, key, "plugin.approve", details.as_deref(), approving).await
    }

    /// Removes a plugin of an organization and its versions.
    pub async fn remove_owned_plugin(&self, actor: Actor<'_>, key: &ToolKey) -> Result<(), CallError> {
        let removing = async {
            // So that the organization stores no settings for the plugin meanwhile.
            let _documents_in_order = self.0.documents.lock().await;
            let _in_order = self.parts().custom.in_order(key).await;
            self.parts().plugins.remove_owned(key).await
        };
        self.change_owned_plugin(actor, key, "plugin.remove", None, removing).await
    }

    pub(super) async fn change_owned_plugin<T>(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        action: &'static str,
        details: Option<&RawValue>,
        change: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        actor.caller.may_own(&key.organization)?;
        let action = actor.action(Some(&key.organization), action, key.namespace.as_str());
        self.run_audited(AuditedAction { details, ..action }, change).await
    }
}
