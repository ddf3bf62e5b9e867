//! From the page cache to the disk. Never under the append lock.

use std::io::ErrorKind;
use std::sync::atomic::Ordering;

use kafkalite_protocol::types::Offset;

use super::{CommitLog, DurableEnd};
use crate::error::LogError;
use crate::recovery;
use crate::storage::{Durability, OpenMode};

impl CommitLog {
    /// Puts everything appended so far on the disk; where that is. Appends go on meanwhile.
    ///
    /// An error is final: the kernel may have dropped the pages that it could not write. So the log
    /// directory goes offline, and nothing is tried again.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn flush(&self) -> Result<DurableEnd, LogError> {
        let _flushing = self.flushing.lock();
        // Under the lock: where a deletion was faster, files are being removed and none may come.
        self.check_open()?;
        self.flush_to_end(false)?;
        // Under the lock too, which a truncation takes: the version says which came first.
        let offset = self.durable_offset();
        Ok(DurableEnd { offset, version: self.next_version() })
    }

    /// As [`Self::flush`], with the indexes of the active segment and the leader epochs.
    pub(super) fn flush_all(&self) -> Result<Offset, LogError> {
        let _flushing = self.flushing.lock();
        self.dir().log_dir.check_online()?;
        self.flush_to_end(true)
    }

    /// For who has the lock `flushing`.
    fn flush_to_end(&self, all: bool) -> Result<Offset, LogError> {
        let durable = self.durable_offset();
        // Before the segments: what is appended or sealed from here on is not promised.
        let rolled = self.sealed_unflushed.swap(false, Ordering::AcqRel);
        let end = self.log_end_offset();
        if end == durable && !all && !rolled {
            return Ok(end);
        }
        self.flush_between(durable, end, all, rolled).inspect_err(|_| {
            // A full disk, if not worse: all this is left to the next flush.
            self.sealed_unflushed.fetch_or(rolled, Ordering::AcqRel);
            self.dir_changed.store(true, Ordering::Release);
            self.name_unsynced.store(true, Ordering::Release);
        })
    }

    fn flush_between(
        &self,
        durable: Offset,
        end: Offset,
        all: bool,
        rolled: bool,
    ) -> Result<Offset, LogError> {
        let segments = self.segments.read().clone();
        let active = segments.last().expect("a log has a segment at least");
        for pair in segments.windows(2) {
            // A sealed segment ends where the next one starts.
            // With a roll, one whose records are safe and whose indexes may not be.
            let end = pair[1].base_offset();
            if end > durable || (rolled && end == durable) {
                match pair[0].flush() {
                    // Retention or compaction was faster.
                    Err(LogError::Closed { .. }) if self.check_open().is_ok() => {}
                    flushed => flushed?,
                }
            }
        }
        if all {
            active.flush()?;
        } else if active.base_offset() < end {
            active.flush_log()?;
        }
        if rolled {
            self.sync_snapshot(active.base_offset())?;
        }
        if all || rolled {
            self.write_epochs(Durability::DiskWithDirectory)?;
        }
        // After everything whose name is to be found there.
        if self.dir_changed.swap(false, Ordering::AcqRel) || all || rolled {
            let path = self.dir().path();
            let synced = self.dir().storage().sync_dir(&path);
            synced.map_err(|error| self.dir().failed(&*path, error))?;
        }
        // Once: what the directory holds is found again under the name of the directory only.
        if self.name_unsynced.swap(false, Ordering::AcqRel) {
            let dir = self.dir();
            let path = dir.log_dir.path();
            let synced = self.dir().storage().sync_dir(path);
            synced.map_err(|error| self.dir().failed(&**path, error))?;
        }
        self.durable_offset.fetch_max(end.0, Ordering::AcqRel);
        Ok(end)
    }

    /// Puts the producer state that a roll wrote on the disk. Without it the records that deletion
    /// takes would take along what is known of their producers, in a power cut.
    fn sync_snapshot(&self, offset: Offset) -> Result<(), LogError> {
        let name = recovery::snapshot_name(offset);
        let opened = self.dir().at(&name, |path| self.dir().storage().open(path, OpenMode::Write));
        match opened.and_then(|file| file.sync_data()) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.dir().failed(self.dir().file(&name), error))
            }
            // The roll could not write it: the next start reads the log in its place.
            _ => Ok(()),
        }
    }

    /// Whether [`Self::flush`] is due: after `flush.messages` records, or after a roll.
    #[must_use]
    pub fn needs_flush(&self) -> bool {
        self.sealed_unflushed.load(Ordering::Relaxed)
            || self.unflushed_messages() >= self.config.load().flush_messages
    }

    /// Records that were appended and are not known to be on the disk.
    #[must_use]
    pub fn unflushed_messages(&self) -> u64 {
        let unflushed = self.log_end_offset().0 - self.durable_offset().0;
        u64::try_from(unflushed).unwrap_or(0)
    }
}
