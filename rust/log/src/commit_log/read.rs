//! Reading: from an offset to a range of a file. No record is copied, and none is looked at.

use std::sync::Arc;

use kafkalite_protocol::types::{Offset, Position};

use super::CommitLog;
use crate::error::LogError;
use crate::segment::Segment;
use crate::segment_file::FileSlice;
use crate::tail_ring::{Located, TailRing};

/// A read goes on over so many segments, at most. Each slice keeps a file open until it is sent,
/// and the descriptors of a process are few.
const MOST_SLICES: usize = 16;

/// What a read found.
#[derive(Clone, Debug, Default)]
pub struct ReadResult {
    /// The bytes, in order; the last batch may be cut. Empty if there is nothing to read yet.
    pub slices: Vec<FileSlice>,
    /// Bytes of all slices.
    pub bytes: u32,
}

/// Where a batch is, and how long.
struct Start {
    segment: Arc<Segment>,
    next: Option<Arc<Segment>>,
    position: Position,
    batch_size: u32,
    written_ms: Option<i64>,
}

impl CommitLog {
    /// Reads up to `max_bytes` from the batch that holds `from`, and nothing at or after `upper`.
    ///
    /// `upper` is the log end offset, the high watermark or the last stable offset: always the
    /// border of a batch. `max_bytes` may cut anywhere. With `min_one_batch` the first batch is
    /// whole even if it is larger; without, nothing is returned then.
    ///
    /// # Errors
    /// `OffsetOutOfRange` below the log's start or above its end; never for `upper`.
    pub fn read(
        &self,
        from: Offset,
        max_bytes: u32,
        upper: Offset,
        min_one_batch: bool,
    ) -> Result<ReadResult, LogError> {
        self.look(|| {
            if from < self.log_start_offset() || from > self.log_end_offset() {
                return Err(self.out_of_range(from));
            }
            if from >= upper {
                return Ok(ReadResult::default());
            }
            let before = self.truncations();
            let found = self.read_in_range(from, max_bytes, upper, min_one_batch)?;
            if self.truncations() != before {
                // A position of the one file may have been taken for one of the other.
                return Err(LogError::Closed { path: self.path() });
            }
            Ok(found)
        })
    }

    /// Looks, and looks again if a segment went, deleted or compacted, after it was looked up.
    /// There is another now, or the log starts later.
    pub(crate) fn look<T>(&self, look: impl Fn() -> Result<T, LogError>) -> Result<T, LogError> {
        loop {
            self.check_open()?;
            match look() {
                Err(LogError::Closed { .. }) if self.check_open().is_ok() => {}
                outcome => return outcome,
            }
        }
    }

    fn read_in_range(
        &self,
        from: Offset,
        max_bytes: u32,
        upper: Offset,
        min_one_batch: bool,
    ) -> Result<ReadResult, LogError> {
        let Some(start) = self.start(from)? else { return Ok(ReadResult::default()) };
        let first_limit = self.limit(&start.segment, start.next.as_ref(), upper)?;
        let readable = first_limit.saturating_sub(start.position.0);
        // The batch may end above `upper` only while it is being published: nothing to read yet.
        if readable < start.batch_size || (max_bytes < start.batch_size && !min_one_batch) {
            return Ok(ReadResult::default());
        }
        let mut left = max_bytes.max(start.batch_size);
        let length = readable.min(left);
        left -= length;
        let mut result = ReadResult { slices: Vec::with_capacity(1), bytes: 0 };
        let position = u64::from(start.position.0);
        // What follows in the log was written later.
        let written_ms = start.written_ms;
        result.push(FileSlice { file: start.segment.file()?, position, length, written_ms });
        let mut next = start.next;
        // On into the next segments, as far as the bytes go.
        while let Some(segment) = next.filter(|segment| {
            left > 0 && result.slices.len() < MOST_SLICES && segment.base_offset() < upper
        }) {
            let Some((there, after)) = self.segment_at(segment.base_offset()) else { break };
            if !Arc::ptr_eq(&there, &segment) {
                // Compaction joined `segment` with its neighbours, and `after` follows all of them.
                break;
            }
            let length = self.limit(&segment, after.as_ref(), upper)?.min(left);
            left -= length;
            if length > 0 {
                let file = match segment.file() {
                    // What was found goes to the reader, and gives its descriptors back.
                    Err(LogError::OutOfDescriptors { .. }) => break,
                    file => file?,
                };
                result.push(FileSlice { file, position: 0, length, written_ms });
            }
            next = after;
        }
        Ok(result)
    }

