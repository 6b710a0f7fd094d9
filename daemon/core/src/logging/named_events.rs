//! Named events of agents: the tools that they get, those that they try, and those that they run (S1, O5).
//!
//! Each event has a [`Sampler`], since callers decide how often it happens. The audit log has every call.

use std::fmt::Display;
use std::net::IpAddr;

use parking_lot::Mutex;
use toolgate_api::call::CallStatus;
use toolgate_api::text::escape_for_display;
use toolgate_state::clock::monotonic_ms;

use super::EVENTS;
use crate::call::{CallOutcome, RequestedCall};
use crate::sessions::SessionSetup;

/// Lines of one event in one second. More are not read by people, and would cost as much as the calls.
const LINES_PER_SECOND: u32 = 20;

/// Longest name of a tool that does not exist, in characters.
const TOOL_CHARS: usize = 128;

/// Writes the named events.
#[derive(Debug, Default)]
pub struct NamedEvents {
    agent_loaded: Sampler,
    no_tools: Sampler,
    unauthorized_access: Sampler,
    tool_executed: Sampler,
    request_refused: Sampler,
}

/// Writes an event with the fields that all have, unless it is left out.
macro_rules! write_event {
    ($level:ident, $sampler:expr, $event:literal, $setup:expr, $($rest:tt)*) => {
        if tracing::enabled!(target: EVENTS, tracing::Level::$level)
            && let Some(suppressed) = $sampler.take(monotonic_ms())
        {
            let setup: &SessionSetup = $setup;
            tracing::event!(
                target: EVENTS, tracing::Level::$level,
                event = $event, organization = setup.organization.as_str(), agent = setup.agent.as_str(),
                session = setup.id, conversation = setup.conversation_or_empty(),
                suppressed = (suppressed > 0).then_some(suppressed), $($rest)*
            );
        }
    };
}

impl NamedEvents {
    /// A session is open, and its agent has these tools.
    pub fn agent_loaded(&self, setup: &SessionSetup, tools: usize, callable: &dyn Display) {
        write_event!(INFO, self.agent_loaded, "agent_loaded", setup, tools, %callable, "a session is opened");
    }

    /// No session is opened, since the agent has no tools.
    pub fn no_tools(&self, setup: &SessionSetup) {
        write_event!(WARN, self.no_tools, "no_tools", setup, "no session is opened");
    }

    /// A request was refused for its credentials.
    pub fn request_refused(&self, reason: &str, token: Option<&str>, address: Option<IpAddr>) {
        if let Some(suppressed) = self.request_refused.take(monotonic_ms()) {
            tracing::warn!(
                target: EVENTS, event = "request_refused", reason, token,
                address = address.map(tracing::field::display),
                suppressed = (suppressed > 0).then_some(suppressed), "a request was refused for its credentials"
            );
        }
    }

    /// The agent tried a tool that it may not call (G3).
    pub fn unauthorized_access(
        &self,
        setup: &SessionSetup,
        call: &RequestedCall,
        reason: &toolgate_admission::Reason,
    ) {
        let message = "an agent attempted a tool that it may not call";
        write_event!(
            WARN,
            self.unauthorized_access,
            "unauthorized_access",
            setup,
            call = call.id,
            tool = escape_for_display(&call.tool, TOOL_CHARS),
            layer = reason.layer.as_str(),
            rule = reason.rule,
            "{message}"
        );
    }

    /// The call has ended, which is an event if its tool returned a result.
    pub fn tool_executed(&self, setup: &SessionSetup, outcome: &CallOutcome) {
        let (CallStatus::Ok, Some(tool)) = (outcome.status(), &outcome.tool) else { return };
        write_event!(
            INFO, self.tool_executed, "tool_executed", setup, call = outcome.id, %tool,
            fuel = outcome.usage.fuel, duration_us = outcome.usage.duration_us, "a tool was executed"
        );
    }
}

/// Counts the lines of one event in the present second, and the events left out since the last line.
#[derive(Debug, Default)]
struct Sampler(Mutex<SamplerState>);

#[derive(Debug, Default)]
struct SamplerState {
    second: u64,
    lines: u32,
    suppressed: u64,
}

impl Sampler {
    /// Takes a line of this second. Returns how many events were left out before it, or none if this one is left out.
    fn take(&self, now_ms: u64) -> Option<u64> {
        let mut state = self.0.lock();
        let second = now_ms / 1000;
        if state.second != second {
            (state.second, state.lines) = (second, 0);
        }
        if state.lines == LINES_PER_SECOND {
            state.suppressed += 1;
            return None;
        }
        state.lines += 1;
        Some(std::mem::take(&mut state.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o5_an_event_beyond_the_lines_of_a_second_is_counted_by_the_next_line() {
        let sampler = Sampler::default();
        for _ in 0..LINES_PER_SECOND {
            assert_eq!(sampler.take(999), Some(0));
        }
        assert_eq!([sampler.take(999), sampler.take(999)], [None, None]);
        assert_eq!([sampler.take(1000), sampler.take(1001)], [Some(2), Some(0)]);
    }
}
