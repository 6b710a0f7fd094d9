use toolgate_sdk::{plugin, tool};

#[tool]
fn first() {}

#[tool]
fn second() {}

plugin!("sums", first, second);

fn main() {}
