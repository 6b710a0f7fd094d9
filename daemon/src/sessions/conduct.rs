//! How a session goes on: the rounds it has had, the tools it used lately, and those that keep failing.
//!
//! Counting is arithmetic under one short lock of the session's own. What a decision looks at is swapped whole, so that
//! deciding waits for nobody.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use toolgate_admission::{ErrorType, SessionFacts, ToolId};

/// What bounds a session (T4, G13, G15).
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Rounds of calls in one turn.
    pub rounds_per_turn: u64,
    /// Rounds of calls in the session.
    pub rounds_per_session: u64,
    /// Failures in a row that stop a tool for the session.
    pub failures: u64,
    /// Calls back that count as recent.
    pub recent: usize,
}

/// Which bound a round went beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsSpent {
    /// `turn` or `session`.
    pub what: &'static str,
    /// How many it may have.
    pub allowed: u64,
}

/// How a session goes on.
pub struct Conduct {
    facts: ArcSwap<SessionFacts>,
    bounds: Bounds,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    rounds: u64,
    turns: HashMap<Box<str>, u64>,
    recent: VecDeque<ToolId>,
    /// Failures in a row, of tools whose last call failed.
    failures: HashMap<ToolId, u64>,
}

impl Conduct {
    /// A session that begins with these facts, after so many rounds in an earlier run of the daemon.
    pub fn new(facts: SessionFacts, rounds: u64, bounds: Bounds) -> Self {
        let counts = Counts { rounds, ..Counts::default() };
        Self { facts: ArcSwap::from_pointee(facts), bounds, counts: Mutex::new(counts) }
    }

    /// What a decision looks at.
    pub fn facts(&self) -> Arc<SessionFacts> {
        self.facts.load_full()
    }

    /// Rounds so far.
    pub fn rounds(&self) -> u64 {
        self.counts().rounds
    }

    /// Counts one round of a turn; the session is one turn where none is named. A round that is refused does not count.
    pub fn enter_round(&self, turn: Option<&str>) -> Result<(), RoundsSpent> {
        let Bounds { rounds_per_turn, rounds_per_session, .. } = self.bounds;
        let mut counts = self.counts();
        if counts.rounds >= rounds_per_session {
            return Err(RoundsSpent { what: "session", allowed: rounds_per_session });
        }
        let turn = turn.unwrap_or("");
        let of_turn = counts.turns.get(turn).copied().unwrap_or(0);
        if of_turn >= rounds_per_turn {
            return Err(RoundsSpent { what: "turn", allowed: rounds_per_turn });
        }
        counts.rounds += 1;
        match counts.turns.get_mut(turn) {
            Some(rounds) => *rounds += 1,
            None => drop(counts.turns.insert(turn.into(), 1)),
        }
        Ok(())
    }

