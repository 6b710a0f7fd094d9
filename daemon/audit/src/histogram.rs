//! A histogram with fixed buckets, as metrics and the audit index keep it.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// Finite buckets of a histogram. Each bound is four times the one before.
const BUCKETS: usize = 11;
/// The first bound: 16 µs of a duration, 16 KiB of memory.
const FIRST_BOUND: u64 = 16;

/// Buckets of a histogram, the last of which has no bound.
pub const HISTOGRAM_BUCKETS: usize = BUCKETS + 1;

/// The bucket of a value.
pub(crate) fn bucket_of(value: u64) -> usize {
    let bits = u64::BITS - (value.saturating_sub(1) / FIRST_BOUND).leading_zeros();
    (bits.div_ceil(2) as usize).min(BUCKETS)
}

/// The bound of the bucket that `percent` of the values are not above; none without values, and above all bounds.
pub fn percentile(counts: &[u64; HISTOGRAM_BUCKETS], percent: u64) -> Option<u64> {
    let wanted = (counts.iter().sum::<u64>().saturating_mul(percent)).div_ceil(100);
    let mut below = 0;
    let index = counts.iter().position(|count| {
        below += count;
        below >= wanted
    })?;
    (wanted > 0 && index < BUCKETS).then(|| FIRST_BOUND << (2 * index))
}

/// A histogram with fixed buckets.
#[derive(Debug)]
pub struct Histogram {
    /// Not cumulative. The last bucket has no bound.
    buckets: [AtomicU64; BUCKETS + 1],
    sum: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: array::from_fn(|_| AtomicU64::new(0)), sum: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts a value.
    pub fn add(&self, value: u64) {
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum.fetch_add(value, Ordering::Relaxed);
    }

    fn count(&self, index: usize) -> u64 {
        self.buckets.get(index).map_or(0, |bucket| bucket.load(Ordering::Relaxed))
    }

    /// The values by bucket.
    pub fn counts(&self) -> [u64; HISTOGRAM_BUCKETS] {
        array::from_fn(|index| self.count(index))
    }

    /// The buckets with their bounds, and the sum, each value multiplied by `unit`.
    #[allow(clippy::cast_precision_loss, reason = "metrics are floats")]
    pub fn read(&self, unit: f64) -> (Vec<(f64, u64)>, f64) {
        let bound = |index: usize| match index {
            BUCKETS => f64::INFINITY,
            _ => (FIRST_BOUND << (2 * index)) as f64 * unit,
        };
        let buckets = (0..=BUCKETS).map(|index| (bound(index), self.count(index))).collect();
        (buckets, self.sum.load(Ordering::Relaxed) as f64 * unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o5_a_value_is_in_the_bucket_of_the_first_bound_that_is_not_below_it() {
        for (value, index) in [(0, 0), (1, 0), (16, 0), (17, 1), (64, 1), (65, 2), (256, 2), (16 << 20, 10)] {
            let histogram = Histogram::default();
            histogram.add(value);
            assert_eq!(histogram.count(index), 1, "{value}");
            let (buckets, sum) = histogram.read(1.0);
            assert!(buckets[index].0 >= sum && (index == 0 || buckets[index - 1].0 < sum), "{value}");
        }
        let histogram = Histogram::default();
        histogram.add(u64::MAX);
        assert_eq!(histogram.count(BUCKETS), 1);
    }
}
