use toolgate_sdk::{plugin, tool};

/// Adds one.
#[tool]
fn add(
    /// The number
    a: f64,
) -> f64 {
    a + 1.0
}

fn plain() {}

mod inner {
    pub fn plain() {}
}

plugin!("sums", add, plain, inner::plain);

fn main() {}
