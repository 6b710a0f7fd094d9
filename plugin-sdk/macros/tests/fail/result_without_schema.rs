use toolgate_sdk::{Error, plugin, tool};

struct Point {
    x: f64,
}

/// Makes a point.
#[tool]
fn make(
    /// Where
    x: f64,
) -> Result<Point, Error> {
    Ok(Point { x })
}

plugin!("points", make);

fn main() {}
