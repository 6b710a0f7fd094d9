//! The guest of the benchmarks.

use schemars::JsonSchema;
use serde::Serialize;
use toolgate_sdk::{plugin, tool};

/// What was asked.
#[derive(Serialize, JsonSchema)]
struct Echo {
    /// The text.
    text: String,
    /// The number.
    number: u32,
}

/// Answers what it was asked.
#[tool(read_only)]
fn echo(
    /// A text
    text: String,
    /// A number
    number: u32,
) -> Echo {
    Echo { text, number }
}

plugin!("echo", echo);
