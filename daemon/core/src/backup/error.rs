//! Errors of backups and restores, each with the way out.

use std::io;
use std::path::{Path, PathBuf};

use toolgate_audit::StartError;
use toolgate_state::keys::KeyError;
use toolgate_state::store::StoreError;

/// A backup was not taken, or not restored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("`{}` is not the data folder of a daemon", .0.display())]
    NotData(PathBuf),
    #[error("another backup of this data folder is running")]
    Busy,
    #[error("could not {what} `{}`: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the store cannot be copied: {0}")]
    Store(#[from] StoreError),
    #[error("the audit log cannot be copied: {0}")]
    Log(#[from] StartError),
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The archive could not be written to its destination.
    #[error("the backup cannot be written: {0}")]
    Write(io::Error),
    #[error("`{}` is not a backup of Toolgate: {what}", file.display())]
    Foreign { file: PathBuf, what: String },
    #[error("`{}` is not complete: {what}", file.display())]
    Truncated { file: PathBuf, what: String },
    #[error("`{}` was changed after it was made: {what}", file.display())]
    Changed { file: PathBuf, what: String },
    #[error("`{}` was made by a newer version, {version}", file.display())]
    Newer { file: PathBuf, version: String },
    #[error("the folder `{}` is not empty", .0.display())]
    NotEmpty(PathBuf),
    #[error("another restore writes to `{}`", .0.display())]
    RestoreRuns(PathBuf),
    #[error("the backup has no keys, and no folder of keys was given")]
    NoKeys,
    #[error("the keys in `{}` are not those of this backup", .0.display())]
    OtherKeys(PathBuf),
}

impl BackupError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotData(_) => {
                "give the folder of `toolgate serve --data`, which has `state.db` and `keys/audit.key`"
            }
            Self::Busy => "wait until it has ended",
            Self::Io { source, .. } | Self::Write(source) if source.kind() == io::ErrorKind::StorageFull => {
                "free space: a backup takes a copy of `state.db` in the data folder, and the size of the archive at its destination"
            }
            Self::Io { .. } => "check that the path exists, and that this user may read and write it",
            Self::Write(_) => "check the destination, then take the backup again",
            Self::Store(error) => error.hint(),
            Self::Log(error) => error.hint(),
            Self::Key(error) => error.hint(),
            Self::Foreign { .. } => "give a file that `toolgate backup` wrote",
            Self::Truncated { .. } => "copy the file again from where it was made, or use an earlier backup",
            Self::Changed { .. } => {
                "copy the file again from where it was made, or use an earlier backup; with the keys of another daemon no backup opens"
            }
            Self::Newer { .. } => "restore it with that version or a newer one",
            Self::NotEmpty(_) => "give a folder that is empty or does not exist: a restore never overwrites",
            Self::RestoreRuns(_) => "wait until it has ended, or give another folder",
            Self::NoKeys => {
                "give a copy of the folder `keys` of that daemon with `--keys DIR`: its secrets and its audit log cannot be used without them"
            }
            Self::OtherKeys(_) => "give the folder `keys` of the daemon whose backup it is",
        }
    }

    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }
}
