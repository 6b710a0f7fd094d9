//! Numbers in SQL columns.

/// The number for a column. SQLite has no unsigned integers; sequences and times are far below `i64::MAX`.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number in a column that holds no negative ones.
pub fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
