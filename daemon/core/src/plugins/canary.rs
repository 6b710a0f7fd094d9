//! Canary releases: a new version that looks the same takes a share of the calls while the old one serves the rest.
//!
//! A canary that fails more often than chance allows is returned: the old version has all calls again, and the canary is
//! kept as failed with the reason. Promoting it, or any other load, ends the trial; so does a roll back. A restart keeps
//! the trial and begins to count anew.

use std::sync::Arc;

use toolgate_admission::{Canary, Digest, Plugin, VersionCounters, VersionOutcomes, fails_more_often};
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::plugin::{CanaryView, PluginState, PluginView, VersionView};
use toolgate_macros::boxed;
use toolgate_sandbox::Component;
use toolgate_state::documents::PluginKey;
use toolgate_state::store::{CanaryRow, PluginVersionRow};

use super::history::KeptVersion;
use super::{CanaryShare, FileHandle, History, Plugins, Version};

/// The reason of a canary that an operator rolled back.
const ROLLED_BACK: &str = "rolled back";

/// A version on trial, or one whose trial failed.
#[derive(Clone)]
pub(super) struct CanaryVersion {
    kept: KeptVersion,
    percent: u8,
    counters: Arc<VersionCounters>,
    /// The counters of the version that serves the other calls.
    serving: Arc<VersionCounters>,
    /// The reason that ended the trial.
    failure: Option<String>,
}

/// A canary that fails too often.
pub struct FailingCanary {
    /// Its plugin.
    pub plugin: PluginKey,
    /// Its digest.
    pub digest: Digest,
    /// The outcomes of both versions in words.
    pub reason: String,
}

impl CanaryVersion {
    fn new(kept: KeptVersion, percent: u8, failure: Option<String>) -> Self {
        Self { kept, percent, counters: Arc::default(), serving: Arc::default(), failure }
    }

    /// The trial of a stored version.
    pub(super) fn restore(kept: KeptVersion, row: &CanaryRow) -> Self {
        Self::new(kept, u8::try_from(row.percent).unwrap_or_default(), row.failure.clone())
    }

    /// The version, if it takes calls.
    fn running(&self) -> Option<&Version> {
        self.kept.ready().filter(|_| self.failure.is_none())
    }

    fn outcomes(&self) -> (VersionOutcomes, VersionOutcomes) {
        (self.counters.outcomes(), self.serving.outcomes())
    }

    pub(super) fn row(&self) -> PluginVersionRow {
        let canary = CanaryRow { percent: self.percent.into(), failure: self.failure.clone() };
        PluginVersionRow { canary: Some(canary), ..self.kept.row() }
    }

    pub(super) fn view(&self) -> VersionView {
        let state = match &self.failure {
            None => (PluginState::Canary, None),
            Some(reason) if reason == ROLLED_BACK => (PluginState::Disabled, Some(reason.clone())),
            Some(reason) => (PluginState::Failed, Some(reason.clone())),
        };
        let (canary, serving) = self.outcomes();
        let view = CanaryView {
            percent: self.percent,
            calls: canary.calls,
            failures: canary.failures,
            serving_calls: serving.calls,
            serving_failures: serving.failures,
        };
        VersionView { canary: Some(view), ..self.kept.view(state) }
    }

    pub(super) fn has_digest(&self, digest: &Digest) -> bool {
        self.kept.has_digest(digest)
    }

    pub(super) fn into_kept(self) -> KeptVersion {
        self.kept
    }
}

impl History {
    /// Begins the trial of a version beside the serving one. Returns the file of the trial before it.
    pub(super) fn start_canary(
        &mut self,
        version: Version,
        share: CanaryShare,
    ) -> Result<Vec<FileHandle>, CallError> {
        check_canary(self, &version)?;
        let canary = CanaryVersion::new(KeptVersion::Ready(version), share.percent(), None);
        let before = self.canary.replace(canary);
        Ok(before.and_then(|before| before.into_kept().into_handle()).into_iter().collect())
    }

    /// The canary with this digest, if it takes calls.
    pub(super) fn running_canary(&self, digest: &str) -> Option<&Version> {
        self.canary.as_ref()?.running().filter(|version| version.plugin.digest.as_str() == digest)
    }

