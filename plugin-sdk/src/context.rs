//! The caller, deadline and configuration of a call, and its log and progress.
//!
//! In a component each method calls the host, so a tool pays only for what it uses. In native tests
//! [`testing`](crate::testing) sets the values.

#[cfg(target_family = "wasm")]
pub(crate) mod host;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod mock;

#[cfg(target_family = "wasm")]
use host as source;
#[cfg(not(target_family = "wasm"))]
use mock as source;

use std::fmt::Display;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{Calls, Error};

/// The call that a tool performs. A tool takes it as `&Context`, at any position among its parameters.
pub struct Context {
    pub(crate) source: source::Source,
}

/// The severity of a log event.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// Details for debugging the tool.
    Debug,
    /// A normal event.
    Info,
    /// A problem despite which the tool continues.
    Warn,
    /// A problem because of which the tool fails.
    Error,
}

impl Context {
    /// Returns the id of this call, unique within its session.
    pub fn call_id(&self) -> String {
        self.source.call_id()
    }

    /// Returns the session of the call.
    pub fn session(&self) -> Option<String> {
        self.get("session")
    }

    /// Returns the conversation that the session serves.
    pub fn conversation(&self) -> Option<String> {
        self.get("conversation")
    }

    /// Returns the organization of the agent.
    pub fn organization(&self) -> Option<String> {
        self.get("organization")
    }

    /// Returns the agent that calls the tool.
    pub fn agent(&self) -> Option<String> {
        self.get("agent")
    }

    /// Returns the user for whom the agent works, as the orchestrator states it.
    pub fn user(&self) -> Option<String> {
        self.get("user")
    }

    /// Returns the channel of the user: `sms`, `email`, `webchat`.
    pub fn channel(&self) -> Option<String> {
        self.get("channel")
    }

    /// Returns one fact about the call, or none for an unknown key.
    pub fn get(&self, key: &str) -> Option<String> {
        self.source.get(key)
    }

    /// Returns the time until the host stops the call.
    pub fn time_left(&self) -> Duration {
        Duration::from_millis(self.source.deadline_ms())
    }

    /// Parses the settings that the organization's owner set, into the type that `plugin!` declares as `settings`.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.source.settings()).map_err(|error| {
            Error::new(format!(
                "the settings of this plugin are not valid: {error}; ask its operator to fix them"
            ))
        })
    }

    /// Returns the definition as JSON text, in a component that serves many plugins.
    pub fn definition(&self) -> Option<String> {
        self.source.definition()
    }

    /// Returns the agent's other tools. A plugin that calls them requests `capabilities(calls = true)`, and nothing else.
    pub fn calls(&self) -> Calls {
        Calls::new(self.source.calls())
    }

    /// Writes one event to the log: a short name (`cache_miss`), a message, and fields in the given order.
    ///
    /// ```
    /// # fn look_up(context: &toolgate_sdk::Context) {
    /// context.log(toolgate_sdk::Level::Info, "cache_miss", "not seen before", &[("key", &42)]);
    /// # }
    /// ```
    pub fn log(&self, level: Level, event: &str, message: &str, fields: &[(&str, &dyn Display)]) {
        let fields: Vec<_> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), value.to_string())).collect();
        self.source.log(level, event, message, &fields);
    }

    /// Reports to a waiting person that `done` of `total` units are finished; without `total` if it is unknown.
    pub fn progress(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        self.source.progress(done, total, message);
    }
}
