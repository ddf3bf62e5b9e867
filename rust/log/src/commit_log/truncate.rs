//! Cutting a log: from its end when a follower's log parted from its leader's, from its start when
//! records are deleted.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kafkalite_protocol::types::Offset;

use super::{CommitLog, Writer};
use crate::error::LogError;
use crate::recovery;
use crate::segment::Segment;
use crate::storage::Durability;

impl CommitLog {
    /// As [`Self::truncate_as_follower`], for who holds the locks `flushing` and `writer`.
    pub(super) fn truncate_locked(
        &self,
        writer: &mut Writer,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), LogError> {
        if offset >= self.log_end_offset() {
            return Ok(());
        }
        if offset <= self.log_start_offset() {
            return self.restart_locked(writer, offset, now_ms);
        }
        let (keep, gone) = {
            let mut segments = self.segments.write();
            let after = segments.partition_point(|segment| segment.base_offset() <= offset);
            let gone = segments.split_off(after.max(1));
            (segments.last().expect("one is kept").clone(), gone)
        };
        writer.active = keep.clone();
        self.dir_changed.store(true, Ordering::Release);
        self.forget_tail();
        keep.truncate_to(offset)?;
        let end = keep.end_after_truncation()?;
        // Readers are bounded by the end before the files go.
        self.log_end_offset.store(end.0, Ordering::Release);
        self.durable_offset.fetch_min(end.0, Ordering::AcqRel);
        self.delete_segments(writer, gone, now_ms)?;
        if self.epochs.write().truncate_from_end(end) {
            self.write_epochs(Durability::PageCache)?;
        }
        self.reload_producers(writer, end)
    }

    /// Empties the log; the next record gets `offset`.
    pub(super) fn restart_locked(
        &self,
        writer: &mut Writer,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), LogError> {
        let gone = std::mem::take(&mut *self.segments.write());
        // First, as the new segment may have the name of an old one.
        let deleted = self.delete_segments(writer, gone, now_ms);
        let next = Arc::new(Segment::new(self.dir.clone(), offset, 0, now_ms));
        let created = deleted.and_then(|()| next.create());
        self.segments.write().push(next.clone());
        writer.active = next;
        self.forget_tail();
        self.log_start_offset.store(offset.0, Ordering::Release);
        self.log_end_offset.store(offset.0, Ordering::Release);
        self.durable_offset.store(offset.0, Ordering::Release);
        self.dir_changed.store(true, Ordering::Release);
        created?;
        if self.epochs.write().truncate_from_end(Offset(0)) {
            self.write_epochs(Durability::PageCache)?;
        }
        writer.producers = Default::default();
        recovery::remove_snapshots(&self.dir, |_| true)?;
        writer.snapshot_offset = None;
        Ok(())
    }

    /// Makes the producer state what it was before the record at `end`.
    fn reload_producers(&self, writer: &mut Writer, end: Offset) -> Result<(), LogError> {
        recovery::remove_snapshots(&self.dir, |offset| offset > end)?;
        let segments = self.segments.read().clone();
        let (producers, snapshot_offset) = recovery::load_producers(&self.dir, &segments, end)?;
        writer.producers = producers;
        writer.snapshot_offset = snapshot_offset;
        Ok(())
    }

    /// Moves the log's start up to `offset`; whole segments below go, the first stays cut in mind
    /// only. The caller persists the new start before it answers.
    ///
    /// # Errors
    /// `OffsetOutOfRange` beyond the log's end. An offset below the start changes nothing.
    pub fn delete_records(&self, offset: Offset, now_ms: i64) -> Result<Offset, LogError> {
        let mut writer = self.writer.lock();
        self.check_open()?;
        if offset > self.log_end_offset() {
            return Err(self.out_of_range(offset));
        }
        if offset > self.log_start_offset() {
            self.raise_log_start(offset)?;
            self.delete_below_start(&mut writer, now_ms)?;
        }
        Ok(self.log_start_offset())
    }

    /// Moves the log's start; the caller holds the append lock and deletes what is below.
    pub(crate) fn raise_log_start(&self, offset: Offset) -> Result<(), LogError> {
        self.log_start_offset.store(offset.0, Ordering::Release);
        let changed = self.epochs.write().truncate_from_start(offset);
        if changed { self.write_epochs(Durability::PageCache) } else { Ok(()) }
    }

    /// Deletes every sealed segment that ends at or before the log's start. How many.
    pub(crate) fn delete_below_start(
        &self,
        writer: &mut Writer,
        now_ms: i64,
    ) -> Result<usize, LogError> {
        let start = self.log_start_offset();
        let ends_below = || match &self.segments.read()[..] {
            [first, next, ..] if next.base_offset() <= start => Some(first.clone()),
            _ => None,
        };
        let mut count = 0;
        // One by one: those that a full disk leaves as they are stay for the next turn.
        while let Some(gone) = ends_below() {
            self.delete_segments(writer, vec![gone], now_ms)?;
            self.segments.write().remove(0);
            count += 1;
        }
        if count > 0 {
            self.prune_snapshots(writer)?;
        }
        Ok(count)
    }

    /// Renames the files of segments that no reader finds any more; [`Self::remove_deleted`] comes
    /// for them when readers that hold them are done.
    pub(crate) fn delete_segments(
        &self,
        writer: &mut Writer,
        gone: Vec<Arc<Segment>>,
        now_ms: i64,
    ) -> Result<(), LogError> {
        for segment in gone {
            let renamed = segment.mark_deleted()?;
            self.remove_later(writer, renamed, now_ms);
        }
        Ok(())
    }

    /// Has [`Self::remove_deleted`] remove these files when their time has come.
    pub(crate) fn remove_later(&self, writer: &mut Writer, renamed: Vec<PathBuf>, now_ms: i64) {
        let remove_at = now_ms.saturating_add(self.config.load().file_delete_delay_ms);
        writer.deleted.extend(renamed.into_iter().map(|path| (remove_at, path)));
        self.dir_changed.store(true, Ordering::Release);
    }

    /// Removes the producer snapshots that no start begins with: one stays for each segment, as a
    /// scan may begin there, and the newest.
    pub(crate) fn prune_snapshots(&self, _writer: &Writer) -> Result<(), LogError> {
        let bases: BTreeSet<_> = self.segments.read().iter().map(|s| s.base_offset()).collect();
        recovery::prune_snapshots(&self.dir, &bases)
    }

    /// Removes files whose `file.delete.delay.ms` is over. How many.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_deleted(&self, now_ms: i64) -> Result<usize, LogError> {
        let due: Vec<_> = {
            let mut writer = self.writer.lock();
            let (due, waiting) =
                writer.deleted.drain(..).partition(|(remove_at, _)| *remove_at <= now_ms);
            writer.deleted = waiting;
            due
        };
        // Those of a partition that is deleted go with its directory, whose name may be another's
        // by now.
        let held = self.dir.hold();
        if self.dir.is_leaving() {
            return Ok(0);
        }
        let (mut removed, mut left, mut outcome) = (0, Vec::new(), Ok(()));
        for (remove_at, path) in due {
            match self.dir.storage().remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    outcome = Err((path.clone(), error));
                    left.push((remove_at, path));
                }
                _ => removed += 1,
            }
        }
        drop(held);
        // The next turn tries again.
        self.writer.lock().deleted.extend(left);
        outcome.map_err(|(path, error)| self.dir.failed(path, error))?;
        Ok(removed)
    }
}
