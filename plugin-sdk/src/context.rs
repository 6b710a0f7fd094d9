//! Who is calling, how much time is left, what was configured, and the way to say something meanwhile.
//!
//! In a component each question goes to the host when it is asked, so a tool pays for what it uses. In native tests the
//! answers are given by hand, through [`testing`](crate::testing).

#[cfg(not(target_family = "wasm"))]
pub(crate) mod by_hand;
#[cfg(target_family = "wasm")]
mod host;

#[cfg(not(target_family = "wasm"))]
use by_hand as source;
#[cfg(target_family = "wasm")]
use host as source;

use std::fmt::Display;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::Error;

/// The call that a tool is performing. Take it as `&Context`, in any place among the parameters.
pub struct Context {
    pub(crate) source: source::Source,
}

/// How much a line of the log matters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// For who looks for a fault of the tool.
    Debug,
    /// What happened, as it should.
    Info,
    /// What the tool went on without.
    Warn,
    /// What the tool could not do.
    Error,
}

impl Context {
    /// The id of this call, unique within its session.
    pub fn call_id(&self) -> String {
        self.source.call_id()
    }

    /// The session that the call belongs to.
    pub fn session(&self) -> Option<String> {
        self.get("session")
    }

    /// The conversation that the session serves.
    pub fn conversation(&self) -> Option<String> {
        self.get("conversation")
    }

    /// The organization of the agent.
    pub fn organization(&self) -> Option<String> {
        self.get("organization")
    }

    /// The agent that calls.
    pub fn agent(&self) -> Option<String> {
        self.get("agent")
    }

    /// The user for whom the agent works, as the orchestrator asserts it.
    pub fn user(&self) -> Option<String> {
        self.get("user")
    }

    /// The channel through which the user speaks: `sms`, `email`, `webchat`.
    pub fn channel(&self) -> Option<String> {
        self.get("channel")
    }

    /// One fact about the call by its key. A key that this host does not know gives none.
    pub fn get(&self, key: &str) -> Option<String> {
        self.source.get(key)
    }

    /// How long until the call is stopped.
    pub fn time_left(&self) -> Duration {
        Duration::from_millis(self.source.deadline_ms())
    }

    /// What the organization's owner set for this plugin, in the type that `plugin!` names as `config`.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(&self.source.settings()).map_err(|error| {
            Error::new(format!("the settings of this plugin do not fit: {error}; ask its operator"))
        })
    }

    /// The definition, as JSON text, for a component that serves many plugins.
    pub fn definition(&self) -> Option<String> {
        self.source.definition()
    }

    /// Writes one event to the log: a short name (`cache_miss`), a message, and pairs in the order given.
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

    /// Reports to a person who waits that `done` of `total` units are finished; no total when it is not known.
    pub fn progress(&self, done: u64, total: Option<u64>, message: Option<&str>) {
        self.source.progress(done, total, message);
    }
}
