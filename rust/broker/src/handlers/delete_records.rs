//! DeleteRecords: moves the log start offset forward. The answer comes when that is on disk here,
//! and every replica on a broker that is alive has followed.
//!
//! Offset -1 means the high watermark. Of a partition that is named several times the last offset
//! counts.
//! Source: Kafka's `KafkaApis.handleDeleteRecordsRequest`, `ReplicaManager.deleteRecords`.

mod delayed;

use super::{Call, Rooms};
use crate::partitions::Partition;
use delayed::{DelayedDeletion, Pending};
use kafkalite_protocol::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
    DeleteRecordsTopicResult,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DeleteRecordsRequest>) {
    let Call { request, reply } = call;
    let timeout_ms = u64::try_from(request.timeout_ms).unwrap_or(0);
    let asked = each_once(request.topics);
    let mut pending = Vec::new();
    // As in Kafka's answers, a topic is there with its partitions or not at all.
    let asked = asked.iter().filter(|topic| !topic.partitions.is_empty());
    let deleted = asked.enumerate().map(|(topic_place, topic)| {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for (place, partition) in topic.partitions.iter().enumerate() {
            let index = partition.partition_index;
            let deleted = delete(rooms, &topic.name, index, partition.offset);
            let start = deleted.map(|(partition, to)| {
                let start = partition.log_start_offset();
                pending.push(Pending::new((topic_place, place), partition, to));
                start
            });
            partitions.push(answer(index, start));
        }
        DeleteRecordsTopicResult { name: topic.name.clone(), partitions }
    });
    let mut topics: Vec<_> = deleted.collect();
    // Before any answer, and once for all partitions, because each call waits for the disk.
    let failed =
        if pending.is_empty() { None } else { rooms.partitions.checkpoint_log_starts().err() };
    if let Some(error) = failed {
        pending.clear();
        let all = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        for deleted in all.filter(|partition| partition.error_code == 0) {
            *deleted = answer(deleted.partition_index, Err(error));
        }
    }
    let response = DeleteRecordsResponse { topics, ..Default::default() };
    let lists: Vec<_> = pending.iter().map(Pending::waiters).collect();
    let held = rooms.parked.hold_produce(pending.len() * size_of::<Pending>());
    let controller = Arc::clone(&rooms.controller);
    let delayed = DelayedDeletion::new(controller, pending, timeout_ms, response, move |done| {
        reply.send(done);
        drop(held);
    });
    rooms.produces.watch(Arc::new(delayed), || lists);
}

/// What is asked, each topic once and below it each partition once: as in Kafka with the offset
/// that the request names last. In the order of names and indexes.
fn each_once(mut topics: Vec<DeleteRecordsTopic>) -> Vec<DeleteRecordsTopic> {
    // Both sorts are stable, and in place of maps: a request may name a million.
    topics.sort_by(|one, other| one.name.cmp(&other.name));
    topics.dedup_by(|again, first| {
        let is_same = again.name == first.name;
        if is_same {
            first.partitions.append(&mut again.partitions);
        }
        is_same
    });
    for topic in &mut topics {
        // Of a run of equals the first is kept.
        topic.partitions.reverse();
        topic.partitions.sort_by_key(|partition| partition.partition_index);
        topic.partitions.dedup_by_key(|partition| partition.partition_index);
    }
    topics
}

fn answer(
    partition_index: i32,
    outcome: Result<Offset, ErrorCode>,
) -> DeleteRecordsPartitionResult {
    match outcome {
        Ok(start) => DeleteRecordsPartitionResult {
            partition_index,
            low_watermark: start.0,
            error_code: ErrorCode::None.code(),
        },
        Err(error) => DeleteRecordsPartitionResult {
            partition_index,
            low_watermark: -1,
            error_code: error.code(),
        },
    }
}

/// Deletes records here, and returns before which offset they have to go elsewhere too.
fn delete(
    rooms: &Rooms,
    topic: &str,
    index: i32,
    offset: i64,
) -> Result<(Arc<Partition>, Offset), ErrorCode> {
    let partition = rooms.partitions.find_by_name(topic, index)?;
    if partition.is_internal() {
        return Err(ErrorCode::InvalidTopicException);
    }
    partition.check_leader(LeaderEpoch::UNKNOWN)?;
    if !partition.log_config().cleanup_delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let to = if offset == -1 { partition.high_watermark() } else { Offset(offset) };
    partition.delete_records(to, rooms.clock.wall_ms())?;
    Ok((partition, to))
}
