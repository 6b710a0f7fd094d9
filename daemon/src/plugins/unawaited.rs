//! Loads that nobody waits for: under way, or failed and not tried again since.
//!
//! One that is under way can be taken back, and then ends without being served. Both it and whoever takes it back decide
//! under the lock of the loaded plugins: it is taken back or loaded, never both.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use toolgate_admission::{CallError, ErrorType, Namespace};

use super::load::digest_of;
use super::{Expected, PluginState, PluginView, Plugins};

/// Oldest first for each namespace.
#[derive(Default)]
pub(super) struct Unawaited(Mutex<BTreeMap<Namespace, Vec<Entry>>>);

struct Entry {
    view: PluginView,
    wanted: Wanted,
}

/// Whether one load is still wanted. One that somebody waits for is, to its end.
#[derive(Clone, Default)]
pub(super) struct Wanted(Arc<CancellationToken>);

/// A load that nobody waits for, to be carried out by [`Plugins::load_begun`].
pub struct Begun {
    file: Bytes,
    expected: Expected,
    pub(super) wanted: Wanted,
}

impl Plugins {
    /// Begins a load that nobody waits for, and answers how it is shown until it is decided.
    pub fn begin(&self, file: Bytes, expected: Expected) -> (Begun, PluginView) {
        let view = PluginView::compiling(&expected.namespace, &digest_of(&file));
        let begun = Begun { file, expected, wanted: Wanted::default() };
        self.0.unawaited.add(&begun, view.clone());
        (begun, view)
    }

    /// [`Plugins::load`] of what was begun. It fails where it is taken back meanwhile.
    pub async fn load_begun(&self, begun: &Begun) -> Result<PluginView, CallError> {
        self.load_while(&begun.wanted, begun.file.clone(), begun.expected.clone()).await
    }

    /// Shows from now on that a load failed, unless it was taken back.
    pub fn note_failed(&self, begun: &Begun, error: &CallError) {
        self.0.unawaited.fail(begun, error);
    }
}

impl Wanted {
    /// What the work comes to, or that the load was taken back before.
    pub(super) async fn unless_taken_back<T>(
        &self,
        work: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        self.0.run_until_cancelled(work).await.unwrap_or_else(|| Err(taken_back()))
    }

    pub(super) fn check(&self) -> Result<(), CallError> {
        if self.0.is_cancelled() { Err(taken_back()) } else { Ok(()) }
    }

    fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Unawaited {
    /// How each namespace is shown that has such a load: as the latest of them.
    pub(super) fn latest(&self) -> BTreeMap<Namespace, PluginView> {
        let latest = |(namespace, entries): (&Namespace, &Vec<Entry>)| {
            Some((namespace.clone(), entries.last()?.view.clone()))
        };
        self.entries().iter().filter_map(latest).collect()
    }

    /// All of one namespace, oldest first.
    pub(super) fn of(&self, namespace: &Namespace) -> Vec<PluginView> {
        let all = self.entries();
        all.get(namespace).into_iter().flatten().map(|entry| entry.view.clone()).collect()
    }

    /// Takes back what is under way for a namespace, and forgets what failed; whether there was anything.
    pub(super) fn take_back(&self, namespace: &Namespace) -> bool {
        let taken = self.entries().remove(namespace).unwrap_or_default();
        for entry in &taken {
            entry.wanted.0.cancel();
        }
        !taken.is_empty()
    }

    /// Forgets a load that is served now, and those that failed before it.
    pub(super) fn settle(&self, namespace: &Namespace, wanted: &Wanted) {
        self.retain(namespace, |entry| entry.is_under_way() && !entry.wanted.is(wanted));
    }

    fn add(&self, begun: &Begun, view: PluginView) {
        let namespace = &begun.expected.namespace;
        self.retain(namespace, Entry::is_under_way);
        let entry = Entry { view, wanted: begun.wanted.clone() };
        self.entries().entry(namespace.clone()).or_default().push(entry);
    }

    fn fail(&self, begun: &Begun, error: &CallError) {
        let mut all = self.entries();
        let mut entries = all.get_mut(&begun.expected.namespace).into_iter().flatten();
        if let Some(entry) = entries.find(|entry| entry.wanted.is(&begun.wanted)) {
            entry.view.fail(error);
        }
    }

    fn retain(&self, namespace: &Namespace, stays: impl Fn(&Entry) -> bool) {
        let mut all = self.entries();
        if let Some(entries) = all.get_mut(namespace) {
            entries.retain(stays);
            if entries.is_empty() {
                all.remove(namespace);
            }
        }
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<Namespace, Vec<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn is_under_way(&self) -> bool {
        self.view.state == PluginState::Compiling
    }
}

fn taken_back() -> CallError {
    CallError::new(
        ErrorType::Cancelled,
        "the plugin was removed while it was loaded",
        "load it again if it is to serve",
    )
}
