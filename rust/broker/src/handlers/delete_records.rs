//! DeleteRecords: moves the log start offset forward, and answers when that is on disk.
//!
//! Offset -1 means the high watermark. Of a partition that is named several times the last offset
//! counts.
//! Source: Kafka's `KafkaApis.handleDeleteRecordsRequest`, `ReplicaManager.deleteRecords`.

use super::{Call, Rooms};
use kafkalite_protocol::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopic,
    DeleteRecordsTopicResult,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DeleteRecordsRequest>) {
    let asked = each_once(call.request.topics);
    // As in Kafka's answers, a topic is there with its partitions or not at all.
    let asked = asked.iter().filter(|topic| !topic.partitions.is_empty());
    let deleted = asked.map(|topic| DeleteRecordsTopicResult {
        name: topic.name.clone(),
        partitions: (topic.partitions.iter())
            .map(|partition| {
                let index = partition.partition_index;
                answer(index, delete(rooms, &topic.name, index, partition.offset))
            })
            .collect(),
    });
    let mut topics: Vec<_> = deleted.collect();
    // Before any answer, and once for all partitions, because each call waits for the disk.
    let any = topics.iter().flat_map(|topic| &topic.partitions).any(|one| one.error_code == 0);
    if let Some(error) = any.then(|| rooms.partitions.checkpoint_log_starts().err()).flatten() {
        let all = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        for deleted in all.filter(|partition| partition.error_code == 0) {
            *deleted = answer(deleted.partition_index, Err(error));
        }
    }
    call.reply.send(&DeleteRecordsResponse { topics, ..Default::default() });
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

fn delete(rooms: &Rooms, topic: &str, index: i32, offset: i64) -> Result<Offset, ErrorCode> {
    let partition = rooms.partitions.find_by_name(topic, index)?;
    if partition.is_internal() {
        return Err(ErrorCode::InvalidTopicException);
    }
    partition.check_leader(LeaderEpoch::UNKNOWN)?;
    if !partition.log_config().cleanup_delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let to = if offset == -1 { partition.high_watermark() } else { Offset(offset) };
    partition.delete_records(to, rooms.clock.wall_ms())
}
