//! Errors of the store.
//!
//! Messages for clients contain no SQL and no path; the source error, for the log, may contain both. The one message with a
//! path belongs to the start, which clients never see.

use std::path::{Path, PathBuf};

use toolgate_api::error::{CallError, ErrorType, Precondition};

use super::folder::with_pid;
use crate::documents::{DocumentKey, NOT_MADE, PreconditionFailure};

/// An operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{what} {}", .failure.texts().0)]
    PreconditionFailed { what: String, failure: PreconditionFailure },
    #[error("a write of {what} must say what it replaces")]
    PreconditionRequired { what: String },
    #[error("no {what}")]
    NotFound { what: String, hint: &'static str },
    #[error("token `{id}` is the last operator's")]
    LastOperator { id: String },
    #[error("there are too many {what}")]
    TooMany { what: &'static str },
    #[error("the organization has the maximum number of webhooks")]
    TooManyWebhooks,
    #[error("the organization has the maximum number of tokens")]
    TooManyTokens,
    #[error("the organization has as many documents, or as long ones, as it may")]
    TooManyDocuments,
    #[error("the store `{}` is held by another daemon{}", .path.display(), with_pid(.pid))]
    Held { path: PathBuf, pid: Option<u32> },
    #[error("the store was written by another version")]
    OtherVersion,
    #[error("{}", .reason.texts().0)]
    Unavailable {
        reason: UnavailableReason,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The reason why the store is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnavailableReason {
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
    pub fn not_found(what: impl Into<String>) -> Self {
        Self::NotFound { what: what.into(), hint: NOT_MADE }
    }

    pub fn no_document(key: &DocumentKey) -> Self {
        let (what, hint) = (key.to_string(), key.hint_without());
        Self::NotFound { what, hint }
    }

    pub(super) fn cannot_open(path: &Path, error: std::io::Error) -> Self {
        let reason = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                UnavailableReason::DiskFull
            }
            std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
                UnavailableReason::ReadOnly
            }
            std::io::ErrorKind::NotFound => UnavailableReason::NoFolder,
            std::io::ErrorKind::IsADirectory | std::io::ErrorKind::NotADirectory => UnavailableReason::NoFile,
            _ => UnavailableReason::Disk,
        };
        let named = std::io::Error::new(error.kind(), format!("`{}`: {error}", path.display()));
        Self::Unavailable { reason, source: Box::new(named) }
    }

    /// Error for a row that this version does not write.
    pub fn corrupt(what: &'static str) -> Self {
        Self::Unavailable { reason: UnavailableReason::Damaged, source: what.into() }
    }

    /// How to fix it, for the response.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::PreconditionFailed { failure, .. } => failure.texts().1,
            Self::PreconditionRequired { .. } => {
                "send `If-Match` with the `ETag` of the document, or `If-None-Match: *` for a new document"
            }
            Self::NotFound { hint, .. } => hint,
            Self::LastOperator { .. } => {
                "create another operator token that does not end first (`toolgate token create --role operator --expires never`): only operators create tokens, and a start creates none again"
            }
            Self::TooMany { .. } => "decide some of them first, or wait until they expire",
            Self::TooManyWebhooks => "delete one that is not used",
            Self::TooManyDocuments => "delete agents or tools that are not used, or have shorter documents",
            Self::TooManyTokens => "revoke some that are not used; those that have expired count, too",
            Self::Held { .. } => "stop that daemon, or use another store with `--store`",
            Self::OtherVersion => {
                "start the version that wrote it last, or restore a backup from before its upgrade with `toolgate restore`"
            }
            Self::Unavailable { reason, .. } => reason.hint(),
        }
    }

    fn error_type(&self) -> ErrorType {
        match self {
            Self::PreconditionFailed { .. } | Self::LastOperator { .. } => ErrorType::Conflict,
            Self::PreconditionRequired { .. } => ErrorType::InvalidRequest,
            Self::NotFound { .. } => ErrorType::NotFound,
            Self::TooMany { .. } | Self::TooManyWebhooks | Self::TooManyTokens | Self::TooManyDocuments => {
                ErrorType::QuotaExceeded
            }
            Self::Held { .. } | Self::OtherVersion | Self::Unavailable { .. } => ErrorType::Unavailable,
        }
    }
}

impl PreconditionFailure {
    /// Message and hint.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Exists => ("exists already", "to replace it, read it and send `If-Match` with its `ETag`"),
            Self::Gone => ("does not exist", "check the name; create a new one with `If-None-Match: *`"),
            Self::Changed => {
                ("was changed in the meantime", "read it again, and send `If-Match` with the new `ETag`")
            }
        }
    }
}

impl UnavailableReason {
    /// Every reason, for which the operations page has a runbook.
    pub const ALL: [Self; 8] = [
        Self::DiskFull,
        Self::ReadOnly,
        Self::NoFolder,
        Self::NoFile,
        Self::Busy,
        Self::Disk,
        Self::Damaged,
        Self::Other,
    ];

