//! DescribeLogDirs: how large the replicas in each log directory are, those on their way into it
//! too, and which directory is offline.
//!
//! Source: Kafka's `ReplicaManager.describeLogDirs`.

use super::{Call, Rooms};
use crate::partitions::{FutureReplica, LogDirectory, Partition};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse,
    DescribeLogDirsResult, DescribeLogDirsTopic,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeLogDirsRequest>) {
    let asked = call.request.topics.as_ref().map(|topics| {
        let mut asked: HashMap<&str, HashSet<i32>> = HashMap::new();
        for topic in topics {
            asked.entry(&topic.topic).or_default().extend(&topic.partitions);
        }
        asked
    });
    let futures = rooms.partitions.future_replicas();
    let wanted = |partition: &Partition| {
        let named = |asked: &HashMap<&str, HashSet<i32>>| {
            asked.get(partition.topic()).is_some_and(|some| some.contains(&partition.index()))
        };
        asked.as_ref().is_none_or(named)
    };
    let all = rooms.partitions.all();
    let of_dir = |dir: &LogDirectory| {
        if dir.log_dir().is_offline() {
            return lost(dir.path());
        }
        let mut topics: BTreeMap<Arc<str>, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
        let is_here = |one: &Partition| Arc::ptr_eq(&one.log().log_dir(), dir.log_dir());
        for partition in all.iter().filter(|partition| is_here(partition) && wanted(partition)) {
            topics.entry(partition.topic_name()).or_default().push(DescribeLogDirsPartition {
                partition_index: partition.index(),
                partition_size: i64::try_from(partition.size_bytes()).unwrap_or(i64::MAX),
                offset_lag: 0,
                is_future_key: false,
            });
        }
        let is_to_be_here = |one: &&FutureReplica| {
            Arc::ptr_eq(&one.log_dir, dir.log_dir()) && wanted(&one.partition)
        };
        for future in futures.iter().filter(is_to_be_here) {
            let name = future.partition.topic_name();
            topics.entry(name).or_default().push(DescribeLogDirsPartition {
                partition_index: future.partition.index(),
                partition_size: i64::try_from(future.size_bytes).unwrap_or(i64::MAX),
                offset_lag: future.offset_lag,
                is_future_key: true,
            });
        }
        let (total_bytes, usable_bytes) = dir.disk_space().unwrap_or((-1, -1));
        DescribeLogDirsResult {
            log_dir: dir.path().to_string_lossy().into_owned(),
            topics: topics.into_iter().map(|(name, partitions)| topic(&name, partitions)).collect(),
            total_bytes,
            usable_bytes,
            ..DescribeLogDirsResult::default()
        }
    };
    let dirs = rooms.partitions.dirs();
    let lost = dirs.lost().iter().map(|path| lost(path));
    let results = dirs.iter().map(of_dir).chain(lost).collect();
    call.reply.send(&DescribeLogDirsResponse { results, ..Default::default() });
}

/// A directory that cannot be read tells nothing else.
fn lost(path: &Path) -> DescribeLogDirsResult {
    DescribeLogDirsResult {
        error_code: ErrorCode::KafkaStorageError.code(),
        log_dir: path.to_string_lossy().into_owned(),
        total_bytes: -1,
        usable_bytes: -1,
        ..DescribeLogDirsResult::default()
    }
}

fn topic(name: &str, mut partitions: Vec<DescribeLogDirsPartition>) -> DescribeLogDirsTopic {
    partitions.sort_by_key(|partition| partition.partition_index);
    DescribeLogDirsTopic { name: name.to_owned(), partitions }
}
