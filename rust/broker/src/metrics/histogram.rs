//! A histogram of durations in powers of two, recorded with two relaxed additions.
//!
//! Bucket `i` counts durations in `[2^(i-1), 2^i)` ns; bucket 0 counts zero; the last bucket counts
//! everything from about 18 minutes up. A quantile is interpolated inside its bucket, so its error
//! is below a factor of two. That is enough to distinguish a slow stage from a fast one.

use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of a histogram: zero, then one for each power of two up to 2^40 ns, then the rest.
pub const BUCKETS: usize = 42;

/// Durations in nanoseconds by powers of two.
#[derive(Debug)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, duration_ns: u64) {
        let bits = (u64::BITS - duration_ns.leading_zeros()) as usize;
        self.buckets[bits.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(duration_ns, Ordering::Relaxed);
    }

    /// The counts now. Recording may go on meanwhile; `count` is the sum of the buckets read.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut buckets = [0; BUCKETS];
        for (to, from) in buckets.iter_mut().zip(&self.buckets) {
            *to = from.load(Ordering::Relaxed);
        }
        HistogramSnapshot {
            count: buckets.iter().sum(),
            sum_ns: self.sum_ns.load(Ordering::Relaxed),
            buckets,
        }
    }
}

/// A histogram as read at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// Durations recorded.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// Count for each bucket, not cumulative.
    pub buckets: [u64; BUCKETS],
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        Self { count: 0, sum_ns: 0, buckets: [0; BUCKETS] }
    }
}

impl HistogramSnapshot {
    /// What was recorded after `earlier`, a snapshot of the same histogram.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::saturating_sub)
    }

    /// The durations of both.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::saturating_add)
    }

    fn with(&self, other: &Self, join: impl Fn(u64, u64) -> u64) -> Self {
        let buckets = std::array::from_fn(|i| join(self.buckets[i], other.buckets[i]));
        // What another process counted may be anything.
        let count = buckets.iter().fold(0, |sum: u64, one| sum.saturating_add(*one));
        Self { count, sum_ns: join(self.sum_ns, other.sum_ns), buckets }
    }

    /// The exclusive upper bound of bucket `i` in nanoseconds; the last has none.
    #[must_use]
    pub fn upper_bound_ns(i: usize) -> Option<u64> {
        (i + 1 < BUCKETS).then(|| 1 << i)
    }

    /// The duration below which a share `q` (0.0 to 1.0) lies, in nanoseconds; 0 if empty.
    #[must_use]
    pub fn quantile_ns(&self, q: f64) -> u64 {
        let rank = q.clamp(0.0, 1.0) * self.count as f64;
        let mut below = 0.0;
        for (i, &count) in self.buckets.iter().enumerate() {
            let count = count as f64;
            if count > 0.0 && below + count >= rank {
                let low = if i < 2 { i as f64 } else { (1u64 << (i - 1)) as f64 };
                let high = (1u64 << i) as f64;
                let share = ((rank - below) / count).clamp(0.0, 1.0);
                return if i == 0 { 0 } else { (low + (high - low) * share) as u64 };
            }
            below += count;
        }
        0
    }
}
