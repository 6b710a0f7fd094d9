//! Keeps many host resources open.

use std::hint::black_box;

use toolgate_sdk::tool;
use wasip2::cli::stdout::get_stdout;
use wasip2::clocks::monotonic_clock::subscribe_duration;

/// Keeps a number of timers open.
#[tool(read_only)]
pub fn pollables(
    /// Number of timers
    count: usize,
) -> usize {
    let held: Vec<_> = (0..count).map(|_| subscribe_duration(1)).collect();
    black_box(&held).len()
}

/// Keeps a number of handles to standard output open.
#[tool(read_only)]
pub fn streams(
    /// Number of handles
    count: usize,
) -> usize {
    let held: Vec<_> = (0..count).map(|_| get_stdout()).collect();
    black_box(&held).len()
}
