//! Errors of the audit log.
//!
//! [`StartError`] stops the daemon before it serves and names the file on disk. [`AuditError`] answers one call; it is
//! cloned for every caller that waited for the same group. After [`AuditError::Failed`] the log refuses every record until
//! the daemon restarts: after a failed `fdatasync` the kernel may have dropped the dirty pages, so that a later sync that
//! succeeds proves nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toolgate_api::error::{CallError, ErrorType};
use toolgate_state::store::UnavailableReason;

/// A record was not appended or synced, or a search failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuditError {
    /// The allocated space is down to what running calls need for their outcomes. Intents are refused until the disk has
    /// space.
    #[error("the audit log has no room for another call: {reason}")]
    Full { reason: Arc<str> },
    /// A write or sync failed; the log refuses everything until the daemon restarts.
    #[error("the audit log stopped after an error: {reason}")]
    Failed { reason: Arc<str> },
    /// The record exceeds the size limit.
    #[error("an audit record of {bytes} bytes is over the limit of {limit_bytes} bytes")]
    TooLarge { bytes: u64, limit_bytes: u64 },
    /// The log was closed before the record was on disk.
    #[error("the audit log is closed")]
    Closed,
    /// The index failed; the log itself still works.
    #[error("the audit index failed: {reason}")]
    Index { reason: Arc<str> },
    /// The disk of the index is full; the log itself still works.
    #[error("the disk of the audit index is full")]
    IndexFull,
    /// The segments could not be read.
    #[error("the audit log could not be read: {reason}")]
    Unreadable { reason: Arc<str> },
    /// The cursor of a search is not one that a page returned.
    #[error("`{cursor}` is not a cursor of an audit search")]
    BadCursor { cursor: String },
}

impl AuditError {
    /// How to fix it, for the response.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Full { .. } => {
                "free space on the disk of the audit folder; the daemon then accepts calls again without a restart"
            }
            Self::Failed { .. } => "check the disk of the audit folder, then restart the daemon",
            Self::TooLarge { .. } => "send smaller arguments, or raise `segment_bytes` of the audit log",
            Self::Closed => "the daemon is stopping; retry when it is back",
            Self::Index { .. } => {
                "retry; if it fails again, check the disk of the data folder, then stop the daemon, delete `audit-index.db` and start it: the index is rebuilt from the log, also past damaged records"
            }
            Self::IndexFull => {
                "free space on the disk of the data folder; searches then work again without a restart"
            }
            Self::Unreadable { .. } => {
                "check that the audit folder and its files belong to the daemon's user"
            }
            Self::BadCursor { .. } => "use the `next_cursor` of the previous page, or leave it out",
        }
    }

    pub(super) fn failure(what: &str, error: &io::Error) -> Self {
        Self::Failed { reason: format!("{what}: {error}").into() }
    }

    pub(super) fn index(error: impl std::fmt::Display) -> Self {
        Self::Index { reason: error.to_string().into() }
    }
}

impl From<sqlx::Error> for AuditError {
    fn from(error: sqlx::Error) -> Self {
        match UnavailableReason::of(&error) {
            UnavailableReason::DiskFull => Self::IndexFull,
            _ => Self::index(error),
        }
    }
}

/// The answer to a request that the log did not answer or record.
impl From<AuditError> for CallError {
    fn from(error: AuditError) -> Self {
        let error_type = match error {
            AuditError::BadCursor { .. } => ErrorType::InvalidRequest,
            _ => ErrorType::Unavailable,
        };
        Self::new(error_type, error.to_string(), error.hint())
    }
}

/// The log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the audit folder `{}` is held by another daemon", dir.display())]
    Held { dir: PathBuf },
    /// Acknowledged records are damaged; the files are left unchanged.
    #[error("the audit log is damaged: `{}` at offset {offset}: {what}", file.display())]
    Corrupt { file: PathBuf, offset: u64, what: String },
    #[error("the audit log lacks segment {segment} in `{}`", dir.display())]
    Missing { dir: PathBuf, segment: u64 },
    /// No segment is there, and a daemon is known to have written some.
    #[error("the audit log is gone: `{}` has no records{}", dir.display(), last_text(*last_sequence))]
    Gone { dir: PathBuf, last_sequence: Option<u64> },
    #[error("`{}` was written by another version of the log ({found}; this daemon reads {known})", file.display())]
    Version { file: PathBuf, found: u32, known: u32 },
    #[error("`{name}` of the audit log is {value}, which is outside {min} to {max}")]
    Setting { name: &'static str, value: u64, min: u64, max: u64 },
    #[error("could not {what} `{}`: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// The log is intact, but the recovery record could not be written.
    #[error("the audit log could not record its recovery: {0}")]
    Record(AuditError),
    #[error("a thread of the audit log could not be started: {0}")]
    Thread(io::Error),
    #[error("the audit index could not be opened: {0}")]
    Index(String),
}

impl StartError {
    /// How to fix it, for the operator.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Held { .. } => "stop the other daemon, or give this one its own data folder",
            Self::Corrupt { .. } | Self::Missing { .. } => {
                "`toolgate audit verify --data DIR` tells what is damaged, and `toolgate audit export --data DIR --out FOLDER` saves what is intact; then restore a backup, or give the log up with `toolgate serve --accept-lost-log`, which moves its files aside and begins a new one. A copy that was made while a daemon wrote to the folder can look like this: make copies with `toolgate backup`"
            }
            Self::Gone { .. } => {
                "put the folder back, mount its disk, or restore a backup; or give the log up with `toolgate serve --accept-lost-log`, which begins a new one"
            }
            Self::Version { .. } => "start the version of the daemon that wrote it",
            Self::Setting { .. } => "set a value within this range, or remove the setting",
            Self::Io { .. } => "check that the folder exists, belongs to the daemon's user, and has space",
            Self::Record(error) => error.hint(),
            Self::Thread(_) => "raise the process limit of the daemon's user",
            Self::Index(_) => "delete the index file and restart: it is rebuilt from the log",
        }
    }

    /// Whether the log is damaged or gone, so that only a backup or a new log helps.
    pub(super) fn is_loss(&self) -> bool {
        matches!(self, Self::Corrupt { .. } | Self::Missing { .. } | Self::Gone { .. })
    }

    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_path_buf(), source }
    }

    pub(super) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_path_buf(), offset, what: what.into() }
    }
}

fn last_text(last_sequence: Option<u64>) -> String {
    match last_sequence {
        Some(sequence) => format!(", and its last one that is known was record {sequence}"),
        None => ", and a daemon ran on this data before".to_owned(),
    }
}
