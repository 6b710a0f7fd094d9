//! Loading, replacing, rolling back and removing plugins while calls run.
//!
//! A plugin file becomes a served plugin in one pipeline: compile (in the worker, or from the cache), load
//! and check its imports, ask it what it is, check that against the contract and against who holds the
//! namespace, write it down, swap the registry. Nothing is visible before the last step, and a failure at
//! any step leaves what served before serving on. Calls in flight hold the snapshot they began with.

mod files;
mod history;
mod load;
mod made;
mod unawaited;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::Mutex;
use toolgate_admission::{
    CallError, Capabilities, ErrorType, Grant, Limits, LimitsPatch, Namespace, Plugin, Warning,
};
use toolgate_sandbox::{Component, Sandbox};

use crate::compile::Compiler;
use crate::dispatch::now_ms;
use crate::registry::Registry;
use crate::store::Store;

use files::{Files, Held};
pub use history::{CapabilitiesView, PluginState, PluginView, ToolView, VersionView};
use history::{History, Unserved, Version};
pub use load::{Expected, Progress};
pub use made::{Definition, Kind};
pub use unawaited::Begun;
use unawaited::Unawaited;

/// A component that the build script compiled and embedded.
#[derive(Debug)]
pub struct Embedded {
    /// Its package, and the namespace of its plugin.
    pub name: &'static str,
    /// Its SHA-256, `sha256:` and 64 hexadecimal digits. Known without reading the component, whose pages stay on the
    /// disk where its code is in the cache.
    pub digest: &'static str,
    /// The file.
    pub component: &'static [u8],
}

/// The built-in plugins, made by the build script.
mod built_in {
    use super::Embedded;
    include!(concat!(env!("OUT_DIR"), "/built_in.rs"));
}
pub use built_in::BUILT_IN;

/// The loaded plugins. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(Arc<Parts>);

struct Parts {
    sandbox: Sandbox,
    compiler: Compiler,
    registry: Registry,
    store: Store,
    files: Files,
    limits: LimitsPatch,
    /// Held for the swap and what goes with it, not while something compiles.
    loaded: Mutex<BTreeMap<Namespace, History>>,
    /// What operators said; a plugin without a grant has what it always has.
    grants: std::sync::Mutex<BTreeMap<Namespace, Arc<Grant>>>,
    /// The built-in components that make plugins of definitions.
    makers: std::sync::Mutex<BTreeMap<Kind, (Held, Component)>>,
    /// The plugins that the store names and this start could not serve. Their files stay, for a start that can.
    /// Changed only by whoever holds `loaded`.
    unserved: std::sync::Mutex<BTreeMap<Namespace, Unserved>>,
    /// Files of plugins whose names are none any more.
    nameless: std::sync::Mutex<Vec<Held>>,
    unawaited: Unawaited,
}

/// What the loader is made of.
pub struct PluginParts {
    /// Asks components what they are.
    pub sandbox: Sandbox,
    /// Makes components runnable.
    pub compiler: Compiler,
    /// Where loaded plugins come into force.
    pub registry: Registry,
    /// Where they are written down.
    pub store: Store,
    /// Where their files are kept.
    pub folder: PathBuf,
    /// The platform's limits, for the catalogue.
    pub limits: LimitsPatch,
}

impl Plugins {
    /// No plugin yet; [`Plugins::restore`] and [`Plugins::load_built_in`] bring them.
    pub fn new(parts: PluginParts) -> Self {
        let PluginParts { sandbox, compiler, registry, store, folder, limits } = parts;
        Self(Arc::new(Parts {
            sandbox,
            files: Files::new(folder, compiler.clone()),
            compiler,
            registry,
            store,
            limits,
            loaded: Mutex::default(),
            grants: std::sync::Mutex::default(),
            makers: std::sync::Mutex::default(),
            unserved: std::sync::Mutex::default(),
            nameless: std::sync::Mutex::default(),
            unawaited: Unawaited::default(),
        }))
    }

