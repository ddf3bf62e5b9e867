//! Compaction: of each key the last value stays, older ones go.
//!
//! ```text
//!  log start            first dirty        first uncleanable      log end
//!      | cleaned before      | dirty               | active segment, recent records |
//!      |<---- rewritten ------------------------->|
//! ```
//! The keys of the dirty part are put into a map with their last offsets. Then every segment below
//! is rewritten without the records that a later one replaces. A tombstone stays for
//! `delete.retention.ms` after the first compaction that met it, so that readers see it; its
//! batch's header says until when. Offsets never change. The last batch of a rewritten segment
//! stays even if it is empty. So after a crash the segment's end is known, and with it the segments
//! that it replaces.
//! Source: Kafka's `LogCleaner`, `Cleaner`; KIP-534.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kafkalite_protocol::compression::CompressionError;
use kafkalite_protocol::record_batch::{RecordBatch, RecordBatchError, Records};
use kafkalite_protocol::types::Offset;

use crate::batch_scan::BatchReader;
use crate::commit_log::CommitLog;
use crate::config::LogConfig;
use crate::error::LogError;
use crate::segment::Segment;

mod key_offsets;
mod rewrite;
mod swap;
#[cfg(test)]
mod tests;

use key_offsets::KeyOffsets;
pub(crate) use swap::UnfinishedSwap;

/// What is held of one batch decompressed, at most: so many bytes, or so many times its size.
const HELD_BYTES: usize = 64 << 20;
const HELD_RATIO: usize = 8;

/// What there is to gain.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Compactable {
    /// Bytes of dirty segments that may be compacted.
    pub dirty_bytes: u64,
    /// Their share of all that would be read, 0 to 1.
    pub dirty_ratio: f64,
    /// The ratio passes `min.cleanable.dirty.ratio`, or `max.compaction.lag.ms` is over.
    pub is_due: bool,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Everything below is compacted, as [`CommitLog::cleaned_to`] tells afterwards. Persist it.
    pub cleaned_to: Offset,
    /// Bytes of the segments that were replaced.
    pub bytes_before: u64,
    /// Bytes of those that replaced them.
    pub bytes_after: u64,
    /// Records that went.
    pub records_removed: u64,
}

/// The segments that a compaction looks at.
struct Range {
    /// From the oldest to the last that may be compacted.
    segments: Vec<Arc<Segment>>,
    first_dirty: Offset,
    /// The offset after the last of them.
    end: Offset,
}

impl Range {
    fn is_dirty(&self, index: usize) -> bool {
        let end = self.segments.get(index + 1).map_or(self.end, |next| next.base_offset());
        end > self.first_dirty
    }
}

