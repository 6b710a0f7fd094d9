//! Canary releases: a new version of a plugin takes a share of the calls, while its failures are compared with those of
//! the version that serves the rest.
//!
//! Both versions look the same to a model, so one decision holds for either. A call draws its version ([`CanaryDraw`]) by a
//! number that the caller of the gate derives from session and id under a random key. Without the key a client, who chooses
//! the ids, could send its failures to one version. Calls that need an approval always run on the serving version, which
//! people approved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use toolgate_api::error::ErrorType;

use super::catalogue::Plugin;

/// Calls of a canary before its failures are judged.
const JUDGED_CALLS: u64 = 20;
/// Fewest failures that can return a canary.
const JUDGED_FAILURES: u64 = 3;
/// A canary may fail twice as often as the serving version and in this percentage of its calls more: less is chance.
const MARGIN_PERCENT: u64 = 5;

/// The version of a plugin on trial, beside the one that serves.
#[derive(Clone, Debug)]
pub struct Canary<P> {
    /// The version on trial. It has the tools of the serving version.
    pub plugin: Arc<Plugin<P>>,
    /// Its share of the calls, in percent.
    pub percent: u8,
}

/// The number that a call draws, below 100 for every call that has an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryDraw(u8);

impl CanaryDraw {
    /// The draw of a call that no canary takes.
    pub const SERVING: Self = Self(u8::MAX);

    /// The draw of a call with a uniformly distributed hash.
    pub fn of_hash(hash: u64) -> Self {
        Self(u8::try_from(hash % 100).unwrap_or(u8::MAX))
    }

    /// Whether a canary with this share takes the call.
    pub(crate) fn is_within(self, percent: u8) -> bool {
        self.0 < percent
    }
}

/// Counters of one version's calls while a canary is on trial.
#[derive(Debug, Default)]
pub struct VersionCounters {
    calls: AtomicU64,
    failures: AtomicU64,
}

/// Calls of one version that ran, and how many of them failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VersionOutcomes {
    /// Calls that ran.
    pub calls: u64,
    /// The calls of `calls` that failed by a fault of the plugin.
    pub failures: u64,
}

impl VersionCounters {
    /// Counts the end of a call whose guest ran, with the error that it ended in.
    pub fn count(&self, error: Option<ErrorType>) {
        // The caller stopped it, so nothing is known of it.
        if error == Some(ErrorType::Cancelled) {
            return;
        }
        if error.is_some_and(is_failure) {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts up to now.
    pub fn outcomes(&self) -> VersionOutcomes {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        VersionOutcomes { calls: load(&self.calls), failures: load(&self.failures) }
    }
}

/// Whether a call that ended so speaks against the version that ran it. Includes the plugin's own word for a failure: a
/// version that fails where the one before succeeded is worse, and both are counted alike.
fn is_failure(error: ErrorType) -> bool {
    matches!(
        error,
        ErrorType::ToolCrashed
            | ErrorType::ToolFailed
            | ErrorType::FuelExhausted
            | ErrorType::MemoryExceeded
            | ErrorType::DeadlineExceeded
            | ErrorType::ResourceExceeded
            | ErrorType::OutputTooLarge
            | ErrorType::InvalidOutput
    )
}

/// Whether a canary fails more often than the serving version by more than chance: after 20 calls, at least 3 failures, and
/// a rate of failures of at least twice that of the serving version and 5 points more.
pub fn fails_more_often(canary: VersionOutcomes, serving: VersionOutcomes) -> bool {
    if canary.calls < JUDGED_CALLS || canary.failures < JUDGED_FAILURES {
        return false;
    }
    let wide = |counts: VersionOutcomes| (u128::from(counts.calls.max(1)), u128::from(counts.failures));
    let ((calls, failures), (serving_calls, serving_failures)) = (wide(canary), wide(serving));
    let allowed = 2 * 100 * serving_failures + u128::from(MARGIN_PERCENT) * serving_calls;
    100 * failures * serving_calls >= allowed * calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcomes(failures: u64, calls: u64) -> VersionOutcomes {
        VersionOutcomes { calls, failures }
    }

    #[test]
    fn a_canary_that_fails_as_often_as_the_serving_version_stays() {
        for (canary, serving) in [
            (outcomes(0, 1_000), outcomes(0, 9_000)),
            (outcomes(2, 20), outcomes(0, 200)),
            (outcomes(19, 19), outcomes(0, 200)),
            (outcomes(10, 100), outcomes(90, 900)),
            (outcomes(24, 100), outcomes(90, 900)),
            (outcomes(4, 100), outcomes(0, 900)),
            (outcomes(100, 100), outcomes(900, 900)),
        ] {
            assert!(!fails_more_often(canary, serving), "{canary:?} {serving:?}");
        }
    }

    #[test]
    fn a_canary_that_fails_far_more_often_is_returned() {
        for (canary, serving) in [
            (outcomes(20, 20), outcomes(0, 0)),
            (outcomes(3, 20), outcomes(0, 180)),
            (outcomes(25, 100), outcomes(90, 900)),
            (outcomes(5, 100), outcomes(0, 900)),
            (outcomes(1 << 40, 1 << 42), outcomes(1 << 40, 1 << 50)),
        ] {
            assert!(fails_more_often(canary, serving), "{canary:?} {serving:?}");
        }
    }

    #[test]
    fn the_share_of_calls_is_that_of_the_canary() {
        for percent in [1_u8, 10, 50] {
            let taken = (0..1_000).filter(|hash| CanaryDraw::of_hash(*hash).is_within(percent)).count();
            assert_eq!(taken, usize::from(percent) * 10);
        }
        assert!(!CanaryDraw::SERVING.is_within(50));
    }

    #[test]
    fn a_failure_is_counted_by_its_cause() {
        let counters = VersionCounters::default();
        for error in [
            None,
            Some(ErrorType::Cancelled),
            Some(ErrorType::ToolCrashed),
            Some(ErrorType::ToolFailed),
            Some(ErrorType::ApiUnavailable),
        ] {
            counters.count(error);
        }
        assert_eq!(counters.outcomes(), outcomes(2, 4));
    }
}
