//! Decides which compacted log is cleaned next.
//!
//! The dirtiest log first, until none is due; with several threads each takes another log. How far
//! a log is clean the log itself knows, as a truncation takes that back. It stands in
//! `cleaner-offset-checkpoint` of the log's directory too; without it everything is looked at
//! again, which is only slower. Logs go by their keys here.
//! Source: Kafka's `LogCleanerManager`.

use super::checkpoints::Checkpoint;
use super::partition::Partition;
use super::replica_manager::ReplicaManager;
use kafkalite_log::LogError;
use kafkalite_protocol::Offset;
use parking_lot::{Condvar, Mutex};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

/// What cleans the logs of a broker; its threads share it.
pub struct LogCleaner {
    partitions: Arc<ReplicaManager>,
    /// Of one thread.
    max_keys: usize,
    /// Logs that a thread is at, by key.
    taken: Mutex<HashSet<u64>>,
    /// One of them was given back.
    given_back: Condvar,
}

/// How often a caller that waits for other threads looks whether the broker stops.
const LOOK: Duration = Duration::from_millis(100);

impl LogCleaner {
    /// A cleaner whose maps of keys hold `max_keys` of them, in all its `threads` together.
    #[must_use]
    pub fn new(partitions: Arc<ReplicaManager>, max_keys: usize, threads: usize) -> Self {
        let max_keys = max_keys / threads.max(1);
        Self { partitions, max_keys, taken: Mutex::default(), given_back: Condvar::new() }
    }

    /// As [`Self::run`]; waits for logs that other threads are at, and cleans those again. They may
    /// have begun at an earlier time.
    pub fn run_to_end(&self, now_ms: i64, stopped: impl Fn() -> bool) {
        while !stopped() {
            self.run(now_ms, &stopped);
            let mut taken = self.taken.lock();
            if taken.is_empty() {
                return;
            }
            self.given_back.wait_for(&mut taken, LOOK);
        }
    }

    /// Cleans what is due, until nothing is or `stopped` says so.
    pub fn run(&self, now_ms: i64, stopped: impl Fn() -> bool) {
        // A log that fails is left alone until the next time.
        let mut failed = Vec::new();
        while !stopped() {
            let Some(partition) = self.take_dirtiest(now_ms, &failed) else { return };
            // Given back also if cleaning panics.
            let taken = Taken { cleaner: self, key: partition.key() };
            let before = partition.log().cleaned_to();
            match self.clean(&partition, now_ms) {
                Ok(cleaned_to) if cleaned_to > before => {}
                // Nothing won, truncated or deleted meanwhile.
                Ok(_) | Err(LogError::Closed { .. }) => failed.push(taken.key),
                Err(error) => {
                    let log = partition.log().path();
                    tracing::error!(log = %log.display(), %error, "log is not cleaned");
                    failed.push(taken.key);
                }
            }
        }
    }

    fn take_dirtiest(&self, now_ms: i64, failed: &[u64]) -> Option<Arc<Partition>> {
        let mut taken = self.taken.lock();
        let mut best: Option<(f64, Arc<Partition>)> = None;
        for partition in self.partitions.all() {
            let key = partition.key();
            let wanted = partition.log_config().cleanup_compact && !partition.is_offline();
            if !wanted || failed.contains(&key) || taken.contains(&key) {
                continue;
            }
            let found = partition.log().compactable(partition.high_watermark(), now_ms);
            let Some(found) = found.ok().filter(|found| found.is_due) else { continue };
            let dirtier = |other: &f64| found.dirty_ratio.total_cmp(other) == Ordering::Greater;
            if best.as_ref().is_none_or(|(ratio, _)| dirtier(ratio)) {
                best = Some((found.dirty_ratio, partition));
            }
        }
        let chosen = best?.1;
        taken.insert(chosen.key());
        Some(chosen)
    }

    fn clean(&self, partition: &Partition, now_ms: i64) -> Result<Offset, LogError> {
        let cleaned = partition.log().compact(partition.high_watermark(), now_ms, self.max_keys)?;
        tracing::info!(
            log = %partition.log().path().display(),
            bytes_before = cleaned.bytes_before,
            bytes_after = cleaned.bytes_after,
            "log cleaned"
        );
        self.partitions.checkpoint(Checkpoint::Cleaner)?;
        Ok(cleaned.cleaned_to)
    }
}

/// A log that a thread is at; given back when this is dropped.
struct Taken<'a> {
    cleaner: &'a LogCleaner,
    key: u64,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.cleaner.taken.lock().remove(&self.key);
        self.cleaner.given_back.notify_all();
    }
}
