//! A log moves into another log directory while it is written.
//!
//! A [`FutureLog`] is a copy in the directory that the log will have. It follows the log as a
//! follower follows its leader: batches come over as they are, and truncations and deletions too.
//! When little is left, [`CommitLog::take_over`] copies the rest under the append lock, gives the
//! copy the partition's name, and goes on in its files. Role, producers and offsets stay: to all
//! above, the log is the same one.
//!
//! A crash leaves the log, the copy beside it, or both under the partition's name; then
//! [`MoveNote`]s in both tell that the copy counts. Nothing is compacted while a copy is made: a
//! value that was copied could lose its tombstone before that is copied.
//! Source: Kafka's `Partition.maybeReplaceCurrentWithFutureReplica`; KIP-113.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use kafkalite_protocol::types::{LeaderEpoch, Offset, Uuid};

use super::{CommitLog, OpenState, Writer};
use crate::checkpoint::{LEADER_EPOCH_FILE, write_epochs};
use crate::error::LogError;
use crate::leader_epochs::{Agreement, CopyEnd};
use crate::log_dir::{LogDir, PartitionDir};
use crate::move_notes::MoveNote;
use crate::recovery;
use crate::segment::Segment;
use crate::storage::{Durability, replace_file};
use crate::truncation_note::TRUNCATION_FILE;

/// A copy has no leader: it takes the batches of any epoch.
const ANY_EPOCH: LeaderEpoch = LeaderEpoch(i32::MAX);
/// More than this is not copied under the append lock.
const LAST_BYTES: u64 = 1 << 20;

/// A copy of a log that will take its place. One thread at a time copies.
#[derive(Debug)]
pub struct FutureLog {
    pub(super) log: CommitLog,
    /// What the log's count was when the copy agreed with it.
    truncations: AtomicU64,
}

/// The files of a log that moved away. They are read on until [`Self::rename_and_close`].
#[derive(Debug)]
pub struct LeftLog {
    dir: Arc<PartitionDir>,
    segments: Vec<Arc<Segment>>,
}

impl FutureLog {
    /// Begins a copy of `log` in the directory `name` of another log directory, which is empty. No
    /// record is copied yet. Compaction of `log` rests from here on.
    ///
    /// # Errors
    /// The other disk is full or fails.
    pub fn begin(
        log: &CommitLog,
        log_dir: &Arc<LogDir>,
        name: &str,
        now_ms: i64,
    ) -> Result<Self, LogError> {
        log.rest_compaction();
        let begin = || {
            let state = OpenState::default();
            let (copy, _) = CommitLog::open(log_dir, name, log.config(), state, now_ms)?;
            copy.become_follower(ANY_EPOCH)?;
            let copy = Self { log: copy, truncations: AtomicU64::new(log.truncations()) };
            copy.keep_start(log.log_start_offset(), now_ms)?;
            Ok(copy)
        };
        begin().inspect_err(|_: &LogError| log.resume_compaction())
    }

    /// The log directory that it is in.
    #[must_use]
    pub fn log_dir(&self) -> Arc<LogDir> {
        self.log.log_dir()
    }

