//! The marks of the clock guard (`serve/clock_guard.rs`), kept over restarts.

use toolgate_macros::boxed;

use super::{Store, StoreError, from_sql, to_sql};

const SEEN: &str = "clock_seen";
const HELD_SINCE: &str = "clock_held_since";

/// Times by the machine's clock, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockMarks {
    /// The latest time at which a daemon ran; 0 before the first one.
    pub seen_ms: u64,
    /// The time to which the clock jumped, while old data is held for it; 0 while none is.
    pub held_since_ms: u64,
}

#[boxed]
impl Store {
    /// Returns the marks of the last run.
    pub async fn clock_marks(&self) -> Result<ClockMarks, StoreError> {
        let (seen, held): (i64, i64) = sqlx::query_as(
            "SELECT COALESCE(MAX(CASE name WHEN $1 THEN value END), 0), \
             COALESCE(MAX(CASE name WHEN $2 THEN value END), 0) FROM counters",
        )
        .bind(SEEN)
        .bind(HELD_SINCE)
        .fetch_one(&self.readers)
        .await?;
        Ok(ClockMarks { seen_ms: from_sql(seen), held_since_ms: from_sql(held) })
    }

    /// Replaces the marks.
    pub async fn put_clock_marks(&self, marks: ClockMarks) -> Result<(), StoreError> {
        sqlx::query(
            "INSERT INTO counters (name, value) VALUES ($1, $2), ($3, $4) \
             ON CONFLICT (name) DO UPDATE SET value = excluded.value",
        )
        .bind(SEEN)
        .bind(to_sql(marks.seen_ms))
        .bind(HELD_SINCE)
        .bind(to_sql(marks.held_since_ms))
        .execute(&self.writer)
        .await?;
        Ok(())
    }
}
