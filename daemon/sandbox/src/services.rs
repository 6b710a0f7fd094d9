//! Services of the daemon for a guest besides files and HTTP: calls of other tools (T13) and messages between agents (T12).
//!
//! The sandbox passes a request on and decides nothing about it. The daemon lends a service only to a call whose plugin asks
//! for it and has it granted.

use std::pin::Pin;
use std::sync::Arc;

use toolgate_api::error::CallError;

type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The services that a call is lent.
#[derive(Clone, Default)]
pub struct Services {
    /// Calls of the agent's other tools.
    pub tools: Option<Arc<dyn OtherTools>>,
    /// Messages between agents.
    pub messages: Option<Arc<dyn Messages>>,
}

/// The agent's other tools, as a script calls them.
pub trait OtherTools: Send + Sync {
    /// Returns the names and descriptions of the tools, as JSON text, and the number of tools that were looked at.
    fn list(&self) -> (String, usize);
    /// Returns the description of one tool with its typed signature.
    fn describe(&self, tool: &str) -> Result<String, CallError>;
    /// Calls tools at the same time, each with its arguments. Returns the ended calls in the same order. `fuel` is what the guest has
    /// left.
    fn call_all(&self, calls: Vec<(String, String)>, fuel: u64) -> Answer<'_, Vec<InnerCall>>;
}

/// An inner call that has ended.
#[derive(Debug)]
pub struct InnerCall {
    /// The output or the error, which the script reads. None ends the script.
    pub result: Option<Result<String, CallError>>,
    /// The fuel that it used.
    pub fuel: u64,
}

/// The inbox of an agent.
pub trait Messages: Send + Sync {
    /// Sends a message, and returns its id.
    fn send(&self, recipient: String, body: String) -> Answer<'_, Result<String, CallError>>;
    /// Returns the oldest messages as JSON text, and marks those up to `read` as read.
    fn read(&self, limit: u32, read: Option<String>) -> Answer<'_, Result<String, CallError>>;
}
