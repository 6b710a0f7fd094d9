//! The pipeline that turns a file into a served plugin.

use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use toolgate_admission::{CallError, Capabilities, Descriptor, Digest, ErrorType, Grant, Namespace, Plugin};
use toolgate_sandbox::Component;

use super::history::{Kept, Lost};
use super::unawaited::Wanted;
use super::{BUILT_IN, Embedded, Held, History, Kind, PluginView, Plugins, Version};
use crate::audit::Sha256;
use crate::compile::CompiledBy;
use crate::dispatch::now_ms;
use crate::store::{PluginRow, PluginVersionRow, UnavailableReason};

/// What the address of an upload says about the file in it.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The namespace that it must describe itself with.
    pub namespace: Namespace,
    /// The version, where the caller named one.
    pub version: Option<String>,
}

/// A step of starting up, for whoever watches.
#[derive(Clone, Debug)]
pub enum Progress {
    /// A built-in plugin was compiled.
    Compiled {
        /// Which one.
        namespace: String,
        /// How long it took.
        took: Duration,
    },
}

impl Plugins {
    /// Loads an uploaded file and serves it. What served before serves on until the last step, and for
    /// good where any step fails; then nothing is left of the file.
    pub async fn load(&self, file: Bytes, expected: Expected) -> Result<PluginView, CallError> {
        self.load_while(&Wanted::default(), file, expected).await
    }

    /// The same for as long as it is wanted.
    pub(super) async fn load_while(
        &self,
        wanted: &Wanted,
        file: Bytes,
        expected: Expected,
    ) -> Result<PluginView, CallError> {
        let namespace = expected.namespace.clone();
        let held = self.0.files.hold(&digest_of(&file));
        let loaded = self.load_file(wanted, &held, file, expected).await;
        match &loaded {
            Ok(_) => self.0.unawaited.settle(&namespace, wanted),
            Err(_) => self.0.files.let_go(held).await,
        }
        loaded
    }

    async fn load_file(
        &self,
        wanted: &Wanted,
        held: &Held,
        file: Bytes,
        expected: Expected,
    ) -> Result<PluginView, CallError> {
        let namespace = expected.namespace.clone();
        if BUILT_IN.iter().any(|built_in| built_in.name == namespace.as_str()) {
            return Err(CallError::new(
                ErrorType::Conflict,
                format!("the namespace `{namespace}` belongs to a built-in plugin"),
                "give the plugin another name in `plugin!`; a built-in one can be disabled, not replaced",
            ));
        }
        let preparing = self.prepare(held, &file, Some(&expected));
        let (plugin, _) = wanted.unless_taken_back(preparing).await?;
        self.0.files.write(held, file).await.map_err(|error| not_kept(&error))?;
        let version = Version::new(plugin, held.clone(), now_ms());
        self.install(wanted, namespace, version).await
    }

    /// Serves the plugins that came with the daemon.
    pub async fn load_built_in(&self, report: impl Fn(Progress)) -> Result<(), CallError> {
        let rows = self.0.store.plugins().await?;
        for Embedded { name, digest, component: file } in BUILT_IN {
            let digest = Digest::parse(digest).map_err(|error| invalid(error.to_string()))?;
            let held = self.0.files.hold(&digest);
            let report = |compiled| {
                if let CompiledBy::Worker(took) = compiled {
                    report(Progress::Compiled { namespace: (*name).to_owned(), took });
                }
            };
            if let Some(kind) = Kind::of_component(name) {
                let (component, compiled) = self.0.compiler.component(&digest, file).await?;
                report(compiled);
                self.makers().insert(kind, (held, component));
                continue;
            }
            let (plugin, compiled) = self.prepare(&held, file, None).await?;
            report(compiled);
            let mut history = History::first(Version::new(plugin, held, now_ms()), true);
            history.set_disabled(rows.iter().any(|row| row.namespace == *name && row.disabled));
            let namespace = Namespace::parse(name).map_err(|error| invalid(error.to_string()))?;
            self.0.loaded.lock().await.insert(namespace, history);
        }
        self.serve(&*self.0.loaded.lock().await);
        Ok(())
    }

