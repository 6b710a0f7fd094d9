//! A session's folder: the only files there are for a guest.
//!
//! One [`Workspace`] stands for one folder while its session lives, and is shared by the session's calls
//! and by the routes that put files in and take them out. It is opened once, by its host path; from then
//! on everything goes through that handle (cap-std), name by name, and no host path is left that an error
//! could show. Links are never followed, whoever made them.
//!
//! The quota holds while files grow, not when somebody looks: [`ledger`] counts, [`operations`] are the
//! only ones who change anything, [`tree`] is how a path is walked, [`pool`] is where it all runs but what
//! [`cached`] can do without waiting.

pub(crate) mod cached;
pub(crate) mod ledger;
pub(crate) mod operations;
pub(crate) mod path;
pub(crate) mod pool;
pub(crate) mod tree;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::SystemTime;

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::Dir;
use rustix::io::Errno;

pub use ledger::{Quota, QuotaExceeded, QuotaKind, Used};
pub use path::Refusal;
pub use pool::FilePool;

use ledger::{FileId, Ledger};
use operations::{OpenRequest, Opened};
use path::RelativePath;
use tree::HeldFile;

/// How many entries a listing has at most: the usual quota of files.
const LISTING_ENTRIES_MAX: usize = 10_000;

/// How much of a file is read at a time when it is sent out.
const CHUNK_BYTES: usize = 256 * 1024;

/// The files of one session. Clones share the folder and its counts.
#[derive(Clone, Debug)]
pub struct Workspace {
    shared: Arc<Shared>,
    quota: Quota,
    tells_reads: bool,
}

#[derive(Debug)]
struct Shared {
    root: Dir,
    top: FileId,
    ledger: Arc<Ledger>,
    lock: Arc<tokio::sync::Mutex<()>>,
    pool: FilePool,
}

/// The right to change the workspace or to walk through it. There is one.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held for its drop")] tokio::sync::OwnedMutexGuard<()>);

/// A workspace that is open as long as somebody else has it. What is in it stays counted when it is closed, and those
/// who still work on it then share that, and the lock, with those who opened it again.
#[derive(Clone, Debug)]
pub struct WeakWorkspace {
    shared: Weak<Shared>,
    ledger: Arc<Ledger>,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl WeakWorkspace {
    /// The workspace, without a quota, if it is still open.
    pub fn upgrade(&self) -> Option<Workspace> {
        self.shared.upgrade().map(Workspace::unbounded)
    }

    /// The workspace, opened again.
    pub async fn reopen(&mut self, folder: &Path, pool: FilePool) -> Result<Workspace, WorkspaceError> {
        let folder = folder.to_owned();
        let opened = pool.run((), move || open_root(&folder));
        let (root, top) = opened.await.map_err(FileError::from).flatten().map_err(WorkspaceError::from)?;
        let (ledger, lock) = (Arc::clone(&self.ledger), Arc::clone(&self.lock));
        let shared = Arc::new(Shared { root, top, ledger, lock, pool });
        self.shared = Arc::downgrade(&shared);
        Ok(Workspace::unbounded(shared))
    }
}

fn open_root(folder: &Path) -> Result<(Dir, FileId), FileError> {
    // The handle that cap-std gives serves for paths only; times and flags need one that was opened.
    let root = tree::open_directory(&Dir::open_ambient_dir(folder, ambient_authority())?, ".")?;
    let top = tree::id_of(&root.dir_metadata()?);
    Ok((root, top))
}

impl Workspace {
    /// Opens a folder that exists, and counts what is in it. There must be no other `Workspace` for it that
    /// was opened on its own: the two would not see each other's writes.
    pub async fn open(folder: &Path, quota: Quota, pool: FilePool) -> Result<Self, WorkspaceError> {
        let folder = folder.to_owned();
        let counted = pool.run((), move || -> Result<_, FileError> {
            let (root, top) = open_root(&folder)?;
            let used = tree::count(&root)?;
            Ok((root, top, used))
        });
        let (root, top, used) =
            counted.await.map_err(FileError::from).flatten().map_err(WorkspaceError::from)?;
        let ledger = Arc::new(Ledger::starting_with(used));
        let lock = Arc::default();
        let shared = Arc::new(Shared { root, top, ledger, lock, pool });
        Ok(Self { quota, ..Self::unbounded(shared) })
    }

    fn unbounded(shared: Arc<Shared>) -> Self {
        Self { shared, quota: Quota::UNBOUNDED, tells_reads: false }
    }

