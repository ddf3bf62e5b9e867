//! A copy of a log for a second broker. It shares the bytes of sealed segments with this log.
//!
//! The log rolls first. Nothing is written into a sealed segment. Deletion and compaction take its
//! name away. A truncation makes a copy of its own first (see `Segment::set_file_length`). So a
//! second name of the file is as good as a copy. All other files are written.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use kafkalite_protocol::types::Offset;

use super::CommitLog;
use crate::checkpoint::{LEADER_EPOCH_FILE, write_epochs};
use crate::error::LogError;
use crate::recovery;
use crate::segment::{INDEX_SUFFIX, LOG_SUFFIX, Segment, TIME_INDEX_SUFFIX, file_name};
use crate::storage::{Durability, OpenMode, Storage, UnsyncedStorage, replace_file};

/// What a copy of a log holds: what the checkpoints beside it have to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The first offset.
    pub log_start_offset: Offset,
    /// The offset that the next record gets.
    pub log_end_offset: Offset,
    /// Everything below is compacted.
    pub cleaned_to: Offset,
}

impl CommitLog {
    /// Copies the log into the directory `to`, as a clean stop would leave it, and rolls it before.
    /// Appends, retention and compaction wait until this returns. Nothing is synced: a power cut
    /// may take the copy.
    ///
    /// # Errors
    /// - `Closed`: the partition was deleted
    /// - the disk of the log or of the copy is full or fails
    pub fn copy_to(&self, to: &Path, now_ms: i64) -> Result<Copied, LogError> {
        let mut writer = self.writer.lock();
        self.check_writable(&mut writer)?;
        if writer.active.size() > 0 {
            self.roll_locked(&mut writer, now_ms)?;
        }
        let disk = UnsyncedStorage;
        disk.create_dir(to).map_err(|error| LogError::io(to, error))?;
        let segments = self.segments.read().clone();
        // The last one is active, and empty.
        for segment in segments.iter().rev().skip(1) {
            share(segment, to)?;
        }
        let end = self.log_end_offset();
        let active = to.join(file_name(end, LOG_SUFFIX));
        disk.open(&active, OpenMode::Create).map_err(|error| LogError::io(&active, error))?;
        if end > Offset::ZERO {
            let producers = to.join(recovery::snapshot_name(end));
            replace_file(&disk, &producers, &writer.producers.encode(), Durability::PageCache)
                .map_err(|error| LogError::io(&producers, error))?;
            let epochs = self.epochs.read().entries().to_vec();
            write_epochs(&disk, &to.join(LEADER_EPOCH_FILE), &epochs, Durability::PageCache)?;
        }
        Ok(Copied {
            log_start_offset: self.log_start_offset(),
            log_end_offset: end,
            cleaned_to: self.cleaned_to(),
        })
    }
}

/// Gives the files of a sealed segment their names in the directory `to`.
fn share(segment: &Arc<Segment>, to: &Path) -> Result<(), LogError> {
    for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX] {
        let from = segment.path(suffix);
        match UnsyncedStorage.link(&from, &to.join(file_name(segment.base_offset(), suffix))) {
            Ok(()) => {}
            // A missing index is made from the log.
            Err(error) if error.kind() == ErrorKind::NotFound && suffix != LOG_SUFFIX => {}
            Err(error) => return Err(LogError::io(from, error)),
        }
    }
    Ok(())
}
