//! Counts equal refusals, so that a flood of them is one record of the audit log (9.18).
//!
//! The first is recorded. Equal ones within a minute are counted, and their number is recorded when the minute is over or at
//! the stop. A crash loses the counts of the last two minutes at most.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time after a record in which equal refusals are counted.
pub(super) const WINDOW: Duration = Duration::from_secs(60);

/// Kinds of refusals that are counted at a time, to bound memory.
pub(super) const KINDS_MAX: usize = 1024;

/// The recorded refusals of the last minute by their kind, each with its time and the number of equal ones since.
pub(super) struct RecentRefusals<K>(Mutex<HashMap<K, (Instant, u64)>>);

impl<K> Default for RecentRefusals<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> RecentRefusals<K> {
    /// Counts a refusal if an equal one was recorded within the last minute. Otherwise the caller records it. Kinds beyond the
    /// most are recorded one by one.
    pub(super) fn is_counted(&self, kind: &K, now: Instant) -> bool {
        let mut kinds = self.0.lock();
        if let Some((_, count)) = kinds.get_mut(kind) {
            *count += 1;
            return true;
        }
        if kinds.len() < KINDS_MAX {
            kinds.insert(kind.clone(), (now, 0));
        }
        false
    }

    /// The same for refusals whose kinds a stranger makes up: those beyond the most count as `rest`. Returns the kind to record.
    pub(super) fn to_record(&self, kind: K, rest: K, now: Instant) -> Option<K> {
        let mut kinds = self.0.lock();
        let kind = if kinds.len() < KINDS_MAX || kinds.contains_key(&kind) { kind } else { rest };
        if let Some((_, count)) = kinds.get_mut(&kind) {
            *count += 1;
            return None;
        }
        kinds.insert(kind.clone(), (now, 0));
        Some(kind)
    }

    /// Ends what is older than a minute, or all without `now`, and takes the counts.
    pub(super) fn take_ended(&self, now: Option<Instant>) -> Vec<(K, u64)> {
        let mut kinds = self.0.lock();
        let ended =
            kinds.extract_if(|_, (since, _)| now.is_none_or(|now| now.duration_since(*since) >= WINDOW));
        ended.filter_map(|(kind, (_, count))| (count > 0).then_some((kind, count))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r9_18_equal_refusals_are_counted_and_others_are_recorded() {
        let (refused, now) = (RecentRefusals::default(), Instant::now());
        assert!(!refused.is_counted(&"no agent", now));
        assert!((0..50).all(|_| refused.is_counted(&"no agent", now)));
        assert!(!refused.is_counted(&"no tools", now));
        assert_eq!(refused.take_ended(Some(now)), []);
        assert_eq!(refused.take_ended(Some(now + WINDOW)), [("no agent", 50)]);
        assert!(!refused.is_counted(&"no agent", now + WINDOW), "recorded after its minute");
        assert!(refused.is_counted(&"no agent", now + WINDOW));
        assert_eq!(refused.take_ended(None), [("no agent", 1)]);
    }

    #[test]
    fn r9_18_kinds_are_bounded_and_the_rest_is_recorded_or_counted_as_one() {
        let (refused, now) = (RecentRefusals::default(), Instant::now());
        assert!((0..=KINDS_MAX).all(|kind| !refused.is_counted(&kind, now)));
        assert!(!refused.is_counted(&KINDS_MAX, now));
        assert!(refused.is_counted(&0, now));
        let rest = usize::MAX;
        let recorded: Vec<_> =
            (KINDS_MAX..KINDS_MAX + 50).filter_map(|kind| refused.to_record(kind, rest, now)).collect();
        assert_eq!(recorded, [rest]);
        assert_eq!(refused.to_record(1, rest, now), None);
        let mut counts = refused.take_ended(None);
        counts.sort_unstable();
        assert_eq!(counts, [(0, 1), (1, 1), (rest, 49)]);
    }
}
