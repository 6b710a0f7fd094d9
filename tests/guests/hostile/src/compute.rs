//! Uses up time: in guest code, by recursion, and in host calls.

use std::hint::black_box;

use toolgate_sdk::{Context, tool};

/// Computes in an endless loop.
#[tool(read_only)]
pub fn spin() -> u64 {
    let mut number = 1_u64;
    while black_box(number) != 0 {
        number = black_box(number).wrapping_mul(3) | 1;
    }
    number
}

/// Recurses without end.
#[tool(read_only)]
pub fn recurse() -> u64 {
    deeper(black_box(1))
}

// Mixes two operations, so that the compiler cannot turn the recursion into a loop.
#[inline(never)]
fn deeper(level: u64) -> u64 {
    if level == 0 {
        return 1;
    }
    black_box(deeper(black_box(level + 1)).wrapping_mul(3)) ^ level
}

/// Makes the cheapest host call in an endless loop.
#[tool(read_only)]
pub fn spin_in_host(context: &Context) -> u64 {
    let mut calls = 0_u64;
    while black_box(calls) != u64::MAX {
        black_box(context.time_left());
        calls += 1;
    }
    calls
}