    /// Bytes in all of its segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.log.size_bytes()
    }

    /// How many offsets of `log` are missing.
    #[must_use]
    pub fn lag(&self, log: &CommitLog) -> i64 {
        (log.log_end_offset().0 - self.log.log_end_offset().0).max(0)
    }

    /// About how many bytes of `log` are missing.
    #[must_use]
    pub fn bytes_behind(&self, log: &CommitLog) -> u64 {
        log.bytes_between(self.log.log_end_offset(), log.log_end_offset())
    }

    /// Everything below survives a power cut.
    #[must_use]
    pub fn durable_offset(&self) -> Offset {
        self.log.durable_offset()
    }

    /// Puts what was copied on the disk.
    ///
    /// # Errors
    /// The disk fails.
    pub fn flush(&self) -> Result<(), LogError> {
        self.log.flush_all().map(drop)
    }

    /// Drops what `log` dropped, and copies about `max_bytes` more, one batch at least. How many
    /// bytes came; 0 if nothing is there to copy now.
    ///
    /// # Errors
    /// A disk is full or fails, `log` was closed, or one of its batches is damaged.
    pub fn copy(&self, log: &CommitLog, max_bytes: u32, now_ms: i64) -> Result<u64, LogError> {
        self.follow(log, now_ms)?;
        self.copy_next(log, max_bytes, now_ms)
    }

    /// Ends the copy: moves its directory to `name`, from where the caller removes it. Compaction
    /// of `log` goes on.
    ///
    /// # Errors
    /// The disk fails.
    pub fn abandon(&self, log: &CommitLog, name: &str) -> Result<Arc<Path>, LogError> {
        log.resume_compaction();
        self.log.rename_and_close(name)
    }

    /// Drops what `log` dropped since the last look.
    fn follow(&self, log: &CommitLog, now_ms: i64) -> Result<(), LogError> {
        self.log.set_config(log.config());
        let truncations = log.truncations();
        if self.truncations.load(Ordering::Acquire) != truncations {
            self.agree(log, now_ms)?;
            self.truncations.store(truncations, Ordering::Release);
        }
        self.keep_start(log.log_start_offset(), now_ms)
    }

    /// Cuts what the log does not hold any more, as a follower does when its leader has changed.
    fn agree(&self, log: &CommitLog, now_ms: i64) -> Result<(), LogError> {
        loop {
            let (start, end) = (self.log.log_start_offset(), self.log.log_end_offset());
            if start == end && end == log.log_start_offset() {
                return Ok(());
            }
            let epoch = self.log.latest_epoch().unwrap_or(LeaderEpoch::UNKNOWN);
            let cut = match log.agreement(&CopyEnd { start, end, epoch }) {
                Agreement::Agrees => return Ok(()),
                Agreement::Parts(known) => {
                    let own = self.log.end_offset_for_epoch(known.epoch);
                    own.map_or(start, |own| own.end_offset.min(known.end_offset))
                }
                Agreement::UnknownEpoch => start,
            };
            if start < cut && cut < end {
                self.log.truncate_as_follower(cut, ANY_EPOCH, now_ms)?;
            } else {
                let start = log.log_start_offset();
                return self.log.restart_as_follower(start, ANY_EPOCH, now_ms).map(drop);
            }
        }
    }

    fn keep_start(&self, start: Offset, now_ms: i64) -> Result<(), LogError> {
        let own = self.log.log_start_offset();
        if start < own || start > self.log.log_end_offset() {
            self.log.restart_as_follower(start, ANY_EPOCH, now_ms)?;
        } else if start > own {
            self.log.delete_records(start, now_ms)?;
        }
        Ok(())
    }

    pub(super) fn copy_next(
        &self,
        log: &CommitLog,
        max_bytes: u32,
        now_ms: i64,
    ) -> Result<u64, LogError> {
        let (from, end) = (self.log.log_end_offset(), log.log_end_offset());
        if from >= end {
            return Ok(0);
        }
        let copied = self.copy_from(log, from, end, max_bytes, now_ms);
        match copied {
            // It was truncated, or records were deleted: the next turn begins with a look at that.
            Err(LogError::OffsetOutOfRange { .. }) => Ok(0),
            Err(LogError::Batch(_) | LogError::NotContiguous { .. })
                if log.truncations() != self.truncations.load(Ordering::Acquire) =>
            {
                Ok(0)
            }
            copied => copied,
        }
    }

    fn copy_from(
        &self,
        log: &CommitLog,
        from: Offset,
        end: Offset,
        max_bytes: u32,
        now_ms: i64,
    ) -> Result<u64, LogError> {
        let mut bytes = Vec::new();
        for slice in log.read(from, max_bytes, end, true)?.slices {
            bytes.extend(slice.read().map_err(|error| log.dir().failed(&*log.path(), error))?);
        }
        if log.truncations() != self.truncations.load(Ordering::Acquire) {
            // They may be of a later epoch, and the copy may end in records that the log lost.
            return Ok(0);
        }
        let any_gap = Offset(i64::MAX);
        let records = Bytes::from(bytes);
        Ok(self.log.append_as_follower(&records, ANY_EPOCH, any_gap, now_ms)?.bytes)
    }
}

impl CommitLog {
    /// Has the log go on in the files of `copy`, whose directory gets the partition's name `name`.
    /// `id` is that of the move. `None` if too much is left to copy under the append lock.
    ///
    /// The directory before keeps its name, too, as long as the caller wants it.
    ///
    /// # Errors
    /// A disk is full or fails. The log goes on in its own files then. It goes offline if the copy
    /// may count at the next start: its note cannot be removed.
    pub fn take_over(
        &self,
        copy: &FutureLog,
        name: &str,
        id: Uuid,
        now_ms: i64,
    ) -> Result<Option<LeftLog>, LogError> {
        let from = self.dir();
        let leaving = MoveNote::Leaving.write(from.storage(), &from.path(), id);
        leaving.map_err(|error| from.judge(error))?;
        let _flushing = self.flushing.lock();
        let mut writer = self.writer.lock();
        self.check_writable(&mut writer)?;
        self.finish_swap(&mut writer)?;
        if !copy.catches_up(self, now_ms)? {
            return Ok(None);
        }
        let completed = self.complete(&writer, copy, id, now_ms);
        let may_count = completed.is_ok();
        if let Err(error) = completed.and_then(|()| copy.log.dir().take_name(name)) {
            // From here on the copy lacks what is appended. Without this note it does not count,
            // even if its directory has the partition's name already.
            match MoveNote::Leaving.remove(from.storage(), &from.path()) {
                // The note is still there. So nothing may be appended any more.
                Err(stays) if may_count => from.log_dir.take_offline(&stays),
                removed => removed.map_err(|error| from.judge(error))?,
            }
            return Err(error);
        }
        Ok(Some(self.go_on_in(&mut writer, copy)))
    }

