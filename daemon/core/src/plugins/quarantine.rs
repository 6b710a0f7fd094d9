//! Quarantine: a new version that differs from the serving one in what models see or calls may do waits for consent, while
//! the serving one goes on (O2).
//!
//! A newer load replaces the version that waits. A version that served before was consented to then, so that a roll back
//! and a load of its file need no consent.

use std::sync::Arc;

use toolgate_admission::{Digest, Plugin};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{
    GrantAfterApproval, PluginApproval, PluginState, PluginView, VersionDifference, VersionView,
};
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::documents::PluginKey;
use toolgate_state::store::PluginVersionRow;

use super::checked::PluginChange;
use super::differences::{Side, asks_for_the_same, differences};
use super::history::{KeptVersion, StateReason, capabilities_view, tool_views};
use super::trust::Signer;
use super::{FileHandle, History, Plugins, Version};

impl KeptVersion {
    /// The stored row of a version that waits for consent.
    pub(super) fn quarantined_row(&self) -> PluginVersionRow {
        let mut row = self.row();
        row.trust.quarantined = true;
        row
    }
}

impl History {
    /// Takes a loaded version. It serves at once if it served before or differs in nothing that needs consent; otherwise it
    /// waits. Returns the files of the versions that are no longer kept.
    pub(super) fn take(&mut self, version: Version) -> Vec<FileHandle> {
        let digest = &version.plugin.digest;
        if self.serves(digest) {
            self.renew_serving(version);
            return Vec::new();
        }
        let served = self.kept_version(digest);
        let was_confirmed =
            served.and_then(KeptVersion::ready).is_some_and(|old| old.plugin.has_trusted_hints);
        if served.is_none() && !self.differences_to(&version).is_empty() {
            return self.quarantine(version);
        }
        let version = if was_confirmed { version.with_confirmed_hints() } else { version };
        let waiting = self.quarantined.take().and_then(KeptVersion::into_handle);
        let mut dropped = self.push(version);
        dropped.extend(waiting);
        dropped
    }

    fn quarantine(&mut self, version: Version) -> Vec<FileHandle> {
        let before = self.quarantined.replace(KeptVersion::Ready(version));
        before.and_then(KeptVersion::into_handle).into_iter().collect()
    }

    /// The differences that a person should see before the version serves instead of the present one.
    pub(super) fn differences_to(&self, version: &Version) -> Vec<VersionDifference> {
        let signer = self.serving_version().and_then(|serving| serving.signer.as_ref());
        differences(Side { descriptor: self.descriptor(), signer }, side(version))
    }

    /// Serves the version that waits, or the canary, if it has this digest, with its hints confirmed. Returns the files of the
    /// versions that are no longer kept.
    pub(super) fn approve(
        &mut self,
        namespace: &Namespace,
        digest: &str,
    ) -> Result<Vec<FileHandle>, CallError> {
        let version = self.waiting(namespace, digest)?.clone();
        if self.running_canary(digest).is_none() {
            self.quarantined = None;
        }
        Ok(self.push(version.with_confirmed_hints()))
    }

    /// The version with this digest that waits for consent, if it can serve.
    pub(super) fn waiting_version(&self, digest: &Digest) -> Option<&Version> {
        let waiting = self.quarantined.as_ref().and_then(KeptVersion::ready);
        waiting.filter(|waiting| waiting.plugin.digest == *digest)
    }

    pub(super) fn waiting(&self, namespace: &Namespace, digest: &str) -> Result<&Version, CallError> {
        if let Some(version) = self.running_canary(digest) {
            return Ok(version);
        }
        let conflict = |message, hint| Err(CallError::new(ErrorType::Conflict, message, hint));
        match &self.quarantined {
            None => conflict(
                format!("no version of plugin `{namespace}` waits for consent"),
                "see the states of its versions with `toolgate plugin show`",
            ),
            Some(waiting) if waiting.row().digest != digest => conflict(
                format!("the version of `{namespace}` that waits is `{}`", waiting.row().digest),
                "look at its differences, which `toolgate plugin show` prints, then approve its digest",
            ),
            Some(KeptVersion::Failed(failed)) => {
                conflict(format!("the version cannot be loaded any more: {}", failed.reason), "load it again")
            }
            Some(KeptVersion::Ready(version)) => Ok(version),
        }
    }

