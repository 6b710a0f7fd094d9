//! Compiles components in a worker process, and caches the native code on disk.
//!
//! A compiler bomb must not exhaust the daemon, so the compiler runs as a hidden subcommand of this program: it sets
//! its own limits, reads bytes, writes bytes, and has no key, folder or environment. The daemon executes its output, so
//! the cache is authenticated: an HMAC over digest, engine fingerprint and code, whose key lies outside the cache
//! folder, is verified over the same buffer that is then loaded (no TOCTOU).

mod cache;
mod packaged;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use cache::{Artifact, EntryKind};
use packaged::PackagedCode;
use tokio::sync::Semaphore;
use toolgate_admission::Digest;
use toolgate_api::error::{CallError, ErrorType};
use toolgate_audit as audit;
use toolgate_macros::boxed;
use toolgate_sandbox::{Component, Sandbox};
use toolgate_state::keys::KEY_BYTES;

pub use cache::CacheError;
pub use packaged::{PackagedPlugin, write as write_packaged};
use worker::Compiled;
pub use worker::{WorkerLimits, WorkerTask, run as run_worker};

/// Components of this size have a runtime of a scripting language. Compiling one takes 20 s of CPU, and most of its functions are those
/// of the build before.
const FUNCTIONS_KEPT_FROM: usize = 8 * 1024 * 1024;

/// The command line of the worker process.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// Path of the binary. A parameter, since a test binary is not the worker.
    pub program: PathBuf,
    /// Limits of one compilation.
    pub limits: WorkerLimits,
    /// Maximum number of concurrent compilations.
    pub concurrency: usize,
    /// Whether the process loses all access but to its pipes.
    pub is_confined: bool,
}

/// Compiles plugin files to runnable components. Cheap to clone.
#[derive(Clone)]
pub struct Compiler {
    sandbox: Sandbox,
    cache: cache::Cache,
    packaged: Option<Arc<PackagedCode>>,
    command: Arc<WorkerCommand>,
    permits: Arc<Semaphore>,
    counts: Arc<CacheCounts>,
}

/// Look-ups of compiled code since the start.
#[derive(Debug, Default)]
struct CacheCounts {
    hits: AtomicU64,
    misses: AtomicU64,
}

#[boxed]
impl Compiler {
    /// Opens the cache in `folder`, which is created if it is missing. `key` must be stored elsewhere.
    pub fn open(
        sandbox: Sandbox,
        folder: &Path,
        key: &[u8; KEY_BYTES],
        command: WorkerCommand,
    ) -> Result<Self, CacheError> {
        let cache = cache::Cache::open(folder, key, sandbox.fingerprint())?;
        let permits = Arc::new(Semaphore::new(command.concurrency.max(1)));
        let packaged = PackagedCode::open().map(Arc::new);
        Ok(Self { sandbox, cache, packaged, command: Arc::new(command), permits, counts: Arc::default() })
    }

    /// Returns the component of a plugin file: from the cache, or compiled and then cached. If it was compiled, returns
    /// the compile time too.
    pub async fn component(
        &self,
        digest: &Digest,
        file: &[u8],
    ) -> Result<(Component, Option<Duration>), CallError> {
        if let Some(component) = self.load_cached(digest).await {
            return Ok((component, None));
        }
        self.counts.misses.fetch_add(1, Ordering::Relaxed);
        let _permit = self.permits.acquire().await.map_err(|_| stopping())?;
        let began = std::time::Instant::now();
        let shared = code_digest(file);
        let known = match &shared {
            Some(shared) => Some(self.known_functions(shared.clone()).await),
            None => None,
        };
        let functions = known.as_ref().map(|known| known.as_ref().map_or(&[][..], Artifact::content));
        let Compiled { code, functions } = worker::compile(&self.command, functions, file).await?;
        let component = self.load(code.clone()).await?;
        let (cache, digest) = (self.cache.clone(), digest.clone());
        let stored = tokio::task::spawn_blocking(move || {
            if let (Some(shared), Some(functions)) = (shared, functions) {
                cache.store(EntryKind::Functions, &shared, &functions)?;
            }
            cache.store(EntryKind::Code, &digest, &code)
        });
        let stored = stored.await;
        if let Ok(Err(error)) = stored {
            // The plugin works; the next start compiles it again.
            tracing::warn!(%error, "compiled code cannot be cached");
        }
        Ok((component, Some(began.elapsed())))
    }

