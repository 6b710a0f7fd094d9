use toolgate_sdk::tool;

/// Counts.
#[tool]
fn count(
    /// How far
    #[default("ten")]
    to: u32,
) -> u32 {
    to
}

fn main() {}