    /// Notes how a call of the tool ended that ran. Answers how it failed, where that stops the tool (G13).
    pub fn note(&self, tool: &ToolId, ended: Result<(), ErrorType>) -> Option<String> {
        let mut counts = self.counts();
        if counts.recent.len() >= self.bounds.recent {
            counts.recent.pop_front();
        }
        counts.recent.push_back(tool.clone());
        match ended {
            Ok(()) => {
                counts.failures.remove(tool);
                None
            }
            Err(error_type) if counts_as_failing(error_type) => {
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
            // Neither resets the count nor adds to it.
            Err(_) => None,
        }
    }

    /// Takes a tool out for the session, or lets it in again, whatever kept it out.
    pub fn set_disabled(&self, tool: &ToolId, disabled: bool) {
        self.counts().failures.remove(tool);
        self.change(|facts| {
            facts.broken.remove(tool);
            match disabled {
                true => facts.disabled.insert(tool.clone()),
                false => facts.disabled.remove(tool),
            };
        });
    }

    /// The tools of the last calls, the last one last.
    pub fn recent(&self) -> Vec<ToolId> {
        self.counts().recent.iter().cloned().collect()
    }

    /// What is out for the session, as it is stored.
    pub fn tools_out(&self) -> (Vec<String>, BTreeMap<String, String>) {
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

    fn counts(&self) -> std::sync::MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tool broke, rather than what it was asked.
fn counts_as_failing(error_type: ErrorType) -> bool {
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

    const BOUNDS: Bounds = Bounds { rounds_per_turn: 2, rounds_per_session: 5, failures: 3, recent: 2 };

    fn conduct() -> Conduct {
        Conduct::new(SessionFacts::default(), 0, BOUNDS)
    }

    fn tool(text: &str) -> ToolId {
        ToolId::parse(text).expect("a tool")
    }

    const CRASHED: Result<(), ErrorType> = Err(ErrorType::ToolCrashed);

    #[test]
    fn t4_a_turn_has_its_rounds_and_a_new_one_starts_anew() {
        let conduct = conduct();
        conduct.enter_round(Some("t1")).unwrap();
        conduct.enter_round(Some("t1")).unwrap();
        assert_eq!(conduct.enter_round(Some("t1")), Err(RoundsSpent { what: "turn", allowed: 2 }));
        conduct.enter_round(Some("t2")).unwrap();
        assert_eq!(
            conduct.enter_round(Some("t1")),
            Err(RoundsSpent { what: "turn", allowed: 2 }),
            "going back does not help"
        );
        assert_eq!(conduct.rounds(), 3);
    }

    #[test]
    fn t4_a_session_has_its_rounds_and_without_turns_is_one() {
        let session = conduct();
        for turn in ["a", "a", "b", "b", "c"] {
            session.enter_round(Some(turn)).unwrap();
        }
        assert_eq!(session.enter_round(Some("d")), Err(RoundsSpent { what: "session", allowed: 5 }));
        let unnamed = conduct();
        unnamed.enter_round(None).unwrap();
        unnamed.enter_round(None).unwrap();
        assert!(unnamed.enter_round(None).is_err());
        let earlier = Conduct::new(SessionFacts::default(), 5, BOUNDS);
        assert!(earlier.enter_round(None).is_err());
    }

    #[test]
    fn g13_three_failures_in_a_row_stop_a_tool_and_success_starts_anew() {
        let conduct = conduct();
        let shaky = tool("a/shaky");
        for ended in [CRASHED, CRASHED, Ok(()), CRASHED, CRASHED, Err(ErrorType::ToolFailed)] {
            assert_eq!(conduct.note(&shaky, ended), None);
        }
        conduct.note(&tool("a/other"), CRASHED);
        assert!(conduct.facts().broken.is_empty());
        let why = conduct.note(&shaky, Err(ErrorType::DeadlineExceeded)).expect("stopped");
        assert!(why.contains("DEADLINE_EXCEEDED"), "{why}");
        assert_eq!(conduct.facts().broken.get(&shaky), Some(&why));
        assert_eq!(conduct.tools_out().1.len(), 1);
    }

    #[test]
    fn g13_what_was_stopped_or_disabled_can_be_enabled_again() {
        let conduct = conduct();
        let shaky = tool("a/shaky");
        for _ in 0..3 {
            conduct.note(&shaky, CRASHED);
        }
        conduct.set_disabled(&shaky, false);
        assert_eq!(*conduct.facts(), SessionFacts::default());
        assert_eq!(conduct.note(&shaky, CRASHED), None, "the count starts anew");
        conduct.set_disabled(&shaky, true);
        assert!(conduct.facts().disabled.contains(&shaky));
    }

    #[test]
    fn g15_the_tools_of_the_last_calls_are_recent() {
        let conduct = conduct();
        for text in ["a/one", "a/two", "a/three"] {
            conduct.note(&tool(text), Ok(()));
        }
        assert_eq!(conduct.recent(), [tool("a/two"), tool("a/three")]);
    }
}
