//! The state of a session: rounds (T4), the circuit breaker of its tools (G13), and the tools used recently (G15).
//!
//! Counters are under one short lock of the session. The facts that a decision reads are swapped whole, so that deciding
//! takes no lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use toolgate_admission::SessionFacts;
use toolgate_api::error::ErrorType;
use toolgate_api::name::ToolId;

use super::organization::OrganizationBounds;

const HOUR_MS: u64 = 60 * 60 * 1_000;

/// The bounds of a session.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rounds of calls in one turn.
    pub rounds_per_turn: u64,
    /// Rounds of calls in the session.
    pub rounds_per_session: u64,
    /// Failures in a row that open the circuit breaker of a tool.
    pub failures: u64,
    /// Calls that count as recent.
    pub recent: usize,
    /// Limits of all sessions of its organization together.
    pub organization: OrganizationBounds,
}

/// The bound that a round exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsExceeded {
    /// `turn`, `session` or `hour`.
    pub what: &'static str,
    /// Rounds that are allowed.
    pub allowed: u64,
}

/// The state of a session.
pub struct SessionState {
    facts: ArcSwap<SessionFacts>,
    bounds: Bounds,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    rounds: u64,
    /// When the rounds of the last hour began, in milliseconds since 1970, where they count by the hour.
    hour: VecDeque<u64>,
    turns: HashMap<Box<str>, u64>,
    recent: VecDeque<ToolId>,
    /// Failures in a row of tools whose last call failed.
    failures: HashMap<ToolId, u64>,
}

impl SessionState {
    /// A state with these facts, after `rounds` rounds in earlier runs of the daemon.
    pub fn new(facts: SessionFacts, rounds: u64, bounds: Bounds) -> Self {
        let counts = Counts { rounds, ..Counts::default() };
        Self { facts: ArcSwap::from_pointee(facts), bounds, counts: Mutex::new(counts) }
    }

    /// The facts that a decision reads.
    pub fn facts(&self) -> Arc<SessionFacts> {
        self.facts.load_full()
    }

    /// The number of rounds so far.
    pub fn rounds(&self) -> u64 {
        self.counts.lock().rounds
    }

    /// Counts one round of a turn; without a turn, of the session alone (T4). A refused round does not count.
    pub fn enter_round(&self, turn: Option<&str>) -> Result<(), RoundsExceeded> {
        let Bounds { rounds_per_turn, rounds_per_session, .. } = self.bounds;
        let mut counts = self.counts.lock();
        if counts.rounds >= rounds_per_session {
            return Err(RoundsExceeded { what: "session", allowed: rounds_per_session });
        }
        if let Some(turn) = turn {
            match counts.turns.get_mut(turn) {
                Some(rounds) if *rounds >= rounds_per_turn => {
                    return Err(RoundsExceeded { what: "turn", allowed: rounds_per_turn });
                }
                Some(rounds) => *rounds += 1,
                None => drop(counts.turns.insert(turn.into(), 1)),
            }
        }
        counts.rounds += 1;
        Ok(())
    }

    /// Counts a round of a client whose session has no end: the rounds of a session, in a sliding hour (T4).
    pub fn enter_round_of_hour(&self, now_ms: u64) -> Result<(), RoundsExceeded> {
        let allowed = self.bounds.rounds_per_session;
        let mut counts = self.counts.lock();
        while counts.hour.front().is_some_and(|began_ms| now_ms.saturating_sub(*began_ms) >= HOUR_MS) {
            counts.hour.pop_front();
        }
        if counts.hour.len() as u64 >= allowed {
            return Err(RoundsExceeded { what: "hour", allowed });
        }
        counts.hour.push_back(now_ms);
        counts.rounds += 1;
        Ok(())
    }

    /// Counts the end of a call that ran. Returns the reason where this opens the tool's circuit breaker (G13).
    pub fn record_end(&self, tool: &ToolId, ended: Result<(), ErrorType>) -> Option<String> {
        let mut counts = self.counts.lock();
        if counts.recent.len() >= self.bounds.recent {
            counts.recent.pop_front();
        }
        counts.recent.push_back(tool.clone());
        match ended {
            Ok(()) => {
                counts.failures.remove(tool);
                None
            }
            Err(error_type) if opens_breaker(error_type) => {
                let failures = counts.failures.entry(tool.clone()).or_default();
                *failures += 1;
                let in_a_row = *failures;
                (in_a_row >= self.bounds.failures).then(|| {
                    drop(counts);
                    let why = format!("{in_a_row} calls in a row failed, the last with {error_type}");
                    self.change(|facts| drop(facts.broken.insert(tool.clone(), why.clone())));
                    why
                })
            }
            // Other errors neither reset the count nor add to it.
            Err(_) => None,
        }
    }

    /// Disables or enables a tool for the session. Both close its circuit breaker.
    pub fn set_disabled(&self, tool: &ToolId, disabled: bool) {
        self.counts.lock().failures.remove(tool);
        self.change(|facts| {
            facts.broken.remove(tool);
            match disabled {
                true => facts.disabled.insert(tool.clone()),
                false => facts.disabled.remove(tool),
            };
        });
    }

