//! Holds on to what the host keeps for it.

use std::hint::black_box;

use toolgate_sdk::tool;
use wasip2::cli::stdout::get_stdout;
use wasip2::clocks::monotonic_clock::subscribe_duration;

/// Holds timers, without end or as many as asked for.
#[tool(read_only)]
pub fn pollables(
    /// How many
    count: usize,
) -> usize {
    let held: Vec<_> = (0..count).map(|_| subscribe_duration(1)).collect();
    black_box(&held).len()
}

/// Holds handles of standard output.
#[tool(read_only)]
pub fn streams(
    /// How many
    count: usize,
) -> usize {
    let held: Vec<_> = (0..count).map(|_| get_stdout()).collect();
    black_box(&held).len()
}
