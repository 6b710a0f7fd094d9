//! Plugins: loaded, rolled back, disabled and removed; canaries returned.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolgate_api::error::CallError;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{PluginApproval, PluginApproved, PluginView};

use super::plugin_sources::{PULLED, RegistryPlugin, load_details};
use super::{Actor, Admin, AuditedAction};
use crate::identity::Access;
use crate::plugins::{FailingCanary, PluginLoad};

/// Principal and source of acts without a request.
pub(super) const DAEMON_PRINCIPAL: &str = "toolgate";
pub(super) const DAEMON_SOURCE: &str = "daemon";
/// Time between two judgements of the canaries: a failing one has its share of the calls for at most so long.
const CANARY_INTERVAL: Duration = Duration::from_secs(1);

impl Admin {
    /// Judges the canaries every second until `stop`, and returns those that fail too often.
    pub async fn judge_canaries_until(self, stop: CancellationToken) {
        while tokio::time::timeout(CANARY_INTERVAL, stop.cancelled()).await.is_err() {
            for failing in self.parts().plugins.failing_canaries().await {
                if let Err(error) = self.return_canary(&failing).await {
                    let (namespace, reason) = (&failing.namespace, error.message);
                    tracing::error!(%namespace, reason, "a canary that fails cannot be returned");
                }
            }
        }
    }

    /// Gives all calls back to the version before a canary.
    async fn return_canary(&self, failing: &FailingCanary) -> Result<(), CallError> {
        let FailingCanary { namespace, digest, reason } = failing;
        let details = serde_json::value::to_raw_value(&json!({"digest": digest.as_str(), "reason": reason}));
        let action = AuditedAction {
            principal: DAEMON_PRINCIPAL,
            organization: None,
            action: "plugin.canary_return",
            target: namespace.as_str(),
            details: details.as_deref().ok(),
            source: DAEMON_SOURCE,
        };
        self.run_audited(action, self.parts().plugins.return_canary(failing)).await?;
        tracing::warn!(event = "canary_returned", %namespace, %digest, reason, "a canary failed too often");
        Ok(())
    }

    /// Loads a plugin, or a new version of one, whose file `registry` has unless the load has it. The error of a load that is shown
    /// with its plugin is shown there, too.
    pub async fn load_plugin(
        &self,
        actor: Actor<'_>,
        mut load: PluginLoad,
        registry: Option<RegistryPlugin<'_>>,
    ) -> Result<PluginView, CallError> {
        let plugins = &self.parts().plugins;
        let namespace = load.request().namespace.clone();
        let reference = registry.map(|plugin| plugin.reference);
        let details = load_details(load.request(), load.digest(), reference);
        let action = actor.action(None, "plugin.load", namespace.as_str());
        let loading = async {
            actor.caller.may(Access::Operate)?;
            if let Some(RegistryPlugin { registries, reference, limit_bytes }) = registry {
                load.pull(registries.pull(reference, limit_bytes), reference).await?;
                let details = load_details(load.request(), load.digest(), Some(reference));
                self.record_pulled(actor.action(None, PULLED, namespace.as_str()), details.as_deref())
                    .await?;
            }
            plugins.load(&load).await
        };
        let loaded = self.run_audited(AuditedAction { details: details.as_deref(), ..action }, loading).await;
        loaded.inspect_err(|error| plugins.record_load_failure(&load, error))
    }

    /// Removes a plugin and its versions.
    pub async fn remove_plugin(&self, actor: Actor<'_>, namespace: &Namespace) -> Result<(), CallError> {
        actor.caller.may(Access::Operate)?;
        let action = actor.action(None, "plugin.remove", namespace.as_str());
        self.run_audited(action, async {
            // So that no organization accepts the plugin meanwhile.
            let _in_order = self.0.documents.lock().await;
            self.parts().plugins.remove(namespace).await
        })
        .await
    }

    /// Serves the version of a plugin that waits for consent.
    pub async fn approve_plugin(
        &self,
        actor: Actor<'_>,
        namespace: &Namespace,
        approval: &PluginApproval,
    ) -> Result<PluginApproved, CallError> {
        actor.caller.may(Access::Operate)?;
        let details = serde_json::value::to_raw_value(approval).ok();
        let action = actor.action(None, "plugin.approve", namespace.as_str());
        self.run_audited(AuditedAction { details: details.as_deref(), ..action }, async {
            // Consent may remove the grant, which is a document.
            let _in_order = self.0.documents.lock().await;
            let (plugin, grant) = self.parts().plugins.approve(namespace, approval).await?;
            Ok(PluginApproved { plugin, grant })
        })
        .await
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
