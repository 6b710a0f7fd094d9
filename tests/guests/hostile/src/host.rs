//! Makes the host compute or copy a lot within one host call.

use std::hint::black_box;

use toolgate_sdk::{Context, Level, tool};
use wasip2::clocks::monotonic_clock::subscribe_duration;
use wasip2::io::poll::poll;
use wasip2::random::random::get_random_bytes;

/// Requests random bytes in one host call.
#[tool(read_only)]
pub fn dice(
    /// Number of bytes
    bytes: u64,
) -> usize {
    black_box(get_random_bytes(bytes)).len()
}

/// Returns a random byte. Its example gives one of the 256 values.
#[tool(read_only, examples({} => 155))]
pub fn draw() -> u8 {
    get_random_bytes(1).first().copied().unwrap_or(0)
}

/// Requests random bytes in small pieces, in an endless loop.
#[tool(read_only)]
pub fn dice_for_ever() -> usize {
    let mut thrown = 0_usize;
    while black_box(thrown) != usize::MAX {
        thrown = thrown.wrapping_add(black_box(get_random_bytes(64 * 1024)).len());
    }
    thrown
}

/// Logs a record with many key-value pairs.
#[tool(read_only)]
pub fn shout_pairs(
    context: &Context,
    /// Number of pairs
    count: usize,
) -> usize {
    let pairs: Vec<(&str, &dyn std::fmt::Display)> = (0..count).map(|_| ("k", &"v" as _)).collect();
    context.log(Level::Info, "shout", "", &pairs);
    count
}

/// Polls timers that have already fired, in one host call: a number of handles, each listed several times.
#[tool(read_only)]
pub fn wait_for(
    /// Number of handles
    handles: usize,
    /// Number of times that each handle is listed
    times: usize,
) -> usize {
    let held: Vec<_> = (0..handles).map(|_| subscribe_duration(0)).collect();
    let crowd: Vec<_> = held.iter().flat_map(|timer| std::iter::repeat_n(timer, times)).collect();
    poll(&crowd).len()
}

/// Polls a number of timers in an endless loop.
#[tool(read_only)]
pub fn wait_again(
    /// Number of handles
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

/// Logs a text of a given length.
#[tool(read_only)]
pub fn shout_to_host(
    context: &Context,
    /// Length of the text
    bytes: usize,
) -> usize {
    context.log(Level::Info, "shout", &"x".repeat(bytes), &[]);
    bytes
}
