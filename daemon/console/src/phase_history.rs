//! Durations of the phases of calls in the last hour, day and month, from samples of the counters that the call path has anyway.
//!
//! Samples are in memory: a restart begins anew, as it does with the counters.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::interval;
use tokio_util::task::AbortOnDropHandle;
use toolgate_core::metrics::PhaseCounts;
use toolgate_http::state::App;
use toolgate_state::clock::now_ms;

const PERIOD: Duration = Duration::from_secs(60);
/// Samples of the last hour, one a minute.
const MINUTES: usize = 61;
/// Samples of the last 30 days, one an hour.
const HOURS: usize = 30 * 24 + 1;
const HOUR_MS: u64 = 3_600_000;

/// The samples of this run of the daemon.
pub(super) struct PhaseHistory {
    started_ms: u64,
    samples: Arc<Mutex<Samples>>,
    _task: Option<AbortOnDropHandle<()>>,
}

/// Counters since the start, by the time at which they were read, in milliseconds since 1970.
#[derive(Default)]
struct Samples {
    minutes: VecDeque<(u64, PhaseCounts)>,
    hours: VecDeque<(u64, PhaseCounts)>,
}

impl PhaseHistory {
    /// Takes samples until it is dropped. Outside of a runtime, as when the routes alone are of interest, there are none.
    pub(super) fn follow(app: &App) -> Self {
        let samples = Arc::<Mutex<Samples>>::default();
        let (metrics, kept) = (Arc::downgrade(&app.services().metrics), Arc::clone(&samples));
        let sampling = async move {
            let mut ticks = interval(PERIOD);
            loop {
                ticks.tick().await;
                let Some(metrics) = metrics.upgrade() else { return };
                let counts = metrics.phases();
                kept.lock().add(now_ms(), counts);
            }
        };
        let task = Handle::try_current().ok().map(|runtime| AbortOnDropHandle::new(runtime.spawn(sampling)));
        Self { started_ms: now_ms(), samples, _task: task }
    }

    /// The durations since a time, given the present counters; and the time of the sample, or of the start.
    pub(super) fn since(&self, since_ms: u64, present: &PhaseCounts) -> (u64, PhaseCounts) {
        let samples = self.samples.lock();
        match samples.before(since_ms) {
            Some((at_ms, earlier)) => (at_ms, present.since(&earlier)),
            None => (self.started_ms, *present),
        }
    }
}

impl Samples {
    fn add(&mut self, at_ms: u64, counts: PhaseCounts) {
        let is_next_hour = self.hours.back().is_none_or(|(last_ms, _)| last_ms / HOUR_MS < at_ms / HOUR_MS);
        if is_next_hour {
            push(&mut self.hours, HOURS, (at_ms, counts));
        }
        push(&mut self.minutes, MINUTES, (at_ms, counts));
    }

    /// The newest sample that is not after a time.
    fn before(&self, since_ms: u64) -> Option<(u64, PhaseCounts)> {
        let newest = |samples: &VecDeque<(u64, PhaseCounts)>| {
            samples.iter().rev().find(|(at_ms, _)| *at_ms <= since_ms).copied()
        };
        newest(&self.minutes).or_else(|| newest(&self.hours))
    }
}

fn push(samples: &mut VecDeque<(u64, PhaseCounts)>, most: usize, sample: (u64, PhaseCounts)) {
    if samples.len() == most {
        samples.pop_front();
    }
    samples.push_back(sample);
}

#[cfg(test)]
mod tests {
    use super::*;
    use toolgate_core::metrics::{Metrics, Phase};

    #[test]
    fn o6_the_sample_before_a_time_is_found_and_old_ones_go() {
        let metrics = Metrics::default();
        let mut samples = Samples::default();
        for minute in 0..2 * 24 * 60 {
            metrics.add_duration(Phase::Run, Duration::from_micros(1));
            samples.add(minute * 60_000, metrics.phases());
        }
        assert_eq!((samples.minutes.len(), samples.hours.len()), (MINUTES, 48));
        let now_ms = 2 * 24 * HOUR_MS - 60_000;
        let count = |since_ms: u64| {
            let earlier = samples.before(since_ms)?.1;
            Some(metrics.phases().since(&earlier).durations().map(|phase| phase.count).sum::<u64>())
        };
        assert_eq!(count(now_ms - 30 * 60_000), Some(30));
        assert_eq!(count(HOUR_MS + 5), Some(2 * 24 * 60 - 61), "hours alone");
        assert_eq!(samples.before(0).map(|(at_ms, _)| at_ms), Some(0));
    }
}
