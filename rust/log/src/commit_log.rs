//! The commit log of one partition: its segments in order, and the offsets where it starts and
//! ends.
//!
//! Promises:
//! - appends are serial; a batch is visible only after its bytes were written, and either whole or
//!   not at all, whatever fails
//! - readers take no lock that an append holds while it writes
//! - the replica's [`Role`] and what is appended change under one lock: nothing is appended in
//!   another epoch than the role's
//! - `log_start_offset`, `log_end_offset` and `durable_offset` are plain loads
//!
//! Locks, in the order they are taken: `flushing`, `writer`, `waiting`, `segments`, a segment's
//! indexes, its largest timestamp, its file, `writing_epochs`, `noted`.
//! Source: Kafka's `UnifiedLog` and `LocalLog`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use kafkalite_protocol::types::{LeaderEpoch, Offset};
use parking_lot::{Mutex, RwLock};

use crate::checkpoint::{LEADER_EPOCH_FILE, write_epochs};
use crate::compaction::UnfinishedSwap;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::leader_epochs::{Agreement, CopyEnd, EpochEnd, EpochStart, LeaderEpochs};
use crate::log_dir::{LogDir, PartitionDir};
use crate::producer_state::{ActiveProducer, ProducerState};
use crate::recovery::{self, Recovered, RecoveryReport};
use crate::segment::Segment;
use crate::storage::{Durability, replace_file};
use crate::tail_ring::TailRing;
use crate::truncation_note::TruncationNote;

mod append;
mod copy;
mod figures;
mod flush;
mod follow;
mod heal;
mod lookup;
mod moving;
mod read;
mod role;
#[cfg(test)]
pub(crate) mod tests;
mod truncate;

pub use append::Appended;
pub use copy::Copied;
pub use figures::SegmentFigures;
pub use follow::FollowerAppended;
pub use heal::{Checked, Damage};
pub use lookup::TimestampOffset;
pub use moving::{FutureLog, LeftLog};
pub use read::ReadResult;
pub use role::{DurableEnd, LogEnd, Role};
pub use truncate::NotedTruncation;

/// What the checkpoints of a log directory know about a partition before it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenState {
    /// Whether the broker stopped cleanly: nothing is scanned then.
    pub clean: bool,
    /// Everything below is known to be on disk; a scan after an unclean stop starts there.
    pub recovery_point: Offset,
    /// Where DeleteRecords or retention moved the start to.
    pub log_start_offset: Offset,
    /// Everything below is compacted.
    pub cleaned_to: Offset,
}

/// What only the holder of the append lock touches.
#[derive(Debug)]
pub(crate) struct Writer {
    /// What this replica may append.
    role: Role,
    pub(crate) active: Arc<Segment>,
    pub(crate) producers: ProducerState,
    /// Offset of the newest snapshot file, if there is one.
    pub(crate) snapshot_offset: Option<Offset>,
    /// Files renamed to `.deleted`, and when to remove them, ms.
    pub(crate) deleted: Vec<(i64, PathBuf)>,
    /// Nothing is appended before this truncation is completed.
    unfinished: Option<Box<truncate::Unfinished>>,
    /// Nothing is truncated or compacted before this compacted segment is in its place.
    pub(crate) unfinished_swap: Option<Box<UnfinishedSwap>>,
}

