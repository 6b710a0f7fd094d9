//! Produces too much output: as result, log records and standard streams.

use std::io::Write;

use toolgate_sdk::{Content, Context, Error, Level, WithContent, tool};
use wasip2::cli::stdout::get_stdout;

/// Returns a text of a given length.
#[tool(read_only)]
pub fn shout(
    /// Length of the text
    bytes: usize,
) -> String {
    "x".repeat(bytes)
}

/// Returns content blocks beside the output.
#[tool(read_only)]
pub fn show(
    /// Media type of the image
    mime_type: String,
) -> WithContent<u8> {
    let image = Content::image(&mime_type, b"ABC");
    WithContent {
        output: 7,
        content: vec![Content::text("see it"), image, Content::file("/workspace/a.pdf")],
    }
}

/// Writes one log record.
#[tool(read_only)]
pub fn log(
    context: &Context,
    /// Log message
    message: String,
) {
    context.log(Level::Info, "said", &message, &[("length", &message.len())]);
}

/// Writes many log records.
#[tool(read_only)]
pub fn log_flood(
    context: &Context,
    /// Number of lines of one KiB
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
    /// Number of lines of one KiB on each stream
    lines: u64,
) -> Result<u64, Error> {
    let line = "x".repeat(1024);
    for _ in 0..lines {
        writeln!(std::io::stdout(), "{line}")?;
        writeln!(std::io::stderr(), "{line}")?;
    }
    Ok(lines)
}

/// Writes zero bytes to standard output many times.
#[tool(read_only)]
pub fn empty_writes(
    /// Number of writes
    writes: u64,
) -> Result<u64, Error> {
    let stdout = get_stdout();
    for _ in 0..writes {
        stdout.write(&[]).map_err(|error| Error::new(format!("{error:?}")))?;
    }
    Ok(writes)
}