    /// The message of the error.
    pub fn message(self) -> &'static str {
        self.texts().0
    }

    pub fn hint(self) -> &'static str {
        self.texts().1
    }

    /// Message and hint.
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::DiskFull => (
                "the disk of the store is full",
                "free space on the disk of the data folder; nothing was changed",
            ),
            Self::ReadOnly => (
                "the store cannot be written",
                "give the daemon's user write access to the store and its folder; nothing was changed",
            ),
            Self::NoFolder => (
                "the folder of the store does not exist",
                "create it with `mkdir -p`, or use another path with `--store`",
            ),
            Self::NoFile => (
                "the store is not a file",
                "move the existing entry away, or use another path with `--store`",
            ),
            Self::Busy => (
                "the store is busy",
                "retry; if it fails again, check whether another program locks the store",
            ),
            Self::Disk => (
                "the disk of the store fails",
                "check the daemon's log and the system log for the error of the disk",
            ),
            Self::Damaged => (
                "the store is damaged",
                "restore a backup with `toolgate restore` (a copy that was made while a daemon ran can be damaged like this); without one, stop the daemon, keep what can be read with `sqlite3 state.db .recover | sqlite3 recovered.db`, and put that in its place",
            ),
            Self::Other => ("the store failed", "check the daemon's log"),
        }
    }

    /// Classifies a database error, of the store or another database.
    pub fn of(error: &sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => error.code().map_or(Self::Other, |code| reason_of_code(&code)),
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
        Self::Unavailable { reason: UnavailableReason::of(&error), source: Box::new(error) }
    }
}

/// The details tell apart the two precondition errors, which have their own HTTP status codes.
impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        let call_error = Self::new(error.error_type(), error.to_string(), error.hint());
        match error {
            StoreError::PreconditionFailed { .. } => call_error.with_precondition(Precondition::Failed),
            StoreError::PreconditionRequired { .. } => call_error.with_precondition(Precondition::Required),
            // Waiting frees nothing.
            StoreError::TooMany { .. }
            | StoreError::TooManyWebhooks
            | StoreError::TooManyTokens
            | StoreError::TooManyDocuments => call_error.retryable(false),
            _ => call_error,
        }
    }
}

/// SQLITE_IOERR_SHMSIZE: the index of the write-ahead log cannot grow. On a full disk a start fails with it before any write
/// fails with `SQLITE_FULL` (sqlite.org/rescode.html#ioerr_shmsize).
const SHARED_MEMORY_CANNOT_GROW: u32 = 4874;

/// The low byte of an extended result code is the primary one (sqlite.org/rescode.html).
fn reason_of_code(code: &str) -> UnavailableReason {
    let code = code.parse::<u32>();
    if code == Ok(SHARED_MEMORY_CANNOT_GROW) {
        return UnavailableReason::DiskFull;
    }
    match code.map(|code| code & 0xff) {
        Ok(5 | 6) => UnavailableReason::Busy,
        Ok(8) => UnavailableReason::ReadOnly,
        Ok(10 | 14) => UnavailableReason::Disk,
        Ok(11 | 26) => UnavailableReason::Damaged,
        Ok(13) => UnavailableReason::DiskFull,
        _ => UnavailableReason::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn precondition_errors_are_told_apart_by_details() {
        let what = || "agent `acme/bot`".to_owned();
        let required = CallError::from(StoreError::PreconditionRequired { what: what() });
        assert_eq!(required.details_json(), Some(json!({"precondition": "required"})));
        let failed = CallError::from(StoreError::PreconditionFailed {
            what: what(),
            failure: PreconditionFailure::Changed,
        });
        assert_eq!(failed.details_json(), Some(json!({"precondition": "failed"})));
        assert_eq!(CallError::from(StoreError::not_found(what())).details, None);
        assert!(StoreError::no_document(&DocumentKey::Platform).hint().contains("every plugin is allowed"));
    }

    #[test]
    fn a_file_that_cannot_be_opened_is_not_reported_as_a_failing_disk() {
        let reason = |kind: std::io::ErrorKind| match StoreError::cannot_open(Path::new("/s"), kind.into()) {
            StoreError::Unavailable { reason, .. } => reason,
            other => panic!("{other}"),
        };
        assert_eq!(reason(std::io::ErrorKind::NotFound), UnavailableReason::NoFolder);
        assert_eq!(reason(std::io::ErrorKind::PermissionDenied), UnavailableReason::ReadOnly);
        assert_eq!(reason(std::io::ErrorKind::IsADirectory), UnavailableReason::NoFile);
        assert_eq!(reason(std::io::ErrorKind::Other), UnavailableReason::Disk);
    }

    #[test]
    fn sqlite_codes_are_classified_by_their_low_byte() {
        assert_eq!(reason_of_code("13"), UnavailableReason::DiskFull);
        assert_eq!(reason_of_code("778"), UnavailableReason::Disk);
        assert_eq!(reason_of_code("4874"), UnavailableReason::DiskFull);
        assert_eq!(reason_of_code("1032"), UnavailableReason::ReadOnly);
        assert_eq!(reason_of_code("none"), UnavailableReason::Other);
    }
}
