//! Calls of the agent's other tools, for a plugin that runs scripts.

#[cfg(target_family = "wasm")]
use crate::context::host::CallSource;
#[cfg(not(target_family = "wasm"))]
use crate::context::mock::CallSource;
use serde_json::Value;

/// The agent's other tools, as [`Context::calls`](crate::Context::calls) returns them.
///
/// Each call passes the gate, the limits, the approvals and the audit log like a call of the agent. If it waits for an
/// approval, the host ends the calling tool; run again after the approval, that tool must make the same calls in the same
/// order.
#[derive(Clone)]
pub struct Calls(CallSource);

/// The failure of another tool, or the refusal of its call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallFailure {
    /// The code of the error, like `TOOL_FAILED` or `ACCESS_DENIED`.
    pub code: String,
    /// One or two sentences for a model.
    pub message: String,
    /// Whether the same call can succeed later.
    pub retryable: bool,
    /// Details for a program.
    pub details: Option<Value>,
}

impl Calls {
    pub(crate) fn new(source: CallSource) -> Self {
        Self(source)
    }

    /// Returns the tools that can be called, as JSON text: an array of `{"name", "description"}` objects, sorted by name.
    pub fn tools(&self) -> String {
        self.0.tools()
    }

    /// Returns the typed signature and the description of a tool, by its name like `files/read`.
    pub fn describe(&self, tool: &str) -> Result<String, CallFailure> {
        self.0.describe(tool)
    }

    /// Calls a tool with a JSON object as text, and returns its output as JSON text.
    pub fn call(&self, tool: &str, arguments: &str) -> Result<String, CallFailure> {
        self.0.call(tool, arguments)
    }

    /// Calls up to 8 tools at the same time, each with its arguments. Returns their outputs in the order of the list, when all have
    /// ended.
    pub fn call_all(&self, calls: &[(String, String)]) -> Vec<Result<String, CallFailure>> {
        self.0.call_all(calls)
    }
}
