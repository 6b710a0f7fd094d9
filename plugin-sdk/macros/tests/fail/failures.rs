use toolgate_sdk::{plugin, tool};

/// Fails with a text.
#[tool]
fn text() -> Result<f64, String> {
    Err("no".to_owned())
}

/// Fails with a borrowed text.
#[tool]
fn borrowed_text() -> Result<f64, &'static str> {
    Err("no")
}

/// Fails with nothing.
#[tool]
fn nothing() -> Result<f64, ()> {
    Err(())
}

/// Fails with any error.
#[tool]
fn any_error() -> Result<f64, Box<dyn std::error::Error>> {
    Ok("x".parse()?)
}

plugin!("fails", text, borrowed, nothing, boxed);

fn main() {}