    /// The tools of the last calls, the newest last.
    pub fn recent(&self) -> Vec<ToolId> {
        self.counts.lock().recent.iter().cloned().collect()
    }

    /// Disabled tools, and tools with an open circuit breaker and its reason, as they are stored.
    pub fn unavailable_tools(&self) -> (Vec<String>, BTreeMap<String, String>) {
        let facts = self.facts();
        let broken = facts.broken.iter().map(|(tool, why)| (tool.to_string(), why.clone())).collect();
        (facts.disabled.iter().map(ToString::to_string).collect(), broken)
    }

    fn change(&self, act: impl Fn(&mut SessionFacts)) {
        self.facts.rcu(|facts| {
            let mut facts = SessionFacts::clone(facts);
            act(&mut facts);
            facts
        });
    }
}

/// Whether the error is the tool's failure and not that of its arguments or upstreams.
fn opens_breaker(error_type: ErrorType) -> bool {
    matches!(
        error_type,
        ErrorType::ToolCrashed
            | ErrorType::FuelExhausted
            | ErrorType::MemoryExceeded
            | ErrorType::DeadlineExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        rounds_per_turn: 2,
        rounds_per_session: 5,
        failures: 3,
        recent: 2,
        organization: OrganizationBounds::NONE,
    };

    fn state() -> SessionState {
        SessionState::new(SessionFacts::default(), 0, BOUNDS)
    }

    fn tool(text: &str) -> ToolId {
        ToolId::parse(text).expect("a tool")
    }

    const CRASHED: Result<(), ErrorType> = Err(ErrorType::ToolCrashed);

    #[test]
    fn t4_a_turn_has_its_rounds_and_a_new_one_starts_anew() {
        let state = state();
        state.enter_round(Some("t1")).unwrap();
        state.enter_round(Some("t1")).unwrap();
        assert_eq!(state.enter_round(Some("t1")), Err(RoundsExceeded { what: "turn", allowed: 2 }));
        state.enter_round(Some("t2")).unwrap();
        assert_eq!(
            state.enter_round(Some("t1")),
            Err(RoundsExceeded { what: "turn", allowed: 2 }),
            "going back does not help"
        );
        assert_eq!(state.rounds(), 3);
    }

    #[test]
    fn t4_a_session_has_its_rounds_with_turns_and_without() {
        let session = state();
        for turn in ["a", "a", "b", "b", "c"] {
            session.enter_round(Some(turn)).unwrap();
        }
        assert_eq!(session.enter_round(Some("d")), Err(RoundsExceeded { what: "session", allowed: 5 }));
        let unnamed = state();
        for _ in 0..5 {
            unnamed.enter_round(None).unwrap();
        }
        assert_eq!(unnamed.enter_round(None), Err(RoundsExceeded { what: "session", allowed: 5 }));
        let earlier = SessionState::new(SessionFacts::default(), 5, BOUNDS);
        assert!(earlier.enter_round(None).is_err());
    }

    #[test]
    fn t4_rounds_of_the_last_hour_count_where_a_session_has_no_end() {
        let state = state();
        for minute in [0, 10, 20, 30, 40] {
            state.enter_round_of_hour(minute * 60_000).unwrap();
        }
        let exceeded = Err(RoundsExceeded { what: "hour", allowed: 5 });
        assert_eq!(state.enter_round_of_hour(HOUR_MS - 1), exceeded);
        state.enter_round_of_hour(HOUR_MS).unwrap();
        assert_eq!(state.enter_round_of_hour(HOUR_MS), exceeded);
    }

    #[test]
    fn g13_three_failures_in_a_row_stop_a_tool_and_success_starts_anew() {
        let state = state();
        let shaky = tool("a/shaky");
        for ended in [CRASHED, CRASHED, Ok(()), CRASHED, CRASHED, Err(ErrorType::ToolFailed)] {
            assert_eq!(state.record_end(&shaky, ended), None);
        }
        state.record_end(&tool("a/other"), CRASHED);
        assert!(state.facts().broken.is_empty());
        let why = state.record_end(&shaky, Err(ErrorType::DeadlineExceeded)).expect("stopped");
        assert!(why.contains("DEADLINE_EXCEEDED"), "{why}");
        assert_eq!(state.facts().broken.get(&shaky), Some(&why));
        assert_eq!(state.unavailable_tools().1.len(), 1);
    }

    #[test]
    fn g13_what_was_stopped_or_disabled_can_be_enabled_again() {
        let state = state();
        let shaky = tool("a/shaky");
        for _ in 0..3 {
            state.record_end(&shaky, CRASHED);
        }
        state.set_disabled(&shaky, false);
        assert_eq!(*state.facts(), SessionFacts::default());
        assert_eq!(state.record_end(&shaky, CRASHED), None, "the count starts anew");
        state.set_disabled(&shaky, true);
        assert!(state.facts().disabled.contains(&shaky));
    }

    #[test]
    fn g15_the_tools_of_the_last_calls_are_recent() {
        let state = state();
        for text in ["a/one", "a/two", "a/three"] {
            state.record_end(&tool(text), Ok(()));
        }
        assert_eq!(state.recent(), [tool("a/two"), tool("a/three")]);
    }
}