    /// A way back to it that does not keep it open.
    pub fn downgrade(&self) -> WeakWorkspace {
        let Shared { ledger, lock, .. } = &*self.shared;
        let shared = Arc::downgrade(&self.shared);
        WeakWorkspace { shared, ledger: Arc::clone(ledger), lock: Arc::clone(lock) }
    }

    /// The same workspace for one who may fill it less.
    pub fn narrowed(&self, quota: Quota) -> Self {
        let quota =
            Quota { bytes: self.quota.bytes.min(quota.bytes), files: self.quota.files.min(quota.files) };
        Self { shared: Arc::clone(&self.shared), quota, ..*self }
    }

    /// The same, of which a call also tells what it read: for whoever tries a tool out.
    pub fn telling_reads(self) -> Self {
        Self { tells_reads: true, ..self }
    }

    pub(crate) fn tells_reads(&self) -> bool {
        self.tells_reads
    }

    /// What it may hold.
    pub fn quota(&self) -> Quota {
        self.quota
    }

    /// What it holds now.
    pub fn used(&self) -> Used {
        self.shared.ledger.used()
    }

    /// Opens a file to be read from beginning to end. `path` is relative to the top, with `/`.
    pub async fn read(&self, path: &str) -> Result<FileReader, WorkspaceError> {
        let path = RelativePath::from_host(path)?;
        let request = OpenRequest { read: true, ..OpenRequest::default() };
        let opened = self.change(move |workspace, lock| {
            match workspace.open_at(lock, &workspace.shared.root, &path, request)? {
                Opened::Directory(_) => Err(Errno::ISDIR.into()),
                Opened::File(held) => {
                    let bytes = held.file.metadata()?.len();
                    Ok((held, bytes))
                }
            }
        });
        let (held, bytes) = opened.await?;
        Ok(FileReader { held: Arc::new(held), pool: self.shared.pool.clone(), position: 0, bytes })
    }

    /// Puts a whole file in place, and the folders on the way. Others see the old file or the new one, never
    /// a part; when this returns, it is on the disk.
    pub async fn write(&self, path: &str, bytes: Bytes) -> Result<(), WorkspaceError> {
        let path = RelativePath::from_host(path)?;
        self.change(move |workspace, lock| workspace.replace(lock, &path, &bytes)).await
    }

    /// The same where nothing of that name is there yet. Nobody can make it in between.
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<(), WorkspaceError> {
        let path = RelativePath::from_host(path)?;
        let created = self.change(move |workspace, lock| match workspace.holds(lock, &path)? {
            true => Err(Errno::EXIST.into()),
            false => workspace.replace(lock, &path, &bytes),
        });
        created.await
    }

    /// Removes a file or an empty folder.
    pub async fn delete(&self, path: &str) -> Result<(), WorkspaceError> {
        let path = RelativePath::from_host(path)?;
        let removed = self.change(move |workspace, lock| {
            let root = &workspace.shared.root;
            match workspace.remove_file(lock, root, &path) {
                Err(FileError::Io(error)) if error.kind() == io::ErrorKind::IsADirectory => {
                    workspace.remove_directory(lock, root, &path)
                }
                done => done,
            }
        });
        removed.await
    }

    /// Lists everything, sorted by path. Links and pipes, should there be any, are not shown.
    pub async fn list(&self) -> Result<Listing, WorkspaceError> {
        self.change(|workspace, _lock| {
            let mut listing = Listing::default();
            tree::visit(&workspace.shared.root, "", 1, &mut |entry| listing.add(&entry))?;
            listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(listing)
        })
        .await
    }

    async fn change<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Self, &Lock) -> Result<R, FileError> + Send + 'static,
    ) -> Result<R, WorkspaceError> {
        let lock = self.lock().await;
        let workspace = self.clone();
        let done = self.shared.pool.run((), move || work(&workspace, &lock)).await;
        done.map_err(FileError::from).flatten().map_err(WorkspaceError::from)
    }

    /// Waits until nobody else works on the workspace. Costs no thread.
    pub async fn lock(&self) -> Lock {
        Lock(Arc::clone(&self.shared.lock).lock_owned().await)
    }

    /// Opens for reading what the kernel has in memory, in this thread and if nobody else is at work.
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

/// A file on its way out. It stays counted against the quota until it is dropped, even if it is removed.
#[derive(Debug)]
pub struct FileReader {
    held: Arc<HeldFile>,
    pool: FilePool,
    position: u64,
    bytes: u64,
}

