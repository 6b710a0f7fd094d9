use toolgate_sdk::{Context, tool};

/// Adds.
#[tool]
fn with_alias(
    /// A
    #[serde(default, alias = "b")]
    a: u8,
) {
}

/// Adds.
#[tool]
fn two_values(
    /// A
    #[default(1, 2)]
    a: u8,
) {
}

/// Adds.
#[tool]
fn two_defaults(
    /// A
    #[default(5)]
    #[default(6)]
    a: u8,
) {
}

/// Adds.
#[tool]
fn owned_context(context: Context) {}

/// Adds.
#[tool]
fn changing_context(context: &mut Context) {}

/// Adds.
#[tool]
fn from_a_file(
    #[doc = include_str!("parameters.rs")]
    a: u8,
) {
}

fn main() {}
