//! Noting which log directories the replicas of a broker are in.
//!
//! Source: Kafka's `ReplicationControlManager.handleAssignReplicasToDirs`.

use super::super::image::{Assignment, MetadataImage};
use super::super::records::{AssignReplicasRecord, AssignedTopic, MetadataRecord};
use kafkalite_protocol::Uuid;
use std::collections::BTreeMap;

/// The directory ids of replicas on one broker, by topic and partition.
pub type ReplicaDirectories = BTreeMap<Uuid, BTreeMap<i32, Uuid>>;

/// The records that note `directories`: one for each directory. Replicas that are gone, or noted
/// already, are left out.
pub fn assign_replicas(
    image: &MetadataImage,
    broker_id: i32,
    directories: &ReplicaDirectories,
) -> Vec<MetadataRecord> {
    let mut records: BTreeMap<Uuid, AssignReplicasRecord> = BTreeMap::new();
    for (topic_id, replicas) in directories {
        let Some(topic) = image.topic_by_id(*topic_id) else { continue };
        for (index, directory_id) in replicas {
            let Some(partition) = topic.partition(*index) else { continue };
            let is_noted = partition.assignment(broker_id) == Assignment::Directory(*directory_id);
            if is_noted || !partition.replicas.contains(&broker_id) {
                continue;
            }
            let (topic_id, directory_id) = (*topic_id, *directory_id);
            let none = || AssignReplicasRecord { broker_id, directory_id, topics: Vec::new() };
            let topics = &mut records.entry(directory_id).or_insert_with(none).topics;
            match topics.last_mut().filter(|last| last.topic_id == topic_id) {
                Some(last) => last.partitions.push(*index),
                None => topics.push(AssignedTopic { topic_id, partitions: vec![*index] }),
            }
        }
    }
    records.into_values().map(MetadataRecord::AssignReplicas).collect()
}

#[cfg(test)]
mod tests;
