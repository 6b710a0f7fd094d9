//! A session's workspace: the only files that a guest can reach.
//!
//! One [`Workspace`] represents one directory while its session lives, shared by the session's calls and by the HTTP
//! routes for files. The host path is used once, to open it; from then on all access goes through that handle
//! (cap-std), name by name, so no error can reveal a host path. Links are never followed.
//!
//! The quota holds at every moment: [`ledger`] counts, [`operations`] makes all changes, [`tree`] walks paths,
//! [`pool`] runs the blocking work, except for reads from the page cache ([`cached`]).

pub(crate) mod cached;
pub(crate) mod error;
mod host_files;
pub(crate) mod ledger;
pub(crate) mod operations;
pub(crate) mod path;
pub(crate) mod pool;
pub(crate) mod tree;
mod upload;

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Weak};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::io::Errno;
use toolgate_macros::boxed;

pub use error::WorkspaceError;
pub use host_files::{FileReader, ListedFile, Listing};
pub use ledger::{Quota, QuotaExceeded, QuotaKind, SharedQuota, WorkspaceUsage};
pub use path::Refusal;
pub use pool::FilePool;
pub use upload::Upload;

use error::FileError;
use ledger::{FileId, Ledger};
use operations::Opened;
use path::RelativePath;

/// The files of one session. Clones share the directory and its usage.
#[derive(Clone, Debug)]
pub struct Workspace {
    shared: Arc<Shared>,
    quota: Quota,
    records_reads: bool,
}

#[derive(Debug)]
struct Shared {
    root: Dir,
    top: FileId,
    ledger: Arc<Ledger>,
    lock: Arc<tokio::sync::Mutex<()>>,
    pool: FilePool,
}

/// The exclusive right to change the workspace or to walk its paths.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] tokio::sync::OwnedMutexGuard<()>);

/// A weak reference to a workspace. Its usage counts and lock survive the close, so users that still work on it share
/// them with those that open it again.
#[derive(Clone, Debug)]
pub struct WeakWorkspace {
    shared: Weak<Shared>,
    ledger: Arc<Ledger>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

#[boxed]
impl WeakWorkspace {
    /// Returns the workspace, without a quota, if it is still open.
    pub fn upgrade(&self) -> Option<Workspace> {
        self.shared.upgrade().map(Workspace::without_quota)
    }

    /// Opens the workspace again.
    pub async fn reopen(&mut self, folder: &Path, pool: FilePool) -> Result<Workspace, WorkspaceError> {
        let folder = folder.to_owned();
        let opened = pool.run((), move || open_root(&folder));
        let (root, top) = opened.await.map_err(FileError::from).flatten()?;
        let (ledger, lock) = (Arc::clone(&self.ledger), Arc::clone(&self.lock));
        let shared = Arc::new(Shared { root, top, ledger, lock, pool });
        self.shared = Arc::downgrade(&shared);
        Ok(Workspace::without_quota(shared))
    }
}

/// Opens the top directory. A link in its place is not followed, since it could lead to another session's files.
fn open_root(folder: &Path) -> Result<(Dir, FileId), FileError> {
    let name = folder.file_name().and_then(OsStr::to_str).ok_or(Errno::INVAL)?;
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // cap-std's handle is `O_PATH`; setting times and reading flags need a real one.
    let root = tree::open_directory(&Dir::open_ambient_dir(parent, ambient_authority())?, name);
    let root = root.map_err(|error| match error {
        FileError::Refused(refusal) => {
            io::Error::other(format!("the folder `{}` is not used: {refusal}", folder.display())).into()
        }
        other => other,
    })?;
    let top = tree::id_of(&root.dir_metadata()?);
    Ok((root, top))
}

#[boxed]
impl Workspace {
    /// Opens an existing directory and counts its contents. It must not be opened twice: the two would not see each
    /// other's writes.
    pub async fn open(folder: &Path, quota: Quota, pool: FilePool) -> Result<Self, WorkspaceError> {
        let shared_quota = Arc::new(SharedQuota::new(u64::MAX));
        Ok(Self { quota, ..Self::open_within(folder, shared_quota, pool).await? })
    }

    /// Like [`open`](Self::open), without a quota of its own, and counted against one of several workspaces.
    pub async fn open_within(
        folder: &Path,
        shared_quota: Arc<SharedQuota>,
        pool: FilePool,
    ) -> Result<Self, WorkspaceError> {
        let folder = folder.to_owned();
        let counted = pool.run((), move || -> Result<_, FileError> {
            let (root, top) = open_root(&folder)?;
            let used = tree::count(&root)?;
            Ok((root, top, used))
        });
        let (root, top, used) = counted.await.map_err(FileError::from).flatten()?;
        let ledger = Arc::new(Ledger::starting_with(used, shared_quota));
        let lock = Arc::default();
        let shared = Arc::new(Shared { root, top, ledger, lock, pool });
        Ok(Self::without_quota(shared))
    }

    fn without_quota(shared: Arc<Shared>) -> Self {
        Self { shared, quota: Quota::UNBOUNDED, records_reads: false }
    }

    /// Returns a weak reference.
    pub fn downgrade(&self) -> WeakWorkspace {
        let Shared { ledger, lock, .. } = &*self.shared;
        let shared = Arc::downgrade(&self.shared);
        WeakWorkspace { shared, ledger: Arc::clone(ledger), lock: Arc::clone(lock) }
    }

    /// The same workspace under a lower quota.
    pub fn with_lower_quota(&self, quota: Quota) -> Self {
        let quota =
            Quota { bytes: self.quota.bytes.min(quota.bytes), files: self.quota.files.min(quota.files) };
        Self { shared: Arc::clone(&self.shared), quota, ..*self }
    }

    /// The same workspace; its calls also record reads, for a test call.
    pub fn with_read_effects(self) -> Self {
        Self { records_reads: true, ..self }
    }

    pub(crate) fn records_reads(&self) -> bool {
        self.records_reads
    }

    /// The quota.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// The current usage.
    pub fn usage(&self) -> WorkspaceUsage {
        self.shared.ledger.usage()
    }

    /// Waits for the exclusive lock, without blocking a thread.
    pub async fn lock(&self) -> Lock {
        Lock(Arc::clone(&self.shared.lock).lock_owned().await)
    }

    /// Opens a file for reading if its path is in the kernel's dentry cache and the lock is free, in this thread.
    pub(crate) fn open_cached(&self, base: impl AsFd, path: &RelativePath) -> Option<Opened> {
        let lock = Lock(Arc::clone(&self.shared.lock).try_lock_owned().ok()?);
        cached::open(&lock, base, path, &self.shared.ledger)
    }

    pub(crate) fn pool(&self) -> &FilePool {
        &self.shared.pool
    }

    pub(crate) fn root(&self) -> &Dir {
        &self.shared.root
    }
}

#[cfg(test)]
mod tests;
