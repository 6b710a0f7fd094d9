//! What is kept for a plugin, each under its digest: its file, and the code that was compiled of it.
//!
//! Whoever counts on it holds it ([`Held`]): a load from before it compiles until it is decided, every version that is
//! kept, and what is built in. Dropping a handle removes nothing, so neither a stop nor a load that ends early costs a
//! file. Removing is an act of its own ([`Files::let_go`]), which looks for other holders and removes under one lock:
//! a load that fails and a plugin that is removed cannot take away what another load is acknowledged for.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use toolgate_admission::Digest;

use crate::compile::Compiler;

/// Behind the digest in the name of a file.
const SUFFIX: &str = ".wasm";

/// In front of the random characters in the name of one that is being written.
const HALF_WRITTEN: &str = ".tmp";
const RANDOM_CHARACTERS: usize = 6;

/// What is kept for plugins. Cheap to clone.
#[derive(Clone)]
pub(super) struct Files {
    folder: Arc<Path>,
    compiler: Compiler,
    /// By digest, who holds it. New handles are made under this lock alone, or of one that is there.
    holders: Arc<Mutex<HashMap<Digest, Weak<Digest>>>>,
}

/// While there is one of these, what is kept under its digest stays.
#[derive(Clone)]
pub(super) struct Held(Arc<Digest>);

impl Held {
    pub(super) fn digest(&self) -> &Digest {
        &self.0
    }
}

impl Files {
    pub(super) fn new(folder: PathBuf, compiler: Compiler) -> Self {
        Self { folder: folder.into(), compiler, holders: Arc::default() }
    }

    /// Holds what is kept under a digest, or will be.
    pub(super) fn hold(&self, digest: &Digest) -> Held {
        let mut holders = self.holders();
        let held = holders.get(digest).and_then(Weak::upgrade).unwrap_or_else(|| {
            let held = Arc::new(digest.clone());
            holders.insert(digest.clone(), Arc::downgrade(&held));
            held
        });
        Held(held)
    }

    /// Gives up a handle, and removes what is kept under its digest where that was the last one.
    pub(super) async fn let_go(&self, held: Held) {
        let files = self.clone();
        // One that ends early leaves what the next start sweeps.
        let _ = tokio::task::spawn_blocking(move || files.remove_if_last(held)).await;
    }

    fn remove_if_last(&self, held: Held) {
        let digest = held.digest().clone();
        drop(held);
        let mut holders = self.holders();
        holders.retain(|_, holder| holder.strong_count() > 0);
        // INVARIANT: from here on nobody can come to hold it until it is removed.
        if holders.contains_key(&digest) {
            return;
        }
        self.compiler.forget(&digest);
        match fs::remove_file(self.path(&digest)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(%error, %digest, "the file of a removed plugin stays");
            }
            _ => {}
        }
    }

    /// Removes the files that nobody holds: what a kill left of loads and removals. Called when everything is held that
    /// the store names and nothing is served yet, so it may keep its thread waiting.
    pub(super) fn remove_unheld(&self) {
        if let Err(error) = self.try_remove_unheld() {
            // They only take room, and it is tried again at the next start.
            tracing::warn!(%error, "files that no plugin refers to cannot be removed");
        }
    }

    fn try_remove_unheld(&self) -> io::Result<()> {
        let mut holders = self.holders();
        holders.retain(|_, holder| holder.strong_count() > 0);
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_unheld = digest_in(name).is_some_and(|digest| !holders.contains_key(&digest));
            if is_unheld || is_half_written(name) {
                fs::remove_file(file.path())?;
                tracing::info!(file = name, "a file that no plugin refers to was removed");
            }
        }
        Ok(())
    }

    /// Writes the file under its digest; a half-written one never has that name.
    pub(super) async fn write(&self, held: &Held, file: Bytes) -> io::Result<()> {
        let (path, folder) = (self.path(held.digest()), Arc::clone(&self.folder));
        let written = tokio::task::spawn_blocking(move || {
            let mut temporary = tempfile::Builder::new()
                .prefix(HALF_WRITTEN)
                .rand_bytes(RANDOM_CHARACTERS)
                .tempfile_in(folder)?;
            temporary.write_all(&file)?;
            temporary.as_file().sync_all()?;
            temporary.persist(path)?;
            Ok(())
        });
        written.await?
    }

    /// The file of what is held.
    pub(super) async fn read(&self, held: &Held) -> io::Result<Vec<u8>> {
        tokio::fs::read(self.path(held.digest())).await
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}{SUFFIX}", digest.hex()))
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<Digest, Weak<Digest>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The digest of a file that has a name as [`Files::path`] makes them.
fn digest_in(name: &str) -> Option<Digest> {
    Digest::parse(&format!("sha256:{}", name.strip_suffix(SUFFIX)?)).ok()
}

fn is_half_written(name: &str) -> bool {
    name.strip_prefix(HALF_WRITTEN).is_some_and(|random| {
        random.len() == RANDOM_CHARACTERS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
pub(super) mod tests {
    use toolgate_sandbox::{PagemapScan, Sandbox, SandboxSettings};

    use super::*;
    use crate::compile::{WorkerCommand, WorkerLimits};

    /// A compiler that has nothing to compile with.
    pub(in crate::plugins) fn idle_compiler(folder: &Path) -> (Sandbox, Compiler) {
        let settings = SandboxSettings { instances: 1, pagemap_scan: PagemapScan::Off };
        let sandbox = Sandbox::new(&settings).unwrap();
        let command = WorkerCommand {
            program: folder.join("nothing"),
            arguments: Vec::new(),
            limits: WorkerLimits { memory_bytes: 1, cpu_seconds: 1, wall_seconds: 1 },
            concurrency: 1,
        };
        let compiler = Compiler::open(sandbox.clone(), &folder.join("cache"), &[7; 32], command).unwrap();
        (sandbox, compiler)
    }

    fn files(folder: &Path) -> Files {
        Files::new(folder.to_owned(), idle_compiler(folder).1)
    }

    fn digest(letter: char) -> Digest {
        Digest::parse(&format!("sha256:{}", letter.to_string().repeat(64))).unwrap()
    }

    #[tokio::test]
    async fn what_is_kept_goes_with_the_last_who_holds_it() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let (one, other) = (files.hold(&digest('a')), files.hold(&digest('a')));
        let bystander = files.hold(&digest('b'));
        for held in [&one, &bystander] {
            files.write(held, Bytes::from_static(b"file")).await.unwrap();
        }
        files.let_go(other).await;
        assert_eq!(files.read(&one).await.unwrap(), b"file");
        let version = one.clone();
        files.let_go(one).await;
        assert_eq!(files.read(&version).await.unwrap(), b"file");
        files.let_go(version).await;
        assert!(!files.path(&digest('a')).exists());
        assert!(files.path(&digest('b')).exists());
    }

    #[tokio::test]
    async fn what_is_dropped_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let held = files.hold(&digest('a'));
        files.write(&held, Bytes::from_static(b"file")).await.unwrap();
        drop(held);
        let again = files.hold(&digest('a'));
        assert_eq!(files.read(&again).await.unwrap(), b"file");
        files.let_go(again).await;
        assert!(!files.path(&digest('a')).exists());
    }
}
