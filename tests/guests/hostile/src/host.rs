//! Makes the host work, or copy, in one call to it.

use std::hint::black_box;

use toolgate_sdk::{Context, Level, tool};
use wasip2::random::random::get_random_bytes;

/// Asks for random bytes at once.
#[tool(read_only)]
pub fn dice(
    /// How many
    bytes: u64,
) -> usize {
    black_box(get_random_bytes(bytes)).len()
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
