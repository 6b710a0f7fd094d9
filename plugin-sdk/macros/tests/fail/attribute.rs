use toolgate_sdk::tool;

/// Is misspelt.
#[tool(readonly)]
fn misspelt() {}

/// Is said twice.
#[tool(read_only, read_only)]
fn twice() {}

/// Contradicts itself.
#[tool(read_only, destructive)]
fn contradiction() {}

/// Ends nowhere.
#[tool(mode = "browser")]
fn nowhere() {}

/// Has a result of its own.
#[tool(result = String)]
fn own_result() {}

/// Has an empty tag.
#[tool(tags("good", " "))]
fn empty_tag() {}

/// Has a bad name.
#[tool(name = "getUser")]
fn bad_name() {}

/// Has a bad name of its own.
#[tool]
fn _hidden() {}

fn main() {}
