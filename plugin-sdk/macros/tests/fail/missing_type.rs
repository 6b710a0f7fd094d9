use toolgate_sdk::{plugin, tool};

/// Adds two numbers.
#[tool]
fn add(
    /// The first number
    a: _,
    /// The second number
    b: &str,
    /// The third number
    c: impl Into<f64>,
) -> impl Sized {
    a + b
}

plugin!("sums", add);

fn main() {}
