//! Numbers in SQL columns.

/// The number for a column. SQLite has no unsigned integers; sequences and times are far below `i64::MAX`.
pub(crate) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The number in a column that holds no negative ones.
pub(crate) fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
