//! The persistent state in SQLite: documents, tokens, sessions, plugins, approvals, credentials.
//!
//! Typed functions that read and write rows, each change in one transaction. Authorization is decided elsewhere, and no call
//! waits for the store: the modules that own the state read it at the start and keep it in memory.
//!
//! The SQL is also valid for PostgreSQL. SQLite has one writer at a time, so a pool of one connection writes: writers wait in a
//! fair queue and never fail with `SQLITE_BUSY`.

mod approvals;
mod clock_marks;
mod consents;
mod copy;
mod credentials;
mod documents;
mod ending;
mod error;
mod folder;
mod history;
mod messages;
mod organization_keys;
mod plugins;
mod quotas;
mod root_keys;
mod sessions;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod tokens;
mod webhooks;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::SqlSafeStr;
use sqlx::migrate::{MigrateError, Migration, MigrationType, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Row as _, Sqlite, Transaction};
use tokio::sync::Notify;
use toolgate_api::name::Name;
use toolgate_macros::boxed;

pub use approvals::{ApprovalFilter, ApprovalRow, Decision};
pub use clock_marks::ClockMarks;
pub use copy::{copy_store, newest_migration};
pub use credentials::{CredentialRow, CredentialUse, SealedText};
pub use documents::{Deleted, WriteResult};
pub use ending::{ENDING_MS, EndingKind, EndingRow};
pub use error::{StoreError, UnavailableReason};
pub use folder::{DataFolder, FolderError, LOST_AND_FOUND, UNFINISHED_RESTORE, check_store_path};
pub use history::{HistoryEntry, Stamp};
pub use messages::{InboxKey, MessageRow};
pub use organization_keys::{OrganizationKeyRow, read_organization_keys};
pub use plugins::{CanaryRow, PluginRow, PluginVersionRow, SignerRow, TrustRow};
pub use root_keys::{RootKeyRow, RootKeyWrap};
pub use sessions::{SessionFilter, SessionRow, SessionUse};
pub use tokens::{TokenLabels, TokenRow};
pub use webhooks::{DELIVERY_PENDING, DeliveryRow, TokenKind, WebhookRow};

/// With their versions, ascending. The macro `sqlx::migrate!` would compile SQLite a second time, for the host of the
/// build.
const MIGRATIONS: &[(i64, &str, &str)] = &[
    (1, "state", include_str!("../migrations/0001_state.sql")),
    (2, "gate", include_str!("../migrations/0002_gate.sql")),
    (3, "credentials", include_str!("../migrations/0003_credentials.sql")),
    (4, "publishers", include_str!("../migrations/0004_publishers.sql")),
    (5, "messages", include_str!("../migrations/0005_messages.sql")),
    (6, "token_bounds", include_str!("../migrations/0006_token_bounds.sql")),
    (7, "quotas", include_str!("../migrations/0007_quotas.sql")),
    (8, "trust", include_str!("../migrations/0008_trust.sql")),
    (9, "sources", include_str!("../migrations/0009_sources.sql")),
    (10, "consent", include_str!("../migrations/0010_consent.sql")),
    (11, "webhooks", include_str!("../migrations/0011_webhooks.sql")),
    (12, "organization_keys", include_str!("../migrations/0012_organization_keys.sql")),
    (13, "canaries", include_str!("../migrations/0013_canaries.sql")),
    (15, "session_lists", include_str!("../migrations/0015_session_lists.sql")),
    (16, "document_history", include_str!("../migrations/0016_document_history.sql")),
    (17, "no_changes", include_str!("../migrations/0017_no_changes.sql")),
    (18, "approval_lists", include_str!("../migrations/0018_approval_lists.sql")),
    (19, "approval_bytes", include_str!("../migrations/0019_approval_bytes.sql")),
    (20, "token_user", include_str!("../migrations/0020_token_user.sql")),
    (21, "people", include_str!("../migrations/0021_people.sql")),
];

/// Number of reading connections. Reads are short, and no call waits for them.
const READERS: u32 = 4;

/// Timeout of a change that waits for the writing connection; exceeded if the disk hangs.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

const BEGIN: &str = "BEGIN IMMEDIATE";

/// Minimum free space: a change takes some pages of 4 KiB in the write-ahead log.
const FREE_BYTES_MIN: u64 = 64 * 1024;

/// The open store; clones share the connections.
#[derive(Clone, Debug)]
pub struct Store {
    writer: SqlitePool,
    readers: SqlitePool,
    /// Two daemons on one store would each use the state that they read at the start: a token revoked by one of them would
    /// stay valid at the other.
    lock: Arc<File>,
    /// Notified when a delivery of a webhook is added.
    announced: Arc<Notify>,
}

