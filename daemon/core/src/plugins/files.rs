//! Plugin files on disk, by digest, with reference counts.
//!
//! A [`FileHandle`] keeps a plugin file and its compiled code: a load holds one while it runs, and so does each version
//! that is kept and each built-in plugin. Dropping a handle deletes nothing, so a stop or an aborted load loses no
//! file. [`PluginFiles::release`] deletes: it checks for other handles and removes the file under one lock, so a failed
//! load or a removed plugin cannot delete a file that another load needs.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;
use toolgate_admission::Digest;

use crate::compile::Compiler;

/// File names are the digest and this suffix.
const SUFFIX: &str = ".wasm";

/// Names of incomplete files are this prefix and random characters.
const TEMPORARY_PREFIX: &str = ".tmp";
const RANDOM_CHARACTERS: usize = 6;

/// The folder of plugin files. Cheap to clone.
#[derive(Clone)]
pub(super) struct PluginFiles {
    folder: Arc<Path>,
    compiler: Compiler,
    /// The handles by digest. A new handle is made under this lock or cloned from another handle.
    handles: Arc<Mutex<HashMap<Digest, Weak<Digest>>>>,
}

/// A reference to the file and the compiled code of one digest.
#[derive(Clone)]
pub(super) struct FileHandle(Arc<Digest>);

impl FileHandle {
    pub(super) fn digest(&self) -> &Digest {
        &self.0
    }
}

impl PluginFiles {
    pub(super) fn new(folder: PathBuf, compiler: Compiler) -> Self {
        Self { folder: folder.into(), compiler, handles: Arc::default() }
    }

    /// Returns a handle for a digest, also before its file is written.
    pub(super) fn handle(&self, digest: &Digest) -> FileHandle {
        let mut handles = self.handles.lock();
        let handle = handles.get(digest).and_then(Weak::upgrade).unwrap_or_else(|| {
            let handle = Arc::new(digest.clone());
            handles.insert(digest.clone(), Arc::downgrade(&handle));
            handle
        });
        FileHandle(handle)
    }

    /// Drops a handle, and deletes the file and the compiled code if it was the last one.
    pub(super) async fn release(&self, handle: FileHandle) {
        let files = self.clone();
        // If the task is aborted, the next start removes the file.
        let _ = tokio::task::spawn_blocking(move || files.remove_if_last(handle)).await;
    }

    /// Drops several handles like [`PluginFiles::release`].
    pub(super) async fn release_all(&self, handles: impl IntoIterator<Item = FileHandle>) {
        for handle in handles {
            self.release(handle).await;
        }
    }

