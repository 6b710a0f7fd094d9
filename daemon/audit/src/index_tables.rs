//! The tables of the search index, and their versions.

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use super::{rates, usage};

/// Raised with every change of the tables; an index of another version is rebuilt.
const VERSION: i64 = 5;
/// The version without rates.
const WITHOUT_RATES: i64 = 4;

const TABLES: &str = "
CREATE TABLE position (one INTEGER PRIMARY KEY CHECK (one = 1), sequence INTEGER NOT NULL, place INTEGER NOT NULL,
  last_place INTEGER NOT NULL, hash TEXT NOT NULL);
CREATE TABLE rows (sequence INTEGER PRIMARY KEY, at_ms INTEGER NOT NULL, kind INTEGER NOT NULL, organization TEXT, agent TEXT,
  session TEXT, call TEXT, tool TEXT, user TEXT, principal TEXT, action TEXT, of_call INTEGER, status INTEGER, error_type TEXT, place INTEGER NOT NULL,
  close_place INTEGER, records INTEGER);
CREATE INDEX rows_by_organization ON rows (organization);
CREATE INDEX rows_by_session ON rows (session);
CREATE INDEX rows_running ON rows (sequence) WHERE status = 0;
CREATE INDEX rows_damaged ON rows (sequence) WHERE kind = 4;
CREATE TABLE spans (first_sequence INTEGER PRIMARY KEY, last_sequence INTEGER NOT NULL, least_ms INTEGER NOT NULL, greatest_ms INTEGER NOT NULL);
";

/// Indexes of rows that are few: calls that did not end well, and what is neither a call nor an effect.
const FEW: &str = "
CREATE INDEX IF NOT EXISTS rows_not_ok ON rows (status) WHERE status > 1;
CREATE INDEX IF NOT EXISTS rows_of_acts ON rows (sequence) WHERE kind > 1;
";

/// Whether the file has the tables of this version, perhaps by adding some. A file of another version is made anew.
pub(crate) async fn bring_up_to_date(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    let version: i64 = sqlx::query_scalar("PRAGMA user_version").fetch_one(&mut *connection).await?;
    if version == WITHOUT_RATES {
        // A rebuild would lose the sums of records that retention has cut.
        add_rates(connection).await?;
    }
    let is_known = [VERSION, WITHOUT_RATES].contains(&version);
    if is_known {
        sqlx::raw_sql(FEW).execute(connection).await?;
    }
    Ok(is_known)
}

/// Makes empty tables in place of those that are there.
pub(crate) async fn create(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    for table in ["position", "rows", "spans", "usage", "rates"] {
        let drop = AssertSqlSafe(format!("DROP TABLE IF EXISTS {table}"));
        sqlx::raw_sql(drop).execute(&mut *transaction).await?;
    }
    for tables in [TABLES, FEW, usage::TABLE] {
        sqlx::raw_sql(tables).execute(&mut *transaction).await?;
    }
    sqlx::raw_sql(AssertSqlSafe(rates::table())).execute(&mut *transaction).await?;
    sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {VERSION}")))
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await
}

/// Adds what an index of the version before lacks; the rates begin with the next record.
async fn add_rates(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mut transaction = connection.begin().await?;
    // The version before, after a return to it, has kept rates that its records are not in.
    let sql = format!("DROP TABLE IF EXISTS rates; {} PRAGMA user_version = {VERSION};", rates::table());
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut *transaction).await?;
    transaction.commit().await
}