#[boxed]
impl Store {
    /// Opens or creates the SQLite file at `path`, locks it and runs the migrations.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        folder::create_private_file(path).map_err(|error| StoreError::cannot_open(path, error))?;
        let lock = Arc::new(folder::lock_store(path)?);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            // Every commit is synced, so that an acknowledged change is durable.
            .synchronous(SqliteSynchronous::Full)
            // Overwrites deleted rows with zeros: an organization's data can be deleted.
            .pragma("secure_delete", "ON")
            .busy_timeout(WRITE_TIMEOUT);
        let writer = pool(1).connect_with(options.clone()).await?;
        migrator().run(&writer).await.map_err(migration_error)?;
        let readers = pool(READERS).connect_with(options.read_only(true)).await?;
        check_pages(&readers).await?;
        Ok(Self { writer, readers, lock, announced: Arc::default() })
    }

    /// Returns an error if the store cannot be read or its disk is full. For `/readyz`, which needs no token and so must not
    /// cause a write.
    pub async fn ready(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT value FROM counters WHERE name = 'changes'").fetch_one(&self.readers).await?;
        if folder::free_bytes(&self.lock).is_some_and(|bytes| bytes < FREE_BYTES_MIN) {
            let (reason, source) = (UnavailableReason::DiskFull, "the file system is full".into());
            return Err(StoreError::Unavailable { reason, source });
        }
        Ok(())
    }

    /// The size of the file, in bytes.
    pub async fn bytes(&self) -> Result<u64, StoreError> {
        let query = "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()";
        let bytes: i64 = sqlx::query_scalar(query).fetch_one(&self.readers).await?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// The free space on its disk, in bytes, if known.
    pub fn free_bytes(&self) -> Option<u64> {
        folder::free_bytes(&self.lock)
    }

    /// Waits for running queries, closes the file and unlocks the store.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        // On an error the lock ends with the last clone.
        let _ = self.lock.unlock();
    }

    /// Begins a transaction that holds the write lock from the start, so that its reads stay valid until it writes.
    async fn begin(&self) -> Result<StoreTransaction, StoreError> {
        match self.writer.begin_with(BEGIN).await {
            // On a full disk SQLite rolls back by itself. The driver then takes its own rollback for failed and the connection
            // for one still inside a transaction.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.writer.acquire().await?.close().await?;
                Ok(self.writer.begin_with(BEGIN).await?)
            }
            begun => Ok(begun?),
        }
    }
}

type StoreTransaction = Transaction<'static, Sqlite>;

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(WRITE_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
}

/// Reads every page, so that damage of a single one is told at the start, and not by the first request that needs it.
async fn check_pages(readers: &SqlitePool) -> Result<(), StoreError> {
    let found: String = sqlx::query_scalar("PRAGMA quick_check(1)").fetch_one(readers).await?;
    match found.as_str() {
        "ok" => Ok(()),
        _ => {
            let (reason, source) = (UnavailableReason::Damaged, found.into());
            Err(StoreError::Unavailable { reason, source })
        }
    }
}

fn migrator() -> Migrator {
    let migration = |(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(*version, (*name).into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(MIGRATIONS.iter().map(migration).collect())
}

fn migration_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::VersionMissing(_) | MigrateError::VersionMismatch(_) => StoreError::OtherVersion,
        other => StoreError::from(sqlx::Error::from(other)),
    }
}

