//! The steps that turn a file into a served plugin.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use toolgate_admission::{Descriptor, Digest, Plugin};
use toolgate_api::definition::DefinitionKind;
use toolgate_api::embedded::Embedded;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_api::grant::{FilesystemAccess, Grant};
use toolgate_api::limits::{Limits, LimitsPatch};
use toolgate_api::name::{Name, Namespace};
use toolgate_api::plugin::PluginView;
use toolgate_macros::boxed;
use toolgate_sandbox::{Component, FunctionsDescription};
use toolgate_state::clock::now_ms;
use toolgate_state::documents::PluginKey;
use toolgate_state::store::{PluginRow, PluginVersionRow, UnavailableReason};

use super::background_loads::LoadToken;
use super::from_definition::kind_of_component;
use super::history::{FailedPlugin, FailedVersion, KeptVersion};
use super::sources::check_source;
use super::table::Entry;
use super::trust::Signer;
use super::{CanaryShare, FileHandle, History, LoadRequest, LoadSource, PluginLoad, Plugins, Version};
use crate::digest::digest_of;

/// A built-in plugin that was compiled.
#[derive(Clone, Copy, Debug)]
pub struct BuiltInCompiled<'a> {
    /// Its name.
    pub namespace: &'a str,
    /// How long that took.
    pub took: Duration,
    /// How many were compiled so far.
    pub done: usize,
    /// How many the start had to compile.
    pub of: usize,
}

/// A built-in plugin that is not compiled yet.
#[derive(Clone)]
pub struct BuiltIn {
    namespace: Namespace,
    digest: Digest,
    file: &'static [u8],
    disabled: bool,
}

#[boxed]
impl Plugins {
    /// Loads a file and serves it. If a step fails, the old version keeps serving and the file is deleted. Returns `CANCELLED` if the
    /// load is shown and the plugin is removed meanwhile.
    pub async fn load(&self, load: &PluginLoad) -> Result<PluginView, CallError> {
        let PluginLoad { file, request, token } = load;
        let file = file.clone().unwrap_or_default();
        let handle = self.0.files.handle(&digest_of(&file));
        let loaded = self.load_file(token, &handle, file, request).await;
        if loaded.is_err() {
            self.0.files.release(handle).await;
        }
        loaded
    }

    async fn load_file(
        &self,
        token: &LoadToken,
        handle: &FileHandle,
        file: Bytes,
        request: &LoadRequest,
    ) -> Result<PluginView, CallError> {
        let version = self.make_version(token, handle, file, request).await?;
        self.install(token, request.namespace.clone(), version, request.canary).await
    }

    /// Takes a file through every step before it is installed. The version can serve then, and its file is kept.
    pub(super) async fn make_version(
        &self,
        token: &LoadToken,
        handle: &FileHandle,
        file: Bytes,
        request: &LoadRequest,
    ) -> Result<Version, CallError> {
        let namespace = &request.namespace;
        if self.is_built_in(namespace) {
            return Err(CallError::new(
                ErrorType::Conflict,
                format!("the namespace `{namespace}` belongs to a built-in plugin"),
                "give the plugin another name in its description; a built-in one can be disabled, not replaced",
            ));
        }
        let preparing = async {
            let (plugin, _) = self.prepare(handle, &file, request, true).await?;
            // A file whose signature does not verify runs no example.
            let version = self.version_of(handle, plugin, request)?;
            self.check_examples(&version.plugin, request.owner.as_ref()).await.map(|()| version)
        };
        let version = token.run_until_cancelled(preparing).await?;
        self.0.files.write(handle, file).await.map_err(|error| write_error(&error))?;
        Ok(version)
    }

