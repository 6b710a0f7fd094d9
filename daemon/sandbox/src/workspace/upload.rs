//! A file whose content arrives in pieces over HTTP: written to disk as it comes, so that a slow upload holds no memory.
//!
//! The content is in a file outside of the workspace until it is complete, and the workspace is not locked meanwhile. It
//! counts against the quota that several workspaces share from the first piece on, and against the workspace's own when it
//! is placed there.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::io::Errno;
use toolgate_macros::boxed;

use super::Workspace;
use super::error::{FileError, WorkspaceError};
use super::ledger::{QuotaExceeded, QuotaKind, SharedQuota};
use super::operations::temporary_name;
use super::path::RelativePath;

/// An upload. Dropping it discards what has arrived.
pub struct Upload {
    workspace: Workspace,
    path: RelativePath,
    must_be_new: bool,
    staged: Arc<StagedFile>,
    bytes: u64,
    reserved: Reservation,
}

struct StagedFile {
    folder: Dir,
    name: String,
    file: File,
}

/// Bytes reserved of the shared quota, released on drop.
struct Reservation {
    quota: Arc<SharedQuota>,
    bytes: u64,
}

#[boxed]
impl Workspace {
    /// Begins an upload to `path`, which is relative to the top. Pieces are kept below `folder`, which is created if it is
    /// missing and must be in the file system of the workspace.
    pub async fn upload(
        &self,
        folder: &Path,
        path: &str,
        must_be_new: bool,
    ) -> Result<Upload, WorkspaceError> {
        let path = RelativePath::from_host(path)?;
        let folder = folder.to_owned();
        let staged = self.shared.pool.run((), move || StagedFile::create(&folder)).await;
        let staged = Arc::new(staged.map_err(FileError::from).flatten()?);
        let reserved = Reservation { quota: Arc::clone(self.shared.ledger.shared()), bytes: 0 };
        Ok(Upload { workspace: self.clone(), path, must_be_new, staged, bytes: 0, reserved })
    }
}

#[boxed]
impl Upload {
    /// Writes a piece.
    pub async fn write(&mut self, piece: Bytes) -> Result<(), WorkspaceError> {
        let (at, asked) = (self.bytes, piece.len() as u64);
        let limit = self.workspace.quota().bytes;
        if at.saturating_add(asked) > limit {
            let used = self.workspace.usage().bytes;
            return Err(QuotaExceeded { kind: QuotaKind::Bytes, limit, used, asked: at + asked }.into());
        }
        self.reserved.quota.reserve(asked)?;
        self.reserved.bytes += asked;
        self.bytes += asked;
        let staged = Arc::clone(&self.staged);
        let written = self.workspace.shared.pool.run((), move || staged.file.write_all_at(&piece, at)).await;
        Ok(written.flatten().map_err(FileError::from)?)
    }

    /// Places the file in the workspace. Atomic and durable like [`Workspace::write`].
    pub async fn finish(self) -> Result<(), WorkspaceError> {
        let Self { workspace, path, must_be_new, staged, bytes, reserved } = self;
        let placed = workspace.change(move |workspace, lock| {
            staged.file.sync_data()?;
            if must_be_new && workspace.holds(lock, &path)? {
                return Err(Errno::EXIST.into());
            }
            // From here on it counts as part of the workspace.
            drop(reserved);
            workspace.place(lock, &path, bytes, |place| place(&staged.folder, &staged.name))
        });
        placed.await
    }
}

impl StagedFile {
    fn create(folder: &Path) -> Result<Self, FileError> {
        std::fs::create_dir_all(folder)?;
        let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
        let name = temporary_name();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = folder.open_with(&name, &options)?.into_std();
        Ok(Self { folder, name, file })
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        // A complete upload has moved the file.
        let _ = self.folder.remove_file(&self.name);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.quota.release(self.bytes);
    }
}
