//! Decides which compacted log is cleaned next, and remembers how far each one is.
//!
//! The dirtiest log first, one at a time, until none is due. How far a log is clean stands in
//! `cleaner-offset-checkpoint`; without it everything is looked at again, which is only slower.
//! Source: Kafka's `LogCleanerManager`.

use super::partition::Partition;
use super::partitions::Partitions;
use kafkalite_log::LogError;
use kafkalite_log::checkpoint::{CLEANER_FILE, PartitionOffsets, read_offsets, write_offsets};
use kafkalite_protocol::Offset;
use std::cmp::Ordering;
use std::sync::Arc;

/// What cleans the logs of one directory.
pub struct LogCleaner {
    partitions: Arc<Partitions>,
    max_keys: usize,
    /// Where the dirty part of each log starts.
    first_dirty: Option<PartitionOffsets>,
}

impl LogCleaner {
    /// A cleaner whose map of keys holds `max_keys` of them.
    #[must_use]
    pub fn new(partitions: Arc<Partitions>, max_keys: usize) -> Self {
        Self { partitions, max_keys, first_dirty: None }
    }

    /// Cleans what is due, until nothing is or `stopped` says so.
    pub fn run(&mut self, now_ms: i64, stopped: impl Fn() -> bool) {
        // A log that fails is left alone until the next time.
        let mut failed = Vec::new();
        while !stopped() {
            let Some(partition) = self.dirtiest(now_ms, &failed) else { return };
            let before = self.first_dirty_of(&partition);
            match self.clean(&partition, now_ms) {
                Ok(cleaned_to) if cleaned_to > before => {}
                // Nothing won, or deleted meanwhile.
                Ok(_) | Err(LogError::Closed { .. }) => failed.push(partition.key()),
                Err(error) => {
                    let log = partition.log().path();
                    tracing::error!(log = %log.display(), %error, "log is not cleaned");
                    failed.push(partition.key());
                }
            }
        }
    }

    fn offsets(&mut self) -> &mut PartitionOffsets {
        let directory = self.partitions.log_dir();
        self.first_dirty.get_or_insert_with(|| {
            let path = directory.path().join(CLEANER_FILE);
            read_offsets(directory.storage().as_ref(), &path).unwrap_or_else(|error| {
                tracing::warn!(%error, "logs are cleaned from their start");
                PartitionOffsets::new()
            })
        })
    }

    fn first_dirty_of(&mut self, partition: &Partition) -> Offset {
        let key = (partition.topic().to_owned(), partition.index());
        self.offsets().get(&key).copied().unwrap_or_default()
    }

    fn dirtiest(&mut self, now_ms: i64, failed: &[u64]) -> Option<Arc<Partition>> {
        let mut best: Option<(f64, Arc<Partition>)> = None;
        for partition in self.partitions.all() {
            if !partition.log_config().cleanup_compact || failed.contains(&partition.key()) {
                continue;
            }
            let first_dirty = self.first_dirty_of(&partition);
            let high_watermark = partition.high_watermark();
            let found = partition.log().compactable(first_dirty, high_watermark, now_ms);
            let Some(found) = found.ok().filter(|found| found.is_due) else { continue };
            let dirtier = |other: &f64| found.dirty_ratio.total_cmp(other) == Ordering::Greater;
            if best.as_ref().is_none_or(|(ratio, _)| dirtier(ratio)) {
                best = Some((found.dirty_ratio, partition));
            }
        }
        best.map(|(_, partition)| partition)
    }

    fn clean(&mut self, partition: &Partition, now_ms: i64) -> Result<Offset, LogError> {
        let first_dirty = self.first_dirty_of(partition);
        let high_watermark = partition.high_watermark();
        let cleaned =
            partition.log().compact(first_dirty, high_watermark, now_ms, self.max_keys)?;
        tracing::info!(
            log = %partition.log().path().display(),
            bytes_before = cleaned.bytes_before,
            bytes_after = cleaned.bytes_after,
            "log cleaned"
        );
        let key = (partition.topic().to_owned(), partition.index());
        self.offsets().insert(key, cleaned.cleaned_to);
        let offsets = self.offsets().clone();
        let directory = self.partitions.log_dir();
        write_offsets(
            directory.storage().as_ref(),
            &directory.path().join(CLEANER_FILE),
            &offsets,
        )?;
        Ok(cleaned.cleaned_to)
    }
}
