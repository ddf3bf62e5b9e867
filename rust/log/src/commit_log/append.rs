//! Appending: offsets are assigned, one write per group of batches, then everything is published.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH, TimestampType};
use kafkalite_protocol::types::{LeaderEpoch, Offset, Position};
use parking_lot::Mutex;

use super::{CommitLog, LogEnd, Role, Writer};
use crate::config::LogConfig;
use crate::error::LogError;
use crate::producer_state::{Duplicate, Undo};
use crate::segment::Segment;
use crate::storage::Durability;
use crate::validation::ValidatedBatch;

/// One write takes at most this many batches and bytes; a batch is two buffers.
const GROUP_BATCHES: usize = 32;
const GROUP_BYTES: usize = 1 << 20;

/// A batch that is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of its first record.
    pub base_offset: Offset,
    /// Offset of its last record, inclusive.
    pub last_offset: Offset,
    /// The time the broker gave it, ms; -1 if its records keep their own.
    pub log_append_time_ms: i64,
    /// Where the log starts.
    pub log_start_offset: Offset,
    /// Bytes written; 0 for a duplicate.
    pub bytes: u32,
    /// It was in the log already, from an earlier attempt of its producer.
    pub duplicate: bool,
    /// It is the first of its segment: those before it will not grow any more.
    pub starts_segment: bool,
    /// Where the log ends after this batch; `None` for a duplicate, which moves nothing.
    pub log_end: Option<LogEnd>,
}

impl Appended {
    /// The offset that its acknowledgement waits for.
    #[must_use]
    pub fn end_offset(&self) -> Offset {
        Offset(self.last_offset.0 + 1)
    }
}

/// A batch whose thread found another append running.
#[derive(Debug)]
pub(crate) struct Waiting {
    batch: ValidatedBatch,
    epoch: LeaderEpoch,
    now_ms: i64,
    outcome: Arc<Mutex<Option<Result<Appended, LogError>>>>,
}

/// Batches that have offsets and wait for the next write.
#[derive(Default)]
pub(super) struct Group<'a> {
    batches: Vec<(BatchHeader, [u8; HEADER_LENGTH], &'a [u8])>,
    undo: Vec<Undo>,
    bytes: usize,
    /// Index of the first result that this group decides.
    first_result: usize,
}

impl<'a> Group<'a> {
    /// Whether the write that takes the batches so far should not take `header` as well.
    pub(super) fn is_full_for(&self, header: &BatchHeader) -> bool {
        self.batches.len() >= GROUP_BATCHES
            || self.bytes + header.size() > GROUP_BYTES.max(header.size())
    }

    pub(super) fn push(&mut self, header: BatchHeader, payload: &'a [u8]) {
        self.bytes += header.size();
        self.batches.push((header, header.to_bytes(), payload));
    }

