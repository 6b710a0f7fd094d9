//! Counts equal refusals of a session, so that a flood of them becomes one record of the audit log (9.18).
//!
//! Within a window the first equal refusals are recorded one by one, and the further ones are counted. The caller records
//! the counts at the end of the window, or before the session's next record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use toolgate_admission::Reason;
use toolgate_api::error::ErrorType;
use toolgate_api::name::ToolId;
use toolgate_audit::Sha256;

/// Equal refusals in a window that are recorded one by one: more than a model makes by mistake.
const RECORDED_MAX: u64 = 20;
/// Longest time until a count is recorded, and so the time whose counts a crash loses.
const WINDOW: Duration = Duration::from_secs(10);
/// Kinds of refusals that are counted at a time, to bound the memory of a session.
const KINDS_MAX: usize = 32;

/// Refusals of one session are equal if these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusalKind {
    /// The tool as the model named it.
    pub called: Arc<str>,
    /// The error code.
    pub error_type: ErrorType,
    /// The layer and rule that decided.
    pub reason: Reason,
    /// The id of the calling token.
    pub principal: Arc<str>,
    /// The front end that took the call.
    pub source: &'static str,
}

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// Its id.
    pub call: String,
    /// The hash of its arguments.
    pub arguments_sha256: Sha256,
    /// The tool, if one has the name that was called.
    pub tool: Option<ToolId>,
    /// The revision of the rules that decided.
    pub policy_revision: u64,
}

/// Refusals that were counted and not recorded.
#[derive(Debug, PartialEq, Eq)]
pub struct RepeatedRefusals {
    /// Their kind.
    pub kind: RefusalKind,
    /// The last of them.
    pub last: RefusedCall,
    /// Their number.
    pub count: u64,
}

/// The treatment of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The refusal gets a record of its own.
    No,
    /// The refusal was counted. The first time in a window, the caller must record the counts when the window ends.
    Yes {
        /// The end of the window, where it is not awaited yet.
        unawaited_end: Option<Instant>,
    },
}

struct Window {
    kind: RefusalKind,
    end: Instant,
    recorded: u64,
    is_awaited: bool,
    repeated: Option<(RefusedCall, u64)>,
}

/// The refusals of a session within their windows.
#[derive(Default)]
pub struct RefusalCounts {
    /// Read without the lock by each call.
    has_repeated: AtomicBool,
    windows: Mutex<Vec<Window>>,
}

impl RefusalCounts {
    /// Counts a refusal, or says that it gets a record of its own.
    pub fn count(&self, kind: &RefusalKind, call: impl FnOnce() -> RefusedCall, now: Instant) -> Counted {
        let mut windows = self.windows.lock();
        windows.retain(|window| now < window.end || window.repeated.is_some());
        let Some(window) = windows.iter_mut().find(|window| window.kind == *kind) else {
            begin(&mut windows, kind.clone(), now);
            return Counted::No;
        };
        if window.recorded < RECORDED_MAX {
            window.recorded += 1;
            return Counted::No;
        }
        let before = window.repeated.take().map_or(0, |(_, count)| count);
        window.repeated = Some((call(), before + 1));
        self.has_repeated.store(true, Ordering::Release);
        let is_awaited = std::mem::replace(&mut window.is_awaited, true);
        Counted::Yes { unawaited_end: (!is_awaited).then_some(window.end) }
    }

    /// Takes all counts.
    pub fn take_all(&self) -> Vec<RepeatedRefusals> {
        if !self.has_repeated.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut windows = self.windows.lock();
        self.has_repeated.store(false, Ordering::Release);
        windows.iter_mut().filter_map(Window::take_repeated).collect()
    }

    /// Ends the windows that are over, and takes their counts.
    pub fn take_ended(&self, now: Instant) -> Vec<RepeatedRefusals> {
        let mut windows = self.windows.lock();
        let mut ended: Vec<Window> = windows.extract_if(.., |window| window.end <= now).collect();
        self.has_repeated.store(windows.iter().any(|window| window.repeated.is_some()), Ordering::Release);
        ended.iter_mut().filter_map(Window::take_repeated).collect()
    }
}

