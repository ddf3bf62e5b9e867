//! Copies all logs for a snapshot of the broker, as a clean stop would leave them.

use super::checkpoints::{Checkpoint, Checkpoints, Entry};
use super::partition::Partition;
use super::replica_manager::ReplicaManager;
use crate::metadata::MetadataImage;
use crate::metadata::image::Assignment;
use kafkalite_log::checkpoint::write_topic_id;
use kafkalite_log::storage::UnsyncedStorage;
use kafkalite_log::{Copied, LogDir, LogError};
use kafkalite_protocol::{Offset, Uuid};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A log that was copied.
struct CopiedLog {
    partition: Arc<Partition>,
    copied: Copied,
}

/// The metadata of a copy.
struct Images<'a> {
    /// Whose logs are copied.
    copied: &'a MetadataImage,
    /// Reads the newest image. A topic is deleted in there first, and its logs go after that.
    newest: &'a dyn Fn() -> Arc<MetadataImage>,
}

impl Images<'_> {
    /// Whether a partition has acknowledged nothing on this broker until now.
    fn is_new(&self, topic: Uuid, index: i32, local_id: i32) -> bool {
        let newest = (self.newest)();
        let partition = newest.topic_by_id(topic).and_then(|topic| topic.partition(index));
        partition.is_some_and(|one| one.assignment(local_id) == Assignment::Unassigned)
    }
}

impl CopiedLog {
    fn entry(&self, which: Checkpoint) -> Entry {
        let Copied { log_start_offset, log_end_offset, cleaned_to } = self.copied;
        Entry {
            topic: self.partition.topic_name(),
            topic_id: self.partition.topic_id(),
            index: self.partition.index(),
            offset: match which {
                Checkpoint::RecoveryPoint | Checkpoint::HighWatermark => log_end_offset,
                Checkpoint::LogStart => log_start_offset,
                Checkpoint::Cleaner => cleaned_to,
            },
        }
    }
}

impl ReplicaManager {
    /// Copies the logs that broker `local_id` has of the topics of the image `copied` into `to`:
    /// one directory for each of [`Self::dirs`], in their order. `newest` reads the newest image.
    ///
    /// Each log is copied as it is at one moment. The logs of internal topics come first, and only
    /// then the others are looked up. So the records of every committed offset are in the copy.
    ///
    /// # Errors
    /// - `Closed`: a partition of `copied` was deleted meanwhile, or has no log here
    /// - a log directory is offline, a disk is full or fails
    pub fn copy_to(
        &self,
        to: &[PathBuf],
        local_id: i32,
        (copied, newest): (&MetadataImage, &dyn Fn() -> Arc<MetadataImage>),
        now_ms: i64,
    ) -> Result<(), LogError> {
        let images = &Images { copied, newest };
        let mut logs: Vec<Vec<CopiedLog>> = to.iter().map(|_| Vec::new()).collect();
        for internal in [true, false] {
            for partition in self.of_images(local_id, images, internal)? {
                let place = self.dirs().position(&partition.log().log_dir());
                let path = to[place].join(format!("{}-{}", partition.topic(), partition.index()));
                let copied = partition.log().copy_to(&path, now_ms)?;
                write_topic_id(&UnsyncedStorage, &path, partition.topic_id())?;
                logs[place].push(CopiedLog { partition, copied });
            }
        }
        let broker = copied.brokers.get(&local_id);
        let broker_epoch = broker.map_or(0, |broker| broker.epoch);
        for (directory, logs) in to.iter().zip(&logs) {
            note(directory, logs, broker_epoch)?;
        }
        Ok(())
    }

    /// The partitions of internal topics of the image, or of the other ones, that have a log here.
    /// A partition whose log is not open yet, and that acknowledged nothing, is left out.
    fn of_images(
        &self,
        local_id: i32,
        images: &Images<'_>,
        internal: bool,
    ) -> Result<Vec<Arc<Partition>>, LogError> {
        let mut found = Vec::new();
        for topic in images.copied.topics.iter().filter(|topic| topic.internal == internal) {
            for (index, partition) in (0..).zip(&topic.partitions) {
                if !partition.replicas.contains(&local_id) {
                    continue;
                }
                match self.find_by_id(topic.id, index) {
                    Ok(partition) => found.push(partition),
                    // Since the image was taken, the partition may have been made, written and
                    // deleted.
                    Err(_) if images.is_new(topic.id, index, local_id) => {}
                    Err(_) => {
                        let name = PathBuf::from(format!("{}-{index}", topic.name));
                        return Err(LogError::Closed { path: name.into() });
                    }
                }
            }
        }
        Ok(found)
    }
}

/// Writes the checkpoints of the copies in a directory, and the note of a clean stop.
fn note(directory: &Path, logs: &[CopiedLog], broker_epoch: i64) -> Result<(), LogError> {
    let log_dir = LogDir::open(directory, Arc::new(UnsyncedStorage), 1)?;
    let checkpoints = Checkpoints::read(log_dir)?;
    for which in Checkpoint::ALL {
        let mut entries: Vec<Entry> = logs.iter().map(|log| log.entry(which)).collect();
        entries.retain(|entry| entry.offset > Offset::ZERO);
        checkpoints.write(which, &entries)?;
    }
    checkpoints.note_clean_stop(broker_epoch)
}
