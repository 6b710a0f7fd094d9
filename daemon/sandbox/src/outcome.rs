//! The result of a call, as plain data.

use std::time::Duration;

pub use toolgate_api::call_usage::CallUsage as Usage;
use toolgate_api::error::CallError;

use crate::effect::Effect;
use crate::egress::Exchange;

/// The result of a call and everything to record about it.
#[derive(Debug)]
pub struct FinishedCall {
    /// The plugin's output, or the error that ended the call.
    pub outcome: Result<Output, CallError>,
    /// Resources used, also if the call was stopped.
    pub usage: Usage,
    /// Time in which the instance was made, a part of `usage.duration_us`.
    pub instance: Duration,
    /// Whether guest code began to run.
    pub executed: bool,
    /// Effects outside the instance, refused attempts included.
    pub effects: Vec<Effect>,
    /// The requests and responses of a traced call.
    pub exchanges: Vec<Exchange>,
    /// Log lines of the plugin, standard output and error included, in order.
    pub log: Vec<LogLine>,
    /// Lines that exceeded the log limit.
    pub log_lines_dropped: u64,
}

/// The output of a successful call. Both variants hold JSON text that no schema has validated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The result.
    Result(String),
    /// The payload for the orchestrator's client.
    Client(String),
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For the plugin's author.
    Debug,
    /// Information.
    Info,
    /// A possible problem.
    Warn,
    /// A failure.
    Error,
}

/// One line that a plugin logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Severity.
    pub level: LogLevel,
    /// Short name of the event; `stdout` and `stderr` for printed lines.
    pub event: String,
    /// The text as the plugin wrote it, control characters included.
    pub message: String,
    /// Key-value pairs in the plugin's order.
    pub fields: Vec<(String, String)>,
}
