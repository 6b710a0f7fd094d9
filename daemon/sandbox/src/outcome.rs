//! What came of a call, as plain data.

use toolgate_admission::CallError;

use crate::effect::Effect;
use crate::egress::Exchange;

/// Everything a finished call leaves behind.
#[derive(Debug)]
pub struct Finished {
    /// The plugin's answer, or why there is none.
    pub outcome: Result<Output, CallError>,
    /// What the call used, also when it was stopped.
    pub usage: Usage,
    /// Whether guest code began to run.
    pub executed: bool,
    /// What the call did, or tried to do, outside its own memory.
    pub effects: Vec<Effect>,
    /// Its requests and what came back, of a call that is traced.
    pub exchanges: Vec<Exchange>,
    /// What the plugin logged, standard output and error included, in order.
    pub log: Vec<LogLine>,
    /// Lines that did not fit the log limit.
    pub log_lines_dropped: u64,
}

/// How a call ended well. Both carry JSON text that has not been checked against any schema yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// The result.
    Result(String),
    /// The payload that the orchestrator's client performs.
    Client(String),
}

/// What a call used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Fuel burnt: about one unit an instruction, plus the charge for host calls.
    pub fuel: u64,
    /// Linear memory at its largest, all memories together.
    pub memory_bytes: u64,
    /// Wall time inside the sandbox, in microseconds.
    pub duration_us: u64,
    /// Calls from the guest to the host.
    pub host_calls: u64,
    /// Bytes sent to and received from the network.
    pub egress_bytes: u64,
    /// Bytes of the result.
    pub output_bytes: u64,
    /// Bytes logged.
    pub log_bytes: u64,
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// For the plugin's author.
    Debug,
    /// Worth knowing.
    Info,
    /// Worth looking at.
    Warn,
    /// Something failed.
    Error,
}

/// One line that a plugin logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// How much it matters.
    pub level: LogLevel,
    /// Short name of the event; `stdout` and `stderr` for what was printed.
    pub event: String,
    /// The text, as the plugin gave it: control characters are still in it.
    pub message: String,
    /// Ordered pairs.
    pub fields: Vec<(String, String)>,
}
