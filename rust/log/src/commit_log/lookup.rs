//! From a time to an offset. One batch is read for it, and decompressed if need be.

use std::cmp::Reverse;

use kafkalite_protocol::record_batch::{BatchHeader, RecordBatch, walk_records};
use kafkalite_protocol::types::{LeaderEpoch, Offset, Position};

use super::CommitLog;
use crate::batch_scan::BatchScan;
use crate::error::LogError;
use crate::segment::{Newest, Segment};
use crate::validation::DECOMPRESSED_CAP_BYTES;

/// A record found by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's offset.
    pub offset: Offset,
    /// Its timestamp, ms.
    pub timestamp_ms: i64,
    /// The epoch it was appended in.
    pub leader_epoch: LeaderEpoch,
}

impl CommitLog {
    /// The first record at or after `timestamp_ms`, in the order of offsets; `None` if there is
    /// none.
    ///
    /// # Errors
    /// If the disk fails or a batch cannot be read.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, LogError> {
        self.look(|| self.first_since(timestamp_ms))
    }

    fn first_since(&self, timestamp_ms: i64) -> Result<Option<TimestampOffset>, LogError> {
        let start = self.log_start_offset();
        let segments = self.segments.read().clone();
        for (index, segment) in segments.iter().enumerate() {
            let below_start = segments.get(index + 1).is_some_and(|n| n.base_offset() <= start);
            if below_start || segment.newest()?.timestamp_ms < timestamp_ms {
                continue;
            }
            if let Some(found) = self.find_in(segment, timestamp_ms, start)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn find_in(
        &self,
        segment: &Segment,
        timestamp_ms: i64,
        start: Offset,
    ) -> Result<Option<TimestampOffset>, LogError> {
        let file = segment.file()?;
        let mut scan = segment.scan_since(file.storage(), timestamp_ms)?;
        while let Some((position, header)) = segment.scanned(scan.next())? {
            if header.max_timestamp < timestamp_ms || header.last_offset() < start {
                continue;
            }
            let found =
                self.find_record(segment, position, header.size(), |record_ms, offset| {
                    record_ms >= timestamp_ms && offset >= start
                })?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The first record of one batch that is `wanted`.
    fn find_record(
        &self,
        segment: &Segment,
        position: Position,
        size: usize,
        wanted: impl Fn(i64, Offset) -> bool,
    ) -> Result<Option<TimestampOffset>, LogError> {
        let mut bytes = vec![0; size];
        let file = segment.file()?;
        file.read_at(&mut bytes, position.0.into())
            .map_err(|error| segment.failed(crate::segment::LOG_SUFFIX, error))?;
        let batch = RecordBatch::parse(&bytes)?;
        let header = batch.header();
        let mut found = None;
        // Walked as a stream: what a batch inflates to is never held as a whole.
        let walked = walk_records(header, batch.payload(), DECOMPRESSED_CAP_BYTES, |_, record| {
            let timestamp_ms = header.record_timestamp(record.timestamp_delta);
            let offset = Offset(header.base_offset.0.saturating_add(record.offset_delta.into()));
            if found.is_none() && wanted(timestamp_ms, offset) {
                let leader_epoch = header.leader_epoch;
                found = Some(TimestampOffset { offset, timestamp_ms, leader_epoch });
            }
        });
        if found.is_none() {
            walked?;
        }
        Ok(found)
    }

    /// The record with the largest timestamp, the first of them; `None` if no record has one.
    ///
    /// # Errors
    /// If the disk fails or a batch cannot be read.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, LogError> {
        self.look(|| self.newest_by_time())
    }

    fn newest_by_time(&self) -> Result<Option<TimestampOffset>, LogError> {
        let segments = self.segments.read().clone();
        let mut claims = Vec::with_capacity(segments.len());
        for (index, segment) in segments.iter().enumerate() {
            claims.push((segment.newest()?, index));
        }
        claims.retain(|(newest, _)| newest.timestamp_ms >= 0);
        // The largest first, and of equal ones the older: a sort that is stable.
        claims.sort_by_key(|(newest, _)| Reverse(newest.timestamp_ms));
        let mut best: Option<TimestampOffset> = None;
        for (newest, index) in claims {
            if best.is_some_and(|best| best.timestamp_ms > newest.timestamp_ms) {
                break;
            }
            let found = self.newest_in(&segments[index], newest)?;
            let key = |found: &TimestampOffset| (found.timestamp_ms, Reverse(found.offset));
            best = best.into_iter().chain(found).max_by_key(key);
        }
        Ok(best)
    }

    /// The first record of `segment` with its largest timestamp. The batch that claims to hold it
    /// may be a header that compaction left: then the others are looked at.
    fn newest_in(
        &self,
        segment: &Segment,
        newest: Newest,
    ) -> Result<Option<TimestampOffset>, LogError> {
        let holds = |header: &BatchHeader| header.record_count > 0;
        let mut batch = segment.locate(newest.offset)?.filter(|(_, header)| holds(header));
        if batch.is_none() {
            let file = segment.file()?;
            let mut scan = BatchScan::new(file.storage(), Position(0), segment.size());
            while let Some((position, header)) = segment.scanned(scan.next())? {
                let known = batch.map_or(-1, |(_, known): (_, BatchHeader)| known.max_timestamp);
                if holds(&header) && header.max_timestamp > known {
                    batch = Some((position, header));
                }
            }
        }
        let Some((position, header)) = batch else { return Ok(None) };
        self.find_record(segment, position, header.size(), |record_ms, _| {
            record_ms >= header.max_timestamp
        })
    }
}
