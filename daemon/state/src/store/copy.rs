//! A snapshot of the store for a backup.

use std::path::Path;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};
use toolgate_macros::boxed;

use super::{MIGRATIONS, StoreError, WRITE_TIMEOUT};

/// Copies the store to the new file `to`, while a daemon may write to it. Returns the last migration of the store.
#[boxed]
pub async fn copy_store(store: &Path, to: &Path) -> Result<i64, StoreError> {
    let options = SqliteConnectOptions::new()
        .filename(store)
        .busy_timeout(WRITE_TIMEOUT)
        // The daemon may not write temporary files elsewhere.
        .pragma("temp_store", "MEMORY");
    let mut connection = options.connect().await?;
    let query = "SELECT COALESCE(MAX(version), 0) FROM _sqlx_migrations";
    let schema: i64 = sqlx::query_scalar(query).fetch_one(&mut connection).await?;
    let path = to.to_str().ok_or_else(|| {
        StoreError::cannot_open(to, std::io::Error::other("the path of the copy is not UTF-8"))
    })?;
    sqlx::query("VACUUM INTO $1").bind(path.to_owned()).execute(&mut connection).await?;
    connection.close().await?;
    Ok(schema)
}

/// The last migration of this version.
pub fn newest_migration() -> i64 {
    MIGRATIONS.iter().map(|(version, ..)| *version).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::super::Store;
    use super::super::testing::store_with_acme;
    use super::*;

    #[tokio::test]
    async fn a_store_is_copied_with_what_its_log_holds_while_it_is_open() {
        let (folder, store) = store_with_acme().await;
        let copy = folder.path().join("copy.db");
        let schema = copy_store(&folder.path().join("state.db"), &copy).await.expect("a copy");
        assert_eq!(schema, newest_migration());
        let copied = Store::open(&copy).await.expect("a store");
        let documents = copied.all_documents().await.expect("documents");
        assert_eq!(documents.len(), store.all_documents().await.expect("documents").len());
        assert_eq!(documents.len(), 1);
        copy_store(&folder.path().join("state.db"), &copy).await.expect_err("the file is there");
    }
}