/// One partition's log.
#[derive(Debug)]
pub struct CommitLog {
    /// Where its files are: another place once it was moved into another log directory.
    dir: ArcSwap<PartitionDir>,
    config: ArcSwap<LogConfig>,
    log_start_offset: AtomicI64,
    log_end_offset: AtomicI64,
    /// Everything below is on the disk; Kafka calls it the recovery point.
    durable_offset: AtomicI64,
    /// Everything below is compacted; what is above is not known to be.
    pub(crate) cleaned_to: AtomicI64,
    /// Raised by each change that tells where the log ends, see [`LogEnd`].
    version: AtomicU64,
    pub(crate) segments: RwLock<Vec<Arc<Segment>>>,
    pub(crate) writer: Mutex<Writer>,
    /// Batches of threads that found the writer taken; its holder appends them before it lets go.
    waiting: Mutex<Vec<append::Waiting>>,
    pub(crate) flushing: Mutex<()>,
    /// A file was created or renamed since the directory was last synced.
    dir_changed: AtomicBool,
    /// The directory's own name may not be on the disk yet.
    name_unsynced: AtomicBool,
    /// A segment was sealed and is not on the disk yet.
    sealed_unflushed: AtomicBool,
    /// The newest leader epoch is in no file yet: nothing was appended in it.
    epochs_unwritten: AtomicBool,
    /// The leader epochs were written and are not on the disk yet.
    epochs_unflushed: AtomicBool,
    /// Its end, if it was found as a clean stop had left it.
    left_at: Option<Offset>,
    pub(crate) epochs: RwLock<LeaderEpochs>,
    /// One at a time replaces the file of the epochs, with what holds then.
    writing_epochs: Mutex<()>,
    tail: Mutex<Option<Box<TailRing>>>,
    /// The note in the partition's directory, if there is one, and the version it was made in.
    noted: Mutex<Option<Box<(TruncationNote, u64)>>>,
    /// How often this log was truncated since it was opened, or its files were replaced.
    truncations: AtomicU64,
    /// Nothing is compacted: the log is being copied.
    compaction_rests: AtomicBool,
    closed: AtomicBool,
}

impl CommitLog {
    /// Opens the log in `name` (TOPIC-PARTITION) of `log_dir`, or creates it there.
    ///
    /// # Errors
    /// If the disk fails. Damage is no error: it is cut away and told in the report.
    pub fn open(
        log_dir: &Arc<LogDir>,
        name: &str,
        config: Arc<LogConfig>,
        state: OpenState,
        now_ms: i64,
    ) -> Result<(Self, RecoveryReport), LogError> {
        log_dir.check_online()?;
        let dir = PartitionDir::new(log_dir.clone(), log_dir.path().join(name));
        let recovered = recovery::recover(&dir, &config, state, now_ms)?;
        let Recovered { segments, producers, snapshot_offset, epochs, state, .. } = recovered;
        let Recovered { log_end_offset, report, as_left, note, .. } = recovered;
        let first = segments.first().map_or(state.log_start_offset, |s| s.base_offset());
        let log_start = state.log_start_offset.max(first).min(log_end_offset);
        let durable = if state.clean { log_end_offset } else { state.recovery_point };
        let active = segments.last().expect("recovery leaves one segment at least").clone();
        // The leader is not known yet.
        let role = Role::Follower(LeaderEpoch::UNKNOWN);
        let writer = Writer {
            role,
            active,
            producers,
            snapshot_offset,
            deleted: Vec::new(),
            unfinished: None,
            unfinished_swap: None,
        };
        let log = Self {
            dir: ArcSwap::new(dir),
            config: ArcSwap::new(config),
            log_start_offset: AtomicI64::new(log_start.0),
            log_end_offset: AtomicI64::new(log_end_offset.0),
            durable_offset: AtomicI64::new(durable.0.min(log_end_offset.0)),
            cleaned_to: AtomicI64::new(state.cleaned_to.min(log_end_offset).0),
            version: AtomicU64::new(1),
            segments: RwLock::new(segments),
            writer: Mutex::new(writer),
            waiting: Mutex::default(),
            flushing: Mutex::new(()),
            dir_changed: AtomicBool::new(!as_left),
            name_unsynced: AtomicBool::new(!as_left),
            epochs_unwritten: AtomicBool::new(false),
            epochs_unflushed: AtomicBool::new(!as_left),
            left_at: as_left.then_some(log_end_offset),
            // What recovery read may be in the page cache only.
            sealed_unflushed: AtomicBool::new(!state.clean),
            epochs: RwLock::new(epochs),
            writing_epochs: Mutex::new(()),
            tail: Mutex::new(None),
            noted: Mutex::new(note.map(|note| Box::new((note, 1)))),
            truncations: AtomicU64::new(0),
            compaction_rests: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        };
        if log_end_offset < state.log_start_offset {
            // A power cut took records that were deleted already. Their offsets were answered.
            let partition = log.path();
            let (end, start) = (log_end_offset.0, state.log_start_offset.0);
            tracing::warn!(partition = %partition.display(), end, start, "log begins at its start");
            let mut writer = log.writer.lock();
            log.restart_locked(&mut writer, state.log_start_offset, now_ms)?;
        }
        Ok((log, report))
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> Arc<LogConfig> {
        self.config.load_full()
    }

    /// Replaces the settings; appends from now on obey them.
    pub fn set_config(&self, config: Arc<LogConfig>) {
        self.config.store(config);
    }

    /// The partition's directory.
    #[must_use]
    pub fn path(&self) -> Arc<Path> {
        self.dir().path()
    }

    /// The log directory it is in.
    #[must_use]
    pub fn log_dir(&self) -> Arc<LogDir> {
        self.dir.load().log_dir.clone()
    }

    /// First offset that may be read.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        Offset(self.log_start_offset.load(Ordering::Acquire))
    }