    /// Serves again what was loaded before the last stop. A version whose file is gone or no longer loads is kept for
    /// a start that can, and one from before it serves; a plugin that has none is shown as failed. The log says both.
    pub async fn restore(&self) -> Result<(), CallError> {
        for row in self.0.store.plugins().await? {
            if row.built_in {
                continue;
            }
            let Some((namespace, history)) = self.restored(&row).await else { continue };
            self.0.loaded.lock().await.insert(namespace, history);
        }
        self.serve(&*self.0.loaded.lock().await);
        Ok(())
    }

    async fn restored(&self, row: &PluginRow) -> Option<(Namespace, History)> {
        let Ok(namespace) = Namespace::parse(&row.namespace) else {
            let digests = row.versions.iter().filter_map(|version| Digest::parse(&version.digest).ok());
            let held = digests.map(|digest| self.0.files.hold(&digest));
            self.0.nameless.lock().unwrap_or_else(PoisonError::into_inner).extend(held);
            return None;
        };
        let mut versions = Vec::new();
        for kept in &row.versions {
            let restored = self.restored_version(kept).await;
            versions.push(restored.map_or_else(|error| self.lost(&namespace, kept, error), Kept::Ready));
        }
        match History::restore(versions, row) {
            Ok(history) => Some((namespace, history)),
            Err(unserved) => {
                tracing::error!(%namespace, "a plugin is not served: of the version that did and those before it, none can be");
                self.unserved().insert(namespace, unserved);
                None
            }
        }
    }

    /// A version that is kept for a start that can load it.
    fn lost(&self, namespace: &Namespace, kept: &PluginVersionRow, error: CallError) -> Kept {
        let (version, reason) = (&kept.version, error.message);
        tracing::error!(%namespace, version, reason, "a loaded plugin cannot be served any more");
        let held = Digest::parse(&kept.digest).ok().map(|digest| self.0.files.hold(&digest));
        Kept::Lost(Lost { row: kept.clone(), held, reason })
    }

    async fn restored_version(&self, kept: &PluginVersionRow) -> Result<Version, CallError> {
        let digest = Digest::parse(&kept.digest).map_err(|error| invalid(error.to_string()))?;
        let held = self.0.files.hold(&digest);
        let file = self.0.files.read(&held).await;
        let file = file.map_err(|error| invalid(format!("its file cannot be read: {error}")))?;
        if digest_of(&file) != digest {
            return Err(invalid("its file is not the one that was loaded"));
        }
        let (plugin, _) = self.prepare(&held, &file, None).await?;
        Ok(Version::new(plugin, held, kept.loaded_ms))
    }

    /// Compiles, links, describes and checks. Changes nothing.
    async fn prepare(
        &self,
        held: &Held,
        file: &[u8],
        expected: Option<&Expected>,
    ) -> Result<(Plugin<Component>, CompiledBy), CallError> {
        let digest = held.digest();
        let (component, compiled) = self.0.compiler.component(digest, file).await?;
        let described = self.0.sandbox.describe(&component, None).await.map_err(|error| {
            CallError::new(
                ErrorType::InvalidPlugin,
                format!("the plugin does not describe itself: {}", error.message),
                "run `toolgate check` on the file",
            )
        })?;
        self.0.compiler.vet_schemas(digest, &described).await?;
        let descriptor = Descriptor::parse(&described)?;
        component.check_manifest(&descriptor.capabilities)?;
        if let Some(expected) = expected {
            as_expected(&descriptor, expected)?;
        }
        let granted = granted(&descriptor.capabilities);
        let plugin = Plugin {
            digest: digest.clone(),
            granted,
            component,
            disabled: false,
            descriptor: Arc::new(descriptor),
        };
        Ok((plugin, compiled))
    }

