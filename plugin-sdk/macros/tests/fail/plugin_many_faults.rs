use toolgate_sdk::{plugin, tool};

/// Adds one.
#[tool]
fn add(
    /// The number
    a: f64,
) -> f64 {
    a + 1.0
}

plugin!(
    "Sums and more",
    author = "Ada",
    purpose = "",
    capabilities(network = ["api.example.com", "https://", "https://example.com"], disk = all, filesystem = root),
    purpose = "Adds",
    "add",
    add
);

fn main() {}