    /// Every plugin that is loaded or on its way, or that could not be loaded unasked, by namespace.
    pub async fn list(&self) -> Vec<PluginView> {
        let loaded = self.0.loaded.lock().await;
        let mut views = self.0.unawaited.latest();
        let unserved = self.unserved();
        views.extend(
            unserved.iter().map(|(name, unserved)| (name.clone(), self.beside(name, unserved.view(name)))),
        );
        views.extend(loaded.iter().map(|(name, history)| (name.clone(), self.shown(name, history))));
        views.into_values().collect()
    }

    /// One plugin with all its versions.
    pub async fn find(&self, namespace: &Namespace) -> Result<PluginView, CallError> {
        let loaded = self.0.loaded.lock().await;
        match loaded.get(namespace) {
            Some(history) => Ok(self.shown(namespace, history)),
            None => match self.unserved().get(namespace) {
                Some(unserved) => Ok(self.beside(namespace, unserved.view(namespace))),
                None => self.0.unawaited.of(namespace).pop().ok_or_else(|| unknown(namespace)),
            },
        }
    }

    /// What is odd about what a plugin says of itself, as it was shown. One that serves no more has said nothing.
    pub async fn warnings(&self, namespace: &Namespace, shown: &PluginView) -> Vec<Warning> {
        let loaded = self.0.loaded.lock().await;
        let serving = loaded.get(namespace).map(History::serving);
        let serving = serving.filter(|serving| serving.digest.as_str() == shown.digest);
        serving
            .map_or_else(Vec::new, |serving| serving.descriptor.warnings(&Limits::platform(&self.0.limits)))
    }

    fn shown(&self, namespace: &Namespace, history: &History) -> PluginView {
        self.beside(namespace, history.view(namespace))
    }

    /// A plugin with what is to replace it and is not there yet, or could not be.
    fn beside(&self, namespace: &Namespace, mut view: PluginView) -> PluginView {
        for unawaited in self.0.unawaited.of(namespace) {
            view.versions.insert(0, unawaited.as_version());
        }
        view
    }

    /// Serves the version before the current one again.
    pub async fn roll_back(&self, namespace: &Namespace) -> Result<PluginView, CallError> {
        self.change(namespace, |history| {
            history.roll_back().ok_or_else(|| {
                CallError::new(
                    ErrorType::Conflict,
                    format!("plugin `{namespace}` has no version before this one"),
                    "load the version that you want",
                )
            })
        })
        .await
    }

    /// Keeps a plugin loaded and its tools out of every agent's reach, or lets them back in.
    pub async fn set_disabled(&self, namespace: &Namespace, disabled: bool) -> Result<PluginView, CallError> {
        self.change(namespace, |history| {
            history.set_disabled(disabled);
            Ok(())
        })
        .await
    }

    /// Unloads a plugin and forgets its versions, and takes back what is under way and nobody waits for. Built-in ones
    /// can be disabled, not removed.
    pub async fn remove(&self, namespace: &Namespace) -> Result<(), CallError> {
        let mut loaded = self.0.loaded.lock().await;
        let is_unserved = self.unserved().contains_key(namespace);
        if !is_unserved && !loaded.contains_key(namespace) {
            return if self.0.unawaited.take_back(namespace) { Ok(()) } else { Err(unknown(namespace)) };
        }
        if loaded.get(namespace).is_some_and(History::built_in) {
            // Loads under its name fail, and would be shown for ever.
            self.0.unawaited.take_back(namespace);
            return Err(CallError::new(
                ErrorType::Conflict,
                format!("plugin `{namespace}` is built in and cannot be removed"),
                "disable it instead",
            ));
        }
        self.0.store.remove_plugin(namespace, now_ms()).await?;
        self.0.unawaited.take_back(namespace);
        let removed = loaded.remove(namespace).into_iter().flat_map(History::into_files);
        let unserved = self.unserved().remove(namespace).into_iter().flat_map(Unserved::into_files);
        self.grants().remove(namespace);
        self.serve(&loaded);
        drop(loaded);
        for file in removed.chain(unserved) {
            self.0.files.let_go(file).await;
        }
        Ok(())
    }

