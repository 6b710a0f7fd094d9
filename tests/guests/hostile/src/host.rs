//! Makes the host work, or copy, in one call to it.

use std::hint::black_box;

use toolgate_sdk::{Context, Level, tool};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::io::poll::poll;
use wasip2::random::random::get_random_bytes;

/// Asks for random bytes at once.
#[tool(read_only)]
pub fn dice(
    /// How many
    bytes: u64,
) -> usize {
    black_box(get_random_bytes(bytes)).len()
}

/// Draws a number, of which its example shows one.
#[tool(read_only, examples({} => 155))]
pub fn draw() -> u8 {
    get_random_bytes(1).first().copied().unwrap_or(0)
}

/// Asks for random bytes, a few at a time, without end.
#[tool(read_only)]
pub fn dice_for_ever() -> usize {
    let mut thrown = 0_usize;
    while black_box(thrown) != usize::MAX {
        thrown = thrown.wrapping_add(black_box(get_random_bytes(64 * 1024)).len());
    }
    thrown
}

/// Hands the host a list of that many pairs.
#[tool(read_only)]
pub fn shout_pairs(
    context: &Context,
    /// How many
    count: usize,
) -> usize {
    let pairs: Vec<(&str, &dyn std::fmt::Display)> = (0..count).map(|_| ("k", &"v" as _)).collect();
    context.log(Level::Info, "shout", "", &pairs);
    count
}

/// Waits for timers that are over, in one call to the host: for that many, each that many times.
#[tool(read_only)]
pub fn wait_for(
    /// How many
    handles: usize,
    /// How often each
    times: usize,
) -> usize {
    let held: Vec<_> = (0..handles).map(|_| subscribe_duration(0)).collect();
    let crowd: Vec<_> = held.iter().flat_map(|timer| std::iter::repeat_n(timer, times)).collect();
    poll(&crowd).len()
}

/// Waits for that many timers again and again, without end.
#[tool(read_only)]
pub fn wait_again(
    /// How many
    handles: usize,
) -> usize {
    let held: Vec<_> = (0..handles).map(|_| subscribe_duration(0)).collect();
    let crowd: Vec<_> = held.iter().collect();
    let mut waited = 0_usize;
    while black_box(waited) != usize::MAX {
        waited = waited.wrapping_add(black_box(poll(&crowd)).len());
    }
    waited
}

/// Hands the host a text of that length.
#[tool(read_only)]
pub fn shout_to_host(
    context: &Context,
    /// How long
    bytes: usize,
) -> usize {
    context.log(Level::Info, "shout", &"x".repeat(bytes), &[]);
    bytes
}
