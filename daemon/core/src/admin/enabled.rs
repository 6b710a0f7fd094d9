//! Plugins as organizations have them: settings (C5) and consent (C6).

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use toolgate_admission::{OrgRules, Plugin, permissions_in_words};
use toolgate_api::catalogue::{EnabledDocument, EnabledView};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Namespace;
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::clock::now_ms;
use toolgate_state::documents::{DocumentKey, Precondition, Revision, ToolKey};
use toolgate_state::store::WriteResult;

use super::plugins::{DAEMON_PRINCIPAL, DAEMON_SOURCE};
use super::{Actor, Admin, AuditedAction};
use crate::catalogue::{Origin, integrations, plugin_facts};
use crate::enabled::{Acceptance, StoredEnabled, apply};
use crate::identity::Caller;
use crate::plugins::capabilities_view;
use crate::registry::{ChangeScope, Replacement, Snapshot};

/// The name in place of a person in consents that an upgrade carried over.
const UPGRADE: &str = "upgrade";

#[boxed]
impl Admin {
    /// Returns a plugin as an organization has it: what its consent accepts, or would accept, and its settings. The revision is
    /// that of the stored document, if there is one.
    pub async fn enabled_plugin(
        &self,
        caller: &Caller,
        key: &ToolKey,
    ) -> Result<(EnabledView, Option<Revision>), CallError> {
        self.expect_own(caller, &key.organization)?;
        self.services().plugins.wait_until_compiled(&key.namespace).await;
        let stored = self.services().store.find_document(&DocumentKey::Enabled(key.clone())).await?;
        Ok((self.enabled_view(key).await?, stored.map(|document| document.revision)))
    }

    /// Stores the settings and the consent of an organization, and puts them in force. A dry run checks them alone.
    pub async fn put_enabled(
        &self,
        actor: Actor<'_>,
        key: &ToolKey,
        text: &str,
        precondition: &Precondition,
        dry_run: bool,
    ) -> Result<(Option<WriteResult>, EnabledView), CallError> {
        self.expect_own(actor.caller, &key.organization)?;
        self.services().plugins.wait_until_compiled(&key.namespace).await;
        self.services().registry.wait_for_asserted(Some(&key.organization)).await;
        let details = self.consent_details(key, text);
        let action = enabled_action(actor, key, "enabled.put", details.as_deref());
        let written = self.run_audited_unless_dry(dry_run, action, async {
            let _in_order = self.0.documents.lock().await;
            let snapshot = self.services().registry.snapshot();
            let plugin = available_plugin(&snapshot, key)?;
            let before = snapshot.stored_enabled(&key.organization, &key.namespace);
            let enabled = apply(text, before, &plugin, (&*actor.caller.token_id, now_ms()))?;
            let replacement = replacement(key, Some(enabled.clone()));
            let sees_platform = actor.caller.organization.is_none();
            let scope = ChangeScope::organization(&key.organization, sees_platform);
            let change = |rules: &Snapshot| rules.with_document(replacement.clone());
            let _checked = self.services().registry.check_change(scope, change).await?;
            let document = DocumentKey::Enabled(key.clone());
            let store = &self.services().store;
            if dry_run {
                store.check_put(&document, precondition).await?;
                return Ok(None);
            }
            let written = store.put_document(&document, &enabled.text(), precondition, actor.stamp()).await?;
            self.services().registry.put(replacement);
            Ok(Some(written))
        });
        Ok((written.await?, self.enabled_view(key).await?))
    }

    /// Accepts, for each organization, the plugins that its agents had before plugins needed its consent. Each is recorded. Does
    /// nothing after the first start that asks for consent.
    pub async fn carry_over_consents(&self) -> Result<(), CallError> {
        let (store, registry) = (&self.services().store, &self.services().registry);
        if store.consents_are_carried_over().await? || !registry.snapshot().requires_consent() {
            return Ok(());
        }
        let snapshot = registry.snapshot();
        for organization in snapshot.organizations(None) {
            let Some(rules) = snapshot.organization(&organization) else { continue };
            let catalogue = snapshot.catalogue_of(&organization);
            let tools = catalogue.tools().iter().filter(|tool| rules.lacks_consent(tool.index()));
            let missing: BTreeSet<Namespace> = tools.map(|tool| tool.id().namespace.clone()).collect();
            // Settings of an owner, if there are any, are the owner's word.
            let unset =
                missing.iter().filter(|plugin| snapshot.stored_enabled(&organization, plugin).is_none());
            for plugin in unset.filter_map(|namespace| catalogue.plugin(namespace)) {
                let key = ToolKey {
                    organization: organization.clone(),
                    namespace: plugin.descriptor.namespace.clone(),
                };
                self.carry_over_consent(&key, plugin).await?;
            }
        }
        Ok(store.set_consents_carried_over().await?)
    }

