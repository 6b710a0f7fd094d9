//! Charges a checked call to its organization, which turns it into an admitted one.
//!
//! Rate limiting uses one token bucket for each organization, and one for each of its plugins that declares a `rate_limit`.
//! All arithmetic is in integer parts of a call, and the time is a parameter. A clock that is set back adds no tokens and
//! removes none. Buckets that are full again are dropped, so the ledger is as large as the number of active callers.
//!
//! Only a call that a bucket bounds takes the lock around the buckets. Quotas ([`QuotaCounters`]) are counted without one.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::{Mutex, RwLock};
use toolgate_api::descriptor::RateLimit;
use toolgate_api::name::{Name, Namespace};

use crate::check::{Admitted, CallFacts, Checked, Refusal, Verdict};
use crate::quota::{Consumer, QuotaCounters};

/// Milliseconds in a second, and parts of a call.
const PER_SECOND: u64 = 1_000;
/// Number of buckets at which full ones are first dropped.
const FIRST_SWEEP: usize = 1_024;
/// `retry_after_ms` if the rate is zero: the operator may have changed it after a minute.
const NEVER_RETRY_MS: u64 = 60_000;

/// The rate limit of an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Calls per second in the long run; none means unlimited, 0 means no calls.
    pub calls_per_second: Option<u32>,
    /// Calls at once after an idle time; at least 1.
    pub burst: u32,
}

impl Rates {
    /// No limit.
    pub const UNLIMITED: Rates = Rates { calls_per_second: None, burst: 1 };

    fn refill(self) -> Option<Refill> {
        let calls = u64::from(self.calls_per_second?);
        Some(Refill { per_ms: calls, per_call: PER_SECOND, burst: u64::from(self.burst.max(1)) * PER_SECOND })
    }
}

/// The refill rate and capacity of a bucket, in parts of a call.
#[derive(Clone, Copy, Debug)]
struct Refill {
    /// Parts added for each millisecond.
    per_ms: u64,
    /// Parts of one call; at least 1.
    per_call: u64,
    /// Parts of a full bucket; at least one call.
    burst: u64,
}

/// A service that takes `calls` in `seconds` takes all of them at once after an idle time.
impl From<RateLimit> for Refill {
    fn from(limit: RateLimit) -> Self {
        let (calls, per_call) = (u64::from(limit.calls), u64::from(limit.seconds) * PER_SECOND);
        Self { per_ms: calls, per_call, burst: calls * per_call }
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    refill: Refill,
    parts: u64,
    filled_ms: u64,
}

/// The two clocks at the time of a charge.
#[derive(Clone, Copy, Debug)]
pub struct ChargeTime {
    /// Milliseconds by a monotonic clock, for the buckets; if it is set back, no bucket refills until it has caught up.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970, for the periods of quotas.
    pub unix_ms: u64,
    /// Random milliseconds by which a refused call comes back later than it may, so that not all come back at once.
    pub jitter_ms: u64,
}

impl ChargeTime {
    /// Both clocks at the same time, without jitter.
    pub fn at(ms: u64) -> Self {
        Self { monotonic_ms: ms, unix_ms: ms, jitter_ms: 0 }
    }

    /// The time of a retry with its jitter, which at most doubles it.
    fn retry_after_ms(self, earliest_ms: u64) -> u64 {
        earliest_ms.saturating_add(self.jitter_ms.min(earliest_ms))
    }
}

/// The token buckets and quota counters of all active organizations, plugins, agents and users.
#[derive(Debug)]
pub struct Ledger {
    rates: RwLock<Rates>,
    buckets: Mutex<RateBuckets>,
    quotas: QuotaCounters,
}

#[derive(Debug)]
struct RateBuckets {
    organizations: Buckets<Name>,
    plugins: Buckets<(Name, Namespace)>,
}

#[derive(Debug)]
struct Buckets<K> {
    buckets: HashMap<K, Bucket>,
    sweep_at: usize,
}

impl Ledger {
    /// A ledger with full buckets.
    pub fn new(rates: Rates, quotas: QuotaCounters) -> Self {
        let buckets = RateBuckets { organizations: Buckets::new(), plugins: Buckets::new() };
        Self { rates: RwLock::new(rates), buckets: Mutex::new(buckets), quotas }
    }

    /// Takes other rates from the next call on. A bucket keeps what is in it, up to its new size.
    pub fn replace_rates(&self, rates: Rates) {
        *self.rates.write() = rates;
    }

    /// The counters of quotas, for storing them.
    pub fn quotas(&self) -> &QuotaCounters {
        &self.quotas
    }

    /// Charges the call of a verdict. A call that waits for an approval is charged when it has one.
    pub fn admit<P>(
        &self,
        consumer: Consumer<'_>,
        verdict: Verdict<P>,
        now: ChargeTime,
    ) -> Verdict<P, Admitted<P>> {
        match verdict {
            Verdict::Run(checked) => match self.charge(consumer, checked, now) {
                Ok(admitted) => Verdict::Run(admitted),
                Err(refusal) => Verdict::Refused(refusal),
            },
            Verdict::NeedsApproval(unapproved) => Verdict::NeedsApproval(unapproved),
            Verdict::Refused(refusal) => Verdict::Refused(refusal),
        }
    }