    async fn install(
        &self,
        wanted: &Wanted,
        namespace: Namespace,
        version: Version,
    ) -> Result<PluginView, CallError> {
        let mut loaded = self.0.loaded.lock().await;
        wanted.check()?;
        let (next, dropped) = match loaded.get(&namespace) {
            None => match self.unserved().get(&namespace) {
                None => (History::first(version, false), Vec::new()),
                Some(unserved) => {
                    same_publisher(&namespace, unserved.publisher(), &version)?;
                    unserved.followed_by(version)
                }
            },
            Some(history) => {
                same_publisher(&namespace, history.publisher(), &version)?;
                let mut next = history.clone();
                let dropped =
                    if next.serves(&version.plugin.digest) { Vec::new() } else { next.push(version) };
                (next, dropped)
            }
        };
        self.0.store.put_plugin(next.row(&namespace)).await?;
        let view = next.view(&namespace);
        self.unserved().remove(&namespace);
        loaded.insert(namespace, next);
        self.serve(&loaded);
        drop(loaded);
        for file in dropped {
            self.0.files.let_go(file).await;
        }
        Ok(view)
    }
}

/// The digest of a plugin that is its component; one that is made of a definition has another (`made`).
pub(super) fn digest_of(file: &[u8]) -> Digest {
    Digest::from_sha256(Sha256::of(file).0)
}

fn as_expected(descriptor: &Descriptor, expected: &Expected) -> Result<(), CallError> {
    if descriptor.namespace != expected.namespace {
        return Err(CallError::new(
            ErrorType::InvalidPlugin,
            format!(
                "the file describes itself as `{}`, the address names `{}`",
                descriptor.namespace, expected.namespace
            ),
            "upload it under the namespace that its `plugin!` names",
        ));
    }
    match &expected.version {
        Some(version) if *version != descriptor.version => Err(CallError::new(
            ErrorType::InvalidPlugin,
            format!("the file is version `{}`, the address names `{version}`", descriptor.version),
            "name the version that the plugin's package has, or none",
        )),
        _ => Ok(()),
    }
}

/// Same namespace, same publisher: until signatures prove it, as the plugin says (requirements 9.16).
fn same_publisher(namespace: &Namespace, holds: Option<&str>, version: &Version) -> Result<(), CallError> {
    let comes = version.plugin.descriptor.publisher.as_deref();
    if holds == comes {
        return Ok(());
    }
    Err(CallError::new(
        ErrorType::Conflict,
        format!("the namespace `{namespace}` is held by {}, the file is by {}", named(holds), named(comes)),
        "give the plugin another name, or remove the one that holds this one",
    ))
}

fn named(publisher: Option<&str>) -> String {
    publisher.map_or_else(|| "a plugin without a publisher".to_owned(), |name| format!("publisher `{name}`"))
}

/// What a call of the plugin may reach: the workspace where it asks for it. The network is refused to all.
fn granted(asked: &Capabilities) -> Arc<Grant> {
    Arc::new(Grant { filesystem: asked.filesystem, ..Grant::default() })
}

fn invalid(message: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidPlugin, message, "load the plugin again")
}

fn not_kept(error: &io::Error) -> CallError {
    tracing::error!(%error, "a plugin file cannot be kept");
    let (message, hint) = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ("the disk is full: the plugin file cannot be kept", UnavailableReason::DiskFull.hint())
        }
        _ => (
            "the plugin file cannot be written to the data folder",
            "see the daemon's log and the disk, then load it again",
        ),
    };
    CallError::new(ErrorType::Unavailable, message, hint)
}

#[cfg(test)]
mod tests {
    use toolgate_admission::LimitsPatch;

    use super::super::files::tests::idle_compiler;
    use super::super::{PluginParts, PluginState};
    use super::*;
    use crate::registry::Registry;
    use crate::store::testing::empty_store;

    /// Plugins that can load nothing, since there is no program that compiles.
    async fn plugins() -> (tempfile::TempDir, Plugins) {
        let (folder, store) = empty_store().await;
        let (sandbox, compiler) = idle_compiler(folder.path());
        let parts = PluginParts {
            sandbox,
            compiler,
            registry: Registry::new(LimitsPatch::new()),
            store,
            folder: folder.path().to_owned(),
            limits: LimitsPatch::new(),
        };
        (folder, Plugins::new(parts))
    }

    fn expected(namespace: &Namespace) -> Expected {
        Expected { namespace: namespace.clone(), version: None }
    }

    /// A load as far as just before it is installed, which ends with the answers of others.
    struct Loading {
        namespace: Namespace,
        file: Bytes,
        held: Held,
        version: Version,
    }