    /// The version that waits, with its differences from the one that serves.
    pub(super) fn quarantined_view(&self) -> Option<VersionView> {
        let waiting = self.quarantined.as_ref()?;
        let diff = waiting.ready().map(|version| self.differences_to(version)).unwrap_or_default();
        Some(VersionView { diff, ..waiting.view(self.quarantined_state()) })
    }

    /// The plugin that a view with this digest shows: the one that serves, or the one that waits.
    pub(super) fn plugin_in_view(&self, digest: &str) -> Option<Arc<Plugin<Component>>> {
        let waiting = self.quarantined.as_ref().and_then(KeptVersion::ready);
        let plugins = [Some(self.serving()), waiting.map(|version| Arc::clone(&version.plugin))];
        plugins.into_iter().flatten().find(|plugin| plugin.digest.as_str() == digest)
    }

    /// The answer to the load of a version that waits: the version itself, in the view of its plugin.
    pub(super) fn view_of_load(&self, digest: &Digest, view: PluginView) -> PluginView {
        let Some(waiting) = self.waiting_version(digest) else { return view };
        let descriptor = &waiting.plugin.descriptor;
        let (state, reason) = self.quarantined_state();
        PluginView {
            version: descriptor.version.clone(),
            digest: digest.to_string(),
            publisher: descriptor.publisher.clone(),
            category: descriptor.category.clone(),
            purpose: descriptor.purpose.clone(),
            tools: tool_views(&waiting.plugin),
            capabilities: capabilities_view(&descriptor.capabilities),
            state,
            reason,
            left_out: descriptor.left_out.clone(),
            ignored_fields: descriptor.unknown_fields.clone(),
            signed_by: waiting.signer.as_ref().map(Signer::view),
            diff: self.differences_to(waiting),
            ..view
        }
    }

    fn quarantined_state(&self) -> StateReason {
        let reason = format!(
            "it differs from version {}, which serves on, and waits for consent: `toolgate plugin approve`",
            self.serving().descriptor.version
        );
        (PluginState::Quarantined, Some(reason))
    }
}

fn side(version: &Version) -> Side<'_> {
    Side { descriptor: &version.plugin.descriptor, signer: version.signer.as_ref() }
}

#[boxed]
impl Plugins {
    /// Serves the version that waits for consent, or gives a canary all calls. Confirms its hints, and removes the plugin's
    /// grant if the version asks for other capabilities or limits. Returns `CONFLICT` if another version waits than the one
    /// that was seen.
    ///
    /// The caller holds back other changes of grants.
    pub async fn approve(
        &self,
        key: &PluginKey,
        approval: &PluginApproval,
    ) -> Result<(PluginView, GrantAfterApproval), CallError> {
        self.wait_until_compiled(&key.namespace).await;
        let _changing = self.0.table.change().await;
        let mut next = self.0.table.history(key)?;
        let waiting = next.waiting(&key.namespace, &approval.digest)?;
        self.check_signer(key.owner.as_ref(), waiting)?;
        // An owner cannot keep what an operator granted to a version that asked for something else.
        let keeps_grant = approval.keep_grant && key.owner.is_none()
            || asks_for_the_same(&next.serving().descriptor, &waiting.plugin.descriptor);
        let dropped = next.approve(&key.namespace, &approval.digest)?;
        self.store_and_serve(key, PluginChange { next, dropped, keeps_grant, load: None }).await
    }
}

pub(super) fn grant_after(has_grant: bool, is_kept: bool) -> GrantAfterApproval {
    match (has_grant, is_kept) {
        (false, _) => GrantAfterApproval::None,
        (true, true) => GrantAfterApproval::Kept,
        (true, false) => GrantAfterApproval::Removed,
    }
}
