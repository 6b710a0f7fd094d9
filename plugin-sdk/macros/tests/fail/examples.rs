use toolgate_sdk::tool;

/// Adds two numbers.
#[tool(
    examples({"a": 1, "c": 2} => 3),
    redact("a", "/d/0"),
)]
fn add(
    /// The first number
    a: f64,
    /// The second number
    b: f64,
) -> f64 {
    a + b
}

/// Subtracts two numbers.
#[tool(examples({"a": one}))]
fn subtract(
    /// The number
    a: f64,
) -> f64 {
    a
}

fn main() {}