    impl Loading {
        async fn of(plugins: &Plugins) -> Self {
            let Embedded { name, component: file, .. } =
                BUILT_IN.iter().find(|one| one.name == "user").unwrap();
            let held = plugins.0.files.hold(&digest_of(file));
            let code = toolgate_sandbox::precompile(file).unwrap();
            let component = plugins.0.sandbox.load(&code).unwrap();
            let described = plugins.0.sandbox.describe(&component, None).await.unwrap();
            let plugin = Plugin {
                digest: held.digest().clone(),
                granted: Arc::default(),
                component,
                disabled: false,
                descriptor: Arc::new(Descriptor::parse(&described).unwrap()),
            };
            plugins.0.files.write(&held, Bytes::from_static(file)).await.unwrap();
            Self {
                namespace: Namespace::parse(name).unwrap(),
                file: Bytes::from_static(file),
                version: Version::new(plugin, held.clone(), 1),
                held,
            }
        }

        async fn install(&self, plugins: &Plugins, wanted: &Wanted) -> Result<PluginView, CallError> {
            plugins.install(wanted, self.namespace.clone(), self.version.clone()).await
        }

        async fn is_kept(&self, plugins: &Plugins) -> bool {
            plugins.0.files.read(&self.held).await.is_ok_and(|kept| kept == self.file)
        }
    }

    #[tokio::test]
    async fn a_load_keeps_its_file_where_another_of_the_same_bytes_fails() {
        let (_folder, plugins) = plugins().await;
        let loading = Loading::of(&plugins).await;
        let other = Namespace::parse("other").unwrap();
        plugins.load(loading.file.clone(), expected(&other)).await.unwrap_err();
        assert!(loading.is_kept(&plugins).await);
        loading.install(&plugins, &Wanted::default()).await.unwrap();
        assert!(loading.is_kept(&plugins).await);
    }

    #[tokio::test]
    async fn a_load_keeps_its_file_where_what_serves_of_the_same_bytes_is_removed() {
        let (_folder, plugins) = plugins().await;
        let loading = Loading::of(&plugins).await;
        loading.install(&plugins, &Wanted::default()).await.unwrap();
        plugins.remove(&loading.namespace).await.unwrap();
        assert!(loading.is_kept(&plugins).await);
        let shown = loading.install(&plugins, &Wanted::default()).await.unwrap();
        assert_eq!(shown.digest, loading.held.digest().as_str());
        let Loading { namespace, held, version, .. } = loading;
        let digest = held.digest().clone();
        drop((held, version));
        plugins.remove(&namespace).await.unwrap();
        assert!(plugins.0.files.read(&plugins.0.files.hold(&digest)).await.is_err(), "nobody has it");
    }

    #[tokio::test]
    async fn nothing_is_left_of_a_load_that_fails() {
        let (_folder, plugins) = plugins().await;
        let Loading { namespace, file, held, version } = Loading::of(&plugins).await;
        let digest = held.digest().clone();
        drop((held, version));
        plugins.load(file, expected(&namespace)).await.unwrap_err();
        assert!(plugins.0.files.read(&plugins.0.files.hold(&digest)).await.is_err());
    }

    /// However late: what was compiled and written is not served.
    #[tokio::test]
    async fn a_load_is_taken_back_until_it_is_installed() {
        let (_folder, plugins) = plugins().await;
        let loading = Loading::of(&plugins).await;
        let begin = || plugins.begin(loading.file.clone(), expected(&loading.namespace)).0;
        let (begun, beside) = (begin(), begin());
        plugins.remove(&loading.namespace).await.unwrap();
        for begun in [&begun, &beside] {
            let error = loading.install(&plugins, &begun.wanted).await.unwrap_err();
            assert_eq!(error.error_type, ErrorType::Cancelled);
            plugins.note_failed(begun, &error);
        }
        assert!(plugins.find(&loading.namespace).await.is_err(), "what was taken back is not shown");
        let begun = begin();
        loading.install(&plugins, &begun.wanted).await.unwrap();
        assert_eq!(plugins.find(&loading.namespace).await.unwrap().state, PluginState::Active);
    }
}
