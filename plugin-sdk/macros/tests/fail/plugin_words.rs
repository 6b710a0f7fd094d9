use toolgate_sdk::{plugin, tool};

/// Adds.
#[tool]
fn add() {}

plugin!(
    "sums",
    capabilities(filesystem = "workspace", network = "https://example.com", credentials = stripe),
    limits(feul = 3, deadline_ms = 5),
    add
);

fn main() {}
