//! Host access to a workspace, for the HTTP routes of files.

use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use rustix::io::Errno;
use toolgate_macros::boxed;

use super::error::{FileError, WorkspaceError};
use super::operations::{OpenRequest, Opened};
use super::path::RelativePath;
use super::pool::FilePool;
use super::tree::{self, HeldFile};
use super::{Lock, Workspace};

/// Maximum entries of a listing: the default quota of files.
const LISTING_ENTRIES_MAX: usize = 10_000;

/// Bytes of a chunk when a file is read by the host.
pub(super) const CHUNK_BYTES: usize = 256 * 1024;

/// A file opened for reading. It stays counted against the quota until it is dropped, even if it is removed.
#[derive(Debug)]
pub struct FileReader {
    held: Arc<HeldFile>,
    pool: FilePool,
    position: u64,
    bytes: u64,
}

/// The contents of a workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sorted by path, at most 10,000.
    pub entries: Vec<ListedFile>,
    /// Whether the listing is incomplete.
    pub truncated: bool,
}

/// One file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedFile {
    /// Path from the top of the workspace. Invalid UTF-8 is replaced.
    pub path: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Size of a file; 0 for a directory.
    pub bytes: u64,
    /// Time of the last content change.
    pub modified: Option<SystemTime>,
}

#[boxed]
impl Workspace {
    /// Opens a file for reading. `path` is relative to the top, separated by `/`.
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

    /// Writes a whole file and creates its parent directories. Atomic: readers see the old file or the new one.
    /// Durable when this returns.
    pub async fn write(&self, path: &str, bytes: Bytes) -> Result<(), WorkspaceError> {
        let path = RelativePath::from_host(path)?;
        self.change(move |workspace, lock| workspace.replace(lock, &path, &bytes)).await
    }

    /// Like [`write`](Self::write), but fails if the path exists. Atomic.
    pub async fn create(&self, path: &str, bytes: Bytes) -> Result<(), WorkspaceError> {
        let path = RelativePath::from_host(path)?;
        let created = self.change(move |workspace, lock| match workspace.holds(lock, &path)? {
            true => Err(Errno::EXIST.into()),
            false => workspace.replace(lock, &path, &bytes),
        });
        created.await
    }

    /// Removes a file or an empty directory.
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

    /// Lists all entries, sorted by path. Links and special files are left out.
    pub async fn list(&self) -> Result<Listing, WorkspaceError> {
        self.change(|workspace, _lock| {
            let mut listing = Listing::default();
            tree::visit(&workspace.shared.root, "", 1, &mut |entry| listing.add(&entry))?;
            listing.entries.sort_by(|one, other| one.path.cmp(&other.path));
            Ok(listing)
        })
        .await
    }

    pub(super) async fn change<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Self, &Lock) -> Result<R, FileError> + Send + 'static,
    ) -> Result<R, WorkspaceError> {
        let lock = self.lock().await;
        let workspace = self.clone();
        let done = self.shared.pool.run((), move || work(&workspace, &lock)).await;
        done.map_err(FileError::from).flatten().map_err(WorkspaceError::from)
    }
}

#[boxed]
impl FileReader {
    /// Length of the file when it was opened. No more is read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the next chunk, or `None` at the end, which comes early if the file was truncated meanwhile.
    pub async fn next(&mut self) -> Result<Option<Bytes>, WorkspaceError> {
        let left = usize::try_from(self.bytes - self.position).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        if left == 0 {
            return Ok(None);
        }
        let (held, position) = (Arc::clone(&self.held), self.position);
        let chunk = self.pool.run((), move || {
            let mut chunk = vec![0; left];
            let read = held.file.read_at(&mut chunk, position)?;
            chunk.truncate(read);
            Ok::<_, io::Error>(chunk)
        });
        let chunk = chunk.await.flatten().map_err(FileError::from)?;
        self.position += chunk.len() as u64;
        Ok((!chunk.is_empty()).then(|| Bytes::from(chunk)))
    }

    /// Reads the rest into memory.
    pub async fn rest(mut self) -> Result<Vec<u8>, WorkspaceError> {
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await? {
            all.extend_from_slice(&chunk);
        }
        Ok(all)
    }
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