impl CommitLog {
    /// How much compaction of what is not compacted yet would bring now.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn compactable(
        &self,
        high_watermark: Offset,
        now_ms: i64,
    ) -> Result<Compactable, LogError> {
        self.check_open()?;
        let config = self.config();
        let range = self.compaction_range(high_watermark, now_ms, &config)?;
        let (mut total, mut dirty, mut overdue) = (0_u64, 0_u64, false);
        for (index, segment) in range.segments.iter().enumerate() {
            let size = u64::from(segment.size());
            total += size;
            if range.is_dirty(index) {
                dirty += size;
                let first_ms = segment.first_timestamp()?.unwrap_or(i64::MAX);
                overdue |= now_ms.saturating_sub(first_ms) > config.max_compaction_lag_ms;
            }
        }
        let dirty_ratio = if total == 0 { 0.0 } else { dirty as f64 / total as f64 };
        let worth = dirty_ratio > config.min_cleanable_dirty_ratio;
        let is_due = (worth || overdue) && !self.compaction_rests();
        Ok(Compactable { dirty_bytes: dirty, dirty_ratio, is_due })
    }

    /// Compacts from the log's start up to what may be compacted now; `max_keys` bounds the memory
    /// (about 40 bytes a key). [`Self::cleaned_to`] tells how far it came.
    ///
    /// To be run by one thread at a time for a log.
    ///
    /// # Errors
    /// If the disk fails, or a batch cannot be read. The log is as before then, or compacted up to
    /// some segment, which is as good.
    pub fn compact(
        &self,
        high_watermark: Offset,
        now_ms: i64,
        max_keys: usize,
    ) -> Result<Compacted, LogError> {
        self.check_open()?;
        self.finish_last_swap()?;
        let config = self.config();
        // A record that is replaced may be on the disk: the one that replaces it has to be, too.
        let durable = self.flush()?.offset;
        let high_watermark = high_watermark.min(durable);
        // Before the segments are looked up.
        let truncations = self.truncations();
        if self.compaction_rests() {
            return Ok(Compacted { cleaned_to: self.cleaned_to(), ..Compacted::default() });
        }
        let range = self.compaction_range(high_watermark, now_ms, &config)?;
        let mut result = Compacted { cleaned_to: range.first_dirty, ..Compacted::default() };
        let mut keys = KeyOffsets::new(max_keys);
        let mut last = 0;
        for (index, segment) in range.segments.iter().enumerate() {
            if !range.is_dirty(index) {
                continue;
            }
            let whole = note_keys(segment, range.first_dirty, &mut keys)?;
            last = index + 1;
            if !whole {
                break;
            }
            result.cleaned_to =
                range.segments.get(last).map_or(range.end, |next| next.base_offset());
        }
        if last == 0 {
            return Ok(result);
        }
        // The map was full in the middle of a segment: what it does not cover stays as it is.
        result.cleaned_to = result.cleaned_to.max(keys.end());
        let mut rules =
            rewrite::Rules { keys: &keys, config: &config, now_ms, truncations, left_alone: false };
        let end = range.segments.get(last).map_or(range.end, |next| next.base_offset());
        for group in rewrite::groups(&range.segments[..last], end, &config) {
            if !self.rewrite_group(group, &mut rules, &mut result)? {
                // Values that a tombstone above deletes are there still. The next compaction has to
                // see both, or the tombstone would go first.
                result.cleaned_to = self.cleaned_to();
                return Ok(result);
            }
        }
        // Under the lock that a truncation takes, which lowers it.
        let _flushing = self.flushing.lock();
        if self.truncations() == truncations {
            self.cleaned_to.store(result.cleaned_to.0, Ordering::Release);
        }
        result.cleaned_to = self.cleaned_to();
        Ok(result)
    }

    /// Sealed segments, without those that hold records at or above the high watermark or records
    /// younger than `min.compaction.lag.ms`.
    fn compaction_range(
        &self,
        high_watermark: Offset,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<Range, LogError> {
        let first_dirty = self.cleaned_to();
        let mut segments = self.segments.read().clone();
        let mut end = segments.pop().map_or(Offset(0), |active| active.base_offset());
        let mut count = 0;
        for (index, segment) in segments.iter().enumerate() {
            let segment_end = segments.get(index + 1).map_or(end, |next| next.base_offset());
            let lag_ms = config.min_compaction_lag_ms;
            let young = lag_ms > 0 && segment.newest_ms()? > now_ms.saturating_sub(lag_ms);
            if segment_end > high_watermark || (young && segment_end > first_dirty) {
                break;
            }
            count = index + 1;
        }
        if let Some(first_kept) = segments.get(count) {
            end = first_kept.base_offset();
        }
        segments.truncate(count);
        // A checkpoint may name more than a power cut left.
        let first_dirty = first_dirty.max(self.log_start_offset()).min(end);
        Ok(Range { segments, first_dirty, end })
    }
}

/// The records of a batch, held as a whole. `None` if the batch inflates too much: a megabyte may
/// hide a gigabyte. Such a batch stays as it is and replaces nothing. Tombstones above it stay too,
/// because it may hold the records that they delete.
fn held<'a>(batch: &RecordBatch<'a>) -> Result<Option<Records<'a>>, LogError> {
    match batch.records(HELD_BYTES.max(batch.payload().len().saturating_mul(HELD_RATIO))) {
        Err(RecordBatchError::Compression(CompressionError::TooLarge { .. })) => Ok(None),
        records => Ok(Some(records?)),
    }
}

/// Puts the last offset of each key into the map; `false` if the map is full before the end.
fn note_keys(segment: &Segment, from: Offset, keys: &mut KeyOffsets) -> Result<bool, LogError> {
    let file = segment.file()?;
    let mut reader = BatchReader::new(file.storage(), segment.size());
    while let Some((_, batch)) = segment.scanned(reader.next())? {
        let header = batch.header();
        if header.last_offset() < from || header.is_control() {
            continue;
        }
        batch.verify_crc()?;
        let records = held(&batch)?;
        for record in records.iter().flatten() {
            let record = record?;
            let Some(key) = record.key.filter(|_| record.offset >= from) else { continue };
            if !keys.insert(key, record.offset) {
                return Ok(false);
            }
        }
        keys.cover(header.next_offset());
    }
    Ok(true)
}
