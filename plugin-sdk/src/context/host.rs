//! A context that calls the host.

use crate::CallFailure;
use crate::bindings::toolgate::plugin::types::Failure;
use crate::bindings::toolgate::plugin::{calls, config, context, log, progress};
use crate::context::{Context, Level};

pub(crate) struct Source;

impl Context {
    /// The context of this instance's only call.
    pub(crate) const fn of_instance() -> Self {
        Self { source: Source }
    }
}

impl Source {
    pub(crate) fn call_id(&self) -> String {
        context::call_id()
    }

    pub(crate) fn get(&self, key: &str) -> Option<String> {
        context::get(key)
    }

    pub(crate) fn deadline_ms(&self) -> u64 {
        context::deadline_ms()
    }

    pub(crate) fn settings(&self) -> String {
        config::settings()
    }

    pub(crate) fn definition(&self) -> Option<String> {
        config::definition()
    }

    pub(crate) fn calls(&self) -> CallSource {
        CallSource
    }

    pub(crate) fn log(&self, level: Level, event: &str, message: &str, fields: &[(String, String)]) {
        let level = match level {
            Level::Debug => log::Level::Debug,
            Level::Info => log::Level::Info,
            Level::Warn => log::Level::Warn,
            Level::Error => log::Level::Error,
        };
        log::write(level, event, message, fields);
    }

    pub(crate) fn progress(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        progress::report(done, total, message);
    }
}

/// The host's calls of other tools.
#[derive(Clone)]
pub(crate) struct CallSource;

impl CallSource {
    pub(crate) fn tools(&self) -> String {
        calls::tools()
    }

    pub(crate) fn describe(&self, tool: &str) -> Result<String, CallFailure> {
        calls::describe(tool).map_err(CallFailure::from)
    }

    pub(crate) fn call(&self, tool: &str, arguments: &str) -> Result<String, CallFailure> {
        calls::call(tool, arguments).map_err(CallFailure::from)
    }

    pub(crate) fn call_all(&self, calls: &[(String, String)]) -> Vec<Result<String, CallFailure>> {
        calls::call_all(calls).into_iter().map(|result| result.map_err(CallFailure::from)).collect()
    }
}

impl From<Failure> for CallFailure {
    fn from(failure: Failure) -> Self {
        Self {
            code: failure.code,
            message: failure.message,
            retryable: failure.retryable,
            details: failure.details.and_then(|details| serde_json::from_str(&details).ok()),
        }
    }
}
