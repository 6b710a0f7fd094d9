use toolgate_sdk::{plugin, tool};

struct Point {
    x: f64,
}

/// Moves a point.
#[tool]
fn shift(
    /// The point
    point: Point,
) -> f64 {
    point.x
}

plugin!("points", shift);

fn main() {}
