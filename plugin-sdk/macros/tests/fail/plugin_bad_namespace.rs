use toolgate_sdk::{plugin, tool};

/// Adds one.
#[tool]
fn add(
    /// The number
    a: f64,
) -> f64 {
    a + 1.0
}

plugin!("My_Sums", add);

fn main() {}
