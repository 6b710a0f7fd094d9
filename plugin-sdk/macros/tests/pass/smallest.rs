//! The example of the documentation, verbatim.

use toolgate_sdk::{plugin, tool};

/// Adds two numbers.
#[tool(read_only)]
fn add(
    /// The first number
    a: f64,
    /// The second number
    b: f64,
) -> f64 {
    a + b
}

plugin!("sums", add);

fn main() {
    assert_eq!(add(1.0, 2.0), 3.0);
}
