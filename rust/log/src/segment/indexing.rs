//! What a segment knows of its batches: offsets, timestamps, and where they are.
//!
//! Everything an index says is checked against the log; one that contradicts it is made anew.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;

use kafkalite_protocol::record_batch::BatchHeader;
use kafkalite_protocol::types::{Offset, Position};
use parking_lot::MutexGuard;

use super::{INDEX_SUFFIX, Indexes, LOG_SUFFIX, Segment, TIME_INDEX_SUFFIX, UNKNOWN_TIMESTAMP};
use crate::batch_scan::{BatchScan, READ_BYTES};
use crate::error::LogError;
use crate::index::Entries;
use crate::index::offset_index::OffsetIndex;
use crate::index::time_index::TimeIndex;
use crate::segment_file::FileSlice;
use crate::storage::{OpenMode, Storage, StorageFile, read_full};

/// Index entries reach the file in chunks of this many bytes.
const INDEX_CHUNK_BYTES: usize = 4_096;

impl Segment {
    /// Notes a batch that was written at `position`, and adds index entries where they are due.
    pub(crate) fn note_batch(
        &self,
        indexes: &mut Indexes,
        header: &BatchHeader,
        position: Position,
        index_interval_bytes: u32,
    ) {
        let last = header.last_offset();
        if self.first_timestamp.load(Ordering::Relaxed) == UNKNOWN_TIMESTAMP {
            self.first_timestamp.store(header.max_timestamp, Ordering::Relaxed);
        }
        if header.max_timestamp > self.max_timestamp.load(Ordering::Relaxed) {
            self.max_timestamp.store(header.max_timestamp, Ordering::Relaxed);
            self.max_timestamp_offset.store(last.0, Ordering::Relaxed);
        }
        if indexes.since_entry > index_interval_bytes {
            if let Some(relative) = self.relative(last) {
                indexes.offsets.push(relative, position);
            }
            self.push_max_timestamp(indexes);
            indexes.since_entry = 0;
        }
        indexes.since_entry = indexes.since_entry.saturating_add(header.size() as u32);
    }

    pub(super) fn push_max_timestamp(&self, indexes: &mut Indexes) {
        let offset = Offset(self.max_timestamp_offset.load(Ordering::Relaxed));
        if let Some(relative) = self.relative(offset) {
            indexes.times.push(self.max_timestamp.load(Ordering::Relaxed), relative);
        }
    }

