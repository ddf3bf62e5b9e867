//! How much producers sent to a replica and consumers took from it since it was opened.
//!
//! Source: Kafka's `BrokerTopicMetrics`, which counts by topic: a topic's figures are the sums of
//! its partitions'.

use kafkalite_log::Appended;
use std::sync::atomic::{AtomicU64, Ordering};

/// Totals of one replica.
#[derive(Debug, Default)]
pub struct Traffic {
    records_in: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
}

impl Traffic {
    /// Records that were appended by a leader.
    #[must_use]
    pub fn records_in(&self) -> u64 {
        self.records_in.load(Ordering::Relaxed)
    }

    /// The bytes of their batches, as they are in the log.
    #[must_use]
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    /// Bytes of batches that consumers were given; replication is not counted.
    #[must_use]
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Ordering::Relaxed)
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
