//! The two clocks: wall time for records and expiry, monotonic time for rates.

use std::sync::LazyLock;
use std::time::{Instant, SystemTime};

/// Milliseconds since 1970 by the machine's clock.
pub fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the first call of this function. Token buckets use it, since a wall clock that is set back would
/// leave them empty.
pub fn monotonic_ms() -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    u64::try_from(FIRST.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 by the machine's clock when the daemon started, and by the monotonic clock since. A clock that is
/// set begins no period of a quota again, and skips none.
pub fn steady_unix_ms() -> u64 {
    static START: LazyLock<u64> = LazyLock::new(|| now_ms().saturating_sub(monotonic_ms()));
    *START + monotonic_ms()
}
