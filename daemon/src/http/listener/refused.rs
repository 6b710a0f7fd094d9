//! Connections that the system does not accept, told of once in a while.
//!
//! It goes on for as long as its cause does, most often a want of file descriptors, and twenty times a second: a line
//! for each would fill the disk with the log.

use std::time::{Duration, Instant};

/// Between two lines of it.
const BETWEEN: Duration = Duration::from_secs(10);

/// What was not told yet.
#[derive(Debug, Default)]
pub(super) struct Refused {
    told: Option<Instant>,
    times: u64,
}

impl Refused {
    /// Counts one more. How many there were since it was told last, where it is time to tell.
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
