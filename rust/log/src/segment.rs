//! A segment: the batches from one base offset on, in a `.log` file with two indexes beside it.
//!
//! The newest segment of a log is written, all others are sealed. Bytes become visible to readers
//! with [`Segment::publish`], after the write. Indexes are loaded when first needed, so an idle
//! partition costs no index memory.
//! Source: Kafka's `LogSegment`, `LogFileUtils`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use kafkalite_protocol::types::Offset;
use parking_lot::Mutex;

use crate::batch_scan::ScanError;
use crate::error::LogError;
use crate::index::offset_index::OffsetIndex;
use crate::index::time_index::TimeIndex;
use crate::log_dir::PartitionDir;
use crate::segment_file::{FileSlot, SegmentFile};
use crate::storage::{OpenMode, is_shared};

mod indexing;

/// `.log`
pub(crate) const LOG_SUFFIX: &str = ".log";
/// `.index`
pub(crate) const INDEX_SUFFIX: &str = ".index";
/// `.timeindex`
pub(crate) const TIME_INDEX_SUFFIX: &str = ".timeindex";
/// `.txnindex`
pub(crate) const TXN_INDEX_SUFFIX: &str = ".txnindex";
/// On the way out.
pub(crate) const DELETED_SUFFIX: &str = ".deleted";
/// The first batch was not looked at yet.
const UNKNOWN_TIMESTAMP: i64 = i64::MIN;
/// Segments of this size and more have blocks reserved ahead of them, at most so many.
const RESERVE_FROM_BYTES: u64 = 4 << 20;
const RESERVE_BYTES: u64 = 16 << 20;

/// The name of a segment's file: its base offset in 20 digits, and a suffix.
pub(crate) fn file_name(base_offset: Offset, suffix: &str) -> String {
    format!("{:020}{suffix}", base_offset.0)
}

/// The largest timestamp of a segment, and the batch that holds it: the first, if several do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Newest {
    /// In ms; -1 if no batch has a timestamp.
    pub(crate) timestamp_ms: i64,
    /// Last offset of that batch.
    pub(crate) offset: Offset,
}

impl Default for Newest {
    fn default() -> Self {
        Self { timestamp_ms: -1, offset: Offset::ZERO }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Indexes {
    pub(crate) offsets: OffsetIndex,
    pub(crate) times: TimeIndex,
    /// Bytes appended since the last entry.
    since_entry: u32,
    /// Of all batches noted, published or not.
    newest: Newest,
}

/// One base offset: a `.log`, an `.index`, a `.timeindex`.
#[derive(Debug)]
pub(crate) struct Segment {
    base_offset: Offset,
    dir: Arc<PartitionDir>,
    slot: Arc<FileSlot>,
    size: AtomicU32,
    /// Bytes of all segments before this one, ever.
    bytes_before: AtomicU64,
    sealed: AtomicBool,
    /// Its files are on the way out under names with this number, and others may have their old
    /// names; 0 if not.
    deleted: AtomicU64,
    indexes: Mutex<Option<Box<Indexes>>>,
    /// Of the published batches; moves together with `size`. `None`: not looked at yet.
    newest: Mutex<Option<Newest>>,
    /// Bytes of the file that have blocks on the disk.
    allocated: AtomicU64,
    /// What `segment.ms` counts from: the first batch's timestamp.
    first_timestamp: AtomicI64,
    /// When the file was last written, ms; for batches without timestamps.
    modified_ms: AtomicI64,
    created_ms: i64,
}

impl Segment {
    /// A segment whose files exist, or are made by [`Self::create`].
    pub(crate) fn new(dir: Arc<PartitionDir>, base_offset: Offset, size: u32, now_ms: i64) -> Self {
        Self {
            base_offset,
            dir,
            slot: Arc::default(),
            size: AtomicU32::new(size),
            bytes_before: AtomicU64::new(0),
            sealed: AtomicBool::new(false),
            deleted: AtomicU64::new(0),
            indexes: Mutex::new(None),
            newest: Mutex::new((size == 0).then(Newest::default)),
            allocated: AtomicU64::new(0),
            first_timestamp: AtomicI64::new(UNKNOWN_TIMESTAMP),
            modified_ms: AtomicI64::new(now_ms),
            created_ms: now_ms,
        }
    }

    /// Makes the empty `.log` file.
    pub(crate) fn create(&self) -> Result<(), LogError> {
        let path = self.path(LOG_SUFFIX);
        let open = || {
            let file = self.dir.storage().open(&path, OpenMode::Create)?;
            // A crash may have left bytes. Nothing may fail once there is a new file. Otherwise the
            // previous segment would grow on, and the next start would take the new file for its
            // end.
            if file.length()? > 0 {
                file.set_len(0)?;
            }
            Ok(file)
        };
        self.slot
            .get(self.dir.log_dir.files(), open)
            .map_err(|error| self.dir.failed(path.clone(), error))?;
        Ok(())
    }

    pub(crate) fn base_offset(&self) -> Offset {
        self.base_offset
    }

    pub(crate) fn name(&self, suffix: &str) -> String {
        self.name_as(self.deleted(), suffix)
    }

    /// The name of a file, for what [`Self::deleted`] said.
    fn name_as(&self, deleted: u64, suffix: &str) -> String {
        let name = file_name(self.base_offset, suffix);
        if deleted == 0 { name } else { format!("{name}.{deleted}{DELETED_SUFFIX}") }
    }

    pub(crate) fn path(&self, suffix: &str) -> PathBuf {
        self.dir.file(&self.name(suffix))
    }

    /// The number in the names of its files on the way out; 0 if they have their own names.
    fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::SeqCst)
    }

