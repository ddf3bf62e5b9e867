//! Noting which log directories the replicas of a broker are in, and leaving one that failed.
//!
//! Source: Kafka's `ReplicationControlManager`: `handleAssignReplicasToDirs` and
//! `handleDirectoriesOffline`.

use super::super::image::{Assignment, MetadataImage};
use super::super::records::{AssignReplicasRecord, AssignedTopic, MetadataRecord};
use super::elections::{Elections, Leaving, Place};
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

impl Elections<'_> {
    /// What follows when a log directory of `broker` fails: its replicas there are in no ISR, and
    /// others lead. A partition that no other replica can lead stays as it is.
    pub fn without_directory(&self, broker: i32, directory: Uuid) -> Vec<MetadataRecord> {
        let is_there = |Place { now, .. }: &Place<'_>| {
            let counts = now.leader == broker || now.isr.contains(&broker);
            counts && now.assignment(broker) == Assignment::Directory(directory)
        };
        let is_led = |record: &MetadataRecord| match record {
            MetadataRecord::PartitionChange(change) => change.partition.leader >= 0,
            _ => false,
        };
        let left = self.places().filter(is_there);
        let left = left.filter_map(|place| self.without(place, &[broker], Leaving::Away));
        left.filter(is_led).collect()
    }
}

#[cfg(test)]
mod tests;
