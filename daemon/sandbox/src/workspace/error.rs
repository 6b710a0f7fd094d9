//! Errors of file operations: one type for the sandbox, one for the host routes.

use std::io;

use rustix::io::Errno;

use super::ledger::QuotaExceeded;
use super::path::Refusal;

/// The error of a file operation, inside the sandbox.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl From<Errno> for FileError {
    fn from(error: Errno) -> Self {
        Self::Io(error.into())
    }
}

/// The error of a file operation on a host route. It reveals nothing about the host.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The path, or the entry at it, is refused.
    #[error("the path is refused: {0}")]
    Refused(Refusal),
    /// The file does not exist.
    #[error("the file does not exist")]
    NotFound,
    /// The path already exists.
    #[error("the path already exists")]
    Exists,
    /// The path is a directory instead of a file.
    #[error("the path names a folder")]
    IsDirectory,
    /// A parent is a file instead of a directory.
    #[error("a part of the path is a file, not a folder")]
    NotDirectory,
    /// The directory is not empty.
    #[error("the folder is not empty")]
    NotEmpty,
    /// The quota would be exceeded.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
    /// The disk under all workspaces is full, independently of the quota.
    #[error("the disk of the workspaces is full")]
    DiskFull,
    /// The disk or the directory failed: a fault of the host.
    #[error("the workspace cannot be used: {0}")]
    Io(io::Error),
}

impl WorkspaceError {
    /// An I/O error of the host's own directory.
    pub fn of_disk(error: io::Error) -> Self {
        if is_full_disk(&error) { Self::DiskFull } else { Self::Io(error) }
    }

    /// The fix.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Refused(refusal) => refusal.hint(),
            Self::NotFound => "list the workspace to see its files",
            Self::Exists => "use another name, or allow the file to be replaced",
            Self::IsDirectory | Self::NotDirectory => "name a file",
            Self::NotEmpty => "remove what is in it first",
            Self::Quota(_) => "remove files that are no longer needed",
            Self::DiskFull => "free space on the disk of the data folder",
            Self::Io(_) => "check the daemon's log and its disk",
        }
    }
}

/// The disk is full, or the disk quota of the daemon's user or project is.
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
