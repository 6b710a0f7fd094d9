//! Counters of the call path for `GET /metrics` (O5).
//!
//! A call increments plain atomics in arrays that are indexed by outcome, phase or layer: no lock, no allocation, no hash.
//! The other numbers are read where they are kept, when an operator asks (`http/metrics/scrape.rs`).

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use toolgate_admission::Layer;
use toolgate_api::call::CallStatus;
use toolgate_api::error::ErrorType;
use toolgate_api::name::Name;
use toolgate_audit::{HISTOGRAM_BUCKETS, Histogram, percentile};
use toolgate_sandbox::{Effect, FinishedCall};

use crate::call::CallOutcome;
use crate::identity::RefusalReason;

/// Statuses that come before the error types in the array of outcomes.
const STATUSES: [&str; 5] = ["ok", "client_required", "approval_required", "running", "unknown"];
const OUTCOMES: usize = STATUSES.len() + ErrorType::ALL.len();

/// Results of requests to upstreams.
const REQUESTS: [&str; 7] = ["1xx", "2xx", "3xx", "4xx", "5xx", "failed", "denied"];
const FAILED: usize = 5;
const DENIED: usize = 6;

/// The phases of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits before the decision.
    Queue,
    /// The decision of the gate.
    Decision,
    /// The start of the instance.
    Instance,
    /// The guest, with its requests.
    Run,
    /// The audit log: from the outcome until it is on disk.
    Record,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Queue, Self::Decision, Self::Instance, Self::Run, Self::Record];

    /// The name of the phase in metrics and traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Decision => "decision",
            Self::Instance => "instance",
            Self::Run => "run",
            Self::Record => "record",
        }
    }
}

/// Calls by outcome, of the organizations that the operator lists.
pub type OrganizationCounters = Vec<(Name, Arc<OutcomeCounters>)>;

/// The counters of the call path.
#[derive(Debug)]
pub struct Metrics {
    calls: OutcomeCounters,
    /// The organizations that the operator lists, which may be labels.
    organizations: ArcSwap<OrganizationCounters>,
    phases: [Histogram; Phase::ALL.len()],
    refusals: [AtomicU64; Layer::ALL.len()],
    requests: [AtomicU64; REQUESTS.len()],
    refused_requests: [AtomicU64; RefusalReason::ALL.len()],
    fuel: AtomicU64,
    memory_kib: Histogram,
    /// What tasks of the daemon observe.
    pub observed: Observed,
}

/// Numbers that a task of the daemon observes from time to time.
#[derive(Debug, Default)]
pub struct Observed {
    /// Whether `/readyz` would answer 200.
    pub is_ready: AtomicBool,
    /// Broken assertions.
    pub broken_assertions: AtomicU64,
    /// When the certificate of the listener ends, in seconds since 1970; 0 without TLS.
    pub certificate_end: AtomicU64,
    /// When the last backup was taken, in seconds since 1970; 0 without one.
    pub last_backup: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(std::iter::empty())
    }
}

impl Metrics {
    /// Counters at zero. Calls of `organizations` are counted by organization too.
    pub fn new(organizations: impl Iterator<Item = Name>) -> Self {
        Self {
            calls: OutcomeCounters::default(),
            organizations: ArcSwap::from_pointee(
                organizations.map(|name| (name, Arc::default())).collect::<OrganizationCounters>(),
            ),
            phases: array::from_fn(|_| Histogram::default()),
            refusals: array::from_fn(|_| AtomicU64::new(0)),
            requests: array::from_fn(|_| AtomicU64::new(0)),
            refused_requests: array::from_fn(|_| AtomicU64::new(0)),
            fuel: AtomicU64::new(0),
            memory_kib: Histogram::default(),
            observed: Observed::default(),
        }
    }

    /// Counts other organizations from now on. Those that stay keep their numbers.
    pub fn replace_organizations(&self, organizations: impl Iterator<Item = Name>) {
        let before = self.organizations.load_full();
        let kept =
            |name: &Name| before.iter().find(|(listed, _)| listed == name).map(|(_, calls)| calls.clone());
        let counters = organizations.map(|name| (name.clone(), kept(&name).unwrap_or_default()));
        self.organizations.store(Arc::new(counters.collect()));
    }