    /// Compiles the schemas of a description in the worker and discards the result: schemas that exceed the worker's
    /// limits must not be compiled in the daemon. The check runs once per file and description.
    pub async fn check_schemas(&self, digest: &Digest, described: &str) -> Result<(), CallError> {
        let hash = audit::sha256(described.as_bytes()).0;
        let (cache, key) = (self.cache.clone(), digest.clone());
        let known = tokio::task::spawn_blocking(move || {
            cache.read(EntryKind::Schemas, &key).is_some_and(|checked| checked.content() == hash)
        });
        if known.await.unwrap_or(false) {
            return Ok(());
        }
        let _permit = self.permits.acquire().await.map_err(|_| stopping())?;
        worker::check_schemas(&self.command, described).await?;
        let (cache, key) = (self.cache.clone(), digest.clone());
        // If the result cannot be cached, the next start checks again.
        let _ = tokio::task::spawn_blocking(move || cache.store(EntryKind::Schemas, &key, &hash)).await;
        Ok(())
    }

    /// Deletes the cache entries of a file that is no longer served. Blocks.
    pub fn forget(&self, digest: &Digest) {
        self.cache.forget(digest);
    }

    /// Deletes entries that were not used since the cache was opened. Blocks: called at start, after everything is loaded
    /// and before requests are served.
    pub fn remove_unused(&self) {
        if let Err(error) = self.cache.remove_unused(SystemTime::now()) {
            // Old entries only take disk space, and the next start retries.
            tracing::warn!(%error, "unused compiled code cannot be removed");
        }
    }

    /// The component of a plugin file from the cache, or from what came with the program; `None` if there is none that verifies and
    /// loads.
    pub async fn load_cached(&self, digest: &Digest) -> Option<Component> {
        let (cache, sandbox, digest) = (self.cache.clone(), self.sandbox.clone(), digest.clone());
        let packaged = self.packaged.clone();
        let load = move |code: &[u8]| match sandbox.load(code) {
            Ok(component) => Some(component),
            Err(error) => {
                tracing::warn!(%error, "compiled code does not load and is compiled again");
                None
            }
        };
        let loaded = tokio::task::spawn_blocking(move || {
            let cached = cache.read(EntryKind::Code, &digest);
            cached.and_then(|artifact| load(artifact.content())).or_else(|| load(&packaged?.read(&digest)?))
        });
        let component = loaded.await.ok().flatten();
        self.counts.hits.fetch_add(component.is_some().into(), Ordering::Relaxed);
        component
    }

    /// Components loaded from the cache, and compiled ones.
    pub fn counts(&self) -> (u64, u64) {
        (self.counts.hits.load(Ordering::Relaxed), self.counts.misses.load(Ordering::Relaxed))
    }

    /// The functions of components with this code that were compiled before.
    async fn known_functions(&self, shared: Digest) -> Option<Artifact> {
        let cache = self.cache.clone();
        let read = tokio::task::spawn_blocking(move || cache.read(EntryKind::Functions, &shared));
        read.await.ok().flatten()
    }

    async fn load(&self, artifact: Arc<[u8]>) -> Result<Component, CallError> {
        let sandbox = self.sandbox.clone();
        let loaded = tokio::task::spawn_blocking(move || sandbox.load(&artifact)).await;
        Ok(loaded.map_err(|_| stopping())??)
    }
}

/// The digest of what decides the functions of a component. None for a component that compiles fast, whose functions are not kept.
fn code_digest(file: &[u8]) -> Option<Digest> {
    if file.len() < FUNCTIONS_KEPT_FROM {
        return None;
    }
    let mut hash = ring::digest::Context::new(&ring::digest::SHA256);
    for (number, section) in toolgate_sandbox::without_data(file)? {
        hash.update(&[number]);
        hash.update(&(section.len() as u64).to_le_bytes());
        hash.update(section);
    }
    Some(Digest::from_sha256(hash.finish().as_ref().try_into().ok()?))
}

fn stopping() -> CallError {
    CallError::new(ErrorType::Unavailable, "the daemon is stopping", "try again after the restart")
}
