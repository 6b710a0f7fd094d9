//! What can go wrong in the store, as its callers tell it apart.
//!
//! What the outside is told never holds SQL or a path; the source, with both, is
//! for the log. The one path in a message is of a start, which nobody outside sees.

use std::path::{Path, PathBuf};

use serde_json::json;
use toolgate_admission::{CallError, ErrorType};

use super::folder::with_pid;
use crate::documents::{DocumentKey, NOT_MADE, Unmet};

/// Why the store did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{what} {}", .unmet.words())]
    PreconditionFailed { what: String, unmet: Unmet },
    #[error("a write of {what} must say what it replaces")]
    PreconditionRequired { what: String },
    #[error("no {what}")]
    NotFound { what: String, hint: &'static str },
    #[error("token `{id}` is the last operator's")]
    LastOperator { id: String },
    #[error("there are too many {what}")]
    TooMany { what: &'static str },
    #[error("the store `{}` is held by another daemon{}", .path.display(), with_pid(.pid))]
    Held { path: PathBuf, pid: Option<u32> },
    #[error("the store was made by another version")]
    OtherVersion,
    #[error("{}", .trouble.message())]
    Unavailable {
        trouble: Trouble,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Why the store cannot serve at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    DiskFull,
    ReadOnly,
    NoFolder,
    NoFile,
    Busy,
    Disk,
    Damaged,
    Other,
}

impl StoreError {
    pub(crate) fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into(), hint: NOT_MADE }
    }

    pub(crate) fn no_document(key: &DocumentKey) -> Self {
        let (what, hint) = (key.to_string(), key.hint_without());
        Self::NotFound { what, hint }
    }

    pub(super) fn cannot_open(path: &Path, error: std::io::Error) -> Self {
        let trouble = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Trouble::DiskFull,
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                Trouble::ReadOnly
            }
            std::io::ErrorKind::NotFound => Trouble::NoFolder,
            std::io::ErrorKind::IsADirectory | std::io::ErrorKind::NotADirectory => Trouble::NoFile,
            _ => Trouble::Disk,
        };
        let named = std::io::Error::new(error.kind(), format!("`{}`: {error}", path.display()));
        Self::Unavailable { trouble, source: Box::new(named) }
    }

    /// A row that this program would not have written.
    pub(crate) fn damaged(what: &'static str) -> Self {
        Self::Unavailable { trouble: Trouble::Damaged, source: what.into() }
    }

    /// The way out.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::PreconditionFailed { unmet, .. } => unmet.hint(),
            Self::PreconditionRequired { .. } => {
                "send `If-Match` with the `ETag` that was read, or `If-None-Match: *` for a new document"
            }
            Self::NotFound { hint, .. } => hint,
            Self::LastOperator { .. } => {
                "make another operator's token first: without one nobody could make any, and no start makes one again"
            }
            Self::TooMany { .. } => "decide or let expire some of them first",
            Self::Held { .. } => "stop that daemon, or give this one another store with `--store`",
            Self::OtherVersion => "start it with the version that wrote it last, or give another data folder",
            Self::Unavailable { trouble, .. } => trouble.hint(),
        }
    }

    fn error_type(&self) -> ErrorType {
        match self {
            Self::PreconditionFailed { .. } | Self::LastOperator { .. } => ErrorType::Conflict,
            Self::PreconditionRequired { .. } => ErrorType::InvalidRequest,
            Self::NotFound { .. } => ErrorType::NotFound,
            Self::TooMany { .. } => ErrorType::QuotaExceeded,
            Self::Held { .. } | Self::OtherVersion | Self::Unavailable { .. } => ErrorType::Unavailable,
        }
    }
}

impl Unmet {
    fn words(self) -> &'static str {
        match self {
            Self::Exists => "is there already",
            Self::Gone => "is not there",
            Self::Changed => "was changed in between",
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Exists => "read it, and send `If-Match` with its `ETag` to replace it",
            Self::Gone => "check the name; a new one is made with `If-None-Match: *`",
            Self::Changed => "read it again, and send `If-Match` with the new `ETag`",
        }
    }
}