    /// The version that a load brings, with its signer.
    fn version_of(
        &self,
        handle: &FileHandle,
        plugin: Plugin<Component>,
        request: &LoadRequest,
    ) -> Result<Version, CallError> {
        let signer = self.signer_of(&plugin, request)?;
        let source = request.source.clone();
        let version = Version { source, signer, ..Version::new(plugin, handle.clone(), now_ms()) };
        Ok(if request.confirm_hints { version.with_confirmed_hints() } else { version })
    }

    /// Verifies the signature of a load. Fails without one where one is required.
    fn signer_of(
        &self,
        plugin: &Plugin<Component>,
        request: &LoadRequest,
    ) -> Result<Option<Signer>, CallError> {
        let keys = &self.0.publisher_keys;
        let (owner, namespace, now_ms) = (request.owner.as_ref(), &request.namespace, now_ms());
        let signer = keys.verify(request, &plugin.descriptor, &plugin.digest, now_ms)?;
        keys.check_signer(owner, namespace, signer.as_ref(), self.0.signatures, now_ms)?;
        Ok(signer)
    }

    /// Loads and serves the built-in plugins whose compiled code is cached. Returns the others, for
    /// [`Plugins::compile_built_in`].
    pub async fn load_built_in(&self) -> Result<Vec<BuiltIn>, CallError> {
        let rows = self.0.store.plugins().await?;
        let mut uncompiled = Vec::new();
        for Embedded { name, digest, component: file } in self.0.built_in {
            let built_in = BuiltIn {
                namespace: Namespace::parse(name).map_err(|error| load_error(error.to_string()))?,
                digest: Digest::parse(digest).map_err(|error| load_error(error.to_string()))?,
                file,
                disabled: rows.iter().any(|row| row.namespace == *name && row.disabled),
            };
            // An entry that does not verify is compiled behind requests, as one that is missing.
            match self.0.compiler.load_cached(&built_in.digest).await {
                Some(cached) => drop(self.insert_built_in(&built_in, Some(cached)).await?),
                None => uncompiled.push(built_in),
            }
        }
        // A small plugin is served soon, also where a large one takes long.
        uncompiled.sort_by_key(|built_in| built_in.file.len());
        for BuiltIn { namespace, digest, .. } in &uncompiled {
            self.0.background.add_built_in(namespace, digest);
        }
        self.0.registry.set_compiling(namespaces(&uncompiled));
        self.serve_all().await;
        Ok(uncompiled)
    }

