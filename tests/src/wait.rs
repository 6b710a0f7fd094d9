//! Polls a condition, with a timeout.

use std::time::{Duration, Instant};

/// Timeout that is far longer than any step takes on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Polls until `ask` returns a value. `ask` itself takes time (a request, a file read), so there is no pause.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::yield_now();
    }
}

/// Polls until a condition holds.
pub fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || holds().then_some(()));
}
