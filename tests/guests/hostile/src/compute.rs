//! Uses up time: in the guest, on its stack, and in the host.

use std::hint::black_box;

use toolgate_sdk::{Context, tool};

/// Computes without end.
#[tool(read_only)]
pub fn spin() -> u64 {
    let mut number = 1_u64;
    while black_box(number) != 0 {
        number = black_box(number).wrapping_mul(3) | 1;
    }
    number
}

/// Calls itself without end.
#[tool(read_only)]
pub fn recurse() -> u64 {
    deeper(black_box(1))
}

// Neither addition nor multiplication alone, so that the compiler cannot make a loop of it.
#[inline(never)]
fn deeper(level: u64) -> u64 {
    if level == 0 {
        return 1;
    }
    black_box(deeper(black_box(level + 1)).wrapping_mul(3)) ^ level
}

/// Makes the cheapest call to the host there is, without end.
#[tool(read_only)]
pub fn spin_in_host(context: &Context) -> u64 {
    let mut calls = 0_u64;
    while black_box(calls) != u64::MAX {
        black_box(context.time_left());
        calls += 1;
    }
    calls
}
