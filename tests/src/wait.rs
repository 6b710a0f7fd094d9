//! Waiting for a condition, with an end.

use std::time::{Duration, Instant};

/// Far longer than anything here takes on a machine that does other things meanwhile.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again until there is an answer. What asks is a request, or a look at a file, and takes its time by itself.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::yield_now();
    }
}