    /// Writes into the directory of the copy what the copied batches do not tell.
    fn complete(
        &self,
        writer: &Writer,
        copy: &FutureLog,
        id: Uuid,
        now_ms: i64,
    ) -> Result<(), LogError> {
        // A start goes by the snapshot of producers at the start of a segment.
        copy.log.roll(now_ms)?;
        copy.log.flush_all()?;
        let (dir, end) = (copy.log.dir(), self.log_end_offset());
        let (storage, durability) = (dir.storage(), Durability::DiskWithDirectory);
        let write = || {
            let epochs = self.epochs.read().entries().to_vec();
            write_epochs(storage, &dir.file(LEADER_EPOCH_FILE), &epochs, durability)?;
            // It may know producers whose records are deleted.
            let producers = dir.file(&recovery::snapshot_name(end));
            replace_file(storage, &producers, &writer.producers.encode(), durability)
                .map_err(|error| LogError::io(producers, error))?;
            // One of the copy's own would bound what the checkpoints say of this log.
            let truncated = dir.file(TRUNCATION_FILE);
            match self.noted.lock().as_deref() {
                Some((note, _)) => note.write(storage, &truncated)?,
                None => match storage.remove_file(&truncated) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(LogError::io(truncated, error));
                    }
                    _ => {}
                },
            }
            MoveNote::Arrival.write(storage, &dir.path(), id)
        };
        write().map_err(|error| dir.judge(error))
    }

    /// Nothing fails here: the copy is this log now.
    fn go_on_in(&self, writer: &mut Writer, copy: &FutureLog) -> LeftLog {
        let mut copied = copy.log.writer.lock();
        // Positions in the old files.
        self.forget_tail();
        let dir = self.dir.swap(copy.log.dir());
        let segments = copy.log.segments.read().clone();
        let segments = std::mem::replace(&mut *self.segments.write(), segments);
        writer.active = copied.active.clone();
        writer.snapshot_offset = Some(self.log_end_offset());
        writer.deleted = std::mem::take(&mut copied.deleted);
        self.durable_offset.fetch_max(self.log_end_offset().0, Ordering::AcqRel);
        self.epochs_unwritten.store(false, Ordering::Release);
        self.epochs_unflushed.store(false, Ordering::Release);
        self.dir_changed.store(true, Ordering::Release);
        // After the segments: a reader that finds an old one finds another count when it is done.
        self.truncations.fetch_add(1, Ordering::AcqRel);
        self.resume_compaction();
        copy.log.closed.store(true, Ordering::Release);
        LeftLog { dir, segments }
    }

    /// Nothing is compacted from here on; what a compaction that runs has not put into its place is
    /// void.
    fn rest_compaction(&self) {
        // A compaction puts its segments into their places under this lock.
        let _flushing = self.flushing.lock();
        self.compaction_rests.store(true, Ordering::Release);
        self.truncations.fetch_add(1, Ordering::AcqRel);
    }

    fn resume_compaction(&self) {
        self.compaction_rests.store(false, Ordering::Release);
    }

    /// Whether the log is being copied: nothing is compacted meanwhile.
    pub(crate) fn compaction_rests(&self) -> bool {
        self.compaction_rests.load(Ordering::Acquire)
    }
}

impl FutureLog {
    /// Copies the rest of a log to which nothing is appended meanwhile. `false` if it is too much.
    fn catches_up(&self, log: &CommitLog, now_ms: i64) -> Result<bool, LogError> {
        self.follow(log, now_ms)?;
        let mut left = LAST_BYTES;
        while self.lag(log) > 0 {
            let copied = self.copy_next(log, LAST_BYTES as u32, now_ms)?;
            if copied == 0 || copied > left {
                return Ok(false);
            }
            left -= copied;
        }
        Ok(self.log.log_end_offset() == log.log_end_offset()
            && self.log.log_start_offset() == log.log_start_offset())
    }
}

impl LeftLog {
    /// The log directory that it is in.
    #[must_use]
    pub fn log_dir(&self) -> &Arc<LogDir> {
        &self.dir.log_dir
    }

    /// Moves the directory to `name`, from where the caller removes it.
    ///
    /// # Errors
    /// The disk fails.
    pub fn rename_and_close(&self, name: &str) -> Result<Arc<Path>, LogError> {
        self.dir.rename(name)?;
        self.close();
        Ok(self.dir.path())
    }

    /// Closes the files: the log is opened again where they are.
    pub fn close(&self) {
        self.segments.iter().for_each(|segment| segment.close_file());
    }
}
