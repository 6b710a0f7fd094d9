use toolgate_sdk::tool;

/// Waits.
#[tool]
async fn wait() {}

fn main() {}
