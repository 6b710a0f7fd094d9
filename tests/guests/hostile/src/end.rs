//! Ends when it should not, does not end when it should, and two tools that do as they should.

use std::time::Duration;

use toolgate_sdk::{Context, Error, tool};

/// Says that it begins, and sleeps in the host for ever.
#[tool(read_only)]
pub fn doze(context: &Context) -> bool {
    context.progress(0, None, Some("dozing"));
    std::thread::sleep(Duration::from_secs(u64::from(u32::MAX)));
    true
}

/// Sleeps for a while, as a tool that waits for something would.
#[tool(read_only)]
pub fn rest(
    /// How long
    ms: u64,
) -> u64 {
    std::thread::sleep(Duration::from_millis(ms));
    ms
}

/// Says again and again how far it is.
#[tool(read_only)]
pub fn tell(
    context: &Context,
    /// How often
    times: u64,
    /// How much it says
    bytes: usize,
) -> u64 {
    let message = "x".repeat(bytes);
    for time in 0..times {
        context.progress(time, Some(times), Some(&message));
    }
    times
}

/// Panics.
#[tool(read_only)]
pub fn panic(
    /// The last words
    message: String,
) -> bool {
    panic!("{message}")
}

/// Ends its own process.
#[tool(read_only)]
pub fn exit(
    /// The exit code
    code: i32,
) -> bool {
    std::process::exit(code)
}

/// Fails as a tool may.
#[tool(read_only)]
pub fn fail(
    /// Why
    message: String,
) -> Result<bool, Error> {
    Err(Error::new(message))
}

/// Says the same again.
#[tool(read_only)]
pub fn echo(
    /// What to say
    text: String,
) -> String {
    text
}
