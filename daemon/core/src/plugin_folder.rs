//! The watched folder: files that are added or replaced are loaded, and plugins whose files are removed are removed.
//!
//! A file is loaded when it was not written to since a program closed it or renamed it to its name, and two looks see the
//! same size and time. So a file that is half written is not loaded. A file whose load failed is not loaded again until it
//! changes; the version before serves meanwhile.
//!
//! Events only say when to look. The action follows from the files and the loaded plugins alone, so a lost event or a restart
//! changes nothing.

mod events;
mod look;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::name::Namespace;
use toolgate_api::plugin::PluginView;
use toolgate_macros::boxed;

use crate::admin::{Actor, Admin};
use crate::digest::digest_of;
use crate::identity::Caller;
use crate::plugins::{LoadRequest, LoadSource, PluginLoad};
use events::FolderEvents;
use look::{Look, Presence, ReadFile, Stamp};

/// The source of acts of the folder in the audit log.
const AUDIT_SOURCE: &str = "folder";

/// The first bytes of a WebAssembly file.
const WASM_MAGIC: &[u8] = b"\0asm";

/// Time between two looks at a file that has changed.
const SETTLE_TIME: Duration = Duration::from_millis(200);

/// Time between two looks without an event: some file systems send none.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// Time between two looks at a folder that is not there: it may be mounted late.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Failures of one look that are logged one by one.
const LOGGED_FAILURES: usize = 20;

/// The folder, and what is known of its files.
pub struct PluginFolder {
    folder: Arc<Path>,
    admin: Admin,
    /// Tasks that may end after the folder is no longer watched.
    background: TaskTracker,
    /// The largest plugin file.
    limit_bytes: u64,
    files: BTreeMap<Namespace, KnownFile>,
    /// Names of files that no plugin can have, which are logged once.
    misnamed: BTreeSet<String>,
    is_first_look: bool,
    is_readable: bool,
    /// Whether a file that is not there was removed.
    presence: Presence,
    /// Failures of this look.
    failures: usize,
}

/// A file, and what was done about it.
#[derive(Default)]
struct KnownFile {
    /// The stamp that the last look saw; none if the file was not there.
    seen: Option<Stamp>,
    /// The stamp of the file that was loaded, or failed to load.
    handled: Option<Stamp>,
}

/// The need for another look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Something has changed since the last look.
    Soon,
    /// Everything is done.
    AtEvent,
}

#[boxed]
impl PluginFolder {
    /// A folder whose files have at most `limit_bytes`. Loads run in `background`.
    pub fn new(folder: PathBuf, admin: Admin, background: TaskTracker, limit_bytes: u64) -> Self {
        let (files, misnamed) = (BTreeMap::new(), BTreeSet::new());
        Self {
            folder: folder.into(),
            admin,
            background,
            limit_bytes,
            files,
            misnamed,
            is_first_look: true,
            is_readable: true,
            presence: Presence::default(),
            failures: 0,
        }
    }

    /// Follows the folder until `stop`.
    pub async fn watch(mut self, stop: CancellationToken) {
        stop.run_until_cancelled(self.follow()).await;
    }

    async fn follow(&mut self) {
        // Also the plugins whose files were removed while the daemon was down.
        let loaded = self.admin.services().plugins.namespaces_from_folder();
        self.files.extend(loaded.into_iter().map(|namespace| (namespace, KnownFile::default())));
        let mut events = None;
        loop {
            // Before the look, so that no change after it is missed.
            if events.as_ref().is_none_or(|events: &FolderEvents| events.is_gone) {
                if events.is_some() {
                    self.presence.forget();
                }
                events = FolderEvents::open(&self.folder).ok();
            }
            let next = self.look(&mut events).await;
            sleep(SETTLE_TIME).await;
            match (next, &mut events) {
                (Next::AtEvent, Some(events)) => drop(timeout(LOOK_INTERVAL, wait_for_events(events)).await),
                (Next::AtEvent, None) => sleep(RETRY_INTERVAL).await,
                (Next::Soon, _) => {}
            }
        }
    }

