//! Puts on the disk what the next start has to know of each log: the checkpoints.

use super::{ReplicaManager, Slot};
use crate::error::log_error_code;
use crate::partitions::Partition;
use crate::partitions::checkpoints::{Checkpoint, Entry};
use kafkalite_log::LogError;
use kafkalite_protocol::ErrorCode;

impl ReplicaManager {
    /// Puts every log's start on the disk.
    ///
    /// # Errors
    /// `KafkaStorageError`.
    pub fn checkpoint_log_starts(&self) -> Result<(), ErrorCode> {
        self.checkpoint(Checkpoint::LogStart).map_err(|error| log_error_code(&error))
    }

    /// Writes one kind of checkpoint in every directory.
    ///
    /// # Errors
    /// A disk is full or fails; those of the other directories are written.
    pub fn checkpoint(&self, which: Checkpoint) -> Result<(), LogError> {
        self.write_checkpoints(which).into_iter().fold(Ok(()), Result::and)
    }

    /// Removes the notes of truncations, once all checkpoints are newer than the truncations.
    ///
    /// # Errors
    /// A disk is full or fails. A note that stays does no harm.
    pub fn forget_truncations(&self) -> Result<(), LogError> {
        // Before the offsets: a truncation that comes later keeps its note.
        let noted = self.all().into_iter();
        let noted = noted.filter_map(|partition| Some((partition.noted_truncation()?, partition)));
        let noted: Vec<_> = noted.collect();
        if noted.is_empty() {
            return Ok(());
        }
        let mut outcomes: Vec<Result<(), LogError>> = self.dirs.iter().map(|_| Ok(())).collect();
        for which in Checkpoint::ALL {
            for (outcome, written) in outcomes.iter_mut().zip(self.write_checkpoints(which)) {
                *outcome = std::mem::replace(outcome, Ok(())).and(written);
            }
        }
        for (truncation, partition) in noted {
            let outcome = &mut outcomes[self.dirs.position(&partition.log().log_dir())];
            if outcome.is_ok() {
                *outcome = match partition.log().forget_truncation(truncation) {
                    // Deleted meanwhile.
                    Err(LogError::Closed { .. }) => Ok(()),
                    forgotten => forgotten,
                };
            }
        }
        outcomes.into_iter().fold(Ok(()), Result::and)
    }

    /// Writes one kind of checkpoint in every directory; returns the outcome of each. Entries of
    /// partitions whose logs did not open stay as they were.
    pub(super) fn write_checkpoints(&self, which: Checkpoint) -> Vec<Result<(), LogError>> {
        let offset = |partition: &Partition| match which {
            Checkpoint::RecoveryPoint => partition.log().durable_offset(),
            Checkpoint::LogStart => partition.log_start_offset(),
            Checkpoint::HighWatermark => partition.high_watermark(),
            Checkpoint::Cleaner => partition.log().cleaned_to(),
        };
        let _writing = self.checkpointing.lock();
        let mut noted: Vec<Vec<Entry>> = self.dirs.iter().map(|_| Vec::new()).collect();
        let maps = self.maps.read();
        for topic in maps.by_id.values() {
            for (index, slot) in (0..).zip(&topic.partitions) {
                let (topic_id, name) = (topic.image.id, &topic.image.name);
                let entry = |offset| Entry { topic: name.clone(), topic_id, index, offset };
                match slot {
                    Slot::Here(partition) => {
                        let place = self.dirs.position(&partition.log().log_dir());
                        noted[place].push(entry(offset(partition)));
                    }
                    Slot::Unopened => {
                        for (dir, noted) in self.dirs.iter().zip(&mut noted) {
                            let kept = dir.checkpoints().noted(which, name, topic_id, index);
                            noted.extend(kept.map(entry));
                        }
                    }
                    Slot::Elsewhere => {}
                }
            }
        }
        drop(maps);
        self.moves.note_twice(which, &mut noted);
        let written = self.dirs.iter().zip(noted);
        written.map(|(dir, noted)| dir.checkpoint(which, noted)).collect()
    }
}
