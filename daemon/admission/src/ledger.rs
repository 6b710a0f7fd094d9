//! Charges a checked call to its organization, and so turns it into one that may run.
//!
//! One token bucket for each organization, in whole thousandths of a call, with the time handed in. A
//! clock that jumps back gives nothing and takes nothing. An organization that was quiet long
//! enough to have its burst back is forgotten, so the ledger is as large as what is busy.
//!
//! The daemon holds the lock around it; what is charged, and when to try again, is decided here.

use std::collections::HashMap;

use crate::check::{Admitted, Checked, Refusal};
use crate::name::Name;

/// Parts of a call that a bucket counts in: at one call a second, a millisecond brings one.
const PARTS_PER_CALL: u64 = 1_000;
/// Organizations at which the ledger first looks for forgettable ones.
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

    fn burst_parts(self) -> u64 {
        u64::from(self.burst.max(1)) * PARTS_PER_CALL
    }
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    parts: u64,
    filled_ms: u64,
}

/// Who has called how much lately.
#[derive(Debug)]
pub struct Ledger {
    rates: Rates,
    buckets: HashMap<Name, Bucket>,
    sweep_at: usize,
}

impl Ledger {
    /// An empty ledger: everyone has the whole burst.
    pub fn new(rates: Rates) -> Self {
        Self { rates, buckets: HashMap::new(), sweep_at: FIRST_SWEEP }
    }

    /// Charges one call, or says when to try again. `now_ms` is any clock that goes forward.
    #[expect(clippy::result_large_err, reason = "a refusal is built once and moved into the answer")]
    pub fn charge<P>(
        &mut self,
        organization: &Name,
        checked: Checked<P>,
        now_ms: u64,
    ) -> Result<Admitted<P>, Refusal> {
        match self.take(organization, now_ms) {
            Ok(()) => Ok(checked.admit()),
            Err(retry_after_ms) => Err(Refusal::rate_limited(&checked, retry_after_ms)),
        }
    }

    /// Takes one call out of the bucket, or answers the milliseconds after which there is one.
    fn take(&mut self, organization: &Name, now_ms: u64) -> Result<(), u64> {
        let Some(rate) = self.rates.calls_per_second else { return Ok(()) };
        if rate == 0 {
            return Err(NEVER_RETRY_MS);
        }
        let burst = self.rates.burst_parts();
        let mut bucket =
            self.buckets.get(organization).copied().unwrap_or(Bucket { parts: burst, filled_ms: now_ms });
        bucket.fill(rate, burst, now_ms);
        let taken = match bucket.parts.checked_sub(PARTS_PER_CALL) {
            Some(left) => {
                bucket.parts = left;
                Ok(())
            }
            None => Err((PARTS_PER_CALL - bucket.parts).div_ceil(u64::from(rate))),
        };
        self.keep(organization, bucket, now_ms);
        taken
    }

    fn keep(&mut self, organization: &Name, bucket: Bucket, now_ms: u64) {
        match self.buckets.get_mut(organization) {
            Some(kept) => *kept = bucket,
            None => {
                self.sweep(now_ms);
                self.buckets.insert(organization.clone(), bucket);
            }
        }
    }

    /// Forgets those who have their whole burst back, whenever the ledger has doubled.
    fn sweep(&mut self, now_ms: u64) {
        if self.buckets.len() < self.sweep_at {
            return;
        }
        let (rate, burst) = (self.rates.calls_per_second.unwrap_or_default(), self.rates.burst_parts());
        self.buckets.retain(|_, bucket| {
            bucket.fill(rate, burst, now_ms);
            bucket.parts < burst
        });
        self.sweep_at = (self.buckets.len() * 2).max(FIRST_SWEEP);
    }
}

impl Bucket {
    fn fill(&mut self, rate: u32, burst: u64, now_ms: u64) {
        let elapsed_ms = now_ms.saturating_sub(self.filled_ms);
        self.parts = self.parts.saturating_add(elapsed_ms.saturating_mul(u64::from(rate))).min(burst);
        self.filled_ms = self.filled_ms.max(now_ms);
    }
}

#[cfg(test)]
mod tests;
