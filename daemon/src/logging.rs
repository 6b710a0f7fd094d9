//! The daemon's own log: lines on standard error, for people or for machines.
//!
//! What plugins and callers say reaches it only escaped, since whoever reads a log reads it in a terminal. It has
//! colours where what the commands print has them: `NO_COLOR` holds for both.

use anstream::{AutoStream, ColorChoice};
use tracing_subscriber::EnvFilter;

use crate::config::{LogFormat, LogLevel};

/// Starts logging. Where it was started before, the first settings stay.
pub fn start(format: LogFormat, level: LogLevel) {
    // Libraries speak from warnings up; their debug lines are not the operator's.
    let filter = EnvFilter::new(format!("warn,toolgate={0},toolgate_sandbox={0}", level.as_str()));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(AutoStream::choice(&std::io::stderr()) != ColorChoice::Never);
    let started = match format {
        LogFormat::Text => lines.try_init(),
        LogFormat::Json => lines.json().try_init(),
    };
    // Two daemons in one process happen in tests only.
    drop(started);
}
