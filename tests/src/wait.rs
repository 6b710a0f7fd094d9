//! Polls a condition, with a timeout.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Timeout that is far longer than any step takes on a loaded machine.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// Pause between two attempts, which leaves the processor to what is tested.
const PAUSE: Duration = Duration::from_millis(1);

/// Polls until `ask` returns a value.
#[allow(clippy::disallowed_methods, reason = "the pause between two looks at a condition")]
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + TIMEOUT;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        sleep(PAUSE);
    }
}

/// Polls until a condition holds.
pub fn until_true(what: &str, mut holds: impl FnMut() -> bool) {
    until(what, || holds().then_some(()));
}
