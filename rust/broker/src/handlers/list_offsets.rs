//! ListOffsets: the offset of a timestamp, or of a symbolic one.
//!
//! | timestamp | offset | timestamp in the answer |
//! |---|---|---|
//! | -1 latest | high watermark; last stable offset under `read_committed` | -1 |
//! | -2 earliest | log start offset | -1 |
//! | -3 max timestamp | of the record with the largest timestamp | that one |
//! | -4 earliest local | log start offset: nothing is tiered | -1 |
//! | -5 latest tiered | -1: nothing is tiered | -1 |
//! | -6 earliest pending upload | -1: nothing is tiered | -1 |
//! | from 0 on | of the first record at or after it, -1 if there is none | the record's |
//!
//! Source: Kafka's `ReplicaManager.fetchOffset` and `UnifiedLog.fetchOffsetByTimestamp`; KIP-734,
//! KIP-1005, KIP-1023.

use super::{Call, Rooms};
use crate::partitions::{FetchReader, Partition};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};
use std::collections::HashSet;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The versions that first knew a symbolic timestamp.
const SYMBOLIC_SINCE: [(i64, i16); 4] =
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)];

/// An offset, the timestamp that goes with it, and the epoch that wrote it.
struct Found {
    offset: i64,
    timestamp_ms: i64,
    epoch: i32,
}

const NOTHING: Found = Found { offset: -1, timestamp_ms: -1, epoch: -1 };

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ListOffsetsRequest>) {
    let version = call.reply.version;
    let reader = match (call.request.replica_id, call.request.isolation_level) {
        (id @ 0.., _) => FetchReader::Follower(id),
        (_, 1) => FetchReader::ReadCommitted,
        _ => FetchReader::ReadUncommitted,
    };
    let mut response = ListOffsetsResponse::default();
    let named = call.request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|asked| (topic.name.as_str(), asked.partition_index))
    });
    let mut seen = HashSet::new();
    let twice: HashSet<_> = named.filter(|name| !seen.insert(*name)).collect();
    // Kafka's answer names each partition once, also one that was asked twice.
    let mut told = HashSet::new();
    for topic in call.request.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
        let name = topic.name.as_str();
        let once = topic.partitions.iter();
        let once = once.filter(|asked| told.insert((name, asked.partition_index)));
        let partitions = once.map(|asked| {
            let found = if twice.contains(&(name, asked.partition_index)) {
                Err(ErrorCode::InvalidRequest)
            } else {
                look_up(rooms, &topic.name, asked, version, reader)
            };
            answer(asked, found)
        });
        let partitions: Vec<_> = partitions.collect();
        if !partitions.is_empty() {
            response.topics.push(ListOffsetsTopicResponse { name: topic.name.clone(), partitions });
        }
    }
    call.reply.send(&response);
}

fn answer(
    asked: &ListOffsetsPartition,
    found: Result<Found, ErrorCode>,
) -> ListOffsetsPartitionResponse {
    let error_code = found.as_ref().err().map_or(0, |error| error.code());
    let Found { offset, timestamp_ms, epoch } = found.unwrap_or(NOTHING);
    ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        error_code,
        timestamp: timestamp_ms,
        offset,
        leader_epoch: epoch,
    }
}

fn look_up(
    rooms: &Rooms,
    topic: &str,
    asked: &ListOffsetsPartition,
    version: i16,
    reader: FetchReader,
) -> Result<Found, ErrorCode> {
    let too_new =
        |&(timestamp, since): &(i64, i16)| timestamp == asked.timestamp && version < since;
    if asked.timestamp < EARLIEST_PENDING_UPLOAD || SYMBOLIC_SINCE.iter().any(too_new) {
        return Err(ErrorCode::UnsupportedVersion);
    }
    let partition = rooms.partitions.find_by_name(topic, asked.partition_index)?;
    partition.check_leader(LeaderEpoch(asked.current_leader_epoch))?;
    // The high watermark of a new leader may still be below one that readers saw before.
    let unknown_end = partition.is_catching_up().then_some(match version {
        5.. => ErrorCode::OffsetNotAvailable,
        _ => ErrorCode::LeaderNotAvailable,
    });
    by_timestamp(&partition, asked.timestamp, reader, unknown_end)
}

/// With `unknown_end` it is not known how far the reader may read, and that is the error to tell.
fn by_timestamp(
    partition: &Partition,
    timestamp: i64,
    reader: FetchReader,
    unknown_end: Option<ErrorCode>,
) -> Result<Found, ErrorCode> {
    let at = |offset: Offset| Found {
        offset: offset.0,
        timestamp_ms: -1,
        epoch: partition.epoch_of(offset).map_or(-1, |epoch| epoch.0),
    };
    match timestamp {
        LATEST => {
            unknown_end.map_or(Ok(()), Err)?;
            let epoch = partition.leader_epoch().0;
            Ok(Found { epoch, ..at(partition.readable_end(reader)) })
        }
        EARLIEST | EARLIEST_LOCAL => Ok(at(partition.log_start_offset())),
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => Ok(NOTHING),
        timestamp => {
            let found = if timestamp == MAX_TIMESTAMP {
                partition.offset_of_max_timestamp()?
            } else {
                partition.offset_for_timestamp(timestamp)?
            };
            let end = partition.readable_end(reader);
            match found.filter(|found| found.offset < end) {
                Some(found) => Ok(Found {
                    offset: found.offset.0,
                    timestamp_ms: found.timestamp_ms,
                    epoch: found.leader_epoch.0,
                }),
                None => unknown_end.map_or(Ok(NOTHING), Err),
            }
        }
    }
}