    fn remove_if_last(&self, handle: FileHandle) {
        let digest = handle.digest().clone();
        drop(handle);
        let mut handles = self.handles.lock();
        handles.retain(|_, handle| handle.strong_count() > 0);
        // INVARIANT: no new handle can be made while this lock is held.
        if handles.contains_key(&digest) {
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

    /// Deletes files without a handle, which a kill can leave behind. Blocks: called at start, after every stored
    /// version has its handle and before requests are served.
    pub(super) fn remove_unreferenced(&self) {
        if let Err(error) = self.try_remove_unreferenced() {
            // Old files only take disk space, and the next start retries.
            tracing::warn!(%error, "files that no plugin refers to cannot be removed");
        }
    }

    fn try_remove_unreferenced(&self) -> io::Result<()> {
        let mut handles = self.handles.lock();
        handles.retain(|_, handle| handle.strong_count() > 0);
        for file in fs::read_dir(&self.folder)? {
            let file = file?;
            let name = file.file_name();
            let Some(name) = name.to_str() else { continue };
            let is_unreferenced = parse_file_name(name).is_some_and(|digest| !handles.contains_key(&digest));
            if is_unreferenced || is_temporary(name) {
                fs::remove_file(file.path())?;
                tracing::info!(file = name, "a file that no plugin refers to was removed");
            }
        }
        Ok(())
    }

    /// Writes the file atomically under its digest.
    pub(super) async fn write(&self, handle: &FileHandle, file: Bytes) -> io::Result<()> {
        let (path, folder) = (self.path(handle.digest()), Arc::clone(&self.folder));
        let written = tokio::task::spawn_blocking(move || {
            let mut temporary = tempfile::Builder::new()
                .prefix(TEMPORARY_PREFIX)
                .rand_bytes(RANDOM_CHARACTERS)
                .tempfile_in(&folder)?;
            temporary.write_all(&file)?;
            temporary.as_file().sync_all()?;
            temporary.persist(path)?;
            // The name is on disk before the store refers to it.
            fs::File::open(folder)?.sync_all()
        });
        written.await?
    }

    /// Reads the file.
    pub(super) async fn read(&self, handle: &FileHandle) -> io::Result<Vec<u8>> {
        tokio::fs::read(self.path(handle.digest())).await
    }

    /// The bytes of the file; 0 if it is missing.
    pub(super) async fn bytes(&self, handle: &FileHandle) -> u64 {
        tokio::fs::metadata(self.path(handle.digest())).await.map_or(0, |metadata| metadata.len())
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.folder.join(format!("{}{SUFFIX}", digest.hex()))
    }
}

/// The inverse of [`PluginFiles::path`].
fn parse_file_name(name: &str) -> Option<Digest> {
    Digest::parse(&format!("sha256:{}", name.strip_suffix(SUFFIX)?)).ok()
}

fn is_temporary(name: &str) -> bool {
    name.strip_prefix(TEMPORARY_PREFIX).is_some_and(|random| {
        random.len() == RANDOM_CHARACTERS && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
pub(super) mod tests {
    use toolgate_sandbox::{PagemapScan, Sandbox, SandboxSettings};

    use super::*;
    use crate::compile::{WorkerCommand, WorkerLimits};

    /// A compiler without a worker program.
    pub(in crate::plugins) fn idle_compiler(folder: &Path) -> (Sandbox, Compiler) {
        let settings = SandboxSettings { instances: 1, pagemap_scan: PagemapScan::Off };
        let sandbox = Sandbox::new(&settings).unwrap();
        let command = WorkerCommand {
            program: folder.join("nothing"),
            limits: WorkerLimits { memory_bytes: 1, cpu_seconds: 1, wall_seconds: 1 },
            concurrency: 1,
            is_confined: true,
        };
        let compiler = Compiler::open(sandbox.clone(), &folder.join("cache"), &[7; 32], command).unwrap();
        (sandbox, compiler)
    }

    fn files(folder: &Path) -> PluginFiles {
        PluginFiles::new(folder.to_owned(), idle_compiler(folder).1)
    }

    fn digest(letter: char) -> Digest {
        Digest::parse(&format!("sha256:{}", letter.to_string().repeat(64))).unwrap()
    }

    #[tokio::test]
    async fn a_file_is_deleted_with_its_last_handle() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let (one, other) = (files.handle(&digest('a')), files.handle(&digest('a')));
        let bystander = files.handle(&digest('b'));
        for handle in [&one, &bystander] {
            files.write(handle, Bytes::from_static(b"file")).await.unwrap();
        }
        files.release(other).await;
        assert_eq!(files.read(&one).await.unwrap(), b"file");
        let version = one.clone();
        files.release(one).await;
        assert_eq!(files.read(&version).await.unwrap(), b"file");
        files.release(version).await;
        assert!(!files.path(&digest('a')).exists());
        assert!(files.path(&digest('b')).exists());
    }

    #[tokio::test]
    async fn dropping_a_handle_deletes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = files(folder.path());
        let handle = files.handle(&digest('a'));
        files.write(&handle, Bytes::from_static(b"file")).await.unwrap();
        drop(handle);
        let again = files.handle(&digest('a'));
        assert_eq!(files.read(&again).await.unwrap(), b"file");
        files.release(again).await;
        assert!(!files.path(&digest('a')).exists());
    }
}