    async fn change(
        &self,
        namespace: &Namespace,
        act: impl FnOnce(&mut History) -> Result<(), CallError>,
    ) -> Result<PluginView, CallError> {
        let mut loaded = self.0.loaded.lock().await;
        let mut next = loaded.get(namespace).ok_or_else(|| self.not_loaded(namespace))?.clone();
        act(&mut next)?;
        self.0.store.put_plugin(next.row(namespace)).await?;
        let view = next.view(namespace);
        loaded.insert(namespace.clone(), next);
        self.serve(&loaded);
        Ok(view)
    }

    /// Brings what is loaded into force.
    fn serve(&self, loaded: &BTreeMap<Namespace, History>) {
        let grants = self.grants();
        let granted = |(namespace, history): (&Namespace, &History)| {
            let plugin = history.serving();
            match grants.get(namespace) {
                Some(granted) => Arc::new(Plugin { granted: Arc::clone(granted), ..Plugin::clone(&plugin) }),
                None => plugin,
            }
        };
        let serving = loaded.iter().map(granted).collect();
        self.0.registry.serve(self.0.limits.clone(), serving);
    }

    /// What a loaded plugin asks for.
    pub async fn asked(&self, namespace: &Namespace) -> Result<Capabilities, CallError> {
        let loaded = self.0.loaded.lock().await;
        let history = loaded.get(namespace).ok_or_else(|| self.not_loaded(namespace))?;
        Ok(history.serving().descriptor.capabilities.clone())
    }

    /// Brings a grant into force, for calls that begin from now on.
    pub async fn grant(&self, namespace: Namespace, granted: Grant) {
        let loaded = self.0.loaded.lock().await;
        self.grants().insert(namespace, Arc::new(granted));
        self.serve(&loaded);
    }

    fn not_loaded(&self, namespace: &Namespace) -> CallError {
        if !self.unserved().contains_key(namespace) {
            return unknown(namespace);
        }
        CallError::new(
            ErrorType::NotFound,
            format!(
                "no version of plugin `{namespace}` could be loaded when the daemon started, so none serves"
            ),
            "load one that can be, or remove the plugin; its `reason` says what was wrong",
        )
    }

    fn unserved(&self) -> std::sync::MutexGuard<'_, BTreeMap<Namespace, Unserved>> {
        self.0.unserved.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn grants(&self) -> std::sync::MutexGuard<'_, BTreeMap<Namespace, Arc<Grant>>> {
        self.0.grants.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn makers(&self) -> std::sync::MutexGuard<'_, BTreeMap<Kind, (Held, Component)>> {
        self.0.makers.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Forgets the files that no plugin has, and the compiled code that none needed. Called once, when all are restored.
    pub fn forget_unused(&self) {
        self.0.files.remove_unheld();
        self.0.compiler.remove_unused();
    }
}

fn unknown(namespace: &Namespace) -> CallError {
    CallError::new(
        ErrorType::NotFound,
        format!("no plugin `{namespace}` is loaded"),
        "list the loaded ones with `GET /v1/plugins` or `toolgate plugin list`",
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Who changes a crate that built-in plugins share with the host would be left with old plugins in the binary.
    #[test]
    fn a_change_of_what_built_in_plugins_are_made_of_makes_them_anew() {
        let said = std::fs::read_to_string(Path::new(env!("OUT_DIR")).with_file_name("output")).unwrap();
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for source in [
            "daemon/naming/src/lib.rs",
            "daemon/naming/Cargo.toml",
            "plugin-sdk/macros/src/lib.rs",
            "plugins/text/readable/src/lib.rs",
        ] {
            let watched = format!("cargo::rerun-if-changed={}", workspace.join(source).display());
            assert!(said.lines().any(|line| line == watched), "`{source}` is not watched");
        }
    }
}
