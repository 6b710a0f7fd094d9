//! Charges a checked call to its organization, and so turns it into one that may run.
//!
//! One token bucket for each organization, and one for each of its plugins whose service takes only so many calls
//! (`rate_limit` of `describe`). All arithmetic is in whole parts of a call, with the time handed in. A clock that jumps
//! back gives nothing and takes nothing. What was quiet long enough to have its burst back is forgotten, so the ledger is
//! as large as what is busy.
//!
//! The daemon holds the lock around it; what is charged, and when to try again, is decided here.

use std::collections::HashMap;
use std::hash::Hash;

use crate::check::{Admitted, Checked, Refusal};
use crate::descriptor::RateLimit;
use crate::name::{Name, Namespace};

/// Milliseconds, and so parts of a call, in a second.
const PER_SECOND: u64 = 1_000;
/// Buckets at which the ledger first looks for forgettable ones.
const FIRST_SWEEP: usize = 1_024;
/// What is said where no time helps because the rate is zero: look again in a minute, someone may have
/// changed it.
const NEVER_RETRY_MS: u64 = 60_000;

/// How fast an organization may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Calls in a second, in the long run; none means as many as come, 0 means none at all.
    pub calls_per_second: Option<u32>,
    /// Calls at once, after a quiet time; at least 1.
    pub burst: u32,
}

impl Rates {
    /// No bound.
    pub const UNLIMITED: Rates = Rates { calls_per_second: None, burst: 1 };

    fn refill(self) -> Option<Refill> {
        let calls = u64::from(self.calls_per_second?);
        Some(Refill { per_ms: calls, per_call: PER_SECOND, burst: u64::from(self.burst.max(1)) * PER_SECOND })
    }
}

/// How a bucket fills, in parts of a call.
#[derive(Clone, Copy, Debug)]
struct Refill {
    /// Parts that a millisecond brings.
    per_ms: u64,
    /// Parts of one call; at least 1.
    per_call: u64,
    /// Parts of a full bucket; at least those of one call.
    burst: u64,
}

/// A service that takes so many calls in so many seconds takes them at once too, after a quiet time.
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

/// Who has called how much lately.
#[derive(Debug)]
pub struct Ledger {
    rates: Rates,
    organizations: Buckets<Name>,
    plugins: Buckets<(Name, Namespace)>,
}

#[derive(Debug)]
struct Buckets<K> {
    kept: HashMap<K, Bucket>,
    sweep_at: usize,
}

impl Ledger {
    /// An empty ledger: everyone has the whole burst.
    pub fn new(rates: Rates) -> Self {
        Self { rates, organizations: Buckets::new(), plugins: Buckets::new() }
    }

    /// Charges one call, or says when to try again. `now_ms` is of a monotonic clock: until one that was set back
    /// has caught up, nothing comes into a bucket.
    #[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the answer")]
    pub fn charge<P>(
        &mut self,
        organization: &Name,
        checked: Checked<P>,
        now_ms: u64,
    ) -> Result<Admitted<P>, Refusal> {
        let Some(limit) = checked.plugin().descriptor.rate_limit else {
            return match self.take(organization, now_ms) {
                Ok(()) => Ok(checked.admit()),
                Err(retry_after_ms) => Err(Refusal::rate_limited(&checked, retry_after_ms)),
            };
        };
        // The plugin's bucket first: a call that its service would not take costs the organization nothing.
        let key = (organization.clone(), checked.id().namespace.clone());
        let mut bucket = self.plugins.at(&key, limit.into(), now_ms);
        if let Err(retry_after_ms) = bucket.take() {
            return Err(Refusal::plugin_rate_limited(&checked, limit, retry_after_ms));
        }
        if let Err(retry_after_ms) = self.take(organization, now_ms) {
            return Err(Refusal::rate_limited(&checked, retry_after_ms));
        }
        self.plugins.keep(&key, bucket, now_ms);
        Ok(checked.admit())
    }

    /// Takes one call out of the organization's bucket, or answers the milliseconds after which there is one.
    fn take(&mut self, organization: &Name, now_ms: u64) -> Result<(), u64> {
        let Some(refill) = self.rates.refill() else { return Ok(()) };
        let mut bucket = self.organizations.at(organization, refill, now_ms);
        bucket.take()?;
        self.organizations.keep(organization, bucket, now_ms);
        Ok(())
    }
}

impl<K: Clone + Eq + Hash> Buckets<K> {
    fn new() -> Self {
        Self { kept: HashMap::new(), sweep_at: FIRST_SWEEP }
    }

    /// The bucket as it is now, filled at this rate since it was last taken from.
    fn at(&self, key: &K, refill: Refill, now_ms: u64) -> Bucket {
        let full = Bucket { refill, parts: refill.burst, filled_ms: now_ms };
        let mut bucket = self.kept.get(key).map_or(full, |kept| Bucket { refill, ..*kept });
        bucket.fill(now_ms);
        bucket
    }

    fn keep(&mut self, key: &K, bucket: Bucket, now_ms: u64) {
        match self.kept.get_mut(key) {
            Some(kept) => *kept = bucket,
            None => {
                self.sweep(now_ms);
                self.kept.insert(key.clone(), bucket);
            }
        }
    }

    /// Forgets those who have their whole burst back, whenever the ledger has doubled.
    fn sweep(&mut self, now_ms: u64) {
        if self.kept.len() < self.sweep_at {
            return;
        }
        self.kept.retain(|_, bucket| {
            bucket.fill(now_ms);
            bucket.parts < bucket.refill.burst
        });
        self.sweep_at = (self.kept.len() * 2).max(FIRST_SWEEP);
    }
}

impl Bucket {
    fn fill(&mut self, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.filled_ms);
        let brought = elapsed_ms.saturating_mul(self.refill.per_ms);
        self.parts = self.parts.saturating_add(brought).min(self.refill.burst);
        self.filled_ms = self.filled_ms.max(now_ms);
    }

    /// Takes one call, or answers the milliseconds after which there is one.
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
