//! How much producers sent to a replica and consumers took from it since it was opened.
//!
//! Source: Kafka's `BrokerTopicMetrics`, which counts by topic: a topic's figures are the sums of
//! its partitions'.

use kafkalite_log::Appended;
use std::ops::Add;
use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of one replica.
#[derive(Debug, Default)]
pub struct Traffic {
    records_in: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

/// What one replica counted, or several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records that were appended by a leader.
    pub records_in: u64,
    /// The bytes of their batches, as they are in the log.
    pub bytes_in: u64,
    /// Bytes of batches that consumers were given; replication is not counted.
    pub bytes_out: u64,
}

impl Add for Totals {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            records_in: self.records_in + other.records_in,
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }
}

impl Traffic {
    /// What was counted so far.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            records_in: self.records_in.load(Ordering::Relaxed),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out.load(Ordering::Relaxed),
        }
    }

    pub(super) fn appended(&self, appended: &Appended) {
        if !appended.duplicate {
            let records = appended.last_offset.0 - appended.base_offset.0 + 1;
            self.records_in.fetch_add(u64::try_from(records).unwrap_or(0), Ordering::Relaxed);
            self.bytes_in.fetch_add(u64::from(appended.bytes), Ordering::Relaxed);
        }
    }

    pub(super) fn read(&self, bytes: u32) {
        self.bytes_out.fetch_add(u64::from(bytes), Ordering::Relaxed);
    }
}