    /// Counts the end of a call.
    pub fn count_call(&self, organization: &Name, outcome: &CallOutcome) {
        self.calls.add(outcome);
        // A few names at most: the list is the operator's.
        if let Some((_, calls)) = self.organizations.load().iter().find(|(name, _)| name == organization) {
            calls.add(outcome);
        }
    }

    /// Counts a refusal by the layer that decided.
    pub fn count_refusal(&self, layer: Layer) {
        add(&self.refusals, layer as usize, 1);
    }

    /// Counts a request that was refused for its credentials.
    pub fn count_refused_request(&self, reason: RefusalReason) {
        add(&self.refused_requests, reason as usize, 1);
    }

    /// Adds the duration of a phase.
    pub fn add_duration(&self, phase: Phase, duration: Duration) {
        if let Some(histogram) = self.phases.get(phase as usize) {
            histogram.add(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// The durations of each phase since the start.
    pub fn phases(&self) -> PhaseCounts {
        PhaseCounts(array::from_fn(|phase| self.phases.get(phase).map(Histogram::counts).unwrap_or_default()))
    }

    /// Counts what a call used in the sandbox.
    pub fn count_run(&self, finished: &FinishedCall) {
        let usage = &finished.usage;
        self.fuel.fetch_add(usage.fuel, Ordering::Relaxed);
        self.memory_kib.add(usage.memory_bytes / 1024);
        self.add_duration(Phase::Instance, finished.instance);
        let whole = Duration::from_micros(usage.duration_us);
        self.add_duration(Phase::Run, whole.saturating_sub(finished.instance));
        finished.effects.iter().filter_map(request_result).for_each(|result| add(&self.requests, result, 1));
    }
}

impl Metrics {
    /// Calls by outcome.
    pub fn calls(&self) -> &OutcomeCounters {
        &self.calls
    }

    /// Calls by outcome, of the organizations that the operator lists.
    pub fn organizations(&self) -> Arc<OrganizationCounters> {
        self.organizations.load_full()
    }

    /// The refusals of each layer.
    pub fn refusals(&self) -> impl Iterator<Item = (Layer, u64)> {
        Layer::ALL.into_iter().map(|layer| (layer, get(&self.refusals, layer as usize)))
    }

    /// The requests to upstreams by result: a class of status, `failed` or `denied`.
    pub fn requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        REQUESTS.into_iter().enumerate().map(|(index, result)| (result, get(&self.requests, index)))
    }

    /// The requests that were refused for their credentials, by reason.
    pub fn refused_requests(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let number = |reason| get(&self.refused_requests, reason as usize);
        RefusalReason::ALL.into_iter().map(move |reason| (reason.as_str(), number(reason)))
    }

    /// The durations of each phase in microseconds.
    pub fn durations(&self) -> impl Iterator<Item = (Phase, &Histogram)> {
        Phase::ALL.into_iter().zip(&self.phases)
    }

    /// The fuel of all calls.
    pub fn fuel(&self) -> u64 {
        self.fuel.load(Ordering::Relaxed)
    }

    /// The peak linear memory of calls, in KiB.
    pub fn memory_kib(&self) -> &Histogram {
        &self.memory_kib
    }
}

/// The result of a request to an upstream, as an index of [`REQUESTS`].
fn request_result(effect: &Effect) -> Option<usize> {
    match effect.kind {
        "network_denied" => Some(DENIED),
        "network_request" => {
            let answer = effect.parts().1.trim_start_matches([':', ' ']);
            let class = answer.bytes().next().filter(|digit| (b'1'..=b'5').contains(digit));
            Some(class.map_or(FAILED, |digit| usize::from(digit - b'1')))
        }
        _ => None,
    }
}

fn add(counters: &[AtomicU64], index: usize, number: u64) {
    if let Some(counter) = counters.get(index) {
        counter.fetch_add(number, Ordering::Relaxed);
    }
}

fn get(counters: &[AtomicU64], index: usize) -> u64 {
    counters.get(index).map_or(0, |counter| counter.load(Ordering::Relaxed))
}

/// Calls by outcome.
#[derive(Debug)]
pub struct OutcomeCounters([AtomicU64; OUTCOMES]);

impl Default for OutcomeCounters {
    fn default() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl OutcomeCounters {
    fn add(&self, outcome: &CallOutcome) {
        let index = match (outcome.error(), outcome.status()) {
            (Some(error), _) => STATUSES.len() + error.error_type as usize,
            (None, CallStatus::Ok) => 0,
            (None, CallStatus::ClientRequired) => 1,
            (None, CallStatus::ApprovalRequired) => 2,
            (None, CallStatus::Running) => 3,
            (None, CallStatus::Unknown | CallStatus::Error) => 4,
        };
        add(&self.0, index, 1);
    }

    /// Outcomes that occurred, with their numbers.
    pub fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let codes = ErrorType::ALL.iter().map(|error_type| error_type.as_str());
        let names = STATUSES.into_iter().chain(codes).enumerate();
        names.map(|(index, name)| (name, get(&self.0, index))).filter(|(_, calls)| *calls > 0)
    }
}

/// Durations of phases by bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts([[u64; HISTOGRAM_BUCKETS]; Phase::ALL.len()]);

impl PhaseCounts {
    /// The durations since an earlier time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let count = |phase: usize, bucket: usize| {
            let of = |counts: &Self| counts.0.get(phase).and_then(|counts| counts.get(bucket)).copied();
            of(self).unwrap_or(0).saturating_sub(of(earlier).unwrap_or(0))
        };
        Self(array::from_fn(|phase| array::from_fn(|bucket| count(phase, bucket))))
    }

