//! Decides which compacted log is cleaned next, and remembers how far each one is.
//!
//! The dirtiest log first, until none is due; with several threads each takes another log. How far
//! a log is clean stands in `cleaner-offset-checkpoint` of its directory; without it everything is
//! looked at again, which is only slower. Logs go by their keys here, and by their topics' ids in
//! the checkpoint, so that a topic that is made again under an old name is not taken for clean.
//! Source: Kafka's `LogCleanerManager`.

use super::checkpoints::Checkpoint;
use super::partition::Partition;
use super::replica_manager::ReplicaManager;
use kafkalite_log::LogError;
use kafkalite_protocol::Offset;
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What cleans the logs of a broker; its threads share it.
pub struct LogCleaner {
    partitions: Arc<ReplicaManager>,
    /// Of one thread.
    max_keys: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where the dirty part of each log starts that was cleaned in this run, by key.
    first_dirty: HashMap<u64, Offset>,
    /// Logs that a thread is at, by key.
    taken: HashSet<u64>,
}

/// A log to be cleaned.
struct Chosen {
    partition: Arc<Partition>,
    first_dirty: Offset,
}

impl LogCleaner {
    /// A cleaner whose maps of keys hold `max_keys` of them, in all its `threads` together.
    #[must_use]
    pub fn new(partitions: Arc<ReplicaManager>, max_keys: usize, threads: usize) -> Self {
        Self { partitions, max_keys: max_keys / threads.max(1), state: Mutex::default() }
    }

    /// Cleans what is due, until nothing is or `stopped` says so.
    pub fn run(&self, now_ms: i64, stopped: impl Fn() -> bool) {
        // A log that fails is left alone until the next time.
        let mut failed = Vec::new();
        while !stopped() {
            let Some(chosen) = self.take_dirtiest(now_ms, &failed) else { return };
            // Given back also if cleaning panics.
            let taken = Taken { cleaner: self, key: chosen.partition.key() };
            match self.clean(&chosen, now_ms) {
                Ok(cleaned_to) if cleaned_to > chosen.first_dirty => {}
                // Nothing won, or deleted meanwhile.
                Ok(_) | Err(LogError::Closed { .. }) => failed.push(taken.key),
                Err(error) => {
                    let log = chosen.partition.log().path();
                    tracing::error!(log = %log.display(), %error, "log is not cleaned");
                    failed.push(taken.key);
                }
            }
        }
    }

    fn take_dirtiest(&self, now_ms: i64, failed: &[u64]) -> Option<Chosen> {
        let mut state = self.state.lock();
        let mut best: Option<(f64, Chosen)> = None;
        for partition in self.partitions.all() {
            let key = partition.key();
            let wanted = partition.log_config().cleanup_compact && !partition.is_offline();
            if !wanted || failed.contains(&key) || state.taken.contains(&key) {
                continue;
            }
            let first_dirty = self.first_dirty(&state, &partition);
            let high_watermark = partition.high_watermark();
            let found = partition.log().compactable(first_dirty, high_watermark, now_ms);
            let Some(found) = found.ok().filter(|found| found.is_due) else { continue };
            let dirtier = |other: &f64| found.dirty_ratio.total_cmp(other) == Ordering::Greater;
            if best.as_ref().is_none_or(|(ratio, _)| dirtier(ratio)) {
                best = Some((found.dirty_ratio, Chosen { partition, first_dirty }));
            }
        }
        let chosen = best?.1;
        state.taken.insert(chosen.partition.key());
        Some(chosen)
    }

    /// Where the dirty part of a log starts.
    fn first_dirty(&self, state: &State, partition: &Partition) -> Offset {
        let known = state.first_dirty.get(&partition.key()).copied();
        known.or_else(|| self.partitions.noted(Checkpoint::Cleaner, partition)).unwrap_or_default()
    }

    fn clean(&self, chosen: &Chosen, now_ms: i64) -> Result<Offset, LogError> {
        let Chosen { partition, first_dirty } = chosen;
        let high_watermark = partition.high_watermark();
        let cleaned =
            partition.log().compact(*first_dirty, high_watermark, now_ms, self.max_keys)?;
        tracing::info!(
            log = %partition.log().path().display(),
            bytes_before = cleaned.bytes_before,
            bytes_after = cleaned.bytes_after,
            "log cleaned"
        );
        let mut state = self.state.lock();
        state.first_dirty.insert(partition.key(), cleaned.cleaned_to);
        state.first_dirty.retain(|key, _| self.partitions.by_key(*key).is_some());
        let noted = |other: &Partition| Some(self.first_dirty(&state, other));
        let written = self.partitions.write_offsets(Checkpoint::Cleaner, noted);
        written.into_iter().fold(Ok(()), Result::and)?;
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
        self.cleaner.state.lock().taken.remove(&self.key);
    }
}
