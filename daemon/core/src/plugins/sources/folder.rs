//! The watched folder as an origin of plugins: what a load of one of its files would change.

use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Namespace;
use toolgate_state::clock::now_ms;
use toolgate_state::documents::PluginKey;

use super::super::history::History;
use super::super::table::Entry;
use super::super::{LoadRequest, LoadSource, Plugins, Version};

impl Plugins {
    /// The plugins of the platform whose chosen version came from the watched folder.
    pub(crate) fn namespaces_from_folder(&self) -> Vec<Namespace> {
        self.0.table.filter_map(None, |(namespace, entry)| {
            (entry.source() == LoadSource::Folder).then(|| namespace.clone())
        })
    }

    pub(crate) fn is_from_folder(&self, namespace: &Namespace) -> bool {
        self.namespaces_from_folder().contains(namespace)
    }

    /// Whether a load of the file would change nothing, or serve what waits for consent or was taken back: by an operator, or as
    /// a canary that failed.
    pub(crate) fn needs_no_load(&self, request: &LoadRequest, digest: &Digest) -> bool {
        self.0.table.look(&PluginKey::from(&request.namespace), |entry| match entry {
            None => false,
            Some(Entry::Failed(failed)) => failed.holds_back(digest),
            Some(Entry::Ready(history)) => self.is_no_change(history, request, digest),
        })
    }

    fn is_no_change(&self, history: &History, request: &LoadRequest, digest: &Digest) -> bool {
        let still_waits = |version: &&Version| self.check_signer(None, version).is_ok();
        let version = match history.serves(digest) {
            true => history.serving_version(),
            false => history.waiting_version(digest).filter(still_waits),
        };
        let is_signed_anew = |version: &Version| {
            let keys = &self.0.publisher_keys;
            let signer = keys.verify(request, &version.plugin.descriptor, digest, now_ms());
            signer.is_ok_and(|signer| signer.is_some() && signer != version.signer)
        };
        history.is_held_back(digest) || version.is_some_and(|version| !is_signed_anew(version))
    }

    pub(crate) fn expect_from_folder(&self, namespace: &Namespace) -> Result<(), CallError> {
        let key = PluginKey::from(namespace);
        self.0.table.look(&key, |entry| check_source(entry, namespace, &LoadSource::Folder))
    }

    pub(crate) fn forget_load_failures(&self, namespace: &Namespace) {
        self.0.background.forget_failures(namespace);
    }

    pub(crate) fn show_load_failure(&self, namespace: &Namespace, error: &CallError) {
        self.0.background.add_failure(namespace, &error.message);
    }
}

/// Checks that the folder replaces only what came from it.
pub(in crate::plugins) fn check_source(
    replaced: Option<&Entry>,
    namespace: &Namespace,
    source: &LoadSource,
) -> Result<(), CallError> {
    // A built-in plugin is refused with its own reason.
    let is_built_in = |entry: &&Entry| entry.ready().is_some_and(History::is_built_in);
    let origin = match replaced.filter(|entry| !is_built_in(entry)).map(Entry::source) {
        Some(LoadSource::Upload) if *source == LoadSource::Folder => "an upload",
        Some(LoadSource::Registry { .. }) if *source == LoadSource::Folder => "a registry",
        _ => return Ok(()),
    };
    Err(CallError::new(
        ErrorType::Conflict,
        format!("the plugin `{namespace}` came from {origin}, so the file of the folder does not replace it"),
        "remove the plugin, or the file",
    ))
}