    /// What a reader gets that came too late: the files are gone, or are another segment's by now.
    /// It looks the segment up again.
    fn gone(&self) -> LogError {
        LogError::Closed { path: self.path(LOG_SUFFIX).into() }
    }

    /// The error for a file that does not open by the name that it has if `deleted` is its number:
    /// a failing disk, or [`Self::gone`].
    fn not_opened(&self, deleted: u64, suffix: &str, error: std::io::Error) -> LogError {
        // A full disk may have taken the deletion back since.
        let is_leaving = deleted != 0 || self.deleted() != 0;
        if is_leaving && error.kind() == ErrorKind::NotFound {
            return self.gone();
        }
        self.dir.failed(self.path(suffix), error)
    }

    /// Turns a failure of the disk under one of its files into an error.
    pub(crate) fn failed(&self, suffix: &str, error: std::io::Error) -> LogError {
        self.dir.failed(self.path(suffix), error)
    }

    /// Bytes that readers may see.
    pub(crate) fn size(&self) -> u32 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn bytes_before(&self) -> u64 {
        self.bytes_before.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bytes_before(&self, bytes: u64) {
        self.bytes_before.store(bytes, Ordering::Relaxed);
    }

    /// When this segment was made, or opened after a restart, ms.
    pub(crate) fn created_ms(&self) -> i64 {
        self.created_ms
    }

    pub(crate) fn modified_ms(&self) -> i64 {
        self.modified_ms.load(Ordering::Relaxed)
    }

    /// `offset` relative to the base offset; `None` if this segment cannot hold it.
    pub(crate) fn relative(&self, offset: Offset) -> Option<u32> {
        let relative = offset.0.checked_sub(self.base_offset.0)?;
        u32::try_from(relative).ok().filter(|relative| *relative <= i32::MAX as u32)
    }

    /// The open `.log`.
    ///
    /// # Errors
    /// `Closed` if the segment was deleted and its file is gone.
    pub(crate) fn file(&self) -> Result<Arc<SegmentFile>, LogError> {
        let deleted = self.deleted();
        let open = || {
            let open = |path: &Path| self.dir.storage().open(path, OpenMode::Write);
            let file = self.dir.at(&self.name_as(deleted, LOG_SUFFIX), open)?;
            // Marked between the two looks: compaction may have put another file there.
            if deleted == self.deleted() { Ok(file) } else { Err(ErrorKind::NotFound.into()) }
        };
        let opened = self.slot.get(self.dir.log_dir.files(), open);
        opened.map_err(|error| self.not_opened(deleted, LOG_SUFFIX, error))
    }

    /// Writes `buffers` after what is published. Readers do not see them until [`Self::publish`].
    pub(crate) fn write(&self, buffers: &mut [IoSlice<'_>]) -> Result<(), LogError> {
        let file = self.file()?;
        file.storage()
            .write_all_at(buffers, self.size().into())
            .map_err(|error| self.dir.failed(self.path(LOG_SUFFIX), error))
    }

    /// Reserves blocks ahead of a segment that grows: an append into them costs a sixth less. Not
    /// for small segments, so that ten thousand idle partitions do not reserve a disk.
    pub(crate) fn reserve(&self, appended: usize, whole_bytes: Option<u32>) {
        let end = u64::from(self.size()) + appended as u64;
        if whole_bytes.is_none()
            && (end < RESERVE_FROM_BYTES || end <= self.allocated.load(Ordering::Relaxed))
        {
            return;
        }
        let wanted = whole_bytes.map_or(end + (end / 4).min(RESERVE_BYTES), u64::from);
        // Also if it fails: a full disk is for the write to report, and need not be asked each
        // time.
        self.allocated.store(wanted, Ordering::Relaxed);
        let _ = self.file().map(|file| file.storage().allocate(wanted));
    }

    /// Gives back the blocks that were reserved and not needed.
    pub(crate) fn release_reserved(&self) {
        if self.allocated.swap(0, Ordering::Relaxed) > u64::from(self.size())
            && let Err(error) = self.set_file_length(self.size())
        {
            tracing::warn!("blocks reserved for a segment stay reserved: {error}");
        }
    }

    /// Starts over: the batches of this segment will be noted one by one.
    pub(crate) fn begin_recovery(&self) -> Indexes {
        self.first_timestamp.store(UNKNOWN_TIMESTAMP, Ordering::Relaxed);
        Self::fresh_indexes()
    }

    /// Ends a recovery that found `size` valid bytes; what follows them is cut away.
    pub(crate) fn end_recovery(&self, size: u32, indexes: Indexes) -> Result<(), LogError> {
        let cut = size < self.size();
        self.set_size(size, Some(indexes.newest));
        if cut {
            self.set_file_length(size)?;
        }
        self.set_indexes(indexes);
        Ok(())
    }

    /// Cuts away what was written and not published: bytes, and entries from `end` on.
    pub(crate) fn discard_unpublished(&self, end: Offset) -> Result<(), LogError> {
        if let (Some(indexes), Some(relative)) = (&mut *self.indexes.lock(), self.relative(end)) {
            indexes.offsets.truncate_to(relative);
            indexes.times.truncate_to(relative);
            indexes.newest = self.newest.lock().unwrap_or_default();
        }
        self.set_file_length(self.size())
    }

    /// This segment's share of `segment.jitter.ms`, so that not all partitions roll at once.
    pub(crate) fn jitter_ms(&self, max_ms: i64) -> i64 {
        if max_ms <= 0 {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        (self.path(LOG_SUFFIX), self.created_ms).hash(&mut hasher);
        (hasher.finish() % max_ms.unsigned_abs()) as i64
    }

    fn set_file_length(&self, length: u32) -> Result<(), LogError> {
        let file = self.file()?;
        let set = match is_shared(file.storage().as_fd()) {
            Ok(true) => self.take_own_copy(&file, length),
            Ok(false) => file.storage().set_len(length.into()),
            Err(error) => Err(error),
        };
        set.map_err(|error| self.dir.failed(self.path(LOG_SUFFIX), error))
    }

    /// Puts a copy of the first `length` bytes in the place of the file, which a snapshot or a fork
    /// has as well. Slices of the file before stay valid.
    fn take_own_copy(&self, file: &SegmentFile, length: u32) -> io::Result<()> {
        const PIECE: usize = 1 << 20;
        let mut piece = vec![0; PIECE.min(length as usize)];
        self.dir.at(&self.name(LOG_SUFFIX), |path| {
            let temporary = path.with_extension("log.tmp");
            let own = self.dir.storage().open(&temporary, OpenMode::Create)?;
            own.set_len(0)?;
            let mut copied = 0;
            while copied < length {
                let wanted = piece.len().min((length - copied) as usize);
                let read = file.read_at(&mut piece[..wanted], copied.into())?;
                if read == 0 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                own.write_all_at(&mut [IoSlice::new(&piece[..read])], copied.into())?;
                copied += read as u32;
            }
            own.sync_data()?;
            self.dir.storage().rename(&temporary, path)
        })?;
        self.slot.close();
        Ok(())
    }

    /// Makes everything up to `size` visible to readers: the batches noted in `indexes`, whose
    /// lock the caller holds. What is rebuilt meanwhile would not know of them otherwise.
    pub(crate) fn publish(&self, size: u32, indexes: &Indexes, now_ms: i64) {
        self.modified_ms.store(now_ms, Ordering::Relaxed);
        self.set_size(size, Some(indexes.newest));
    }

    /// Size and largest timestamp are one fact: a reader that sees the timestamp finds its batch.
    fn set_size(&self, size: u32, newest: Option<Newest>) {
        let mut held = self.newest.lock();
        self.size.store(size, Ordering::Release);
        *held = newest;
    }

    pub(crate) fn scanned<T>(&self, outcome: Result<T, ScanError>) -> Result<T, LogError> {
        outcome.map_err(|error| match error {
            ScanError::Io(error) => self.dir.failed(self.path(LOG_SUFFIX), error),
            ScanError::Invalid(error) => error.into(),
        })
    }

    /// The segment is not written any more: completes its indexes and gives their memory back.
    pub(crate) fn seal(&self) -> Result<(), LogError> {
        self.release_reserved();
        let newest = self.newest()?;
        let mut indexes = self.indexes()?;
        self.push_newest(&mut indexes, newest);
        self.write_indexes(&mut indexes, false)?;
        drop(indexes);
        self.mark_sealed();
        Ok(())
    }

    /// Marks a segment that was sealed in an earlier life.
    pub(crate) fn mark_sealed(&self) {
        self.sealed.store(true, Ordering::Relaxed);
        // From here on the file is mapped instead.
        self.indexes.lock().take();
    }

    /// Puts log and indexes on the disk.
    ///
    /// # Errors
    /// `Closed` if the segment was deleted meanwhile: what took its place is on the disk.
    pub(crate) fn flush(&self) -> Result<(), LogError> {
        self.flush_log()?;
        if !self.sealed.load(Ordering::Relaxed) {
            let mut indexes = self.indexes()?;
            return self.write_indexes(&mut indexes, true);
        }
        for suffix in [INDEX_SUFFIX, TIME_INDEX_SUFFIX] {
            let deleted = self.deleted();
            let open = |path: &Path| self.dir.storage().open(path, OpenMode::Write);
            let opened = self.dir.at(&self.name_as(deleted, suffix), open);
            let file = match opened {
                // A missing index is made from the log. Of a segment that is deleted all is gone.
                Err(error) if error.kind() == ErrorKind::NotFound && self.deleted() == 0 => {
                    continue;
                }
                opened => opened.map_err(|error| self.not_opened(deleted, suffix, error))?,
            };
            let synced = file.sync_data();
            synced.map_err(|error| self.dir.failed(self.path(suffix), error))?;
        }
        Ok(())
    }

    /// Puts the `.log` alone on the disk. Any failure counts as a failure of the disk, even a full
    /// disk: the kernel gives up the pages that it could not write. The next sync would succeed
    /// without them.
    pub(crate) fn flush_log(&self) -> Result<(), LogError> {
        let file = self.file()?;
        file.storage().sync_data().map_err(|error| {
            let path = self.path(LOG_SUFFIX).into();
            self.dir.judge(LogError::Io { path, source: Arc::new(error) })
        })
    }

    /// Takes the batches at and after `offset`, which begin at byte `size`, from what readers find.
    /// The file keeps them until [`Self::cut_file`].
    pub(crate) fn hide_from(&self, offset: Offset, size: u32) {
        let relative = self.relative(offset).unwrap_or(u32::MAX);
        let mut held = self.indexes.lock();
        self.set_size(size, None);
        if let Some(indexes) = held.as_deref_mut() {
            indexes.offsets.truncate_to(relative);
            indexes.offsets.trim(size);
            indexes.times.truncate_to(relative);
            indexes.since_entry = size - indexes.offsets.last().map_or(0, |last| last.1.0);
        }
    }

    /// Cuts the file to what readers find; the cut survives a power cut.
    pub(crate) fn cut_file(&self) -> Result<(), LogError> {
        self.set_file_length(self.size())?;
        self.flush_log()
    }

    /// Closes the descriptor; the next use opens it again.
    pub(crate) fn close_file(&self) {
        self.slot.close();
    }

    /// Renames the segment's files to `.N.deleted`, where readers that hold it still find them.
    /// Returns what they are called now, to be removed later. No other segment's files get these
    /// names: a compacted segment has the base offset of the one that it replaced.
    ///
    /// # Errors
    /// If the disk fails or is full. The segment can still be read, and the call may be repeated as
    /// long as no other segment has its old names.
    pub(crate) fn mark_deleted(&self) -> Result<Vec<PathBuf>, LogError> {
        let mut renamed = Vec::new();
        // First: who opens one of the old names from here on looks again and finds out.
        let again = self.deleted() != 0;
        if !again {
            self.deleted.store(self.dir.next_deleted(), Ordering::SeqCst);
        }
        for suffix in [LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX] {
            let from = self.dir.file(&file_name(self.base_offset, suffix));
            let to = self.path(suffix);
            match self.dir.storage().rename(&from, &to) {
                Ok(()) => renamed.push(to),
                // An earlier call may have renamed it.
                Err(error) if error.kind() == ErrorKind::NotFound && again => renamed.push(to),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => {
                    if suffix == LOG_SUFFIX && !again {
                        // Its records are still where they were.
                        self.deleted.store(0, Ordering::SeqCst);
                    }
                    return Err(self.dir.failed(from, error));
                }
            }
        }
        Ok(renamed)
    }
}
