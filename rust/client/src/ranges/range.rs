//! What is read, how, and what a caller gets of it: plain values.

use std::collections::BTreeMap;
use std::time::Duration;

use kafkalite_protocol::Uuid;

use crate::consumer::record_block::RecordSlice;
use crate::error::ClientError;
use crate::topic_partition::TopicPartition;

/// Records of one partition, by their offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetRange {
    /// The partition.
    pub partition: TopicPartition,
    /// The first offset that is wanted.
    pub start: i64,
    /// The first one that is not.
    pub end: i64,
    /// The id of the topic that the offsets are of; zero if it is not known. Nothing is read of
    /// another topic of the name.
    pub topic_id: Uuid,
}

/// Where each of the ranges ends that are not empty.
///
/// # Errors
/// If a partition has two ranges or a negative offset.
pub(super) fn ends_of(
    ranges: &[OffsetRange],
) -> Result<BTreeMap<TopicPartition, i64>, ClientError> {
    let refused = |why: String| ClientError::InvalidArgument { what: "ranges".to_owned(), why };
    let mut ends = BTreeMap::new();
    for range in ranges {
        if range.start < 0 {
            return Err(refused(format!("{} begins at {}", range.partition, range.start)));
        }
        if ends.insert(range.partition.clone(), range.end).is_some() {
            return Err(refused(format!("{} has two", range.partition)));
        }
    }
    for range in ranges.iter().filter(|range| range.start >= range.end) {
        ends.remove(&range.partition);
    }
    Ok(ends)
}

/// What to do, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct RangeOptions {
    /// Whether offsets that the log does not have any more are passed over, not an error.
    pub may_lose: bool,
    /// Where no fetch brings anything for this long, be it a marker, it is an error.
    pub stall_timeout: Duration,
}

/// What a caller gets.
#[derive(Debug)]
pub enum Step {
    /// Records of one or more ranges.
    Records(Vec<RecordSlice>),
    /// Nothing came in time.
    Nothing,
    /// All ranges are read.
    End,
}
