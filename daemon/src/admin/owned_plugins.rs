//! Plugins that an organization loads for itself: loaded, approved and removed.

use bytes::Bytes;
use toolgate_api::error::CallError;
use toolgate_api::plugin::PluginView;

use super::{Actor, Admin};
use crate::documents::ToolKey;
use crate::plugins::{LoadRequest, OwnedBounds};

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
        let loading = self.install_owned_file(key, file, request, bounds);
        self.change_owned_plugin(actor, key, "plugin.load", loading).await
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
        digest: &str,
    ) -> Result<PluginView, CallError> {
        let approving = self.parts().plugins.approve_owned(key, digest);
        self.change_owned_plugin(actor, key, "plugin.approve", approving).await
    }

    /// Removes a plugin of an organization and its versions.
    pub async fn remove_owned_plugin(&self, actor: Actor<'_>, key: &ToolKey) -> Result<(), CallError> {
        let removing = self.parts().plugins.remove_owned(key);
        self.change_owned_plugin(actor, key, "plugin.remove", removing).await
    }

    pub(super) async fn change_owned_plugin<T>(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        action: &'static str,
        change: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        actor.caller.may_own(&key.organization)?;
        let action = actor.action(Some(&key.organization), action, key.namespace.as_str());
        self.run_audited(action, change).await
    }
}