    /// The indexes, loaded if they are not.
    pub(crate) fn indexes(&self) -> Result<IndexesGuard<'_>, LogError> {
        let mut held = self.indexes.lock();
        if held.is_none() {
            *held = Some(Box::new(self.load_indexes()?));
        }
        Ok(IndexesGuard(held))
    }

    fn load_indexes(&self) -> Result<Indexes, LogError> {
        let storage = self.dir.storage();
        let deleted = self.is_deleted();
        // Mapped even if the segment is written: the first new entry takes them into memory.
        let offsets = self.dir.at(&self.name(INDEX_SUFFIX), |path| Entries::map(storage, path));
        let loaded = offsets.and_then(|offsets| {
            let times = self.dir.at(&self.name(TIME_INDEX_SUFFIX), |p| Entries::map(storage, p))?;
            Ok((offsets, times))
        });
        let (offsets, times) = match loaded {
            // As with the file: these may be another segment's.
            Ok(_) if deleted != self.is_deleted() => return Err(self.gone()),
            Ok(loaded) => loaded,
            // Also what a small sealed segment looks like that never needed an entry.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return self.rebuild_indexes(crate::config::DEFAULT_INDEX_INTERVAL_BYTES);
            }
            Err(error) => return Err(self.dir.failed(self.path(INDEX_SUFFIX), error)),
        };
        let (mut offsets, mut times) = (OffsetIndex::new(offsets), TimeIndex::new(times));
        offsets.trim(self.size());
        times.trim();
        let since_entry = offsets.last().map_or(self.size(), |last| self.size() - last.1.0);
        Ok(Indexes { offsets, times, since_entry })
    }

    /// Reads every header of the segment and makes both indexes anew.
    pub(crate) fn rebuild_indexes(&self, interval_bytes: u32) -> Result<Indexes, LogError> {
        let mut indexes = Self::fresh_indexes();
        self.max_timestamp.store(-1, Ordering::Relaxed);
        let file = self.file()?;
        let mut scan = BatchScan::new(file.storage(), Position(0), self.size());
        while let Some((position, header)) = self.scanned(scan.next())? {
            self.note_batch(&mut indexes, &header, position, interval_bytes);
        }
        Ok(indexes)
    }

    /// Empty indexes for a segment whose batches are noted one by one; the files are replaced.
    pub(crate) fn fresh_indexes() -> Indexes {
        let mut indexes = Indexes::default();
        indexes.offsets.entries.distrust_file();
        indexes.times.entries.distrust_file();
        indexes
    }

    pub(crate) fn set_indexes(&self, indexes: Indexes) {
        *self.indexes.lock() = Some(Box::new(indexes));
    }

    /// Where the batch that holds `offset` starts, or the next one if compaction removed it.
    pub(crate) fn locate(
        &self,
        offset: Offset,
    ) -> Result<Option<(Position, BatchHeader)>, LogError> {
        let Some(relative) = self.relative(offset) else { return Ok(None) };
        let from = self.indexes()?.offsets.lookup(relative);
        let file = self.file()?;
        let mut scan = BatchScan::new(file.storage(), from, self.size());
        let found = match self.find(&mut scan, offset) {
            // The index pointed into the middle of a batch: it is damaged. The log is not.
            Err(LogError::Batch(_)) if from != Position(0) => {
                tracing::warn!(index = %self.path(INDEX_SUFFIX).display(), "damaged, rebuilding");
                let rebuilt = self.rebuild_indexes(crate::config::DEFAULT_INDEX_INTERVAL_BYTES)?;
                self.set_indexes(rebuilt);
                self.find(&mut BatchScan::new(file.storage(), Position(0), self.size()), offset)?
            }
            found => found?,
        };
        Ok(found)
    }

    /// What [`Segment::locate`] reads of the file at most: from the index entry before `offset` to
    /// the header of the batch of the entry after it, and what comes in with that header.
    pub(crate) fn locate_range(&self, offset: Offset) -> Result<Option<FileSlice>, LogError> {
        let Some(relative) = self.relative(offset) else { return Ok(None) };
        let (from, to) = {
            let indexes = self.indexes()?;
            (indexes.offsets.lookup(relative), indexes.offsets.lookup_after(relative))
        };
        let size = self.size();
        let end = to.map_or(size, |to| to.0.saturating_add(READ_BYTES as u32).min(size));
        let length = end.saturating_sub(from.0);
        let position = from.0.into();
        Ok(Some(FileSlice { file: self.file()?, position, length, written_ms: None }))
    }

    fn find(
        &self,
        scan: &mut BatchScan<'_>,
        offset: Offset,
    ) -> Result<Option<(Position, BatchHeader)>, LogError> {
        while let Some((position, header)) = self.scanned(scan.next())? {
            if header.last_offset() >= offset {
                return Ok(Some((position, header)));
            }
        }
        Ok(None)
    }

    /// The largest timestamp in ms (-1 if no batch has one), and the last offset of its batch.
    pub(crate) fn max_timestamp(&self) -> Result<(i64, Offset), LogError> {
        if self.max_timestamp.load(Ordering::Relaxed) == UNKNOWN_TIMESTAMP {
            // A sealed segment's last entry is its largest; an open one's was found at its
            // recovery.
            let last = self.indexes()?.times.last();
            // Loading may have rebuilt, and then knows better.
            if self.max_timestamp.load(Ordering::Relaxed) == UNKNOWN_TIMESTAMP {
                self.believe_max_timestamp(last)?;
            }
        }
        let offset = Offset(self.max_timestamp_offset.load(Ordering::Relaxed));
        Ok((self.max_timestamp.load(Ordering::Relaxed), offset))
    }

    /// Takes over the last time index entry if the batch it names agrees; else reads the log.
    fn believe_max_timestamp(&self, last: Option<(i64, u32)>) -> Result<(), LogError> {
        if let Some((timestamp, relative)) = last {
            let offset = Offset(self.base_offset.0 + i64::from(relative));
            let holds = |header: &BatchHeader| {
                header.last_offset() == offset && header.max_timestamp == timestamp
            };
            if self.locate(offset)?.is_some_and(|(_, header)| holds(&header)) {
                self.max_timestamp_offset.store(offset.0, Ordering::Relaxed);
                self.max_timestamp.store(timestamp, Ordering::Relaxed);
                return Ok(());
            }
            tracing::warn!(index = %self.path(TIME_INDEX_SUFFIX).display(), "damaged, rebuilding");
        }
        let rebuilt = self.rebuild_indexes(crate::config::DEFAULT_INDEX_INTERVAL_BYTES)?;
        self.set_indexes(rebuilt);
        Ok(())
    }

    /// What `segment.ms` counts from: the timestamp of the first batch, if it has one.
    pub(crate) fn first_timestamp(&self) -> Result<Option<i64>, LogError> {
        if self.first_timestamp.load(Ordering::Relaxed) == UNKNOWN_TIMESTAMP && self.size() > 0 {
            let file = self.file()?;
            let mut scan = BatchScan::new(file.storage(), Position(0), self.size());
            if let Some((_, header)) = self.scanned(scan.next())? {
                self.first_timestamp.store(header.max_timestamp, Ordering::Relaxed);
            }
        }
        Ok(Some(self.first_timestamp.load(Ordering::Relaxed)).filter(|timestamp| *timestamp >= 0))
    }

    /// Writes index entries that wait in memory, if they fill a chunk.
    pub(crate) fn write_index_chunk(&self, indexes: &mut Indexes) -> Result<(), LogError> {
        if indexes.offsets.entries.unwritten() >= INDEX_CHUNK_BYTES {
            self.write_indexes(indexes, false)?;
        }
        Ok(())
    }

    pub(super) fn write_indexes(&self, indexes: &mut Indexes, sync: bool) -> Result<(), LogError> {
        let storage = self.dir.storage();
        let failed = |path, error| self.dir.failed(path, error);
        let path = self.path(INDEX_SUFFIX);
        indexes.offsets.entries.write(storage, &path, sync).map_err(|e| failed(path, e))?;
        let path = self.path(TIME_INDEX_SUFFIX);
        indexes.times.entries.write(storage, &path, sync).map_err(|e| failed(path, e))
    }

    /// The offset after the last batch of a segment that was just truncated.
    pub(crate) fn end_after_truncation(&self) -> Result<Offset, LogError> {
        let (from, known) = {
            let indexes = self.indexes()?;
            (indexes.offsets.last(), indexes.times.last())
        };
        let file = self.file()?;
        let end = self.scan_tail(file.storage(), from, known)?;
        end.map_or_else(|| self.rebuild_and_scan(file.storage()), Ok)
    }

    /// The offset after the last batch of a segment that was closed cleanly.
    ///
    /// Looks at the last index entries only, and keeps neither file nor index: this is what opening
    /// ten thousand idle partitions costs.
    pub(crate) fn end_after_clean_close(&self) -> Result<Offset, LogError> {
        if self.size() == 0 {
            return Ok(self.base_offset);
        }
        let storage = self.dir.storage();
        let from = read_last(storage, &self.path(INDEX_SUFFIX)).map(|e| OffsetIndex::decode(&e));
        let known =
            read_last(storage, &self.path(TIME_INDEX_SUFFIX)).map(|e| TimeIndex::decode(&e));
        let path = self.path(LOG_SUFFIX);
        let file =
            storage.open(&path, OpenMode::Read).map_err(|error| self.dir.failed(path, error))?;
        let end = self.scan_tail(file.as_ref(), from, known)?;
        end.map_or_else(|| self.rebuild_and_scan(file.as_ref()), Ok)
    }

    fn rebuild_and_scan(&self, file: &dyn StorageFile) -> Result<Offset, LogError> {
        tracing::warn!(index = %self.path(INDEX_SUFFIX).display(), "damaged, rebuilding");
        let rebuilt = self.rebuild_indexes(crate::config::DEFAULT_INDEX_INTERVAL_BYTES)?;
        self.set_indexes(rebuilt);
        Ok(self.scan_tail(file, None, None)?.unwrap_or(self.base_offset))
    }

    /// Walks the headers from the last index entry on, and finds the largest timestamp: the offset
    /// after the last batch. `None` if an entry contradicts the log.
    fn scan_tail(
        &self,
        file: &dyn StorageFile,
        from: Option<(u32, Position)>,
        known: Option<(i64, u32)>,
    ) -> Result<Option<Offset>, LogError> {
        let (mut max, relative) = known.unwrap_or((-1, 0));
        let mut max_offset = self.base_offset.0 + i64::from(relative);
        let mut next = self.base_offset;
        let mut scan = BatchScan::new(file, from.map_or(Position(0), |from| from.1), self.size());
        let mut expected = from.map(|from| self.base_offset.0 + i64::from(from.0));
        loop {
            let header = match self.scanned(scan.next()) {
                Ok(Some((_, header))) => header,
                Ok(None) => break,
                Err(LogError::Batch(_)) if from.is_some() => return Ok(None),
                Err(error) => return Err(error),
            };
            next = header.next_offset();
            if expected.take().is_some_and(|expected| expected != header.last_offset().0) {
                return Ok(None);
            }
            if header.max_timestamp > max {
                (max, max_offset) = (header.max_timestamp, header.last_offset().0);
            }
        }
        if expected.is_some() || (max >= 0 && max_offset >= next.0) {
            return Ok(None);
        }
        self.max_timestamp_offset.store(max_offset, Ordering::Relaxed);
        self.max_timestamp.store(max, Ordering::Relaxed);
        Ok(Some(next))
    }

    /// Whether the indexes have room for one more entry.
    pub(crate) fn index_is_full(&self, segment_index_bytes: u32) -> bool {
        let max_entries = (segment_index_bytes / 12).max(1) as usize;
        match &*self.indexes.lock() {
            Some(indexes) => indexes.offsets.entries.len() >= max_entries,
            None => false,
        }
    }

    /// Completes `indexes` and writes them beside the segment, to names with `suffix` at the end.
    pub(crate) fn write_indexes_aside(
        &self,
        indexes: &mut Indexes,
        suffix: &str,
    ) -> Result<(), LogError> {
        self.push_max_timestamp(indexes);
        let storage = self.dir.storage();
        let failed = |name: &str, error| self.dir.failed(self.dir.file(name), error);
        let name = self.name(&format!("{INDEX_SUFFIX}{suffix}"));
        let written = self.dir.at(&name, |path| indexes.offsets.entries.write(storage, path, true));
        written.map_err(|error| failed(&name, error))?;
        let name = self.name(&format!("{TIME_INDEX_SUFFIX}{suffix}"));
        let written = self.dir.at(&name, |path| indexes.times.entries.write(storage, path, true));
        written.map_err(|error| failed(&name, error))
    }
}

/// The last entry of an index file; `None` if there is no such file, or nothing whole in it.
fn read_last<const LENGTH: usize>(storage: &dyn Storage, path: &Path) -> Option<[u8; LENGTH]> {
    let file = storage.open(path, OpenMode::Read).ok()?;
    let entries = file.length().ok()? / LENGTH as u64;
    let mut entry = [0; LENGTH];
    let position = entries.checked_sub(1)? * LENGTH as u64;
    let read = read_full(file.as_ref(), &mut entry, position).ok()?;
    (read == LENGTH).then_some(entry)
}

/// The loaded indexes of one segment, locked.
pub(crate) struct IndexesGuard<'a>(MutexGuard<'a, Option<Box<Indexes>>>);

impl std::ops::Deref for IndexesGuard<'_> {
    type Target = Indexes;
    fn deref(&self) -> &Indexes {
        self.0.as_deref().expect("loaded before the guard was made, and locked since")
    }
}

impl std::ops::DerefMut for IndexesGuard<'_> {
    fn deref_mut(&mut self) -> &mut Indexes {
        self.0.as_deref_mut().expect("loaded before the guard was made, and locked since")
    }
}
