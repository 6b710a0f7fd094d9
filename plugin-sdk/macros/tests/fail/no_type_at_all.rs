use toolgate_sdk::tool;

/// Adds two numbers.
#[tool]
fn add(
    /// The first number
    a,
) -> f64 {
    a
}

fn main() {}