/// SQL has no unsigned integers; times and counters are far below `i64::MAX`.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number of rows of these sizes, at most `limit` and at least one, that have at most `most_bytes` together.
fn fitting_rows(sizes: &[i64], limit: u32, most_bytes: u64) -> u32 {
    let mut sum = 0_u64;
    let fits = |bytes: &&i64| {
        sum = sum.saturating_add(from_sql(**bytes));
        sum <= most_bytes
    };
    let fitting = sizes.iter().take(limit as usize).take_while(fits).count().max(1);
    u32::try_from(fitting).unwrap_or(limit)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

fn natural(row: &SqliteRow, column: &str) -> Result<u64, sqlx::Error> {
    row.try_get(column).map(from_sql)
}

fn optional_natural(row: &SqliteRow, column: &str) -> Result<Option<u64>, sqlx::Error> {
    row.try_get::<Option<i64>, _>(column).map(|number| number.map(from_sql))
}

/// Parses a text column; invalid text is a decoding error, which callers see as a damaged store.
fn parse_column<T>(
    row: &SqliteRow,
    column: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<T, sqlx::Error> {
    parse(row.try_get(column)?).ok_or_else(|| sqlx::Error::ColumnDecode {
        index: column.to_owned(),
        source: "the text is not valid".into(),
    })
}

fn name(text: &str) -> Option<Name> {
    Name::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::testing::empty_store;
    use super::*;

    #[tokio::test]
    async fn migrations_make_every_table_from_nothing() {
        let (_folder, store) = empty_store().await;
        let tables = "counters docs tokens sessions plugins plugin_versions approvals credentials \
                      root_keys root_key_wraps";
        for table in tables.split_whitespace() {
            let found: Option<(String,)> =
                sqlx::query_as("SELECT name FROM sqlite_master WHERE type = 'table' AND name = $1")
                    .bind(table)
                    .fetch_optional(&store.readers)
                    .await
                    .expect("the schema");
            assert!(found.is_some(), "{table}");
        }
        store.ready().await.expect("a store that answers");
    }

    #[tokio::test]
    async fn the_file_is_of_its_user_alone() {
        let (folder, _store) = empty_store().await;
        let mode = folder.path().join("state.db").metadata().expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[tokio::test]
    async fn commits_are_synced_through_a_write_ahead_log() {
        let (_folder, store) = empty_store().await;
        let (mode,): (String,) =
            sqlx::query_as("PRAGMA journal_mode").fetch_one(&store.writer).await.expect("a mode");
        let (level,): (i64,) =
            sqlx::query_as("PRAGMA synchronous").fetch_one(&store.writer).await.expect("a level");
        assert_eq!((mode.as_str(), level), ("wal", 2));
    }

    #[tokio::test]
    async fn a_closed_store_opens_again_with_what_it_held() {
        let (folder, store) = empty_store().await;
        sqlx::query("UPDATE counters SET value = 7").execute(&store.writer).await.expect("a change");
        store.close().await;
        let store = Store::open(&folder.path().join("state.db")).await.expect("the same store");
        let (value,): (i64,) =
            sqlx::query_as("SELECT value FROM counters").fetch_one(&store.readers).await.expect("a row");
        assert_eq!(value, 7);
    }

    #[tokio::test]
    async fn a_store_that_another_daemon_holds_is_refused_with_its_process() {
        let (folder, store) = empty_store().await;
        let path = folder.path().canonicalize().expect("a folder").join("state.db");
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        for name in [&path, &link] {
            let error = Store::open(name).await.expect_err("held");
            let pid = std::process::id();
            let message = format!("the store `{}` is held by another daemon (process {pid})", path.display());
            assert_eq!(error.to_string(), message);
        }
        // Another store in the same folder has its own lock.
        Store::open(&folder.path().join("other.db")).await.expect("free");
        store.close().await;
        Store::open(&link).await.expect("free again");
    }

    #[tokio::test]
    async fn a_store_of_a_newer_version_is_refused() {
        let (folder, store) = empty_store().await;
        sqlx::query(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9999, 'later', 1, x'00', 0)",
        )
        .execute(&store.writer)
        .await
        .expect("a later migration");
        store.close().await;
        let error = Store::open(&folder.path().join("state.db")).await.expect_err("a newer store");
        assert!(matches!(error, StoreError::OtherVersion), "{error}");
    }

    #[tokio::test]
    async fn a_damaged_page_is_told_at_the_start_with_the_way_out() {
        const PAGE_BYTES: usize = 4096;
        let (folder, store) = testing::store_with_acme().await;
        store.close().await;
        let intact = std::fs::read(folder.path().join("state.db")).expect("the store");
        for page in (0..intact.len()).step_by(PAGE_BYTES) {
            for damage in [0, 0xa5] {
                let mut bytes = intact.clone();
                bytes[page..page + PAGE_BYTES].fill(damage);
                let path = folder.path().join(format!("{page}-{damage}.db"));
                std::fs::write(&path, bytes).expect("written");
                let error = Store::open(&path).await.expect_err("damaged");
                let reason = UnavailableReason::Damaged;
                assert!(
                    matches!(&error, StoreError::Unavailable { reason: found, .. } if *found == reason),
                    "{error:?}"
                );
                assert!(error.hint().contains(".recover"), "{}", error.hint());
            }
        }
        Store::open(&folder.path().join("state.db")).await.expect("the intact store");
    }

    #[tokio::test]
    async fn a_file_that_is_no_store_is_refused_and_not_changed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let text = "my holiday pictures, ".repeat(100);
        std::fs::write(&path, &text).expect("written");
        let error = Store::open(&path).await.expect_err("no store");
        assert!(
            matches!(error, StoreError::Unavailable { reason: UnavailableReason::Damaged, .. }),
            "{error:?}"
        );
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), text);
    }
}