    /// The part of a file that [`CommitLog::read`] reads to find the batch that holds `from`. It is
    /// headers between two index entries, or nothing for the newest batches.
    ///
    /// A caller that must not wait for a disk makes sure that this range is in the page cache
    /// first. An error gives `None`, because the read will return it.
    ///
    /// The read searches the index again. That costs little beside the wait in between. In that
    /// time the log may have been truncated and written again, so an old position could lie inside
    /// a batch.
    #[must_use]
    pub fn lookup_range(&self, from: Offset) -> Option<FileSlice> {
        if from < self.log_start_offset() || from >= self.log_end_offset() {
            return None;
        }
        let (segment, _) = self.segment_at(from)?;
        if self.known_start(from, &segment).is_some() {
            return None;
        }
        segment.locate_range(from).ok().flatten()
    }

    /// The batch that holds `from`, if it is one of the newest.
    fn known_start(&self, from: Offset, segment: &Segment) -> Option<Located> {
        let mut tail = self.tail.lock();
        let tail = tail.get_or_insert_with(|| Box::new(TailRing::new()));
        tail.lookup(from).filter(|known| known.base_offset >= segment.base_offset())
    }

    /// The batch that holds `from`, or the first after it if compaction removed that one.
    fn start(&self, from: Offset) -> Result<Option<Start>, LogError> {
        let Some((mut segment, mut next)) = self.segment_at(from) else { return Ok(None) };
        if let Some(known) = self.known_start(from, &segment) {
            let Located { position, size: batch_size, written_ms, .. } = known;
            return Ok(Some(Start { segment, next, position, batch_size, written_ms }));
        }
        let mut target = from;
        loop {
            if let Some((position, header)) = segment.locate(target)? {
                let batch_size = header.size() as u32;
                let written_ms = None;
                return Ok(Some(Start { segment, next, position, batch_size, written_ms }));
            }
            let Some(following) = next else { return Ok(None) };
            target = following.base_offset();
            // One look for both: compaction may have joined `following` with its neighbours.
            let Some(found) = self.segment_at(target) else { return Ok(None) };
            (segment, next) = found;
        }
    }

    /// How many bytes of `segment` lie below `upper`.
    fn limit(
        &self,
        segment: &Arc<Segment>,
        next: Option<&Arc<Segment>>,
        upper: Offset,
    ) -> Result<u32, LogError> {
        if next.is_some_and(|next| next.base_offset() <= upper) {
            return Ok(segment.size());
        }
        // The order matters: an append moves the end before the size. So the bytes seen here belong
        // to records below the end that is read after them.
        let size = segment.size();
        if upper >= self.log_end_offset() {
            return Ok(size);
        }
        let known = self.tail.lock().as_ref().and_then(|tail| tail.lookup(upper));
        // At position 0 it begins the segment after this one, which was not there a moment ago.
        if let Some(known) =
            known.filter(|known| known.base_offset == upper && known.position.0 > 0)
        {
            return Ok(known.position.0);
        }
        Ok(segment.locate(upper)?.map_or(size, |(position, _)| position.0))
    }

    /// About how many bytes lie between two offsets, without looking at the disk.
    ///
    /// Exact for the newest batches, otherwise up to two index intervals too many and never too
    /// few: good enough to decide whether a fetch has its `fetch.min.bytes`.
    #[must_use]
    pub fn bytes_between(&self, from: Offset, to: Offset) -> u64 {
        if from >= to {
            return 0;
        }
        let ((lowest, _), (_, highest)) = (self.place(from), self.place(to));
        highest.saturating_sub(lowest)
    }

    /// The place of `offset` in all bytes that this log ever held, since it was opened: the lowest
    /// and the highest that it may be.
    fn place(&self, offset: Offset) -> (u64, u64) {
        let Some((segment, _)) = self.segment_at(offset) else { return (0, 0) };
        let before = segment.bytes_before();
        let size = before + u64::from(segment.size());
        if offset >= self.log_end_offset() {
            return (size, size);
        }
        let known = self.tail.lock().as_ref().and_then(|tail| tail.lookup(offset));
        if let Some(known) = known.filter(|known| known.base_offset >= segment.base_offset()) {
            let place = before + u64::from(known.position.0);
            return (place, place);
        }
        let Ok(indexes) = segment.indexes() else { return (before, size) };
        let relative = segment.relative(offset).unwrap_or(u32::MAX);
        let after = indexes.offsets.lookup_after(relative);
        let lowest = before + u64::from(indexes.offsets.lookup(relative).0);
        (lowest, after.map_or(size, |position| before + u64::from(position.0)))
    }
}

impl ReadResult {
    fn push(&mut self, slice: FileSlice) {
        self.bytes += slice.length;
        self.slices.push(slice);
    }
}