    /// Looks at the folder once, and loads and removes what two looks agree on.
    async fn look(&mut self, events: &mut Option<FolderEvents>) -> Next {
        let folder = Arc::clone(&self.folder);
        let looked = tokio::task::spawn_blocking(move || look::look(&folder)).await;
        let look = match looked.map_err(io::Error::other).and_then(|looked| looked) {
            Ok(look) => look,
            Err(error) => {
                self.report_unreadable(&error);
                return Next::AtEvent;
            }
        };
        self.is_readable = true;
        self.report_names(&look);
        // A file that is written to since is unfinished.
        let has_events = events.as_mut().is_some_and(|events| events.catch_up().unwrap_or(true));
        let (mut changed, mut next) = self.compare(look, events.as_ref());
        if std::mem::take(&mut self.is_first_look) {
            changed.clear();
            next = Next::Soon;
        }
        if has_events {
            next = Next::Soon;
        }
        self.failures = 0;
        for (namespace, stamp) in changed {
            match stamp {
                Some(stamp) => self.load(namespace, stamp).await,
                None => self.remove(namespace).await,
            }
        }
        if self.failures > LOGGED_FAILURES {
            let count = self.failures - LOGGED_FAILURES;
            tracing::warn!(
                count,
                "more files of the plugin folder are not loaded: see `toolgate plugin list`"
            );
        }
        next
    }

    /// Compares a look with the one before. Returns the files to load, with their stamps, and those that are gone.
    fn compare(
        &mut self,
        look: Look,
        events: Option<&FolderEvents>,
    ) -> (Vec<(Namespace, Option<Stamp>)>, Next) {
        let has_files = self.presence.note(&look);
        let Look { files: mut seen, is_cut, .. } = look;
        let mut next = Next::AtEvent;
        let mut changed = Vec::new();
        let is_unfinished = |namespace: &Namespace, stamp: &Stamp| {
            let is_one = |events: &FolderEvents| {
                stamp.files(namespace).any(|(name, bytes)| events.is_unfinished(name.as_ref(), bytes))
            };
            events.is_some_and(is_one)
        };
        for (namespace, known) in &mut self.files {
            let now = seen.remove(namespace);
            // A file may be one that was not looked at.
            if now.is_none() && (is_cut || !has_files) {
                continue;
            }
            if now != known.seen {
                known.seen = now;
                next = Next::Soon;
            } else if now != known.handled || now.is_none() {
                changed.push((namespace.clone(), now));
            }
        }
        changed
            .retain(|(namespace, stamp)| stamp.as_ref().is_none_or(|stamp| !is_unfinished(namespace, stamp)));
        for (namespace, stamp) in seen {
            self.files.insert(namespace, KnownFile { seen: Some(stamp), handled: None });
            next = Next::Soon;
        }
        (changed, next)
    }

    async fn load(&mut self, namespace: Namespace, stamp: Stamp) {
        let (folder, name, expected) = (Arc::clone(&self.folder), namespace.clone(), stamp.clone());
        let limit_bytes = self.limit_bytes;
        let read = move || look::read(&folder, &name, &expected, limit_bytes);
        let read = tokio::task::spawn_blocking(read).await.map_err(io::Error::other);
        let result = match read.and_then(|read| read) {
            Ok(Some(file)) => self.load_file(&namespace, file).await,
            // The next look sees the change.
            Ok(None) => return,
            Err(error) => {
                let error = unreadable(&error);
                self.admin.services().plugins.show_load_failure(&namespace, &error);
                Err(error)
            }
        };
        let is_final = match result {
            Ok(()) => true,
            Err(error) => {
                self.report_failure(&namespace, &error);
                !error.retryable
            }
        };
        if let Some(known) = self.files.get_mut(&namespace).filter(|_| is_final) {
            known.handled = Some(stamp);
        }
    }

