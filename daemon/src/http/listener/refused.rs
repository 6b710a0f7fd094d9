//! Rate-limited log of failed `accept` calls.
//!
//! The error persists as long as its cause, most often a lack of file descriptors, and recurs twenty times a second:
//! a log line for each would fill the disk.

use std::time::{Duration, Instant};

/// Minimum time between two log lines.
const BETWEEN: Duration = Duration::from_secs(10);

/// The failures since the last log line.
#[derive(Debug, Default)]
pub(super) struct Refused {
    told: Option<Instant>,
    times: u64,
}

impl Refused {
    /// Counts a failure. Returns the number of failures since the last log line, if the next line is due.
    pub(super) fn count(&mut self, now: Instant) -> Option<u64> {
        self.times += 1;
        let is_time = self.told.is_none_or(|told| now.duration_since(told) >= BETWEEN);
        is_time.then(|| {
            self.told = Some(now);
            std::mem::take(&mut self.times)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_told_at_once_and_those_after_it_by_their_number() {
        let (mut refused, start) = (Refused::default(), Instant::now());
        assert_eq!(refused.count(start), Some(1));
        for at in 1..200 {
            assert_eq!(refused.count(start + BETWEEN / 200 * at), None);
        }
        assert_eq!(refused.count(start + BETWEEN), Some(200));
        assert_eq!(refused.count(start + BETWEEN), None);
        assert_eq!(refused.count(start + BETWEEN * 3), Some(2));
    }
}
