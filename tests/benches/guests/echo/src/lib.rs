//! Guest of the benchmarks: the smallest call, and a call that computes.

use std::hint::black_box;

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{plugin, tool};

/// Result of `echo`.
#[derive(Serialize, JsonSchema)]
struct Echo {
    /// The text.
    text: String,
    /// The number.
    number: u32,
}

/// Returns its arguments.
#[tool(read_only)]
fn echo(
    /// A text
    text: String,
    /// A number
    number: u32,
) -> Echo {
    Echo { text, number }
}

/// Computes without host calls: about one millisecond per unit of work.
#[tool(read_only)]
fn compute(
    /// Units of work
    work: u32,
) -> f64 {
    let mut number = black_box(1.000_1_f64);
    let mut bits = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..u64::from(work) * 250_000 {
        bits ^= bits << 13;
        bits ^= bits >> 7;
        number = number.mul_add(0.999_9, (bits & 0xFF) as f64);
    }
    number
}

/// Returns a text of this length.
#[tool(read_only)]
fn long_text(
    /// Bytes of the text
    bytes: usize,
) -> String {
    "x".repeat(bytes)
}

plugin!("echo", echo, compute, long_text);
