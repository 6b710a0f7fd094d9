//! Plugins: loaded, rolled back, disabled and removed; canaries returned.

use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use tokio::sync::MutexGuard;
use tokio_util::sync::CancellationToken;
use toolgate_api::error::CallError;
use toolgate_api::name::Name;
use toolgate_api::plugin::{PluginApproval, PluginApproved, PluginView};
use toolgate_macros::boxed;
use toolgate_state::documents::PluginKey;

use super::plugin_sources::{PULLED, RegistryPlugin, load_details};
use super::{Actor, Admin, AuditedAction};
use crate::identity::Access;
use crate::plugins::{FailingCanary, PluginLoad};

/// Principal and source of acts without a request.
pub(super) const DAEMON_PRINCIPAL: &str = "toolgate";
pub(super) const DAEMON_SOURCE: &str = "daemon";
/// Time between two judgements of the canaries: a failing one has its share of the calls for at most so long.
const CANARY_INTERVAL: Duration = Duration::from_secs(1);

#[boxed]
impl Admin {
    /// Judges the canaries every second until `stop`, and returns those that fail too often.
    pub async fn judge_canaries_until(self, stop: CancellationToken) {
        while tokio::time::timeout(CANARY_INTERVAL, stop.cancelled()).await.is_err() {
            for failing in self.services().plugins.failing_canaries() {
                if let Err(error) = self.return_canary(&failing).await {
                    let (namespace, reason) = (&failing.plugin.namespace, error.message);
                    tracing::error!(%namespace, reason, "a canary that fails cannot be returned");
                }
            }
        }
    }

    /// Gives all calls back to the version before a canary.
    async fn return_canary(&self, failing: &FailingCanary) -> Result<(), CallError> {
        let FailingCanary { plugin, digest, reason } = failing;
        let PluginKey { owner, namespace } = plugin;
        let details = serde_json::value::to_raw_value(&json!({"digest": digest.as_str(), "reason": reason}));
        let action = AuditedAction {
            principal: DAEMON_PRINCIPAL,
            organization: owner.as_ref(),
            action: "plugin.canary_return",
            target: namespace.as_str(),
            details: details.as_deref().ok(),
            source: DAEMON_SOURCE,
        };
        self.run_audited(action, async {
            let _in_order = self.order_of_organization(plugin).await;
            self.services().plugins.return_canary(failing).await
        })
        .await?;
        let organization = owner.as_ref().map(Name::as_str);
        tracing::warn!(event = "canary_returned", organization, %namespace, %digest, reason, "a canary failed too often");
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
        let plugins = &self.services().plugins;
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
    pub async fn remove_plugin(
        &self,
        actor: Actor<'_>,
        plugin: impl Into<PluginKey>,
    ) -> Result<(), CallError> {
        let plugin = plugin.into();
        let removing = async {
            // So that no organization accepts the plugin or stores settings for it meanwhile.
            let _documents_in_order = self.0.documents.lock().await;
            let _in_order = self.order_of_organization(&plugin).await;
            self.services().plugins.remove(&plugin).await
        };
        self.change_plugin(actor, &plugin, "plugin.remove", None, removing).await
    }

    /// Serves the version of a plugin that waits for consent, if its digest is this one.
    pub async fn approve_plugin(
        &self,
        actor: Actor<'_>,
        plugin: impl Into<PluginKey>,
        approval: &PluginApproval,
    ) -> Result<PluginApproved, CallError> {
        let plugin = plugin.into();
        let approving = async {
            // Consent may remove the grant, which is a document.
            let _documents_in_order = self.0.documents.lock().await;
            let _in_order = self.order_of_organization(&plugin).await;
            let (plugin, grant) = self.services().plugins.approve(&plugin, approval).await?;
            Ok(PluginApproved { plugin, grant })
        };
        let details = serde_json::value::to_raw_value(approval).ok();
        self.change_plugin(actor, &plugin, "plugin.approve", details.as_deref(), approving).await
    }

    /// Serves the previous version of a plugin again, or the kept version that `to` names.
    pub async fn roll_back_plugin(
        &self,
        actor: Actor<'_>,
        plugin: impl Into<PluginKey>,
        to: Option<&str>,
    ) -> Result<PluginView, CallError> {
        let plugin = plugin.into();
        let rolling_back = async {
            let _in_order = self.order_of_organization(&plugin).await;
            self.services().plugins.roll_back(&plugin, to).await
        };
        let details =
            to.and_then(|version| serde_json::value::to_raw_value(&json!({"version": version})).ok());
        self.change_plugin(actor, &plugin, "plugin.rollback", details.as_deref(), rolling_back).await
    }

    /// Disables or enables the tools of a plugin for every agent that could call them.
    pub async fn switch_plugin(
        &self,
        actor: Actor<'_>,
        plugin: impl Into<PluginKey>,
        disabled: bool,
    ) -> Result<PluginView, CallError> {
        let plugin = plugin.into();
        let switching = async {
            let _in_order = self.order_of_organization(&plugin).await;
            self.services().plugins.set_disabled(&plugin, disabled).await
        };
        let action = if disabled { "plugin.disable" } else { "plugin.enable" };
        self.change_plugin(actor, &plugin, action, None, switching).await
    }

    /// Performs an act on a plugin: of an operator on one of the platform, of an owner on one of the organization.
    pub(super) async fn change_plugin<T>(
        &self,
        actor: Actor<'_>,
        plugin: &PluginKey,
        action: &'static str,
        details: Option<&RawValue>,
        change: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        match &plugin.owner {
            None => actor.caller.may(Access::Operate)?,
            Some(organization) => actor.caller.may_own(organization)?,
        }
        let action = actor.action(plugin.owner.as_ref(), action, plugin.namespace.as_str());
        self.run_audited(AuditedAction { details, ..action }, change).await
    }

    /// Locks the tools and grants of the organization that has the plugin: a custom tool and a plugin of one namespace would replace
    /// each other, and the operator's grant would be lost that is stored meanwhile.
    async fn order_of_organization(&self, plugin: &PluginKey) -> Option<MutexGuard<'_, ()>> {
        Some(self.custom().in_order(&plugin.in_organization()?).await)
    }
}
