use toolgate_sdk::{plugin, tool};

#[tool]
fn add(
    a: f64,
    /// The second number
    b: f64,
    ///
    c: f64,
) -> f64 {
    a + b + c
}

plugin!("sums", add);

fn main() {}
