use toolgate_sdk::tool;

/// Adds.
#[tool(tags = "x")]
fn bare_list() {}

/// Adds.
#[tool(tags(x))]
fn bare_text() {}

/// Adds.
#[tool(mode = client)]
fn bare_word() {}

/// Adds.
#[tool(read_only = "yes")]
fn not_a_flag() {}

/// Adds.
#[tool(name(add))]
fn no_equals_sign() {}

/// Adds.
#[tool(examples = {"a": 1})]
fn bare_example(
    /// A
    a: u8,
) {
}

fn main() {}
