//! AlterReplicaLogDirs: a partition is asked into a log directory.
//!
//! One that is there already stays, and does not move elsewhere any more. Another one is copied
//! after the answer; DescribeLogDirs shows how far that is.
//! Source: Kafka's `ReplicaManager.alterReplicaLogDirs`, for what is wrong with a request.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
};
use std::collections::BTreeMap;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<AlterReplicaLogDirsRequest>) {
    let mut results: BTreeMap<&str, BTreeMap<i32, i16>> = BTreeMap::new();
    for dir in &call.request.dirs {
        for topic in dir.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
            let told = results.entry(&topic.name).or_default();
            for index in &topic.partitions {
                let answer = to(rooms, &dir.path, &topic.name, *index);
                told.insert(*index, answer.err().unwrap_or(ErrorCode::None).code());
            }
        }
    }
    let results = results.into_iter().map(|(name, partitions)| AlterReplicaLogDirTopicResult {
        topic_name: name.to_owned(),
        partitions: partitions.into_iter().map(partition).collect(),
    });
    let results = results.collect();
    call.reply.send(&AlterReplicaLogDirsResponse { results, throttle_time_ms: 0 });
}

fn partition((partition_index, error_code): (i32, i16)) -> AlterReplicaLogDirPartitionResult {
    AlterReplicaLogDirPartitionResult { partition_index, error_code }
}

/// Has the partition be in this directory, now or later.
fn to(rooms: &Rooms, dir: &str, topic: &str, index: i32) -> Result<(), ErrorCode> {
    let partitions = &rooms.partitions;
    // As it is spelled in DescribeLogDirs, and not otherwise.
    let known = partitions.dirs().iter().find(|one| one.path().as_os_str() == dir);
    let known = known.ok_or(ErrorCode::LogDirNotFound)?;
    if known.log_dir().is_offline() {
        return Err(ErrorCode::KafkaStorageError);
    }
    partitions.move_replica(topic, index, known).map_err(|code| match code {
        // As in Kafka, for tools that are older than the other code.
        ErrorCode::NotLeaderOrFollower => ErrorCode::ReplicaNotAvailable,
        code => code,
    })
}
