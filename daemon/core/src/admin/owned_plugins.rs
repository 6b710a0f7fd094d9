//! Loads of plugins by organizations for themselves. Every other act is in `plugins.rs`.

use bytes::Bytes;
use toolgate_api::error::CallError;
use toolgate_api::plugin::PluginView;
use toolgate_macros::boxed;
use toolgate_state::documents::ToolKey;

use super::plugin_sources::load_details;
use super::{Actor, Admin};
use crate::digest::digest_of;
use crate::plugins::{LoadRequest, OwnedBounds};

#[boxed]
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
        self.change_plugin(actor, &key.into(), "plugin.load", details.as_deref(), loading).await
    }

    pub(super) async fn install_owned_file(
        &self,
        key: &ToolKey,
        file: Bytes,
        request: &LoadRequest,
        bounds: OwnedBounds,
    ) -> Result<PluginView, CallError> {
        let plugins = &self.services().plugins;
        let load = plugins.prepare_owned(key, file, request).await?;
        // A custom tool and a plugin of one namespace would replace each other.
        let _in_order = self.custom().in_order(key).await;
        plugins.install_owned(load, bounds).await
    }
}