    async fn load_file(&self, namespace: &Namespace, file: ReadFile) -> Result<(), CallError> {
        let plugins = &self.admin.services().plugins;
        let request = LoadRequest {
            signature: file.signature,
            ..LoadRequest::new(namespace.clone(), LoadSource::Folder)
        };
        if plugins.needs_no_load(&request, &digest_of(&file.component)) {
            plugins.forget_load_failures(namespace);
            return Ok(());
        }
        // Before anything is recorded and a worker starts, so that a thousand wrong files cost little.
        let expected = match file.component.starts_with(WASM_MAGIC) {
            true => plugins.expect_from_folder(namespace),
            false => Err(no_wasm()),
        };
        expected.inspect_err(|error| plugins.show_load_failure(namespace, error))?;
        let (admin, component) = (self.admin.clone(), file.component);
        // In a task of its own, so that a stop of the daemon lets it end.
        let loading = self.background.spawn(async move {
            let caller = Caller::daemon();
            let actor = Actor { caller: &caller, source: AUDIT_SOURCE };
            let load = PluginLoad::new(Some(component), request);
            admin.services().plugins.show_load(&load);
            admin.load_plugin(actor, load, None).await
        });
        let loaded = loading.await.unwrap_or_else(|_| Err(end_error()))?;
        let PluginView { version, digest, .. } = loaded;
        tracing::info!(%namespace, version, digest, "a plugin of the folder was loaded");
        Ok(())
    }

    async fn remove(&mut self, namespace: Namespace) {
        let plugins = &self.admin.services().plugins;
        plugins.forget_load_failures(&namespace);
        if plugins.is_from_folder(&namespace) {
            let (admin, name) = (self.admin.clone(), namespace.clone());
            let removing = self.background.spawn(async move {
                let caller = Caller::daemon();
                admin.remove_plugin(Actor { caller: &caller, source: AUDIT_SOURCE }, &name).await
            });
            if let Err(error) = removing.await.unwrap_or_else(|_| Err(end_error())) {
                let reason = error.message;
                tracing::warn!(%namespace, reason, "a plugin stays, although its file was removed from the folder");
                return;
            }
            tracing::info!(%namespace, "a plugin was removed, since its file was removed from the folder");
        }
        self.files.remove(&namespace);
    }

    fn report_failure(&mut self, namespace: &Namespace, error: &CallError) {
        self.failures += 1;
        if self.failures <= LOGGED_FAILURES {
            let (reason, hint) = (&error.message, &error.hint);
            tracing::warn!(%namespace, reason, hint, "a file of the plugin folder is not loaded");
        }
    }

    fn report_unreadable(&mut self, error: &io::Error) {
        if self.is_readable {
            let folder = self.folder.display();
            tracing::error!(%error, %folder, "the plugin folder cannot be read: its plugins stay as they are");
        }
        self.is_readable = false;
        self.presence.forget();
    }

    fn report_names(&mut self, look: &Look) {
        for name in look.misnamed.iter().filter(|name| !self.misnamed.contains(*name)) {
            tracing::warn!(name, "a file of the plugin folder is not loaded: its name is no namespace");
        }
        self.misnamed = look.misnamed.iter().cloned().collect();
    }
}

/// Asks for events between pauses, which costs one system call each.
async fn wait_for_events(events: &mut FolderEvents) {
    while !events.catch_up().unwrap_or(true) {
        sleep(SETTLE_TIME).await;
    }
}

fn end_error() -> CallError {
    CallError::new(ErrorType::Internal, "the task ended early", "see the daemon's log")
}

fn no_wasm() -> CallError {
    CallError::new(
        ErrorType::InvalidPlugin,
        "the file is not WebAssembly",
        "put the component there that `cargo build --target wasm32-wasip2 --release` made",
    )
}

fn unreadable(error: &io::Error) -> CallError {
    CallError::new(
        ErrorType::InvalidPlugin,
        format!("the file cannot be read: {error}"),
        "let the daemon's user read it, and keep it below `http.plugin_bytes`; a link to a new folder needs a restart",
    )
}
