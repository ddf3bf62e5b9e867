//! Cutting a log: from its end when a follower's log parted from its leader's, from its start when
//! records are deleted.
//!
//! A truncation from the end changes several files, and is still one step:
//! 1. The note of it reaches the disk. Until then the log is as before.
//! 2. Ends, segments, leader epochs and producers in memory become those of the cut log.
//! 3. The files follow: segments above the cut go, the one below is cut, a new one begins.
//! 4. They are on the disk, then the note says so, then the truncation is answered.
//!
//! If a full disk stops it after 1., nothing is appended until a later call completes it. After a
//! crash the next start completes it. The cut segment never grows again. So a reader with a slice
//! of cut records gets too few bytes, and never those of other records.

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
use crate::truncation_note::{Cut, TRUNCATION_FILE, TruncationNote};

/// A truncation that the checkpoints of the log directory may not know of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotedTruncation {
    /// What a checkpoint from before says of records at or above this offset does not hold.
    pub lowest: Offset,
    /// The version of the log, as in [`LogEnd`](super::LogEnd), when it was truncated.
    pub version: u64,
}

/// A truncation that is noted on the disk, and that the files do not show in full.
#[derive(Debug)]
pub(crate) struct Unfinished {
    place: Cut,
    /// The segment that has batches on both sides of the cut.
    cut: Option<Arc<Segment>>,
    gone: Vec<Arc<Segment>>,
    now_ms: i64,
}

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
        let start = self.log_start_offset();
        if offset <= start {
            return self.cut(writer, Cut { next: offset, keeps: false }, now_ms);
        }
        let next = self.cut_before(offset)?;
        // The start may lie inside the batch that goes. It stays: what is below was deleted, and
        // its offsets are never given again.
        self.cut(writer, Cut { next: next.max(start), keeps: next > start }, now_ms)
    }

    /// Where the batch begins that holds `offset`, as a batch goes as a whole. In a gap that
    /// compaction left `offset` itself: the offsets of the gap had records, and no other record
    /// gets them.
    fn cut_before(&self, offset: Offset) -> Result<Offset, LogError> {
        let Some((segment, _)) = self.segment_at(offset) else { return Ok(offset) };
        let batch = segment.locate(offset)?;
        Ok(batch.map_or(offset, |(_, header)| header.base_offset.min(offset)))
    }

    /// Empties the log; the next record gets `offset`.
    pub(super) fn restart_locked(
        &self,
        writer: &mut Writer,
        offset: Offset,
        now_ms: i64,
    ) -> Result<(), LogError> {
        self.cut(writer, Cut { next: offset, keeps: false }, now_ms)
    }

    fn cut(&self, writer: &mut Writer, cut: Cut, now_ms: i64) -> Result<(), LogError> {
        self.finish_swap(writer)?;
        let mut kept = self.segments.read().clone();
        let below = |segment: &Arc<Segment>| cut.keeps && segment.base_offset() < cut.next;
        let gone = kept.split_off(kept.partition_point(below));
        // Everything that has to be read, as long as a failure leaves the log as before.
        let (producers, snapshot_offset) = match cut.keeps {
            true => recovery::load_producers(&self.dir(), &kept, cut.next)?,
            false => Default::default(),
        };
        let last = kept.last().cloned();
        let last = last.map(|last| last.end_below(cut.next).map(|(size, _)| (last, size)));
        let last = last.transpose()?.filter(|(last, size)| *size < last.size());
        self.begin_note(cut)?;

        self.truncations.fetch_add(1, Ordering::AcqRel);
        // From here on the log is cut, and nothing fails: the files follow below.
        self.forget_tail();
        // Readers are bounded by the end before the bytes go.
        self.log_end_offset.store(cut.next.0, Ordering::Release);
        self.cleaned_to.fetch_min(cut.next.0, Ordering::AcqRel);
        if cut.keeps {
            self.durable_offset.fetch_min(cut.next.0, Ordering::AcqRel);
        } else {
            self.log_start_offset.store(cut.next.0, Ordering::Release);
            self.durable_offset.store(cut.next.0, Ordering::Release);
        }
        if let Some((segment, size)) = &last {
            segment.hide_from(cut.next, *size);
        }
        let active = Arc::new(Segment::new(self.dir(), cut.next, 0, now_ms));
        if let Some(last) = kept.last() {
            active.set_bytes_before(last.bytes_before() + u64::from(last.size()));
        }
        kept.push(active.clone());
        *self.segments.write() = kept;
        self.epochs.write().truncate_from_end(if cut.keeps { cut.next } else { Offset::ZERO });
        (writer.active, writer.producers) = (active, producers);
        writer.snapshot_offset = snapshot_offset;
        self.dir_changed.store(true, Ordering::Release);
        self.sealed_unflushed.store(true, Ordering::Release);
        let segment = last.map(|(segment, _)| segment);
        let place = cut;
        writer.unfinished = Some(Box::new(Unfinished { place, cut: segment, gone, now_ms }));
        self.finish_truncation(writer)
    }

    /// Puts the note of a truncation on the disk. After an error the log is as before, or offline.
    fn begin_note(&self, cut: Cut) -> Result<(), LogError> {
        let mut noted = self.noted.lock();
        let before = noted.as_ref().map(|noted| noted.0);
        let lowest = before.map_or(cut.next, |before| before.lowest.min(cut.next));
        let start = before.and_then(|before| before.start);
        let lowered = !cut.keeps && cut.next < self.log_start_offset();
        let start = if lowered { Some(start.unwrap_or(cut.next).min(cut.next)) } else { start };
        let note = TruncationNote { cut, is_done: false, lowest, start };
        self.write_note(&note)?;
        *noted = Some(Box::new((note, self.next_version())));
        Ok(())
    }

    fn write_note(&self, note: &TruncationNote) -> Result<(), LogError> {
        let path = self.dir().file(TRUNCATION_FILE);
        note.write(self.dir().storage(), &path).map_err(|error| self.dir().judge(error))?;
        self.sync_names()
    }

    /// Puts the names in the directory on the disk. Any failure counts as a failure of the disk,
    /// even a full disk: it is unknown which names a power cut would leave.
    fn sync_names(&self) -> Result<(), LogError> {
        let path = self.dir().path();
        let synced = self.dir().storage().sync_dir(&path);
        synced.map_err(|error| self.dir().judge(LogError::Io { path, source: Arc::new(error) }))
    }

    /// Refuses a change while the log is closed, its disk failed, or a truncation cannot be
    /// completed.
    pub(crate) fn check_writable(&self, writer: &mut Writer) -> Result<(), LogError> {
        self.check_open()?;
        self.finish_truncation(writer)
    }

    /// Has the files show a truncation that a full disk stopped.
    pub(super) fn finish_truncation(&self, writer: &mut Writer) -> Result<(), LogError> {
        let Some(mut unfinished) = writer.unfinished.take() else { return Ok(()) };
        let finished = self.finish(writer, &mut unfinished);
        if finished.is_err() {
            writer.unfinished = Some(unfinished);
        }
        finished
    }

    /// Each step may be done again, but the first: the new segment may get the name of an old one.
    fn finish(&self, writer: &mut Writer, unfinished: &mut Unfinished) -> Result<(), LogError> {
        let Unfinished { place: Cut { next, keeps }, cut, gone, now_ms } = unfinished;
        let (next, keeps) = (*next, *keeps);
        self.delete_segments(writer, gone.clone(), *now_ms)?;
        gone.clear();
        if let Some(segment) = cut {
            match segment.cut_file() {
                // Its records were deleted meanwhile.
                Err(LogError::Closed { .. }) if self.check_open().is_ok() => {}
                outcome => outcome?,
            }
            self.or_later(segment.seal(), "the index of a cut segment was not written")?;
        }
        recovery::remove_snapshots(&self.dir(), |offset| !keeps || offset > next)?;
        self.write_epochs(Durability::PageCache)?;
        writer.active.create()?;
        if keeps {
            // As at the start of any segment: deletion may take the records below.
            let written = self.write_snapshot(writer, Durability::PageCache);
            self.or_later(written, "the producer snapshot of a cut log was not written")?;
        }
        self.sync_names()?;
        self.change_note(|note| Some(TruncationNote { is_done: true, ..note }))
    }

    /// Replaces the note, if there is one, by what `change` makes of it. After an error it is as
    /// before, or the log is offline.
    fn change_note(
        &self,
        change: impl FnOnce(TruncationNote) -> Option<TruncationNote>,
    ) -> Result<(), LogError> {
        let mut noted = self.noted.lock();
        if let Some(noted) = &mut *noted
            && let Some(changed) = change(noted.0)
        {
            self.write_note(&changed)?;
            noted.0 = changed;
        }
        Ok(())
    }

    /// Goes on without the parts that recovery rebuilds, unless the disk failed.
    fn or_later(&self, written: Result<(), LogError>, what: &str) -> Result<(), LogError> {
        if let Err(error) = written {
            self.dir().log_dir.check_online()?;
            tracing::warn!("{what}: {error}");
        }
        Ok(())
    }

    /// How often the log was truncated since it was opened, or its files were replaced.
    pub(crate) fn truncations(&self) -> u64 {
        self.truncations.load(Ordering::Acquire)
    }

    /// The truncation that the checkpoints of the log directory may not know of yet.
    #[must_use]
    pub fn noted_truncation(&self) -> Option<NotedTruncation> {
        let noted = self.noted.lock();
        noted
            .as_deref()
            .map(|(note, version)| NotedTruncation { lowest: note.lowest, version: *version })
    }

    /// Removes the note of a truncation: recovery point, log start, high watermark and
    /// [`Self::cleaned_to`] of this log were written to the checkpoints since. Does nothing if
    /// there was another truncation.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn forget_truncation(&self, truncation: NotedTruncation) -> Result<(), LogError> {
        let mut writer = self.writer.lock();
        self.check_writable(&mut writer)?;
        let mut noted = self.noted.lock();
        if noted.as_deref().is_none_or(|(_, version)| *version != truncation.version) {
            return Ok(());
        }
        let path = self.dir().file(TRUNCATION_FILE);
        match self.dir().storage().remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(self.dir().failed(path, error));
            }
            _ => *noted = None,
        }
        // A power cut must not bring it back: it would undo a deletion of records that was answered
        // after the note was gone.
        self.sync_names()
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

    /// Moves the log's start up; the caller holds the append lock and deletes what is below.
    pub(crate) fn raise_log_start(&self, offset: Offset) -> Result<(), LogError> {
        // A note of a truncation that lowered the start would hold it down at the next start.
        self.change_note(|note| {
            note.start.filter(|start| *start < offset)?;
            Some(TruncationNote { start: Some(offset), ..note })
        })?;
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
        if ends_below().is_some() {
            self.finish_swap(writer)?;
        }
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
        recovery::prune_snapshots(&self.dir(), &bases)
    }

    /// Removes files whose `file.delete.delay.ms` is over. How many. A clock that was set back does
    /// not keep files: those that would stay for longer than the delay are removed too.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn remove_deleted(&self, now_ms: i64) -> Result<usize, LogError> {
        let latest = now_ms.saturating_add(self.config.load().file_delete_delay_ms);
        let due: Vec<_> = {
            let mut writer = self.writer.lock();
            let is_due = |(at, _): &(i64, PathBuf)| *at <= now_ms || *at > latest;
            let (due, waiting) = writer.deleted.drain(..).partition(is_due);
            writer.deleted = waiting;
            due
        };
        // Those of a partition that is deleted go with its directory, whose name may be another's
        // by now.
        let dir = self.dir();
        let held = dir.hold();
        if dir.is_leaving() {
            return Ok(0);
        }
        let (mut removed, mut left, mut outcome) = (0, Vec::new(), Ok(()));
        for (remove_at, path) in due {
            match dir.storage().remove_file(&path) {
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
        outcome.map_err(|(path, error)| dir.failed(path, error))?;
        Ok(removed)
    }
}