    /// The durations of each phase.
    pub fn durations(&self) -> impl Iterator<Item = PhaseDurations> {
        Phase::ALL.into_iter().zip(&self.0).map(|(phase, counts)| PhaseDurations {
            phase: phase.as_str(),
            count: counts.iter().sum(),
            half_us: percentile(counts, 50),
            most_us: percentile(counts, 99),
        })
    }
}

/// Durations of a phase, as a histogram knows them: bounds, each four times the one below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseDurations {
    /// The name of the phase.
    pub phase: &'static str,
    /// The number of durations.
    pub count: u64,
    /// A bound of half of them, in microseconds; none without durations, and above all bounds.
    pub half_us: Option<u64>,
    /// A bound of 99 % of them.
    pub most_us: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o6_percentiles_are_bounds_of_buckets() {
        let metrics = Metrics::default();
        for us in [10, 10, 100] {
            metrics.add_duration(Phase::Run, Duration::from_micros(us));
        }
        metrics.add_duration(Phase::Queue, Duration::from_secs(3_600));
        let counts = metrics.phases();
        let of =
            |phase: Phase| counts.durations().find(|durations| durations.phase == phase.as_str()).unwrap();
        let known = |phase| (of(phase).count, of(phase).half_us, of(phase).most_us);
        assert_eq!(known(Phase::Run), (3, Some(16), Some(256)));
        assert_eq!(known(Phase::Queue), (1, None, None));
        assert_eq!(known(Phase::Record), (0, None, None));
        metrics.add_duration(Phase::Run, Duration::from_micros(100));
        let later = metrics.phases().since(&counts);
        assert_eq!(later.durations().map(|durations| durations.count).sum::<u64>(), 1);
    }

    #[test]
    fn o5_a_request_counts_by_the_class_of_its_status() {
        let result = |kind, detail: &str| request_result(&Effect { kind, detail: detail.to_owned() });
        assert_eq!(result("network_request", "GET https://a.example/: 204, 0 bytes out"), Some(1));
        assert_eq!(result("network_request", "GET https://a.example/: 503, 0 bytes out"), Some(4));
        assert_eq!(result("network_request", "GET https://a.example/: no response"), Some(FAILED));
        assert_eq!(result("network_denied", "GET https://a.example/: not granted"), Some(DENIED));
        assert_eq!(result("workspace_write", "/workspace/a"), None);
    }

    #[test]
    fn o5_each_layer_and_phase_has_its_place() {
        for (index, layer) in Layer::ALL.into_iter().enumerate() {
            assert_eq!(layer as usize, index);
        }
        for (index, phase) in Phase::ALL.into_iter().enumerate() {
            assert_eq!(phase as usize, index);
        }
        for (index, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, index);
        }
    }
}
