//! The daemon's state on disk: documents, tokens, sessions and plugins, in SQLite.
//!
//! A thin room of typed functions: rows in, rows out, each change one
//! transaction. It decides nothing about who may do what, and no call waits for
//! it: what calls need is read at the start and kept in memory by the rooms that
//! own it.
//!
//! The SQL is written so that PostgreSQL would take it as it stands. SQLite has
//! one writer at a time, so there is one connection that writes, which makes
//! writers wait in a fair line instead of failing as busy.

mod approvals;
mod credentials;
mod documents;
mod error;
mod folder;
mod plugins;
mod root_keys;
mod sessions;
mod tokens;

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{Sqlite, Transaction};

pub use approvals::{ApprovalRow, ApprovalState, Decision};
pub use credentials::{CredentialRow, CredentialUse, SealedText};
pub use documents::{Change, Removed, Written};
pub use error::{StoreError, Trouble};
pub(crate) use folder::way_out_inside;
pub use folder::{DataFolder, FolderError};
pub use plugins::{PluginRow, PluginVersionRow};
pub use root_keys::{RootKeyRow, RootKeyWrap};
pub use sessions::{SessionRow, SessionUse};
pub use tokens::TokenRow;

static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Connections that read. Reads are short and off the way of a call.
const READERS: u32 = 4;

/// How long a change waits for its turn; past that the disk is stuck.
const PATIENCE: Duration = Duration::from_secs(10);

const BEGIN: &str = "BEGIN IMMEDIATE";

/// A change takes some pages of 4 KiB in the write-ahead log. With less room than this for them none is promised.
const ROOM_BYTES: u64 = 64 * 1024;

/// The state, open. Clones share the same connections.
#[derive(Clone, Debug)]
pub struct Store {
    writer: SqlitePool,
    readers: SqlitePool,
    /// Two daemons on one store would each go by what they read at the start: a token that one of them revoked stays good
    /// at the other.
    held: Arc<File>,
}

impl Store {
    /// Opens the SQLite file at `path`, made when it is missing, takes hold of it and brings its
    /// tables up to date.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        folder::create_private_file(path).map_err(|error| StoreError::cannot_open(path, error))?;
        let held = Arc::new(folder::hold_store(path)?);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            // Acknowledged means durable: every commit is synced.
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(PATIENCE);
        let writer = pool(1).connect_with(options.clone()).await?;
        MIGRATIONS.run(&writer).await.map_err(migration_error)?;
        let readers = pool(READERS).connect_with(options.read_only(true)).await?;
        Ok(Self { writer, readers, held })
    }

    /// Whether the store answers, and its disk has room for more; for `/readyz`, which anybody may ask, so that nothing is
    /// written to see it.
    pub async fn ready(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT value FROM counters WHERE name = 'changes'").fetch_one(&self.readers).await?;
        if folder::room_beside(&self.held).is_some_and(|bytes| bytes < ROOM_BYTES) {
            let (trouble, source) = (Trouble::DiskFull, "the file system has no room".into());
            return Err(StoreError::Unavailable { trouble, source });
        }
        Ok(())
    }

    /// Waits for what is under way and closes the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
        // If not, it is free when the last clone is gone.
        let _ = self.held.unlock();
    }

    /// A transaction that holds the right to write from its first statement on,
    /// so that what it reads still holds when it writes.
    async fn begin(&self) -> Result<Transaction<'static, Sqlite>, StoreError> {
        match self.writer.begin_with(BEGIN).await {
            // SQLite undoes a transaction by itself when the disk is full. The driver then
            // takes its own rollback for failed, and the connection for one still inside.
            Err(sqlx::Error::InvalidSavePointStatement) => {
                self.writer.acquire().await?.close().await?;
                Ok(self.writer.begin_with(BEGIN).await?)
            }
            begun => Ok(begun?),
        }
    }
}

fn pool(connections: u32) -> SqlitePoolOptions {
    SqlitePoolOptions::new()
        .max_connections(connections)
        .acquire_timeout(PATIENCE)
        .idle_timeout(None)
        .max_lifetime(None)
}

fn migration_error(error: MigrateError) -> StoreError {
    match error {
        MigrateError::VersionMissing(_) | MigrateError::VersionMismatch(_) => StoreError::OtherVersion,
        other => StoreError::from(sqlx::Error::from(other)),
    }
}

/// SQL has no unsigned numbers; ours are times and counters, far below the edge.
fn to_sql(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn from_sql(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
pub(crate) mod testing {
    use toolgate_admission::Name;

    use super::*;
    use crate::documents::{DocumentKey, Precondition};

    pub(crate) use super::approvals::tests::asked;

    impl Store {
        /// A connection for what somebody could do to the file by hand.
        pub async fn raw(&self) -> sqlx::pool::PoolConnection<Sqlite> {
            self.writer.acquire().await.expect("a connection")
        }
    }

    /// A store in a folder of its own, which lives as long as the store is used.
    pub async fn empty_store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(&folder.path().join("state.db")).await.expect("an empty store");
        (folder, store)
    }

    /// One with an organization in it.
    pub async fn store_with_acme() -> (tempfile::TempDir, Store) {
        let (folder, store) = empty_store().await;
        let key = DocumentKey::Organization(Name::parse("acme").expect("a name"));
        store.put_document(&key, "{}", &Precondition::Absent, 1).await.expect("an organization");
        (folder, store)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::testing::empty_store;
    use super::*;

    #[tokio::test]
    async fn migrations_make_every_table_from_nothing() {
        let (_folder, store) = empty_store().await;
        let tables = "counters docs changes tokens sessions plugins plugin_versions approvals credentials \
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
        // Another store in the same folder is another's.
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
    async fn a_file_that_is_no_store_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("state.db");
        let text = "my holiday pictures, ".repeat(100);
        std::fs::write(&path, &text).expect("written");
        let error = Store::open(&path).await.expect_err("no store");
        assert!(matches!(error, StoreError::Unavailable { trouble: Trouble::Damaged, .. }), "{error:?}");
        assert_eq!(std::fs::read_to_string(&path).expect("the file"), text);
    }
}
