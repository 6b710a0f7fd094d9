//! Compiles components in a process of their own, and keeps what came out.
//!
//! A compiler bomb must not take the daemon with it, so the compiler runs as a hidden subcommand of this
//! same program: limits set first, bytes in, bytes out, no key, no folder, no environment. What it returns
//! is native code that the daemon will run, so the cache is authenticated: an HMAC over digest, engine
//! fingerprint and code, whose key lies outside the cache folder, checked over the very bytes that are
//! then loaded.

mod cache;
mod worker;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Semaphore;
use toolgate_admission::{CallError, Digest, ErrorType};
use toolgate_sandbox::{Component, Sandbox};

use crate::audit::Sha256;
use crate::keys::KEY_BYTES;
use cache::Kind;

pub use cache::CacheError;
pub use worker::{Work, WorkerLimits, run as worker};

/// The program that compiles, as it is started.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    /// Path of the binary. Handed in, so that a test does not start itself.
    pub program: PathBuf,
    /// Arguments that make it the worker.
    pub arguments: Vec<String>,
    /// What one compilation may use.
    pub limits: WorkerLimits,
    /// Compilations at the same time.
    pub concurrency: usize,
}

/// Makes runnable components out of plugin files.
#[derive(Clone)]
pub struct Compiler {
    sandbox: Sandbox,
    cache: cache::Cache,
    command: Arc<WorkerCommand>,
    permits: Arc<Semaphore>,
}

/// Whether code had to be made or was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompiledBy {
    /// Found in the cache.
    Cache,
    /// Made by the worker in this time.
    Worker(Duration),
}

impl Compiler {
    /// Opens the cache below `folder`, made where it is missing. `key` must not lie in it.
    pub fn open(
        sandbox: Sandbox,
        folder: &Path,
        key: &[u8; KEY_BYTES],
        command: WorkerCommand,
    ) -> Result<Self, CacheError> {
        let cache = cache::Cache::open(folder, key, sandbox.fingerprint())?;
        let permits = Arc::new(Semaphore::new(command.concurrency.max(1)));
        Ok(Self { sandbox, cache, command: Arc::new(command), permits })
    }

    /// A runnable component for a plugin file: from the cache, or compiled and then cached.
    pub async fn component(
        &self,
        digest: &Digest,
        file: &[u8],
    ) -> Result<(Component, CompiledBy), CallError> {
        if let Some(component) = self.cached(digest).await {
            return Ok((component, CompiledBy::Cache));
        }
        let _permit = self.permits.acquire().await.map_err(|_| stopping())?;
        let began = std::time::Instant::now();
        let artifact = worker::work(&self.command, Work::Code, file).await?;
        let component = self.load(artifact.clone()).await?;
        let (cache, digest) = (self.cache.clone(), digest.clone());
        let stored = tokio::task::spawn_blocking(move || cache.store(Kind::Code, &digest, &artifact)).await;
        if let Ok(Err(error)) = stored {
            // The plugin works; it will only be compiled again after the next start.
            tracing::warn!(%error, "compiled code cannot be cached");
        }
        Ok((component, CompiledBy::Worker(began.elapsed())))
    }

    /// Compiles the schemas of a description in the worker and throws them away: what takes too much there is not
    /// compiled here. Done once for a file and its description.
    pub async fn vet_schemas(&self, digest: &Digest, described: &str) -> Result<(), CallError> {
        let hash = Sha256::of(described.as_bytes()).0;
        let (cache, key) = (self.cache.clone(), digest.clone());
        let known = tokio::task::spawn_blocking(move || {
            cache.fetch(Kind::Schemas, &key).is_some_and(|vetted| vetted.content() == hash)
        });
        if known.await.unwrap_or(false) {
            return Ok(());
        }
        let _permit = self.permits.acquire().await.map_err(|_| stopping())?;
        worker::work(&self.command, Work::Schemas, described.as_bytes()).await?;
        let (cache, key) = (self.cache.clone(), digest.clone());
        // If it cannot be kept, it is done again after the next start.
        let _ = tokio::task::spawn_blocking(move || cache.store(Kind::Schemas, &key, &hash)).await;
        Ok(())
    }

    /// Forgets the compiled code of a file that is no longer served. Called where a thread may be kept waiting.
    pub fn forget(&self, digest: &Digest) {
        self.cache.forget(digest);
    }

    /// Removes what nobody asked for since the cache was opened. Called when all is loaded and nothing is served yet, so
    /// it may keep its thread waiting.
    pub fn remove_unused(&self) {
        if let Err(error) = self.cache.remove_unused(SystemTime::now()) {
            // It only takes room, and is tried again at the next start.
            tracing::warn!(%error, "compiled code that nobody needs cannot be removed");
        }
    }

    async fn cached(&self, digest: &Digest) -> Option<Component> {
        let (cache, sandbox, digest) = (self.cache.clone(), self.sandbox.clone(), digest.clone());
        let loaded = tokio::task::spawn_blocking(move || {
            let artifact = cache.fetch(Kind::Code, &digest)?;
            match sandbox.load(artifact.content()) {
                Ok(component) => Some(component),
                Err(error) => {
                    tracing::warn!(%error, "cached code does not load and is compiled again");
                    None
                }
            }
        });
        loaded.await.ok().flatten()
    }

    async fn load(&self, artifact: Arc<[u8]>) -> Result<Component, CallError> {
        let sandbox = self.sandbox.clone();
        let loaded = tokio::task::spawn_blocking(move || sandbox.load(&artifact)).await;
        Ok(loaded.map_err(|_| stopping())??)
    }
}

fn stopping() -> CallError {
    CallError::new(ErrorType::Unavailable, "the daemon is stopping", "try again when it runs again")
}
