//! Plugins: loaded, rolled back, disabled and removed; canaries returned.

use std::time::Duration;

use bytes::Bytes;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolgate_api::error::CallError;
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{PluginApproval, PluginApproved, PluginView};

use super::{Actor, Admin, AuditedAction};
use crate::identity::Access;
use crate::plugins::{BackgroundLoad, FailingCanary, LoadRequest};

/// Principal and source of acts without a request.
const DAEMON_PRINCIPAL: &str = "toolgate";
const DAEMON_SOURCE: &str = "daemon";
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