    async fn carry_over_consent(&self, key: &ToolKey, plugin: &Plugin<Component>) -> Result<(), CallError> {
        let details = raw(&acceptance_details(plugin));
        let action = AuditedAction {
            principal: DAEMON_PRINCIPAL,
            organization: Some(&key.organization),
            action: "enabled.put",
            target: key.namespace.as_str(),
            details: details.as_deref(),
            source: DAEMON_SOURCE,
        };
        self.run_audited(action, async {
            let accepted = Some(Acceptance::of(plugin, UPGRADE, now_ms()));
            let enabled = StoredEnabled { accepted, ..StoredEnabled::default() };
            let (document, text) = (DocumentKey::Enabled(key.clone()), enabled.text());
            self.services().store.put_document(&document, &text, &Precondition::Absent, now_ms()).await?;
            self.services().registry.put(replacement(key, Some(enabled)));
            Ok(())
        })
        .await
    }

    /// The state of an organization's consent to a plugin, and who answers for the plugin.
    async fn enabled_view(&self, key: &ToolKey) -> Result<EnabledView, CallError> {
        let snapshot = self.services().registry.snapshot();
        let plugin = available_plugin(&snapshot, key)?;
        let rules = snapshot.organization(&key.organization).ok_or_else(|| no_plugin(key))?;
        let is_own = snapshot.owns(&key.organization, &key.namespace);
        let provenance = match is_own {
            true => self.own_provenance(&key.organization).await?,
            false => self.services().plugins.provenance(None),
        };
        let origin = Origin::of(&snapshot, &plugin, is_own, provenance.get(&key.namespace));
        let stored = snapshot.stored_enabled(&key.organization, &key.namespace).cloned().unwrap_or_default();
        let descriptor = &plugin.descriptor;
        Ok(EnabledView {
            facts: plugin_facts(&plugin, origin, rules.consent_to(&plugin)),
            capabilities: capabilities_view(&descriptor.capabilities),
            missing_integrations: missing_integrations(&snapshot, key, &plugin),
            enabled: enables_all(&snapshot, key, &rules),
            accepted: stored.accepted.as_ref().map(Acceptance::view),
            config_error: stored.check_settings(&plugin).err().map(|error| error.message),
            config: stored.config,
            config_schema: descriptor.config_schema.as_ref().map(|schema| schema.source().clone()),
        })
    }

    /// The details of a consent in a request for the audit log; none for a request that cannot be read, which is refused.
    fn consent_details(&self, key: &ToolKey, text: &str) -> Option<Box<RawValue>> {
        let request: EnabledDocument = toolgate_api::read::read_document(text).ok()?;
        let consent = request.consent?;
        let snapshot = self.services().registry.snapshot();
        let plugin = available_plugin(&snapshot, key).ok()?;
        let mut details = acceptance_details(&plugin);
        details["accept"] = consent.accept.into();
        details["digest"] = consent.digest.into();
        raw(&details)
    }
}

fn missing_integrations(snapshot: &Snapshot, key: &ToolKey, plugin: &Plugin<Component>) -> Vec<String> {
    let connected = snapshot.connected_integrations(&key.organization);
    let missing = integrations(plugin).into_iter().filter(|name| !connected.contains(*name));
    missing.map(str::to_owned).collect()
}

/// The plugin, if the platform lets the organization use a tool of it. Another organization's does not exist.
fn available_plugin(snapshot: &Snapshot, key: &ToolKey) -> Result<Arc<Plugin<Component>>, CallError> {
    let catalogue = snapshot.catalogue_of(&key.organization);
    let rules = snapshot.organization(&key.organization);
    let found = catalogue.plugin(&key.namespace).filter(|_| {
        let mut tools = catalogue.tools().iter().filter(|tool| tool.id().namespace == key.namespace);
        rules.is_some_and(|rules| tools.any(|tool| rules.is_available(tool.index())))
    });
    found.cloned().ok_or_else(|| no_plugin(key))
}

/// Whether the policy enables each tool of the plugin that the platform allows.
fn enables_all(snapshot: &Snapshot, key: &ToolKey, rules: &OrgRules) -> bool {
    let catalogue = snapshot.catalogue_of(&key.organization);
    let mut tools = catalogue.tools().iter().filter(|tool| tool.id().namespace == key.namespace);
    tools.all(|tool| !rules.is_available(tool.index()) || rules.enables(tool.index()))
}

fn no_plugin(key: &ToolKey) -> CallError {
    CallError::new(
        ErrorType::NotFound,
        format!("the organization may use no plugin `{}`", key.namespace),
        "see `toolgate catalogue` for those that it may use",
    )
}

fn replacement(key: &ToolKey, enabled: Option<StoredEnabled>) -> Replacement {
    Replacement::Enabled(key.organization.clone(), key.namespace.clone(), enabled)
}

fn enabled_action<'a>(
    actor: Actor<'a>,
    key: &'a ToolKey,
    action: &'static str,
    details: Option<&'a RawValue>,
) -> AuditedAction<'a> {
    AuditedAction { details, ..actor.action(Some(&key.organization), action, key.namespace.as_str()) }
}

/// The details of an acceptance for the audit log.
fn acceptance_details(plugin: &Plugin<Component>) -> Value {
    json!({
        "accept": true,
        "digest": plugin.digest.as_str(),
        "publisher": plugin.descriptor.publisher,
        "permissions": permissions_in_words(&plugin.descriptor.capabilities),
    })
}

fn raw(value: &Value) -> Option<Box<RawValue>> {
    to_raw_value(value).ok()
}