impl Window {
    fn take_repeated(&mut self) -> Option<RepeatedRefusals> {
        let (last, count) = self.repeated.take()?;
        Some(RepeatedRefusals { kind: self.kind.clone(), last, count })
    }
}

/// Begins a window. Many kinds displace the oldest one without a count.
fn begin(windows: &mut Vec<Window>, kind: RefusalKind, now: Instant) {
    if windows.len() >= KINDS_MAX {
        let Some(oldest) = windows.iter().position(|window| window.repeated.is_none()) else { return };
        windows.remove(oldest);
    }
    windows.push(Window { kind, end: now + WINDOW, recorded: 1, is_awaited: false, repeated: None });
}

#[cfg(test)]
mod tests {
    use toolgate_admission::Layer;

    use super::*;

    fn kind(called: &str) -> RefusalKind {
        RefusalKind {
            called: called.into(),
            error_type: ErrorType::AccessDenied,
            reason: Reason { layer: Layer::Agent, rule: "enabled" },
            principal: "t1".into(),
            source: "http",
        }
    }

    fn call(number: u64) -> RefusedCall {
        let call = format!("c{number}");
        RefusedCall { call, arguments_sha256: Sha256([0; 32]), tool: None, policy_revision: 1 }
    }

    /// Refuses so many calls of this kind, and returns how many were counted.
    fn refuse(counts: &RefusalCounts, kind: &RefusalKind, calls: u64, now: Instant) -> usize {
        let counted = |number: &u64| counts.count(kind, || call(*number), now) != Counted::No;
        (1..=calls).filter(counted).count()
    }

    #[test]
    fn r9_18_a_flood_of_equal_refusals_is_counted_and_the_last_one_is_named() {
        let (counts, now) = (RefusalCounts::default(), Instant::now());
        assert_eq!(refuse(&counts, &kind("a"), RECORDED_MAX, now), 0);
        assert_eq!(counts.take_all(), []);
        assert_eq!(refuse(&counts, &kind("a"), 500, now), 500);
        let expected = RepeatedRefusals { kind: kind("a"), last: call(500), count: 500 };
        assert_eq!(counts.take_all(), [expected]);
        assert_eq!(counts.take_all(), [], "each count is taken once");
    }

    #[test]
    fn r9_18_refusals_of_other_kinds_are_recorded_one_by_one() {
        let (counts, now) = (RefusalCounts::default(), Instant::now());
        refuse(&counts, &kind("a"), RECORDED_MAX + 1, now);
        assert_eq!(refuse(&counts, &kind("b"), 1, now), 0);
        let other_rule =
            RefusalKind { reason: Reason { layer: Layer::Agent, rule: "disabled" }, ..kind("a") };
        assert_eq!(refuse(&counts, &other_rule, 1, now), 0);
    }

    #[test]
    fn r9_18_the_end_of_a_window_yields_its_count_and_begins_anew() {
        let (counts, now) = (RefusalCounts::default(), Instant::now());
        refuse(&counts, &kind("a"), RECORDED_MAX, now);
        let first = counts.count(&kind("a"), || call(1), now);
        assert_eq!(first, Counted::Yes { unawaited_end: Some(now + WINDOW) });
        assert_eq!(counts.count(&kind("a"), || call(2), now), Counted::Yes { unawaited_end: None });
        assert_eq!(counts.take_ended(now), []);
        assert_eq!(counts.take_ended(now + WINDOW)[0].count, 2);
        assert_eq!(refuse(&counts, &kind("a"), RECORDED_MAX, now + WINDOW), 0);
    }

    #[test]
    fn r9_18_many_kinds_lose_no_count() {
        let (counts, now) = (RefusalCounts::default(), Instant::now());
        for name in 0..2 * KINDS_MAX {
            refuse(&counts, &kind(&name.to_string()), RECORDED_MAX + 2, now);
        }
        let taken = counts.take_all();
        assert_eq!(taken.len(), KINDS_MAX);
        assert!(taken.iter().all(|refusals| refusals.count == 2));
    }
}