impl Trouble {
    fn message(self) -> &'static str {
        match self {
            Self::DiskFull => "the disk of the store is full",
            Self::ReadOnly => "the store cannot be written",
            Self::NoFolder => "the folder of the store is not there",
            Self::NoFile => "the store is no file",
            Self::Busy => "the store is busy",
            Self::Disk => "the disk of the store fails",
            Self::Damaged => "the store is damaged",
            Self::Other => "the store does not answer",
        }
    }

    pub(crate) fn hint(self) -> &'static str {
        match self {
            Self::DiskFull => "free space on the disk of the data folder; nothing was changed",
            Self::ReadOnly => "let the daemon's user write the store and its folder; nothing was changed",
            Self::NoFolder => "make it, with `mkdir -p`, or give another place with `--store`",
            Self::NoFile => "move away what is in its place, or give another place with `--store`",
            Self::Busy => "try again; if it stays so, see whether another program holds the store",
            Self::Disk => "see the daemon's log and the system's for the disk's error",
            Self::Damaged => "put back a backup of the store, or give another data folder",
            Self::Other => "see the daemon's log",
        }
    }

    /// What a database says of itself, the store's or another.
    pub(crate) fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => error.code().map_or(Self::Other, |code| trouble_of_code(&code)),
            sqlx::Error::Io(_) => Self::Disk,
            sqlx::Error::PoolTimedOut => Self::Busy,
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Damaged,
            sqlx::Error::Migrate(error) => match error.as_ref() {
                sqlx::migrate::MigrateError::Execute(error)
                | sqlx::migrate::MigrateError::ExecuteMigration(error, _) => Self::of(error),
                _ => Self::Other,
            },
            _ => Self::Other,
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::Unavailable { trouble: Trouble::of(&error), source: Box::new(error) }
    }
}

/// The details tell the two refusals of a precondition, which have HTTP codes of
/// their own, from their kin.
impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        let told = Self::new(error.error_type(), error.to_string(), error.hint());
        match error {
            StoreError::PreconditionFailed { .. } => told.with_details(json!({"precondition": "failed"})),
            StoreError::PreconditionRequired { .. } => told.with_details(json!({"precondition": "required"})),
            _ => told,
        }
    }
}

/// SQLITE_IOERR_SHMSIZE: the index of the write-ahead log cannot grow. A start on a full disk meets it first, before a
/// write that would say `SQLITE_FULL` (sqlite.org/rescode.html#ioerr_shmsize).
const SHARED_MEMORY_CANNOT_GROW: u32 = 4874;

/// The low byte of an extended result code is the primary one (sqlite.org/rescode.html).
fn trouble_of_code(code: &str) -> Trouble {
    let code = code.parse::<u32>();
    if code == Ok(SHARED_MEMORY_CANNOT_GROW) {
        return Trouble::DiskFull;
    }
    match code.map(|code| code & 0xff) {
        Ok(5 | 6) => Trouble::Busy,
        Ok(8) => Trouble::ReadOnly,
        Ok(10 | 14) => Trouble::Disk,
        Ok(11 | 26) => Trouble::Damaged,
        Ok(13) => Trouble::DiskFull,
        _ => Trouble::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_a_precondition_tell_which_they_are() {
        let what = || "agent `acme/bot`".to_owned();
        let required = CallError::from(StoreError::PreconditionRequired { what: what() });
        assert_eq!(required.details, Some(json!({"precondition": "required"})));
        let failed = CallError::from(StoreError::PreconditionFailed { what: what(), unmet: Unmet::Changed });
        assert_eq!(failed.details, Some(json!({"precondition": "failed"})));
        assert_eq!(CallError::from(StoreError::not_found(what())).details, None);
        assert!(StoreError::no_document(&DocumentKey::Platform).hint().contains("every plugin is allowed"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_not_taken_for_a_disk_that_fails() {
        let trouble = |kind: std::io::ErrorKind| match StoreError::cannot_open(Path::new("/s"), kind.into()) {
            StoreError::Unavailable { trouble, .. } => trouble,
            other => panic!("{other}"),
        };
        assert_eq!(trouble(std::io::ErrorKind::NotFound), Trouble::NoFolder);
        assert_eq!(trouble(std::io::ErrorKind::PermissionDenied), Trouble::ReadOnly);
        assert_eq!(trouble(std::io::ErrorKind::IsADirectory), Trouble::NoFile);
        assert_eq!(trouble(std::io::ErrorKind::Other), Trouble::Disk);
    }

    #[test]
    fn codes_of_sqlite_are_told_apart_by_their_low_byte() {
        assert_eq!(trouble_of_code("13"), Trouble::DiskFull);
        assert_eq!(trouble_of_code("778"), Trouble::Disk);
        assert_eq!(trouble_of_code("4874"), Trouble::DiskFull);
        assert_eq!(trouble_of_code("1032"), Trouble::ReadOnly);
        assert_eq!(trouble_of_code("none"), Trouble::Other);
    }
}
