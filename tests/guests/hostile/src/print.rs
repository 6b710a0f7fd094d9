//! Says too much: as its result, in its log, on its standard streams.

use std::io::Write;

use toolgate_sdk::{Context, Error, Level, tool};
use wasip2::cli::stdout::get_stdout;

/// Answers a text of that length.
#[tool(read_only)]
pub fn shout(
    /// How long
    bytes: usize,
) -> String {
    "x".repeat(bytes)
}

/// Writes one line to the log.
#[tool(read_only)]
pub fn log(
    context: &Context,
    /// The line
    message: String,
) {
    context.log(Level::Info, "said", &message, &[("length", &message.len())]);
}

/// Writes to the log.
#[tool(read_only)]
pub fn log_flood(
    context: &Context,
    /// How many lines of a kibibyte
    lines: u64,
) -> u64 {
    let line = "x".repeat(1024);
    for at in 0..lines {
        context.log(Level::Info, "flood", &line, &[("at", &at)]);
    }
    lines
}

/// Writes to standard output and standard error.
#[tool(read_only)]
pub fn print_flood(
    /// How many lines of a kibibyte on each
    lines: u64,
) -> Result<u64, Error> {
    let line = "x".repeat(1024);
    for _ in 0..lines {
        writeln!(std::io::stdout(), "{line}")?;
        writeln!(std::io::stderr(), "{line}")?;
    }
    Ok(lines)
}

/// Writes nothing to standard output, many times.
#[tool(read_only)]
pub fn empty_writes(
    /// How often
    writes: u64,
) -> Result<u64, Error> {
    let stdout = get_stdout();
    for _ in 0..writes {
        stdout.write(&[]).map_err(|error| Error::new(format!("{error:?}")))?;
    }
    Ok(writes)
}