    /// Compiles built-in plugins one after the other, and serves each at once. Reports each with its compile time.
    ///
    /// The worker uses every processor, so that two at a time would only delay the first. A plugin that a session or a call
    /// waits for takes the place of one without a waiter, which is compiled again later.
    pub async fn compile_built_in(&self, mut uncompiled: Vec<BuiltIn>, report: impl Fn(BuiltInCompiled<'_>)) {
        let (of, mut done) = (uncompiled.len(), 0);
        let registry = &self.0.registry;
        while !uncompiled.is_empty() {
            let is_awaited = |built_in: &BuiltIn| registry.is_awaited(&built_in.namespace);
            let built_in = uncompiled.remove(uncompiled.iter().position(is_awaited).unwrap_or(0));
            let namespace = &built_in.namespace;
            let loaded = tokio::select! {
                loaded = self.insert_built_in(&built_in, None) => loaded,
                () = registry.wait_until_one_is_awaited(namespaces(&uncompiled)), if !is_awaited(&built_in) => {
                    uncompiled.insert(0, built_in);
                    continue;
                }
            };
            match loaded {
                Ok(took) => {
                    self.0.background.cancel(namespace);
                    done += 1;
                    report(BuiltInCompiled {
                        namespace: namespace.as_str(),
                        took: took.unwrap_or_default(),
                        done,
                        of,
                    });
                }
                Err(error) => {
                    let reason = &error.message;
                    tracing::error!(%namespace, reason, "a built-in plugin is not served: it cannot be compiled");
                    self.0.background.record_failure(namespace, |_| true, reason);
                }
            }
            self.serve_all().await;
            registry.set_compiling(namespaces(&uncompiled));
        }
    }

    /// Prepares a built-in plugin to be served. Returns its compile time, if it was compiled.
    async fn insert_built_in(
        &self,
        built_in: &BuiltIn,
        cached: Option<Component>,
    ) -> Result<Option<Duration>, CallError> {
        let BuiltIn { namespace, digest, file, disabled } = built_in;
        let handle = self.0.files.handle(digest);
        let (component, took) = match cached {
            Some(component) => (component, None),
            None => self.0.compiler.component(digest, file).await?,
        };
        if let Some(kind) = kind_of_component(namespace.as_str()) {
            self.0.definition_components.lock().insert(kind, (handle.clone(), component.clone()));
            // The shell is a plugin without a definition too.
            if kind != DefinitionKind::Shell {
                return Ok(took);
            }
        }
        let plugin = self.describe(&handle, component, None, None).await?;
        let mut history = History::new(Version::new(plugin, handle, now_ms()), true);
        history.set_disabled(*disabled);
        let _changing = self.0.table.change().await;
        self.0.table.put(&namespace.into(), Entry::Ready(history));
        Ok(took)
    }

    /// Loads and serves the stored plugins. A version that fails to load is logged and kept for a later start, and an
    /// older version serves instead; a plugin without a ready version is shown as failed.
    pub async fn restore(&self) -> Result<(), CallError> {
        for row in self.0.store.plugins().await? {
            if row.built_in {
                continue;
            }
            match Namespace::parse(&row.namespace) {
                Ok(namespace) => {
                    let key = PluginKey::from(&namespace);
                    self.0.table.put(&key, self.restore_entry(&key, &row).await);
                }
                Err(_) => self.keep_files_of(&row),
            }
        }
        self.serve_all().await;
        Ok(())
    }

    async fn serve_all(&self) {
        let _changing = self.0.table.change().await;
        self.serve_platform();
    }

    /// Loads the stored versions of a plugin.
    pub(super) async fn restore_entry(&self, key: &PluginKey, row: &PluginRow) -> Entry {
        match self.restore_history(&key.namespace, row).await {
            Ok(history) => Entry::Ready(history),
            Err(failed) => {
                let (organization, namespace) = (key.owner.as_ref().map(Name::as_str), &key.namespace);
                tracing::error!(
                    organization,
                    %namespace,
                    "a plugin is not served: neither its chosen version nor an older one loads"
                );
                Entry::Failed(failed)
            }
        }
    }

    /// Keeps the files of a stored plugin whose name this version cannot parse: a later one may serve it.
    pub(super) fn keep_files_of(&self, row: &PluginRow) {
        let digests = row.versions.iter().filter_map(|version| Digest::parse(&version.digest).ok());
        self.0.unparsable.lock().extend(digests.map(|digest| self.0.files.handle(&digest)));
    }

    async fn restore_history(&self, namespace: &Namespace, row: &PluginRow) -> Result<History, FailedPlugin> {
        let mut versions = Vec::new();
        for kept in &row.versions {
            let version = self.restore_version(namespace, kept).await;
            versions.push(
                version.map_or_else(|error| self.failed_version(namespace, kept, error), KeptVersion::Ready),
            );
        }
        History::restore(versions, row)
    }

    fn failed_version(
        &self,
        namespace: &Namespace,
        kept: &PluginVersionRow,
        error: CallError,
    ) -> KeptVersion {
        let (version, reason) = (&kept.version, error.message);
        tracing::error!(%namespace, version, reason, "a loaded plugin cannot be served any more");
        let handle = Digest::parse(&kept.digest).ok().map(|digest| self.0.files.handle(&digest));
        KeptVersion::Failed(FailedVersion { row: kept.clone(), handle, reason })
    }

    async fn restore_version(
        &self,
        namespace: &Namespace,
        kept: &PluginVersionRow,
    ) -> Result<Version, CallError> {
        let digest = Digest::parse(&kept.digest).map_err(|error| load_error(error.to_string()))?;
        let handle = self.0.files.handle(&digest);
        let file = self.0.files.read(&handle).await;
        let file = file.map_err(|error| load_error(format!("its file cannot be read: {error}")))?;
        if digest_of(&file) != digest {
            return Err(load_error("its file is not the one that was loaded"));
        }
        let version = Some(kept.version.clone());
        let stored = LoadRequest { version, ..LoadRequest::new(namespace.clone(), LoadSource::Upload) };
        let (plugin, _) = self.prepare(&handle, &file.into(), &stored, false).await?;
        let source = kept.source.clone();
        let version = Version { source, ..Version::new(plugin, handle, kept.loaded_ms) };
        Ok(version.with_trust(&kept.trust))
    }

    /// Compiles, links, describes and validates. Returns the plugin with its compile time, if it was compiled.
    ///
    /// Functions have the expected name and version; a description must have them if it is of an upload.
    async fn prepare(
        &self,
        handle: &FileHandle,
        file: &Bytes,
        request: &LoadRequest,
        is_upload: bool,
    ) -> Result<(Plugin<Component>, Option<Duration>), CallError> {
        let (component, took) = self.0.compiler.component(handle.digest(), file).await?;
        let functions = describe_functions(&component, file, request).await?;
        let plugin = self.describe(handle, component, functions, is_upload.then_some(request)).await?;
        Ok((plugin, took))
    }

    /// Describes a component, unless its functions are described already, and validates the description.
    async fn describe(
        &self,
        handle: &FileHandle,
        component: Component,
        functions: Option<FunctionsDescription>,
        request: Option<&LoadRequest>,
    ) -> Result<Plugin<Component>, CallError> {
        let digest = handle.digest();
        let described = match &functions {
            Some(functions) => functions.json.clone(),
            None => self.0.sandbox.describe(&component, None).await.map_err(|error| {
                CallError::new(
                    ErrorType::InvalidPlugin,
                    format!("the plugin does not describe itself: {}", error.message),
                    "run `toolgate check` on the file",
                )
            })?,
        };
        self.0.compiler.check_schemas(digest, &described).await?;
        let mut descriptor =
            Descriptor::parse(&described).map_err(|error| error.into_call_error(ErrorType::InvalidPlugin))?;
        if let Some(functions) = functions {
            functions.complete(&mut descriptor);
        }
        component.check_manifest(&descriptor.capabilities)?;
        if let Some(request) = request {
            request.check_description(&descriptor)?;
            self.check_start(&component, &descriptor.limits).await?;
        }
        let plugin = Plugin {
            digest: digest.clone(),
            granted: self.default_grant(&descriptor),
            component,
            disabled: false,
            has_trusted_hints: self.is_built_in(&descriptor.namespace),
            canary: None,
            counters: None,
            descriptor: Arc::new(descriptor),
        };
        Ok(plugin)
    }

    /// Refuses a component whose calls cannot start under the limits of the platform and its own.
    async fn check_start(&self, component: &Component, own: &LimitsPatch) -> Result<(), CallError> {
        let limits = Limits::platform(&self.0.limits).narrow(own);
        self.0.sandbox.start(component, &limits).await.map_err(|error| {
            CallError::new(
                ErrorType::InvalidPlugin,
                format!("a call of the plugin cannot start: {}", error.message),
                "build it smaller, or ask the operator to raise this limit in the settings of the daemon",
            )
        })
    }

    /// The grant of a plugin without an operator's grant: nothing, but the workspace for a built-in plugin that asks for it (B5).
    fn default_grant(&self, descriptor: &Descriptor) -> Arc<Grant> {
        let filesystem = match self.is_built_in(&descriptor.namespace) {
            true => descriptor.capabilities.filesystem,
            false => FilesystemAccess::None,
        };
        Arc::new(Grant { filesystem, ..Grant::default() })
    }

    async fn install(
        &self,
        token: &LoadToken,
        namespace: Namespace,
        version: Version,
        canary: Option<CanaryShare>,
    ) -> Result<PluginView, CallError> {
        let key = PluginKey::from(&namespace);
        let _changing = self.0.table.change().await;
        token.check()?;
        self.0.table.look(&key, |entry| check_source(entry, &namespace, &version.source))?;
        self.install_version(&key, version, canary, Some(token)).await
    }
}

/// Describes the functions of a component without the plugin contract, off the runtime's threads: there may be a thousand schemas.
async fn describe_functions(
    component: &Component,
    file: &Bytes,
    request: &LoadRequest,
) -> Result<Option<FunctionsDescription>, CallError> {
    let (component, file, request) = (component.clone(), file.clone(), request.clone());
    let describing = tokio::task::spawn_blocking(move || {
        component.describe_functions(&file, Some(request.namespace.as_str()), request.version.as_deref())
    });
    describing.await.map_err(|_| {
        CallError::new(
            ErrorType::Internal,
            "the daemon failed while it described the functions",
            "tell the operator",
        )
    })
}

fn namespaces(plugins: &[BuiltIn]) -> Arc<[Namespace]> {
    plugins.iter().map(|plugin| plugin.namespace.clone()).collect()
}

fn load_error(message: impl Into<String>) -> CallError {
    CallError::new(ErrorType::InvalidPlugin, message, "load the plugin again")
}

fn write_error(error: &io::Error) -> CallError {
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
    use toolgate_api::limits::LimitsPatch;
    use toolgate_api::plugin::PluginState;

    use toolgate_built_in::BUILT_IN;

    use super::super::PluginParts;
    use super::super::files::tests::idle_compiler;
    use super::*;
    use crate::registry::Registry;
    use toolgate_state::config::Signatures;
    use toolgate_state::store::testing::empty_store;

    /// Plugins whose compiler has no worker program, so every compilation fails.
    async fn plugins() -> (tempfile::TempDir, Plugins) {
        let (folder, store) = empty_store().await;
        let (sandbox, compiler) = idle_compiler(folder.path());
        let parts = PluginParts {
            sandbox,
            compiler,
            registry: Registry::new(LimitsPatch::new(), Default::default()),
            built_in: BUILT_IN,
            store,
            folder: folder.path().to_owned(),
            limits: LimitsPatch::new(),
            signatures: Signatures::Optional,
        };
        (folder, Plugins::new(parts))
    }

    fn load(file: Bytes, namespace: &Namespace) -> PluginLoad {
        PluginLoad::new(Some(file), LoadRequest::new(namespace.clone(), LoadSource::Upload))
    }

    /// A load up to the point where it is installed.
    struct Loading {
        namespace: Namespace,
        file: Bytes,
        handle: FileHandle,
        version: Version,
    }

    impl Loading {
        async fn of(plugins: &Plugins) -> Self {
            let Embedded { name, component: file, .. } =
                BUILT_IN.iter().find(|one| one.name == "user").unwrap();
            let handle = plugins.0.files.handle(&digest_of(file));
            let code = toolgate_sandbox::precompile(file, None).unwrap();
            let component = plugins.0.sandbox.load(&code).unwrap();
            let described = plugins.0.sandbox.describe(&component, None).await.unwrap();
            let plugin = Plugin::with_trusted_hints(
                handle.digest().clone(),
                Arc::default(),
                Descriptor::parse(&described).unwrap(),
                component,
            );
            plugins.0.files.write(&handle, Bytes::from_static(file)).await.unwrap();
            Self {
                namespace: Namespace::parse(name).unwrap(),
                file: Bytes::from_static(file),
                version: Version::new(plugin, handle.clone(), 1),
                handle,
            }
        }

        async fn install(&self, plugins: &Plugins, token: &LoadToken) -> Result<PluginView, CallError> {
            plugins.install(token, self.namespace.clone(), self.version.clone(), None).await
        }

        async fn is_kept(&self, plugins: &Plugins) -> bool {
            plugins.0.files.read(&self.handle).await.is_ok_and(|kept| kept == self.file)
        }
    }

    fn key_of(loading: &Loading) -> PluginKey {
        PluginKey::from(&loading.namespace)
    }

    #[tokio::test]
    async fn a_load_keeps_its_file_when_another_load_of_the_same_bytes_fails() {
        let (_folder, plugins) = plugins().await;
        let loading = Loading::of(&plugins).await;
        let other = Namespace::parse("other").unwrap();
        plugins.load(&load(loading.file.clone(), &other)).await.unwrap_err();
        assert!(loading.is_kept(&plugins).await);
        loading.install(&plugins, &LoadToken::default()).await.unwrap();
        assert!(loading.is_kept(&plugins).await);
    }

    #[tokio::test]
    async fn a_load_keeps_its_file_when_a_plugin_of_the_same_bytes_is_removed() {
        let (_folder, plugins) = plugins().await;
        let loading = Loading::of(&plugins).await;
        loading.install(&plugins, &LoadToken::default()).await.unwrap();
        plugins.remove(&key_of(&loading)).await.unwrap();
        assert!(loading.is_kept(&plugins).await);
        let view = loading.install(&plugins, &LoadToken::default()).await.unwrap();
        assert_eq!(view.digest, loading.handle.digest().as_str());
        let Loading { namespace, handle, version, .. } = loading;
        let digest = handle.digest().clone();
        drop((handle, version));
        plugins.remove(&PluginKey::from(&namespace)).await.unwrap();
        assert!(
            plugins.0.files.read(&plugins.0.files.handle(&digest)).await.is_err(),
            "the last handle is gone"
        );
    }

    #[tokio::test]
    async fn a_grant_is_stored_for_no_plugin_that_was_removed_meanwhile() {
        let (_folder, plugins) = plugins().await;
        let loading = Loading::of(&plugins).await;
        loading.install(&plugins, &LoadToken::default()).await.unwrap();
        let grant =
            || plugins.grant_and_store(&loading.namespace, Grant::default(), |_| async { Ok(Some(())) });
        grant().await.unwrap();
        plugins.remove(&key_of(&loading)).await.unwrap();
        assert_eq!(grant().await.unwrap_err().error_type, ErrorType::NotFound);
    }

    #[tokio::test]
    async fn a_failed_load_leaves_no_file() {
        let (_folder, plugins) = plugins().await;
        let Loading { namespace, file, handle, version } = Loading::of(&plugins).await;
        let digest = handle.digest().clone();
        drop((handle, version));
        plugins.load(&load(file, &namespace)).await.unwrap_err();
        assert!(plugins.0.files.read(&plugins.0.files.handle(&digest)).await.is_err());
    }

    /// Also after its file is compiled and written.
    #[tokio::test]
    async fn a_load_can_be_cancelled_until_it_is_installed() {
        let (_folder, plugins) = plugins().await;
        let loading = Loading::of(&plugins).await;
        let start = || {
            let load = load(loading.file.clone(), &loading.namespace);
            plugins.show_load(&load);
            load
        };
        let (first, second) = (start(), start());
        plugins.remove(&key_of(&loading)).await.unwrap();
        for load in [&first, &second] {
            let error = loading.install(&plugins, &load.token).await.unwrap_err();
            assert_eq!(error.error_type, ErrorType::Cancelled);
            plugins.record_load_failure(load, &error);
        }
        assert!(plugins.find(&key_of(&loading)).is_err(), "a cancelled load is not shown");
        let load = start();
        loading.install(&plugins, &load.token).await.unwrap();
        assert_eq!(plugins.find(&key_of(&loading)).unwrap().state, PluginState::Active);
    }
}