    pub(super) fn headers(&self) -> impl Iterator<Item = &BatchHeader> {
        self.batches.iter().map(|(header, ..)| header)
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl CommitLog {
    /// Appends one batch as the leader of `epoch`; `now_ms` is the broker's time.
    ///
    /// # Errors
    /// `WrongRole` if the replica does not lead in `epoch` when the batch's turn comes; what the
    /// producer did wrong, or what the disk did. The log is as before.
    pub fn append_as_leader(
        &self,
        batch: &ValidatedBatch,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<Appended, LogError> {
        if let Some(mut writer) = self.writer.try_lock() {
            let batches = std::slice::from_ref(batch);
            let mut results = self.append_locked(&mut writer, batches, epoch, now_ms);
            self.append_waiting(&mut writer);
            return results.pop().expect("one result for each batch");
        }
        // Another append runs. It takes this batch along when it is done, with all others that
        // came meanwhile, in one write.
        let outcome = Arc::new(Mutex::new(None));
        let waiting = Waiting { batch: batch.clone(), epoch, now_ms, outcome: outcome.clone() };
        self.waiting.lock().push(waiting);
        let mut writer = self.writer.lock();
        let taken_along = outcome.lock().take();
        taken_along.unwrap_or_else(|| {
            // It looked before this batch came.
            self.append_waiting(&mut writer);
            let panicked = LogError::Closed { path: self.dir().path() };
            outcome.lock().take().unwrap_or(Err(panicked))
        })
    }

    /// Appends what other threads wait to append.
    fn append_waiting(&self, writer: &mut Writer) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for same_epoch in waiting.chunk_by(|one, next| one.epoch == next.epoch) {
            let batches: Vec<_> = same_epoch.iter().map(|waiting| waiting.batch.clone()).collect();
            let Waiting { epoch, now_ms, .. } = same_epoch[0];
            let results = self.append_locked(writer, &batches, epoch, now_ms);
            for (waiting, result) in same_epoch.iter().zip(results) {
                *waiting.outcome.lock() = Some(result);
            }
        }
    }

    /// Appends batches that wait for this log, in order, with as few writes as can be.
    ///
    /// One result for each, in order. A batch that its producer got wrong does not keep the others
    /// from being appended.
    pub fn append_all(
        &self,
        batches: &[ValidatedBatch],
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Vec<Result<Appended, LogError>> {
        self.append_locked(&mut self.writer.lock(), batches, epoch, now_ms)
    }

    fn append_locked(
        &self,
        writer: &mut Writer,
        batches: &[ValidatedBatch],
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Vec<Result<Appended, LogError>> {
        let mut results = Vec::with_capacity(batches.len());
        let config = self.config.load();
        let accepted = writer
            .check_role(Role::Leader(epoch))
            .and_then(|()| self.check_writable(writer))
            .and_then(|()| self.write_new_epoch());
        if let Err(error) = accepted {
            results.extend(batches.iter().map(|_| Err(error.clone())));
            return results;
        }
        let mut group = Group::default();
        for batch in batches {
            match writer.producers.check(&batch.header) {
                Err(error) => results.push(Err(error)),
                Ok(Some(known)) => results.push(Ok(self.duplicate(known, &batch.header))),
                Ok(None) => {
                    self.stage(writer, &mut group, &mut results, batch, epoch, now_ms, &config);
                }
            }
        }
        self.write_led(writer, &mut group, &mut results, now_ms, &config);
        results
    }

    /// Has a leader epoch written before its first record.
    pub(super) fn write_new_epoch(&self) -> Result<(), LogError> {
        if self.epochs_unwritten.load(Ordering::Acquire) {
            self.write_epochs(Durability::PageCache)?;
        }
        Ok(())
    }

    fn duplicate(&self, known: Duplicate, header: &BatchHeader) -> Appended {
        let log_append_time_ms = match header.timestamp_type() {
            TimestampType::LogAppendTime => known.timestamp_ms,
            TimestampType::CreateTime => -1,
        };
        Appended {
            base_offset: known.base_offset,
            last_offset: known.last_offset,
            log_append_time_ms,
            log_start_offset: self.log_start_offset(),
            bytes: 0,
            duplicate: true,
            starts_segment: false,
            log_end: None,
        }
    }

    /// Gives a batch its offset and puts it into the group. Writes the group first if it is full,
    /// or if this batch starts a segment.
    #[allow(clippy::too_many_arguments)]
    fn stage<'a>(
        &self,
        writer: &mut Writer,
        group: &mut Group<'a>,
        results: &mut Vec<Result<Appended, LogError>>,
        batch: &'a ValidatedBatch,
        epoch: LeaderEpoch,
        now_ms: i64,
        config: &LogConfig,
    ) {
        let mut header = batch.header;
        header.leader_epoch = epoch;
        header.base_offset = self.next_offset(group);
        let rolls = must_roll(&writer.active, group.bytes, &header, config, now_ms);
        if group.is_full_for(&header) || rolls {
            self.write_led(writer, group, results, now_ms, config);
            // The write may have failed, and with it what this batch's sequence follows.
            if let Err(error) = writer.producers.check(&batch.header) {
                results.push(Err(error));
                return;
            }
            header.base_offset = self.next_offset(group);
        }
        let prepared = if header.size() > config.segment_bytes as usize {
            let (size, segment_bytes) = (header.size(), config.segment_bytes);
            Err(LogError::BatchLargerThanSegment { size, segment_bytes })
        } else if must_roll(&writer.active, group.bytes, &header, config, now_ms) {
            self.roll_locked(writer, now_ms)
        } else {
            Ok(())
        };
        if let Err(error) = prepared {
            results.push(Err(error));
            return;
        }
        if group.batches.is_empty() {
            group.first_result = results.len();
        }
        let starts_segment = group.batches.is_empty() && writer.active.size() == 0;
        group.undo.extend(writer.producers.note(&header));
        group.push(header, &batch.payload);
        results.push(Ok(Appended {
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            log_append_time_ms: match header.timestamp_type() {
                TimestampType::LogAppendTime => header.max_timestamp,
                TimestampType::CreateTime => -1,
            },
            log_start_offset: self.log_start_offset(),
            bytes: header.size() as u32,
            duplicate: false,
            starts_segment,
            log_end: Some(self.end_at(header.next_offset(), writer)),
        }));
    }

    fn next_offset(&self, group: &Group<'_>) -> Offset {
        match group.batches.last() {
            Some((header, ..)) => header.next_offset(),
            None => self.log_end_offset(),
        }
    }

    /// Writes the group of a leader; where that fails, its batches are refused.
    fn write_led(
        &self,
        writer: &mut Writer,
        group: &mut Group<'_>,
        results: &mut [Result<Appended, LogError>],
        now_ms: i64,
        config: &LogConfig,
    ) {
        let first_result = group.first_result;
        if let Err(error) = self.write_group(writer, group, now_ms, config) {
            // A duplicate of a batch in this group is as little in the log as the batch is.
            for result in &mut results[first_result..] {
                if result.is_ok() {
                    *result = Err(error.clone());
                }
            }
        }
    }

    /// Writes the group with one call and publishes it; takes everything back if that fails. The
    /// group is empty afterwards.
    pub(super) fn write_group(
        &self,
        writer: &mut Writer,
        group: &mut Group<'_>,
        now_ms: i64,
        config: &LogConfig,
    ) -> Result<(), LogError> {
        let mut group = std::mem::take(group);
        if group.batches.is_empty() {
            return Ok(());
        }
        let mut buffers: Vec<IoSlice<'_>> = Vec::with_capacity(2 * group.batches.len());
        for (_, head, payload) in &group.batches {
            buffers.push(IoSlice::new(head));
            buffers.push(IoSlice::new(payload));
        }
        let in_flight = InFlight { log: self, undo: std::mem::take(&mut group.undo), writer };
        // Loaded before the write: after it, nothing may fail any more.
        in_flight.writer.active.indexes().map(drop)?;
        in_flight.writer.active.reserve(group.bytes, None);
        in_flight.writer.active.write(&mut buffers)?;
        in_flight.publish(&group, now_ms, config);
        Ok(())
    }

    /// Closes the active segment and starts a new one at the log's end.
    ///
    /// # Errors
    /// If the new file cannot be made; the active segment stays.
    pub fn roll(&self, now_ms: i64) -> Result<(), LogError> {
        let mut writer = self.writer.lock();
        self.check_writable(&mut writer)?;
        if writer.active.size() == 0 {
            return Ok(());
        }
        self.roll_locked(&mut writer, now_ms)
    }

    pub(crate) fn roll_locked(&self, writer: &mut Writer, now_ms: i64) -> Result<(), LogError> {
        // First, and not left out: where deletion takes the records below, the snapshot is all that
        // a start finds of their producers.
        self.write_snapshot(writer, Durability::PageCache)?;
        let base_offset = self.log_end_offset();
        let next = Segment::new(self.dir(), base_offset, 0, now_ms);
        next.create()?;
        let config = self.config.load();
        if config.preallocate {
            next.reserve(0, Some(config.segment_bytes));
        }
        next.set_bytes_before(writer.active.bytes_before() + u64::from(writer.active.size()));
        // The indexes are not needed to go on; recovery rebuilds them.
        if let Err(error) = writer.active.seal() {
            self.dir().log_dir.check_online()?;
            tracing::warn!("segment rolled, its index was not written: {error}");
        }
        let next = Arc::new(next);
        self.segments.write().push(next.clone());
        writer.active = next;
        self.dir_changed.store(true, Ordering::Release);
        self.sealed_unflushed.store(true, Ordering::Release);
        Ok(())
    }
}

/// A write that is not published. Dropped before it is, by an error or a panic, it takes back the
/// bytes and what the producers' state says of them.
struct InFlight<'a> {
    log: &'a CommitLog,
    writer: &'a mut Writer,
    undo: Vec<Undo>,
}

impl InFlight<'_> {
    fn publish(mut self, group: &Group<'_>, now_ms: i64, config: &LogConfig) {
        let active = &self.writer.active;
        let (mut position, mut end) = (active.size(), self.log.log_end_offset());
        if let Some(tail) = &mut *self.log.tail.lock() {
            let (mut at, mut next) = (position, end);
            for (header, ..) in &group.batches {
                if header.base_offset != next {
                    // A look-up in the gap would find the batch before it.
                    tail.clear();
                }
                next = header.next_offset();
                tail.push(header.base_offset, Position(at), header.size() as u32, now_ms);
                at += header.size() as u32;
            }
        }
        let mut indexes = active.indexes().expect("loaded before the write, and kept since");
        for (header, ..) in &group.batches {
            let interval = config.index_interval_bytes;
            active.note_batch(&mut indexes, header, Position(position), interval);
            position += header.size() as u32;
            end = header.next_offset();
        }
        self.undo.clear();
        // The end comes first. A reader that sees the bytes then sees an end that covers them. A
        // reader that is bounded by an older end looks that bound up, and does not take all bytes.
        self.log.log_end_offset.store(end.0, Ordering::Release);
        active.publish(position, &indexes, now_ms);
        // The entries stay in memory if this fails; the next chunk takes them along.
        if let Err(error) = active.write_index_chunk(&mut indexes) {
            tracing::warn!("index entries wait for the disk: {error}");
        }
        drop(indexes);
        std::mem::forget(self);
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        for undo in self.undo.drain(..).rev() {
            self.writer.producers.undo(undo);
        }
        if let Err(error) = self.writer.active.discard_unpublished(self.log.log_end_offset()) {
            // Bytes without an acknowledgement would stand where the next batch goes.
            self.log.dir().log_dir.take_offline(&error);
        }
    }
}

/// Whether `header` belongs into a new segment.
///
/// - case A: the segment would pass `segment.bytes`
/// - case B: its first batch is `segment.ms` older, less some of `segment.jitter.ms`
/// - case C: its index is full
/// - case D: the batch's last offset is too far from the base offset for 31 bits
pub(super) fn must_roll(
    active: &Segment,
    staged_bytes: usize,
    header: &BatchHeader,
    config: &LogConfig,
    now_ms: i64,
) -> bool {
    let size = active.size() as usize + staged_bytes;
    if size == 0 {
        return false;
    }
    let age_ms = match active.first_timestamp() {
        Ok(Some(first)) => header.max_timestamp.saturating_sub(first),
        // No timestamps, or not readable now: by the clock.
        _ => now_ms.saturating_sub(active.created_ms()),
    };
    // The active segment is never compacted, so it must not stay active beyond the lag.
    let max_age_ms = if config.cleanup_compact {
        config.segment_ms.min(config.max_compaction_lag_ms)
    } else {
        config.segment_ms
    };
    let jitter_ms = config.segment_jitter_ms.min(max_age_ms);
    size + header.size() > config.segment_bytes as usize // case A
        || age_ms > max_age_ms - active.jitter_ms(jitter_ms) // case B
        || active.index_is_full(config.segment_index_bytes) // case C
        || active.relative(header.last_offset()).is_none() // case D
}
