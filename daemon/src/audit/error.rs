//! What can go wrong with the audit log, in variants where a caller acts differently.
//!
//! Two enums, since the two moments differ: [`StartError`] stops the daemon before it serves and names the
//! place on disk, while [`AuditError`] answers one call and is cloned to everybody who waited for the same
//! group. After [`AuditError::Failed`] the log takes nothing more until the daemon is started again: a failed
//! sync says that the kernel may have dropped what it was to write, so a second one that succeeds proves
//! nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::store::UnavailableReason;

/// Why a record was not taken, a wait did not end well, or a question was not answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AuditError {
    /// The space set aside is down to what running calls need for their outcomes; new intents are refused
    /// until the disk has room.
    #[error("the audit log has no room for another call: {reason}")]
    Full { reason: Arc<str> },
    /// Writing or syncing failed; the log refuses everything until the daemon is started again.
    #[error("the audit log stopped after an error: {reason}")]
    Failed { reason: Arc<str> },
    /// One record is larger than the log takes.
    #[error("an audit record of {bytes} bytes is over the limit of {limit_bytes} bytes")]
    TooLarge { bytes: u64, limit_bytes: u64 },
    /// The log was closed before the record was on disk.
    #[error("the audit log is closed")]
    Closed,
    /// The index of the log could not answer; the log itself goes on.
    #[error("the audit index could not answer: {reason}")]
    Index { reason: Arc<str> },
    /// The index cannot grow on its disk; the log itself goes on.
    #[error("the disk of the audit index is full")]
    IndexFull,
    /// The segments could not be read again.
    #[error("the audit log could not be read: {reason}")]
    Unreadable { reason: Arc<str> },
    /// A search named a cursor that no page has given out.
    #[error("`{cursor}` is not a cursor of an audit search")]
    BadCursor { cursor: String },
}

impl AuditError {
    /// The way out, for whoever is told.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Full { .. } => {
                "free space on the disk that holds the audit folder; calls are taken again by themselves"
            }
            Self::Failed { .. } => {
                "look at the disk that holds the audit folder, then start the daemon again"
            }
            Self::TooLarge { .. } => "send smaller arguments, or raise `segment_bytes` of the audit log",
            Self::Closed => "the daemon is stopping; ask again when it is back",
            Self::Index { .. } => {
                "ask again; if it stays so, look at the disk that holds the data folder, then stop the daemon, delete `audit-index.db` and start: it is rebuilt from the log, past damaged places too"
            }
            Self::IndexFull => {
                "free space on the disk of the data folder; the log is searched again by itself"
            }
            Self::Unreadable { .. } => {
                "check that the audit folder and its files belong to the daemon's user"
            }
            Self::BadCursor { .. } => "use the `next_cursor` of the page before, or none",
        }
    }

    pub(super) fn failed(what: &str, error: &io::Error) -> Self {
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

/// Why the log could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the audit folder `{}` is held by another daemon", dir.display())]
    Held { dir: PathBuf },
    /// What was acknowledged is damaged; nothing is cut, nothing is started.
    #[error("the audit log is damaged: `{}` at offset {offset}: {what}", file.display())]
    Corrupt { file: PathBuf, offset: u64, what: String },
    #[error("the audit log lacks segment {segment} in `{}`", dir.display())]
    Missing { dir: PathBuf, segment: u64 },
    #[error("`{}` was written by another version of the log ({found}; this one reads {known})", file.display())]
    Version { file: PathBuf, found: u32, known: u32 },
    #[error("`{name}` of the audit log is {value}, which is outside {least} to {most}")]
    Setting { name: &'static str, value: u64, least: u64, most: u64 },
    #[error("could not {what} `{}`: {source}", path.display())]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    /// The log is sound, but what recovery has to say did not go in.
    #[error("the audit log could not record its recovery: {0}")]
    Record(AuditError),
    #[error("a thread of the audit log could not be started: {0}")]
    Thread(io::Error),
    #[error("the audit index could not be opened: {0}")]
    Index(String),
}

impl StartError {
    /// The way out, for the operator who reads the start-up message.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Held { .. } => "stop the other daemon, or give this one a data folder of its own",
            Self::Corrupt { .. } => {
                "keep a copy of the folder; then restore it from a backup, or move it away to begin a new log"
            }
            Self::Missing { .. } => {
                "restore the file from a backup, or move the folder away to begin a new log"
            }
            Self::Version { .. } => "start the version of the daemon that wrote it",
            Self::Setting { .. } => "give a value inside these bounds, or leave it out",
            Self::Io { .. } => "check that the folder exists, belongs to the daemon's user, and has space",
            Self::Record(error) => error.hint(),
            Self::Thread(_) => "raise the limit on processes of the daemon's user",
            Self::Index(_) => "delete the index file and start again: it is rebuilt from the log",
        }
    }

    pub(super) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, path: path.to_path_buf(), source }
    }

    pub(super) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_path_buf(), offset, what: what.into() }
    }
}
