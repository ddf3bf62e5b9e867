//! Decides which compacted log is cleaned next, and remembers how far each one is.
//!
//! The dirtiest log first, until none is due; with several threads each takes another log. How far
//! a log is clean stands in `cleaner-offset-checkpoint` of its directory; without it everything is
//! looked at again, which is only slower. The file goes by topic and partition; here logs go by
//! their keys, so that a topic that is made again under an old name is not taken for clean.
//! Source: Kafka's `LogCleanerManager`.

use super::log_dirs::LogDirectory;
use super::partition::Partition;
use super::partitions::Partitions;
use kafkalite_log::LogError;
use kafkalite_log::checkpoint::{CLEANER_FILE, PartitionOffsets, read_offsets, write_offsets};
use kafkalite_protocol::Offset;
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What cleans the logs of a broker; its threads share it.
pub struct LogCleaner {
    partitions: Arc<Partitions>,
    /// Of one thread.
    max_keys: usize,
    state: Mutex<State>,
}

struct State {
    /// Where the dirty part of each log starts, by key.
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
    pub fn new(partitions: Arc<Partitions>, max_keys: usize, threads: usize) -> Self {
        let noted: Vec<PartitionOffsets> = partitions.dirs().iter().map(read).collect();
        let first_dirty = partitions.all().into_iter().filter_map(|partition| {
            let place = partitions.dirs().position(partition.log().log_dir());
            Some((partition.key(), *noted[place].get(&name(&partition))?))
        });
        let first_dirty = first_dirty.collect();
        let state = Mutex::new(State { first_dirty, taken: HashSet::new() });
        Self { partitions, max_keys: max_keys / threads.max(1), state }
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
            let first_dirty = state.first_dirty.get(&key).copied().unwrap_or_default();
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
        let log_dir = partition.log().log_dir();
        let here = self.partitions.all().into_iter();
        let here = here.filter(|other| Arc::ptr_eq(other.log().log_dir(), log_dir));
        let offsets =
            here.filter_map(|other| Some((name(&other), *state.first_dirty.get(&other.key())?)));
        let path = log_dir.path().join(CLEANER_FILE);
        write_offsets(log_dir.storage().as_ref(), &path, &offsets.collect())?;
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

/// What the file calls a log.
fn name(partition: &Partition) -> (String, i32) {
    (partition.topic().to_owned(), partition.index())
}

fn read(dir: &LogDirectory) -> PartitionOffsets {
    let path = dir.path().join(CLEANER_FILE);
    read_offsets(dir.log_dir().storage().as_ref(), &path).unwrap_or_else(|error| {
        tracing::warn!(%error, "logs are cleaned from their start");
        PartitionOffsets::new()
    })
}
