//! What a producer counts. Names are those of Kafka's producer metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters since the producer was made; a reader sees each on its own.
#[derive(Debug, Default)]
pub struct Metrics {
    records: AtomicU64,
    record_errors: AtomicU64,
    batches: AtomicU64,
    batch_retries: AtomicU64,
    batch_splits: AtomicU64,
    bytes: AtomicU64,
    bytes_before_compression: AtomicU64,
    requests: AtomicU64,
    requests_ended: AtomicU64,
    request_us: AtomicU64,
    epoch_bumps: AtomicU64,
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

fn ratio(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

impl Metrics {
    pub(super) fn batch_sent(&self, bytes: usize, before_compression: usize) {
        add(&self.batches, 1);
        add(&self.bytes, bytes as u64);
        add(&self.bytes_before_compression, before_compression as u64);
    }

    pub(super) fn batch_retried(&self) {
        add(&self.batch_retries, 1);
    }

    pub(super) fn batch_split(&self) {
        add(&self.batch_splits, 1);
    }

    pub(super) fn records_ended(&self, count: u32, delivered: bool) {
        add(if delivered { &self.records } else { &self.record_errors }, u64::from(count));
    }

    pub(super) fn epoch_bumped(&self) {
        add(&self.epoch_bumps, 1);
    }

    pub(super) fn request_began(&self) {
        add(&self.requests, 1);
    }

    pub(super) fn request_ended(&self, took: Duration) {
        add(&self.requests_ended, 1);
        add(&self.request_us, took.as_micros() as u64);
    }

    /// Each counter and average by its name; times in ms, sizes in bytes.
    #[must_use]
    pub fn snapshot(&self) -> Vec<(&'static str, f64)> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (batches, bytes) = (get(&self.batches), get(&self.bytes));
        let requests = get(&self.requests);
        let packed = get(&self.bytes_before_compression);
        vec![
            ("record-send-total", get(&self.records) as f64),
            ("record-error-total", get(&self.record_errors) as f64),
            ("batch-total", batches as f64),
            ("batch-retry-total", get(&self.batch_retries) as f64),
            ("batch-split-total", get(&self.batch_splits) as f64),
            ("batch-size-avg", ratio(bytes, batches)),
            ("byte-total", bytes as f64),
            ("compression-rate-avg", ratio(bytes, packed)),
            ("request-total", requests as f64),
            ("request-latency-avg", ratio(get(&self.request_us), get(&self.requests_ended)) / 1e3),
            ("producer-epoch-bump-total", get(&self.epoch_bumps) as f64),
        ]
    }
}