    /// The offset that the next record gets.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        Offset(self.log_end_offset.load(Ordering::Acquire))
    }

    /// Everything below this offset survives a power cut.
    #[must_use]
    pub fn durable_offset(&self) -> Offset {
        Offset(self.durable_offset.load(Ordering::Acquire))
    }

    /// Everything below this offset is compacted: Kafka calls it the first dirty offset. Survives a
    /// restart if the broker keeps it in [`OpenState::cleaned_to`].
    #[must_use]
    pub fn cleaned_to(&self) -> Offset {
        Offset(self.cleaned_to.load(Ordering::Acquire))
    }

    /// Bytes in all segments.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.segments.read().iter().map(|segment| u64::from(segment.size())).sum()
    }

    /// How many segments there are.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments.read().len()
    }

    /// Where the active segment starts: what lies before it will not grow.
    #[must_use]
    pub fn active_base_offset(&self) -> Offset {
        self.segments.read().last().map_or(Offset::ZERO, |segment| segment.base_offset())
    }

    /// The producers that this log knows, by id.
    #[must_use]
    pub fn producers(&self) -> Vec<ActiveProducer> {
        self.writer.lock().producers.active()
    }

    /// The epoch of the newest batch.
    #[must_use]
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.epochs.read().latest()
    }

    /// Every epoch and where it starts.
    #[must_use]
    pub fn epochs(&self) -> Vec<EpochStart> {
        self.epochs.read().entries().to_vec()
    }

    /// The epoch in which the record at `offset` was appended.
    #[must_use]
    pub fn epoch_at(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.epochs.read().epoch_at(offset)
    }

    /// Where the records of `epoch` end; `None` if this log cannot know.
    #[must_use]
    pub fn end_offset_for_epoch(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        self.epochs.read().end_offset_for(epoch, self.log_end_offset())
    }

    /// Whether another copy of this log holds what this one does.
    #[must_use]
    pub fn agreement(&self, copy: &CopyEnd) -> Agreement {
        self.epochs.read().agreement(copy, self.log_end_offset())
    }

    /// Forgets where the last batches are; positions of files that are replaced or cut.
    pub(crate) fn forget_tail(&self) {
        if let Some(tail) = &mut *self.tail.lock() {
            tail.clear();
        }
    }

    pub(crate) fn check_open(&self) -> Result<(), LogError> {
        if self.closed.load(Ordering::Acquire) {
            return Err(LogError::Closed { path: self.dir().path() });
        }
        self.dir.load().log_dir.check_online()
    }

    /// Where its files are now.
    pub(crate) fn dir(&self) -> Arc<PartitionDir> {
        self.dir.load_full()
    }

    pub(crate) fn out_of_range(&self, offset: Offset) -> LogError {
        LogError::OffsetOutOfRange {
            offset,
            log_start_offset: self.log_start_offset(),
            log_end_offset: self.log_end_offset(),
        }
    }

    /// The segment whose base offset is the last at or below `offset`, and the one after it.
    pub(crate) fn segment_at(
        &self,
        offset: Offset,
    ) -> Option<(Arc<Segment>, Option<Arc<Segment>>)> {
        let segments = self.segments.read();
        let after = segments.partition_point(|segment| segment.base_offset() <= offset);
        let found = segments.get(after.checked_sub(1)?)?.clone();
        Some((found, segments.get(after).cloned()))
    }

    /// Writes the leader epochs; `durability` says what they must survive.
    pub(crate) fn write_epochs(&self, durability: Durability) -> Result<(), LogError> {
        let _writing = self.writing_epochs.lock();
        self.epochs_unflushed.store(durability == Durability::PageCache, Ordering::Release);
        self.epochs_unwritten.store(false, Ordering::Release);
        let entries = self.epochs.read().entries().to_vec();
        let dir = self.dir();
        let held = dir.hold();
        let path = held.join(LEADER_EPOCH_FILE);
        let written = write_epochs(dir.storage(), &path, &entries, durability);
        drop(held);
        written.map_err(|error| {
            // A disk that is full now may take them later.
            self.epochs_unwritten.store(true, Ordering::Release);
            dir.judge(error)
        })
    }

    /// Writes the producer state as of the log's end, for the next start.
    pub(crate) fn write_snapshot(
        &self,
        writer: &mut Writer,
        durability: Durability,
    ) -> Result<(), LogError> {
        let offset = self.log_end_offset();
        if writer.snapshot_offset == Some(offset) {
            return Ok(());
        }
        let path = self.dir().file(&recovery::snapshot_name(offset));
        replace_file(self.dir().storage(), &path, &writer.producers.encode(), durability)
            .map_err(|error| self.dir().failed(path, error))?;
        writer.snapshot_offset = Some(offset);
        Ok(())
    }

    /// Closes the log. With `clean`, everything is on the disk afterwards, and the caller may say
    /// so in the recovery point checkpoint and the clean shutdown file.
    ///
    /// # Errors
    /// If the disk fails; the stop is unclean then.
    pub fn close(&self, clean: bool) -> Result<(), LogError> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if clean && !self.dir().log_dir.is_offline() {
            self.finish_truncation(&mut self.writer.lock())?;
        }
        if clean && !self.dir().log_dir.is_offline() && !self.is_as_on_disk() {
            let mut writer = self.writer.lock();
            self.write_snapshot(&mut writer, Durability::DiskWithDirectory)?;
            drop(writer);
            self.flush_all()?;
            if let Some(active) = self.segments.read().last() {
                active.release_reserved();
            }
        }
        for segment in self.segments.read().iter() {
            segment.close_file();
        }
        Ok(())
    }

    /// Whether a clean stop has nothing to write: nothing happened since the last one, or ever.
    fn is_as_on_disk(&self) -> bool {
        let changed = [&self.dir_changed, &self.sealed_unflushed, &self.epochs_unflushed];
        let end = self.log_end_offset();
        // A log that never had a record is created again if a power cut takes it.
        end == Offset::ZERO
            || (self.left_at == Some(end)
                && !changed.iter().any(|flag| flag.load(Ordering::Acquire)))
    }

    /// Moves the partition's directory to `name`, as its deletion begins, and closes the log.
    ///
    /// Kafka's name for it is TOPIC-PARTITION.ID-delete. Slices being sent stay valid.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn rename_and_close(&self, name: &str) -> Result<Arc<Path>, LogError> {
        // No thread may open a file in the old directory: the disk would seem to fail.
        let _flushing = self.flushing.lock();
        let _writer = self.writer.lock();
        let _writing = self.writing_epochs.lock();
        self.closed.store(true, Ordering::Release);
        self.dir().rename(name)?;
        for segment in self.segments.read().iter() {
            segment.close_file();
        }
        Ok(self.dir().path())
    }
}
