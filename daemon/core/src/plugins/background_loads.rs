//! Loads that run in the background (`Prefer: respond-async`): still running, or failed and not retried since.
//!
//! A running load can be cancelled. Cancelling and installing both happen under the lock of the loaded plugins, so a
//! load is either cancelled or installed, never both.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Namespace;
use toolgate_api::plugin::{PluginState, PluginView};
use toolgate_macros::boxed;

use super::history::compiling_view;
use super::{LoadRequest, Plugins};
use crate::digest::digest_of;
use crate::oci::{Pulled, Reference};

/// The background loads of each namespace, oldest first.
#[derive(Default)]
pub(super) struct BackgroundLoads(Mutex<BTreeMap<Namespace, Vec<Entry>>>);

pub(super) struct Entry {
    view: PluginView,
    token: LoadToken,
}

/// Identifies one load and cancels it. The token of a foreground load is never cancelled.
#[derive(Clone, Default)]
pub(super) struct LoadToken(Arc<CancellationToken>);

/// A load of a plugin, which [`Plugins::load`] executes.
pub struct PluginLoad {
    /// `None` while it is in a registry.
    pub(super) file: Option<Bytes>,
    pub(super) request: LoadRequest,
    pub(super) token: LoadToken,
}

#[boxed]
impl PluginLoad {
    /// A load of a file, or of one that [`PluginLoad::pull`] gets.
    pub fn new(file: Option<Bytes>, request: LoadRequest) -> Self {
        Self { file, request, token: LoadToken::default() }
    }

    /// The parameters of the load.
    pub fn request(&self) -> &LoadRequest {
        &self.request
    }

    /// The digest of the file; `None` while it is in a registry.
    pub fn digest(&self) -> Option<Digest> {
        self.file.as_deref().map(digest_of)
    }

    /// Gets the file from a registry. Returns `CANCELLED` if the plugin is removed meanwhile.
    pub async fn pull(
        &mut self,
        pulling: impl Future<Output = Result<Pulled, CallError>>,
        reference: &Reference,
    ) -> Result<(), CallError> {
        let pulled = self.token.run_until_cancelled(pulling).await?;
        self.file = Some(self.request.take_pulled(pulled, reference));
        Ok(())
    }
}

impl Plugins {
    /// Shows a load with its plugin, whose removal cancels it from now on. Returns its view while it compiles.
    pub fn show_load(&self, load: &PluginLoad) -> PluginView {
        let view = compiling_view(&load.request.namespace, load.digest().as_ref());
        self.0.background.add(&load.request.namespace, view.clone(), load.token.clone());
        view
    }

    /// Shows the load as failed, unless it was cancelled or was never shown.
    pub fn record_load_failure(&self, load: &PluginLoad, error: &CallError) {
        self.0.background.record_failure(
            &load.request.namespace,
            |entry| entry.token.is(&load.token),
            &error.message,
        );
    }
}

impl LoadToken {
    pub(super) async fn run_until_cancelled<T>(
        &self,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        self.0.run_until_cancelled(work).await.unwrap_or_else(|| Err(cancellation_error()))
    }

    pub(super) fn check(&self) -> Result<(), CallError> {
        if self.0.is_cancelled() { Err(cancellation_error()) } else { Ok(()) }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl BackgroundLoads {
    /// The latest load of each namespace.
    pub(super) fn latest(&self) -> BTreeMap<Namespace, PluginView> {
        let latest = |(namespace, entries): (&Namespace, &Vec<Entry>)| {
            Some((namespace.clone(), entries.last()?.view.clone()))
        };
        self.0.lock().iter().filter_map(latest).collect()
    }

    /// The loads of one namespace, oldest first.
    pub(super) fn of(&self, namespace: &Namespace) -> Vec<PluginView> {
        let all = self.0.lock();
        all.get(namespace).into_iter().flatten().map(|entry| entry.view.clone()).collect()
    }

    /// Cancels the running loads of a namespace and forgets the failed ones. Returns whether there were any.
    pub(super) fn cancel(&self, namespace: &Namespace) -> bool {
        let entries = self.0.lock().remove(namespace).unwrap_or_default();
        entries.iter().for_each(|entry| entry.token.0.cancel());
        !entries.is_empty()
    }

    /// Forgets an installed load, and the failed loads before it.
    pub(super) fn complete(&self, namespace: &Namespace, token: &LoadToken) {
        self.retain(namespace, |entry| entry.is_running() && !entry.token.is(token));
    }

    /// Shows a built-in plugin as compiling. Its load is not cancelled.
    pub(super) fn add_built_in(&self, namespace: &Namespace, digest: &Digest) {
        self.add(namespace, compiling_view(namespace, Some(digest)), LoadToken::default());
    }

    /// Shows the entries that fit as failed.
    pub(super) fn record_failure(&self, namespace: &Namespace, fits: impl Fn(&Entry) -> bool, reason: &str) {
        let mut all = self.0.lock();
        let entries = all.get_mut(namespace).into_iter().flatten();
        entries.filter(|entry| fits(entry)).for_each(|entry| entry.view.fail(reason));
    }

    /// Shows a load that failed before its file was read.
    pub(super) fn add_failure(&self, namespace: &Namespace, reason: &str) {
        let mut view = compiling_view(namespace, None);
        view.fail(reason);
        self.add(namespace, view, LoadToken::default());
    }

    /// Forgets the failed loads of a namespace.
    pub(super) fn forget_failures(&self, namespace: &Namespace) {
        self.retain(namespace, Entry::is_running);
    }

    fn add(&self, namespace: &Namespace, view: PluginView, token: LoadToken) {
        self.retain(namespace, Entry::is_running);
        self.0.lock().entry(namespace.clone()).or_default().push(Entry { view, token });
    }

    fn retain(&self, namespace: &Namespace, stays: impl Fn(&Entry) -> bool) {
        let mut all = self.0.lock();
        if let Some(entries) = all.get_mut(namespace) {
            entries.retain(stays);
            if entries.is_empty() {
                all.remove(namespace);
            }
        }
    }
}

impl Entry {
    fn is_running(&self) -> bool {
        self.view.state == PluginState::Compiling
    }
}

fn cancellation_error() -> CallError {
    CallError::new(
        ErrorType::Cancelled,
        "the plugin was removed while it was being loaded",
        "load it again if you still want it",
    )
}
