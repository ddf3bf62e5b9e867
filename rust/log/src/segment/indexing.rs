//! What a segment knows of its batches: offsets, timestamps, and where they are.
//!
//! Everything an index says is checked against the log; one that contradicts it is rebuilt.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;

use kafkalite_protocol::record_batch::BatchHeader;
use kafkalite_protocol::types::{Offset, Position};
use parking_lot::MutexGuard;

use super::{
    INDEX_SUFFIX, Indexes, LOG_SUFFIX, Newest, Segment, TIME_INDEX_SUFFIX, UNKNOWN_TIMESTAMP,
};
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
        if header.max_timestamp > indexes.newest.timestamp_ms {
            indexes.newest = Newest { timestamp_ms: header.max_timestamp, offset: last };
        }
        if indexes.since_entry > index_interval_bytes {
            if let Some(relative) = self.relative(last) {
                indexes.offsets.push(relative, position);
            }
            self.push_newest(indexes, indexes.newest);
            indexes.since_entry = 0;
        }
        indexes.since_entry = indexes.since_entry.saturating_add(header.size() as u32);
    }

    pub(super) fn push_newest(&self, indexes: &mut Indexes, newest: Newest) {
        if let Some(relative) = self.relative(newest.offset) {
            indexes.times.push(newest.timestamp_ms, relative);
        }
    }

    /// The indexes, loaded if they are not.
    pub(crate) fn indexes(&self) -> Result<IndexesGuard<'_>, LogError> {
        let mut held = self.indexes.lock();
        if held.is_none() {
            // Files of an empty segment are left from a crash.
            let indexes =
                if self.size() == 0 { Self::fresh_indexes() } else { self.load_indexes()? };
            *held = Some(Box::new(indexes));
        }
        Ok(IndexesGuard(held))
    }

    fn load_indexes(&self) -> Result<Indexes, LogError> {
        let storage = self.dir.storage();
        let deleted = self.deleted();
        // Mapped even if the segment is written: the first new entry takes them into memory.
        let name = |suffix| self.name_as(deleted, suffix);
        let offsets = self.dir.at(&name(INDEX_SUFFIX), |path| Entries::map(storage, path));
        let loaded = offsets.and_then(|offsets| {
            let times = self.dir.at(&name(TIME_INDEX_SUFFIX), |p| Entries::map(storage, p))?;
            Ok((offsets, times))
        });
        let (offsets, times) = match loaded {
            // As with the file: these may be another segment's.
            Ok(_) if deleted != self.deleted() => return Err(self.gone()),
            Ok(loaded) => loaded,
            // Also what a small sealed segment looks like that never needed an entry.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut rebuilt = Self::fresh_indexes();
                self.note_all(&mut rebuilt, 0, self.size())?;
                *self.newest.lock() = Some(rebuilt.newest);
                return Ok(rebuilt);
            }
            Err(error) => return Err(self.dir.failed(self.path(INDEX_SUFFIX), error)),
        };
        let (mut offsets, mut times) = (OffsetIndex::new(offsets), TimeIndex::new(times));
        offsets.trim(self.size());
        times.trim();
        let since_entry = offsets.last().map_or(self.size(), |last| self.size() - last.1.0);
        let newest = self.newest.lock().unwrap_or_default();
        Ok(Indexes { offsets, times, since_entry, newest })
    }

    /// Rebuilds both indexes: one of them contradicts the log.
    fn rebuild(&self) -> Result<(), LogError> {
        tracing::warn!(index = %self.path(INDEX_SUFFIX).display(), "damaged, rebuilding");
        loop {
            let mut rebuilt = Self::fresh_indexes();
            let size = self.size();
            // All headers: no append waits for this.
            self.note_all(&mut rebuilt, 0, size)?;
            let mut held = self.indexes.lock();
            // What was appended meanwhile. An append publishes its batches under this lock.
            let now = self.size();
            if now < size {
                continue; // Truncated.
            }
            self.note_all(&mut rebuilt, size, now)?;
            *self.newest.lock() = Some(rebuilt.newest);
            *held = Some(Box::new(rebuilt));
            return Ok(());
        }
    }

    /// Notes the batches between two positions.
    fn note_all(&self, indexes: &mut Indexes, from: u32, to: u32) -> Result<(), LogError> {
        let file = self.file()?;
        let mut scan = BatchScan::new(file.storage(), Position(from), to);
        while let Some((position, header)) = self.scanned(scan.next())? {
            let interval = crate::config::DEFAULT_INDEX_INTERVAL_BYTES;
            self.note_batch(indexes, &header, position, interval);
        }
        Ok(())
    }

    /// Empty indexes for a segment whose batches are noted one by one; the files are replaced.
    pub(crate) fn fresh_indexes() -> Indexes {
        let mut indexes = Indexes::default();
        indexes.offsets.entries.distrust_file();
        indexes.times.entries.distrust_file();
        indexes
    }

    /// Takes over what recovery noted. An empty segment keeps none: an idle partition costs no
    /// index memory.
    pub(crate) fn set_indexes(&self, indexes: Indexes) {
        *self.indexes.lock() = (self.size() > 0).then(|| Box::new(indexes));
    }

    /// Where the batch that holds `offset` starts, or the next one if compaction removed it.
    pub(crate) fn locate(
        &self,
        offset: Offset,
    ) -> Result<Option<(Position, BatchHeader)>, LogError> {
        let Some(relative) = self.relative(offset) else { return Ok(None) };
        if self.size() == 0 {
            return Ok(None); // After a truncation its file may wait for a disk that is full.
        }
        let file = self.file()?;
        let mut scan = self.scan_from(file.storage(), relative)?;
        while let Some((position, header)) = self.scanned(scan.next())? {
            if header.last_offset() >= offset {
                return Ok(Some((position, header)));
            }
        }
        Ok(None)
    }

    /// A walk that begins with a batch at or before `relative`, as near as the index knows one.
    ///
    /// The index entry names the last offset of the batch at its position. If another batch is
    /// there, or none, the indexes are rebuilt.
    pub(crate) fn scan_from<'a>(
        &self,
        file: &'a dyn StorageFile,
        relative: u32,
    ) -> Result<BatchScan<'a>, LogError> {
        let Some((last, from)) = self.indexes()?.offsets.floor(relative) else {
            return Ok(BatchScan::new(file, Position(0), self.size()));
        };
        let mut scan = BatchScan::new(file, from, self.size());
        let named = |header: &BatchHeader| self.relative(header.last_offset()) == Some(last);
        if last <= relative && self.peek(&mut scan)?.is_some_and(|header| named(&header)) {
            return Ok(scan);
        }
        self.rebuild()?;
        let from = self.indexes()?.offsets.floor(relative).map_or(Position(0), |entry| entry.1);
        Ok(BatchScan::new(file, from, self.size()))
    }

    /// A walk that begins at or before the first batch with a record at or after `timestamp_ms`.
    ///
    /// The index entry names a batch before that one by its last offset and its timestamp. If there
    /// is no such batch, the indexes are rebuilt.
    pub(crate) fn scan_since<'a>(
        &self,
        file: &'a dyn StorageFile,
        timestamp_ms: i64,
    ) -> Result<BatchScan<'a>, LogError> {
        let Some((known_ms, relative)) = self.indexes()?.times.floor(timestamp_ms) else {
            return Ok(BatchScan::new(file, Position(0), self.size()));
        };
        let mut scan = self.scan_from(file, relative)?;
        let before = |header: &BatchHeader| self.relative(header.last_offset()) < Some(relative);
        while self.peek(&mut scan)?.is_some_and(|header| before(&header)) {
            self.scanned(scan.next())?;
        }
        let named = |header: &BatchHeader| {
            self.relative(header.last_offset()) == Some(relative)
                && header.max_timestamp == known_ms
        };
        if known_ms < timestamp_ms && self.peek(&mut scan)?.is_some_and(|header| named(&header)) {
            return Ok(scan);
        }
        self.rebuild()?;
        let found = self.indexes()?.times.floor(timestamp_ms);
        self.scan_from(file, found.map_or(0, |entry| entry.1))
    }

    /// The header that the walk comes to next; `None` at the end, and where there is no batch.
    fn peek(&self, scan: &mut BatchScan<'_>) -> Result<Option<BatchHeader>, LogError> {
        match self.scanned(scan.peek()) {
            Err(LogError::Batch(_)) => Ok(None),
            header => header,
        }
    }

    /// The largest part of the file that [`Segment::locate`] reads. It is from the index entry
    /// before `offset` to the header of the next entry's batch, with the bytes read beside that
    /// header.
    pub(crate) fn locate_range(&self, offset: Offset) -> Result<Option<FileSlice>, LogError> {
        let Some(relative) = self.relative(offset).filter(|_| self.size() > 0) else {
            return Ok(None);
        };
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

    /// The largest timestamp, and the batch that has it.
    pub(crate) fn newest(&self) -> Result<Newest, LogError> {
        if let Some(known) = *self.newest.lock() {
            return Ok(known);
        }
        // A sealed segment's last entry is its largest; an open one's was found at its recovery.
        let (from, known) = {
            let indexes = self.indexes()?;
            (indexes.offsets.last(), indexes.times.last())
        };
        let file = self.file()?;
        if self.scan_tail(file.storage(), from, known)?.is_none() {
            self.rebuild()?;
        }
        Ok(self.newest.lock().unwrap_or_default())
    }

    /// When its newest record was made: its largest timestamp, or when it was last written if no
    /// record has one.
    pub(crate) fn newest_ms(&self) -> Result<i64, LogError> {
        let largest = self.newest()?.timestamp_ms;
        Ok(if largest >= 0 { largest } else { self.modified_ms() })
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

    /// Where the last batch below `offset` ends: the byte and the offset after it. A batch that
    /// holds `offset` is not below it.
    pub(crate) fn end_below(&self, offset: Offset) -> Result<(u32, Offset), LogError> {
        let mut end = (0, self.base_offset);
        let relative = self.relative(offset).unwrap_or(i32::MAX as u32);
        // An index entry names a last offset: with one less, the walk begins below `offset`.
        let Some(before) = relative.checked_sub(1).filter(|_| self.size() > 0) else {
            return Ok(end);
        };
        let file = self.file()?;
        let mut scan = self.scan_from(file.storage(), before)?;
        while let Some((position, header)) = self.scanned(scan.next())? {
            if header.last_offset() >= offset {
                break;
            }
            end = (position.0 + header.size() as u32, header.next_offset());
        }
        Ok(end)
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
        match self.scan_tail(file.as_ref(), from, known)? {
            Some(end) => {
                self.indexes.lock().take();
                Ok(end)
            }
            None => self.rebuild_and_scan(file.as_ref()),
        }
    }

    fn rebuild_and_scan(&self, file: &dyn StorageFile) -> Result<Offset, LogError> {
        self.rebuild()?;
        Ok(self.scan_tail(file, None, None)?.unwrap_or(self.base_offset))
    }

    /// Walks the headers from the last index entries on, and finds the largest timestamp: the
    /// offset after the last batch. `None` if an entry contradicts the log:
    ///
    /// - case A: the last offset entry names another batch than stands at its position
    /// - case B: the last time entry names a batch that is not there, or has another timestamp
    /// - case C: entries are missing. Both indexes get theirs together, so the batch of the last
    ///   offset entry cannot be newer than the last time entry
    fn scan_tail(
        &self,
        file: &dyn StorageFile,
        from: Option<(u32, Position)>,
        known: Option<(i64, u32)>,
    ) -> Result<Option<Offset>, LogError> {
        let (mut expected, mut named) = (from, known);
        let mut newest = Newest::default();
        // Only what follows the last offset entry is read.
        if let Some((timestamp_ms, relative)) = known
            && from.is_some_and(|(last, _)| relative < last)
        {
            newest = Newest { timestamp_ms, offset: self.base_offset.plus(relative.into()) };
            if !self.has_batch(file, newest)? {
                return Ok(None); // case B
            }
            named = None;
        }
        let mut next = self.base_offset;
        let mut scan = BatchScan::new(file, from.map_or(Position(0), |from| from.1), self.size());
        loop {
            let header = match self.scanned(scan.next()) {
                Ok(Some((_, header))) => header,
                Ok(None) => break,
                Err(LogError::Batch(_)) if from.is_some() => return Ok(None),
                Err(error) => return Err(error),
            };
            next = header.next_offset();
            let relative = self.relative(header.last_offset());
            if let Some((last, _)) = expected.take() {
                let newer = header.max_timestamp > known.map_or(-1, |known| known.0);
                if relative != Some(last) || newer {
                    return Ok(None); // case A, case C
                }
            }
            if named
                .take_if(|known| relative == Some(known.1))
                .is_some_and(|known| header.max_timestamp != known.0)
            {
                return Ok(None); // case B
            }
            if header.max_timestamp > newest.timestamp_ms {
                newest =
                    Newest { timestamp_ms: header.max_timestamp, offset: header.last_offset() };
            }
        }
        if expected.is_some() || named.is_some() {
            return Ok(None);
        }
        *self.newest.lock() = Some(newest);
        Ok(Some(next))
    }

    /// Whether the batch that `newest` names is there.
    fn has_batch(&self, file: &dyn StorageFile, newest: Newest) -> Result<bool, LogError> {
        let Some(relative) = self.relative(newest.offset) else { return Ok(false) };
        let mut scan = self.scan_from(file, relative)?;
        loop {
            match self.scanned(scan.next()) {
                Ok(Some((_, header))) if header.last_offset() < newest.offset => {}
                Ok(Some((_, header))) => {
                    let Newest { timestamp_ms, offset } = newest;
                    return Ok(
                        (header.max_timestamp, header.last_offset()) == (timestamp_ms, offset)
                    );
                }
                Ok(None) | Err(LogError::Batch(_)) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
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
        self.push_newest(indexes, indexes.newest);
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