    /// Charges one call, or returns a refusal with the time of a retry. The limits of the call are narrowed to what its
    /// quotas have left.
    #[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the answer")]
    pub fn charge<P>(
        &self,
        consumer: Consumer<'_>,
        mut checked: Checked<P>,
        now: ChargeTime,
    ) -> Result<Admitted<P>, Refusal> {
        let mut limits = *checked.limits();
        let reserved = self.quotas.reserve(
            checked.quotas(),
            (consumer, checked.id()),
            (&mut limits, checked.tool().cost),
            now.unix_ms,
        );
        let reservation = reserved.map_err(|mut exceeded| {
            exceeded.retry_after_ms = exceeded.retry_after_ms.map(|earliest| now.retry_after_ms(earliest));
            Refusal::quota_exceeded(&checked, exceeded)
        })?;
        // Last, since tokens are not given back.
        let rates = *self.rates.read();
        if rates.calls_per_second.is_some() || checked.plugin().descriptor.rate_limit.is_some() {
            let mut buckets = self.buckets.lock();
            buckets.take(rates, consumer.organization, &checked, now)?;
        }
        checked.narrow(limits);
        Ok(checked.admit(reservation))
    }
}

impl RateBuckets {
    #[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the answer")]
    fn take<P>(
        &mut self,
        rates: Rates,
        organization: &Name,
        call: &CallFacts<P>,
        now: ChargeTime,
    ) -> Result<(), Refusal> {
        let Charged { plugin, bucket } = self.after(rates, organization, call, now)?;
        let now_ms = now.monotonic_ms;
        if let Some((key, bucket)) = plugin {
            self.plugins.store(&key, bucket, now_ms);
        }
        if let Some(bucket) = bucket {
            self.organizations.store(organization, bucket, now_ms);
        }
        Ok(())
    }

    /// The buckets after the call.
    #[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the answer")]
    fn after<P>(
        &self,
        rates: Rates,
        organization: &Name,
        call: &CallFacts<P>,
        now: ChargeTime,
    ) -> Result<Charged, Refusal> {
        let now_ms = now.monotonic_ms;
        // The plugin's bucket first: a call that its service would refuse costs the organization nothing.
        let mut plugin = None;
        if let Some(limit) = call.plugin().descriptor.rate_limit {
            let key = (organization.clone(), call.id().namespace.clone());
            let mut bucket = self.plugins.get(&key, limit.into(), now_ms);
            let refused = |earliest| Refusal::plugin_rate_limited(call, limit, now.retry_after_ms(earliest));
            bucket.take().map_err(refused)?;
            plugin = Some((key, bucket));
        }
        let bucket = self.take_of(rates, organization, now_ms);
        let bucket = bucket.map_err(|earliest| Refusal::rate_limited(call, now.retry_after_ms(earliest)))?;
        Ok(Charged { plugin, bucket })
    }

    /// The organization's bucket after one call, or the milliseconds until it has one.
    fn take_of(&self, rates: Rates, organization: &Name, now_ms: u64) -> Result<Option<Bucket>, u64> {
        let Some(refill) = rates.refill() else { return Ok(None) };
        let mut bucket = self.organizations.get(organization, refill, now_ms);
        bucket.take()?;
        Ok(Some(bucket))
    }
}

/// The buckets that a call takes from, after it.
struct Charged {
    plugin: Option<((Name, Namespace), Bucket)>,
    bucket: Option<Bucket>,
}

impl<K: Clone + Eq + Hash> Buckets<K> {
    fn new() -> Self {
        Self { buckets: HashMap::new(), sweep_at: FIRST_SWEEP }
    }

    /// Returns the bucket, refilled at this rate since its last use.
    fn get(&self, key: &K, refill: Refill, now_ms: u64) -> Bucket {
        let full = Bucket { refill, parts: refill.burst, filled_ms: now_ms };
        let mut bucket = self.buckets.get(key).map_or(full, |bucket| Bucket { refill, ..*bucket });
        bucket.fill(now_ms);
        bucket
    }

    fn store(&mut self, key: &K, bucket: Bucket, now_ms: u64) {
        match self.buckets.get_mut(key) {
            Some(stored) => *stored = bucket,
            None => {
                self.sweep(now_ms);
                self.buckets.insert(key.clone(), bucket);
            }
        }
    }

    /// Drops full buckets, whenever the number of buckets has doubled.
    fn sweep(&mut self, now_ms: u64) {
        if self.buckets.len() < self.sweep_at {
            return;
        }
        self.buckets.retain(|_, bucket| {
            bucket.fill(now_ms);
            bucket.parts < bucket.refill.burst
        });
        self.sweep_at = (self.buckets.len() * 2).max(FIRST_SWEEP);
    }
}

impl Bucket {
    fn fill(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.filled_ms);
        let added = elapsed_ms.saturating_mul(self.refill.per_ms);
        self.parts = self.parts.saturating_add(added).min(self.refill.burst);
        self.filled_ms = self.filled_ms.max(now_ms);
    }

    /// Takes one call, or returns the milliseconds until one is available.
    fn take(&mut self) -> Result<(), u64> {
        let Refill { per_ms, per_call, .. } = self.refill;
        if per_ms == 0 {
            return Err(NEVER_RETRY_MS);
        }
        match self.parts.checked_sub(per_call) {
            Some(left) => {
                self.parts = left;
                Ok(())
            }
            None => Err((per_call - self.parts).div_ceil(per_ms)),
        }
    }
}

#[cfg(test)]
mod tests;
