use toolgate_sdk::{plugin, tool};

/// Does what its name says.
#[tool]
fn a_tool_with_a_name_that_is_rather_long() {}

plugin!("a-namespace-that-is-rather-long", a_tool_with_a_name_that_is_rather_long);

fn main() {}
