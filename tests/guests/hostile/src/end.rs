//! Guests that end too early or never, and two well-behaved tools.

use std::time::Duration;

use toolgate_sdk::{Context, Error, tool};

/// Reports progress, then sleeps in the host for ever.
#[tool(read_only)]
pub fn doze(context: &Context) -> bool {
    context.progress(0, None, Some("dozing"));
    std::thread::sleep(Duration::from_secs(u64::from(u32::MAX)));
    true
}

/// Sleeps for a given time.
#[tool(read_only)]
pub fn rest(
    /// Duration
    ms: u64,
) -> u64 {
    std::thread::sleep(Duration::from_millis(ms));
    ms
}

/// Reports progress in a loop.
#[tool(read_only)]
pub fn report_progress(
    context: &Context,
    /// Number of reports
    times: u64,
    /// Length of each report's message
    bytes: usize,
) -> u64 {
    let message = "x".repeat(bytes);
    for time in 0..times {
        context.progress(time, Some(times), Some(&message));
    }
    times
}

/// Returns all that a tool learns about its call: nine fields, in the order of the contract.
#[tool(read_only)]
pub fn about(context: &Context) -> Vec<Option<String>> {
    let milliseconds = context.time_left().as_millis().to_string();
    vec![
        Some(context.call_id()),
        Some(milliseconds),
        context.session(),
        context.conversation(),
        context.organization(),
        context.agent(),
        context.user(),
        context.channel(),
        context.get("no_such_fact"),
    ]
}

/// Panics.
#[tool(read_only)]
pub fn panic(
    /// Panic message
    message: String,
) -> bool {
    panic!("{message}")
}

/// Exits the process.
#[tool(read_only)]
pub fn exit(
    /// The exit code
    code: i32,
) -> bool {
    std::process::exit(code)
}

/// Returns an error.
#[tool(read_only)]
pub fn fail(
    /// Error message
    message: String,
) -> Result<bool, Error> {
    Err(Error::new(message))
}

/// Returns its argument.
#[tool(read_only)]
pub fn echo(
    /// Text to return
    text: String,
) -> String {
    text
}
