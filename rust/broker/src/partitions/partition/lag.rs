//! How far a reader of a partition is behind: in records, and in seconds.
//!
//! Seconds are the age of the oldest batch that the reader has not read to its end: the time since
//! the first timestamp in it. So they are never too few, and too many by what a producer gathers in
//! one batch. Only the header of the batch is read. They are unknown where the log begins behind
//! the reader's offset, and for batches without timestamps.

use super::{FetchReader, Partition};
use crate::fetch_sessions::{FetchTarget, TopicRef};
use kafkalite_protocol::record_batch::{BatchHeader, HEADER_LENGTH, TimestampType};
use kafkalite_protocol::{ErrorCode, Offset};

impl Partition {
    /// Records between `committed`, the offset that a reader has committed, and the high watermark.
    #[must_use]
    pub fn lag_records(&self, committed: i64) -> i64 {
        (self.high_watermark().0 - committed).max(0)
    }

    /// The age at `now_ms` of the oldest batch that is not read to its end. 0: there is none.
    /// `None`: it is unknown. May read from the disk.
    #[must_use]
    pub fn lag_seconds(&self, committed: i64, now_ms: i64) -> Option<f64> {
        if committed >= self.high_watermark().0 {
            return Some(0.0);
        }
        let header = self.header_at(committed)?;
        let made_ms = match header.timestamp_type() {
            TimestampType::CreateTime => header.base_timestamp,
            TimestampType::LogAppendTime => header.max_timestamp,
        };
        let age_ms = now_ms.saturating_sub(made_ms).max(0);
        (made_ms >= 0).then_some(age_ms as f64 / 1e3)
    }

    /// The header of the batch that holds `offset`.
    fn header_at(&self, offset: i64) -> Option<BatchHeader> {
        let target = FetchTarget {
            topic: TopicRef::Id(self.topic_id()).into(),
            partition: self.index(),
            fetch_offset: Offset(offset).0,
            max_bytes: i32::MAX,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            log_start_offset: -1,
            leader_only: false,
        };
        let plan = self.plan(&target, FetchReader::ReadUncommitted).ok()?;
        // A range of a file that begins with the batch. Nothing of it is read yet.
        let fetched = plan.read(1, true);
        let slice = fetched.slices.first().filter(|_| fetched.error == ErrorCode::None)?;
        let mut header = [0; HEADER_LENGTH];
        let read = slice.file.read_at(&mut header, slice.position).ok()?;
        BatchHeader::parse(&header[..read]).ok()
    }
}
