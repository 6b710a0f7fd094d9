//! Plugins: loaded, rolled back, disabled and removed.

use bytes::Bytes;
use toolgate_api::error::CallError;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::PluginView;

use super::{Actor, Admin};
use crate::identity::Access;
use crate::plugins::{BackgroundLoad, LoadRequest};

impl Admin {
    /// Loads a plugin, or a new version of one.
    pub async fn load_plugin(
        &self,
        actor: Actor<'_>,
        file: Bytes,
        request: LoadRequest,
    ) -> Result<PluginView, CallError> {
        actor.caller.may(Access::Operate)?;
        let namespace = request.namespace.clone();
        let action = actor.action(None, "plugin.load", namespace.as_str());
        self.run_audited(action, self.parts().plugins.load(file, request)).await
    }

    /// Runs a load that [`Plugins::start_background_load`](crate::plugins::Plugins::start_background_load) registered. Its
    /// error is shown with the plugin.
    pub async fn run_background_load(&self, actor: Actor<'_>, load: &BackgroundLoad) {
        let plugins = &self.parts().plugins;
        let action = actor.action(None, "plugin.load", load.namespace().as_str());
        let loading = async {
            actor.caller.may(Access::Operate)?;
            plugins.run_background_load(load).await
        };
        if let Err(error) = self.run_audited(action, loading).await {
            plugins.record_load_failure(load, &error);
        }
    }

    /// Removes a plugin and its versions.
    pub async fn remove_plugin(&self, actor: Actor<'_>, namespace: &Namespace) -> Result<(), CallError> {
        actor.caller.may(Access::Operate)?;
        let action = actor.action(None, "plugin.remove", namespace.as_str());
        self.run_audited(action, self.parts().plugins.remove(namespace)).await
    }

    /// Serves the previous version of a plugin again.
    pub async fn roll_back_plugin(
        &self,
        actor: Actor<'_>,
        namespace: &Namespace,
    ) -> Result<PluginView, CallError> {
        actor.caller.may(Access::Operate)?;
        let action = actor.action(None, "plugin.rollback", namespace.as_str());
        self.run_audited(action, self.parts().plugins.roll_back(namespace)).await
    }

    /// Disables or enables the tools of a plugin for every agent.
    pub async fn switch_plugin(
        &self,
        actor: Actor<'_>,
        namespace: &Namespace,
        disabled: bool,
    ) -> Result<PluginView, CallError> {
        actor.caller.may(Access::Operate)?;
        let action = if disabled { "plugin.disable" } else { "plugin.enable" };
        let action = actor.action(None, action, namespace.as_str());
        self.run_audited(action, self.parts().plugins.set_disabled(namespace, disabled)).await
    }
}