    /// Ends the trial: the serving version has all calls, and the canary is kept with the reason. `None` without a trial.
    pub(super) fn end_canary(&mut self, reason: String) -> Option<()> {
        let canary = self.canary.as_mut().filter(|canary| canary.running().is_some())?;
        canary.failure = Some(reason);
        Some(())
    }

    /// Ends the trial of a canary by an operator.
    pub(super) fn roll_back_canary(&mut self) -> Option<()> {
        self.end_canary(ROLLED_BACK.to_owned())
    }

    /// The serving plugin with its canary, for the catalogue.
    pub(super) fn with_canary(&self, serving: Arc<Plugin<Component>>) -> Arc<Plugin<Component>> {
        let Some(canary) = &self.canary else { return serving };
        let Some(version) = canary.running() else { return serving };
        let plugin = Plugin {
            counters: Some(Arc::clone(&canary.counters)),
            has_trusted_hints: serving.has_trusted_hints,
            ..Plugin::clone(&version.plugin)
        };
        Arc::new(Plugin {
            canary: Some(Canary { plugin: Arc::new(plugin), percent: canary.percent }),
            counters: Some(Arc::clone(&canary.serving)),
            ..Plugin::clone(&serving)
        })
    }

    /// The canary, if it fails too often.
    fn failing_canary(&self, plugin: PluginKey) -> Option<FailingCanary> {
        let canary = self.canary.as_ref()?;
        let (counts, serving) = canary.outcomes();
        let digest = canary.running()?.plugin.digest.clone();
        let reason = || {
            format!(
                "{} of its {} calls failed, and {} of {} calls of the version that serves",
                counts.failures, counts.calls, serving.failures, serving.calls
            )
        };
        let is_failing = fails_more_often(counts, serving);
        is_failing.then(|| FailingCanary { plugin, digest, reason: reason() })
    }
}

#[boxed]
impl Plugins {
    /// The canaries that fail more often than their serving version, by more than chance.
    pub fn failing_canaries(&self) -> Vec<FailingCanary> {
        let failing = |owner: Option<Name>| {
            self.0.table.filter_map(owner.as_ref(), |(namespace, entry)| {
                let plugin = PluginKey { owner: owner.clone(), namespace: namespace.clone() };
                entry.ready()?.failing_canary(plugin)
            })
        };
        self.0.table.owners().into_iter().flat_map(failing).collect()
    }

    /// Ends the trial of a canary that fails: the serving version has all calls again.
    pub async fn return_canary(&self, failing: &FailingCanary) -> Result<PluginView, CallError> {
        let FailingCanary { plugin, digest, reason } = failing;
        self.change(plugin, |history| {
            // Another trial may have begun since.
            let is_it = history.canary.as_ref().is_some_and(|canary| canary.has_digest(digest));
            let ended = if is_it { history.end_canary(reason.clone()) } else { None };
            ended.ok_or_else(|| no_trial(&plugin.namespace))
        })
        .await
    }
}

/// The error of a canary without a version that serves the other calls.
pub(super) fn no_serving_version(namespace: &Namespace) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("no version of `{namespace}` serves, beside which a canary could run"),
        "load the plugin without `canary`",
    )
}

/// Checks that a canary is another version, and looks the same to models and to the gate.
fn check_canary(history: &History, version: &Version) -> Result<(), CallError> {
    let namespace = &version.plugin.descriptor.namespace;
    if history.serving().digest == version.plugin.digest {
        return Err(CallError::new(
            ErrorType::Conflict,
            format!("the file is already the serving version of `{namespace}`"),
            "load another version as the canary",
        ));
    }
    match history.differences_to(version).first() {
        None => Ok(()),
        Some(first) => Err(CallError::new(
            ErrorType::Conflict,
            format!(
                "the version differs from the one that serves in what models see or calls may do: {}{}",
                first.tool.as_ref().map(|tool| format!("`{tool}`: ")).unwrap_or_default(),
                first.field
            ),
            "load it without `canary`, and approve its differences",
        )),
    }
}

fn no_trial(namespace: &Namespace) -> CallError {
    CallError::new(
        ErrorType::Conflict,
        format!("no canary of `{namespace}` is on trial"),
        "see the versions of the plugin",
    )
}
