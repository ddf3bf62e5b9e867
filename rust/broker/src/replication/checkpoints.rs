//! What the log directory's checkpoint files say about each partition, and writing them anew.
//!
//! Read once at the start. A damaged file is not believed: recovery then scans more than it would
//! have to, and says so.
//! Source: Kafka's `LogManager` and its `OffsetCheckpointFile`s.

use kafkalite_log::checkpoint::{
    HIGH_WATERMARK_FILE, LOG_START_FILE, PartitionOffsets, RECOVERY_POINT_FILE, read_offsets,
    take_clean_shutdown, write_clean_shutdown, write_offsets,
};
use kafkalite_log::{LogDir, LogError, OpenState};
use kafkalite_protocol::Offset;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The checkpoints of one log directory, as they were found.
pub struct Checkpoints {
    directory: Arc<LogDir>,
    clean: bool,
    recovery_points: PartitionOffsets,
    log_starts: PartitionOffsets,
    high_watermarks: PartitionOffsets,
    /// What was written last; one at a time replaces a file, with what holds then.
    written: Mutex<HashMap<Checkpoint, PartitionOffsets>>,
}

/// Which of the files is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Checkpoint {
    /// Everything below is on disk.
    RecoveryPoint,
    /// The first offset.
    LogStart,
    /// The high watermark.
    HighWatermark,
}

impl Checkpoint {
    const fn file(self) -> &'static str {
        match self {
            Self::RecoveryPoint => RECOVERY_POINT_FILE,
            Self::LogStart => LOG_START_FILE,
            Self::HighWatermark => HIGH_WATERMARK_FILE,
        }
    }
}

impl Checkpoints {
    /// Reads the checkpoints. The note of a clean stop is taken away: a crash from now on is
    /// unclean.
    ///
    /// # Errors
    /// The disk fails.
    pub fn read(directory: Arc<LogDir>) -> Result<Self, LogError> {
        let mut clean = take_clean_shutdown(directory.storage().as_ref(), directory.path())?;
        let mut read = |which: Checkpoint| {
            let path = directory.path().join(which.file());
            read_offsets(directory.storage().as_ref(), &path).unwrap_or_else(|error| {
                tracing::error!(%error, "a checkpoint is not believed, logs are checked whole");
                clean = false;
                PartitionOffsets::new()
            })
        };
        let recovery_points = read(Checkpoint::RecoveryPoint);
        let log_starts = read(Checkpoint::LogStart);
        let high_watermarks = read(Checkpoint::HighWatermark);
        let written = Mutex::default();
        Ok(Self { directory, clean, recovery_points, log_starts, high_watermarks, written })
    }

    /// The directory they are in.
    #[must_use]
    pub fn directory(&self) -> &Arc<LogDir> {
        &self.directory
    }

    /// Whether the last stop was a clean one.
    #[must_use]
    pub fn was_clean(&self) -> bool {
        self.clean
    }

    /// What is known of a partition before its log is opened.
    #[must_use]
    pub fn open_state(&self, topic: &str, partition: i32) -> OpenState {
        let key = (topic.to_owned(), partition);
        let of = |offsets: &PartitionOffsets| offsets.get(&key).copied().unwrap_or_default();
        OpenState {
            clean: self.clean,
            recovery_point: of(&self.recovery_points),
            log_start_offset: of(&self.log_starts),
        }
    }

    /// The high watermark that was last written down; zero if none was.
    #[must_use]
    pub fn high_watermark(&self, topic: &str, partition: i32) -> Offset {
        let key = (topic.to_owned(), partition);
        self.high_watermarks.get(&key).copied().unwrap_or_default()
    }

    /// Writes one of the files anew, unless it says so already; it is on the disk when this
    /// returns.
    ///
    /// # Errors
    /// The disk is full or fails.
    pub fn write(&self, which: Checkpoint, offsets: PartitionOffsets) -> Result<(), LogError> {
        let mut written = self.written.lock();
        if written.get(&which) == Some(&offsets) {
            return Ok(());
        }
        written.remove(&which);
        let path = self.directory.path().join(which.file());
        write_offsets(self.directory.storage().as_ref(), &path, &offsets)?;
        written.insert(which, offsets);
        Ok(())
    }

    /// Notes a clean stop; to be written last.
    ///
    /// # Errors
    /// The disk is full or fails; then the next start checks every log.
    pub fn note_clean_stop(&self, broker_epoch: i64) -> Result<(), LogError> {
        write_clean_shutdown(self.directory.storage().as_ref(), self.directory.path(), broker_epoch)
    }
}