impl FileReader {
    /// How long the file was when it was opened. No more than that is read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The next piece, or nothing at the end, which comes early if the file was cut short meanwhile.
    pub async fn next(&mut self) -> Result<Option<Bytes>, WorkspaceError> {
        let left = usize::try_from(self.bytes - self.position).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        if left == 0 {
            return Ok(None);
        }
        let (held, position) = (Arc::clone(&self.held), self.position);
        let piece = self.pool.run((), move || {
            let mut piece = vec![0; left];
            let read = held.file.read_at(&mut piece, position)?;
            piece.truncate(read);
            Ok::<_, io::Error>(piece)
        });
        let piece = piece.await.flatten().map_err(FileError::from)?;
        self.position += piece.len() as u64;
        Ok((!piece.is_empty()).then(|| Bytes::from(piece)))
    }

    /// All that is left, in one piece.
    pub async fn rest(mut self) -> Result<Vec<u8>, WorkspaceError> {
        let mut all = Vec::new();
        while let Some(piece) = self.next().await? {
            all.extend_from_slice(&piece);
        }
        Ok(all)
    }
}

/// What is in a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by path, at most 10,000.
    pub entries: Vec<ListedFile>,
    /// Whether there was more.
    pub truncated: bool,
}

/// One file or folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// From the top of the workspace. A name that is not UTF-8 has its bad bytes replaced.
    pub path: String,
    /// A folder, and not a file.
    pub is_directory: bool,
    /// Size of a file; 0 for a folder.
    pub bytes: u64,
    /// When its content last changed.
    pub modified: Option<SystemTime>,
}

impl Listing {
    fn add(&mut self, entry: &tree::Entry) {
        let is_directory = entry.metadata.is_dir();
        if !is_directory && !entry.metadata.is_file() {
            return;
        }
        if self.entries.len() == LISTING_ENTRIES_MAX {
            self.truncated = true;
            return;
        }
        let modified = entry.metadata.modified().ok().map(|time| time.into_std());
        self.entries.push(ListedFile {
            path: entry.path.clone(),
            is_directory,
            bytes: entry.bytes(),
            modified,
        });
    }
}

/// What went wrong, for the rooms inside.
#[derive(Debug)]
pub(crate) enum FileError {
    Refused(Refusal),
    Quota(QuotaExceeded),
    Io(io::Error),
}

impl From<Refusal> for FileError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<QuotaExceeded> for FileError {
    fn from(exceeded: QuotaExceeded) -> Self {
        Self::Quota(exceeded)
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for FileError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// Why a file could not be read, written, removed or listed. Says nothing about the host.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path, or what it leads to, is not for anybody.
    #[error("the path is refused: {0}")]
    Refused(Refusal),
    /// There is nothing.
    #[error("there is no such file")]
    NotFound,
    /// Something is where nothing should be yet.
    #[error("something of that name is there")]
    Exists,
    /// A folder is where a file was asked for.
    #[error("the path names a folder")]
    IsDirectory,
    /// A file is where a folder was asked for.
    #[error("a part of the path is a file, not a folder")]
    NotDirectory,
    /// The folder has something in it.
    #[error("the folder is not empty")]
    NotEmpty,
    /// It would not fit.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// The disk under all workspaces has no room left, whatever this one may hold.
    #[error("the disk of the workspaces is full")]
    DiskFull,
    /// The disk or the folder is not as it should be: the host's fault.
    #[error("the workspace cannot be used: {0}")]
    Io(io::Error),
}

impl WorkspaceError {
    /// Where the host's own folder gives an error.
    pub fn of_disk(error: io::Error) -> Self {
        if is_full_disk(&error) { Self::DiskFull } else { Self::Io(error) }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::NotFound => "list the workspace to see what there is",
            Self::Exists => "take another name, or say that it may be replaced",
            Self::IsDirectory | Self::NotDirectory => "name a file",
            Self::NotEmpty => "remove what is in it first",
            Self::Quota(_) => "remove files that are no longer needed",
            Self::DiskFull => "free space on the disk of the data folder",
            Self::Io(_) => "look at the daemon's log and at its disk",
        }
    }
}

/// The disk, or the share of it that the daemon's user or project has.
pub(crate) fn is_full_disk(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl From<Refusal> for WorkspaceError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<FileError> for WorkspaceError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Refused(refusal) => Self::Refused(refusal),
            FileError::Quota(exceeded) => Self::Quota(exceeded),
            FileError::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => Self::NotFound,
                io::ErrorKind::AlreadyExists => Self::Exists,
                io::ErrorKind::IsADirectory => Self::IsDirectory,
                io::ErrorKind::NotADirectory => Self::NotDirectory,
                io::ErrorKind::DirectoryNotEmpty => Self::NotEmpty,
                io::ErrorKind::InvalidFilename => Self::Refused(Refusal::TooLong),
                _ => Self::of_disk(error),
            },
        }
    }
}

#[cfg(test)]
mod tests;
