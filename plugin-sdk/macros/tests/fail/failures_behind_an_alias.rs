use toolgate_sdk::tool;

struct NoError;

type Fallible<T> = Result<T, String>;

mod any {
    pub struct Error;
    pub type Result<T> = std::result::Result<T, Error>;
}

/// Adds.
#[tool]
fn text() -> Fallible<u8> {
    Err("no".to_owned())
}

/// Adds.
#[tool]
fn any_error() -> any::Result<u8> {
    Ok(1)
}

/// Adds.
#[tool]
fn no_error() -> Result<u8, NoError> {
    Err(NoError)
}

fn main() {}
