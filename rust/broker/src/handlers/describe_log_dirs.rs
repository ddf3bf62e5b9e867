//! DescribeLogDirs: how large the replicas in each log directory are. This broker has one
//! directory.
//!
//! Source: Kafka's `ReplicaManager.describeLogDirs`.

use super::{Call, Rooms};
use crate::replication::Partition;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeLogDirsRequest>) {
    let wanted = |partition: &Partition| match &call.request.topics {
        None => true,
        Some(topics) => topics.iter().any(|topic| {
            topic.topic == partition.topic() && topic.partitions.contains(&partition.index())
        }),
    };
    let mut topics: BTreeMap<Arc<str>, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for partition in rooms.partitions.all() {
        if wanted(&partition) {
            topics.entry(partition.topic_name()).or_default().push(DescribeLogDirsPartition {
                partition_index: partition.index(),
                partition_size: i64::try_from(partition.size_bytes()).unwrap_or(i64::MAX),
                offset_lag: 0,
                is_future_key: false,
            });
        }
    }
    let (total_bytes, usable_bytes) = rooms.partitions.disk_space().unwrap_or((-1, -1));
    let offline = rooms.partitions.is_offline();
    let result = DescribeLogDirsResult {
        error_code: if offline { ErrorCode::KafkaStorageError } else { ErrorCode::None }.code(),
        log_dir: rooms.partitions.directory().to_string_lossy().into_owned(),
        topics: topics
            .into_iter()
            .map(|(name, mut partitions)| {
                partitions.sort_by_key(|partition| partition.partition_index);
                DescribeLogDirsTopic { name: name.to_string(), partitions }
            })
            .collect(),
        total_bytes,
        usable_bytes,
        ..DescribeLogDirsResult::default()
    };
    call.reply.send(&DescribeLogDirsResponse { results: vec![result], ..Default::default() });
}
