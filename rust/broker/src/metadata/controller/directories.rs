//! Noting which log directories the replicas of a broker are in, and leaving one that failed.
//!
//! Source: Kafka's `ReplicationControlManager`: `handleAssignReplicasToDirs` and
//! `handleDirectoriesOffline`.

use super::super::error::ApiError;
use super::super::image::{Assignment, BrokerImage, MetadataImage};
use super::super::records::{AssignReplicasRecord, AssignedTopic, MetadataRecord, RecordsBatch};
use super::elections::{Elections, Leaving, Place};
use kafkalite_protocol::Uuid;
use std::collections::BTreeMap;

/// In place of the directories of a broker that can use none: an empty list says nothing. Kafka has
/// this id for a directory that is lost.
const NONE: Uuid = Uuid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

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

/// What follows when a log directory of a broker fails while it serves. Its registration has the
/// directory no more. The replicas there leave the ISR, and others lead. None of them is elected
/// before the broker registers with the directory again. A broker without company leads on, as no
/// other could: its clients hear that its disk failed.
///
/// # Errors
/// The image does not take the records.
pub fn fail_directory(
    image: &MetadataImage,
    broker_id: i32,
    directory: Uuid,
) -> Result<Vec<MetadataRecord>, ApiError> {
    let Some(broker) = image.brokers.get(&broker_id) else { return Ok(Vec::new()) };
    let mut records = Vec::new();
    if broker.can_use(directory) {
        // A release that did not say which it can use said which it has.
        let known = match broker.online_dirs.is_empty() {
            true => &broker.log_dirs,
            false => &broker.online_dirs,
        };
        let mut online_dirs = known.clone();
        online_dirs.retain(|id| *id != directory);
        if online_dirs.is_empty() {
            online_dirs.push(NONE);
        }
        let changed = BrokerImage { online_dirs, ..broker.clone() };
        records.push(MetadataRecord::RegisterBroker(changed.record()));
    }
    if image.brokers.len() == 1 {
        return Ok(records);
    }
    let (base_offset, epoch) = (image.offset + 1, image.epoch);
    let mut batch = RecordsBatch { base_offset, epoch, timestamp_ms: 0, records };
    let after = image.with_batch(&batch)?;
    let is_alive = |id| after.is_alive(id);
    let elections = Elections { image: &after, is_alive: &is_alive };
    batch.records.extend(elections.without_directory(broker_id, directory));
    Ok(batch.records)
}

impl Elections<'_> {
    /// What follows when a log directory of `broker` fails: its replicas there are in no ISR, and
    /// others lead. They stay eligible as if the broker had left.
    fn without_directory(&self, broker: i32, directory: Uuid) -> Vec<MetadataRecord> {
        let is_there = |Place { now, .. }: &Place<'_>| {
            let counts = now.leader == broker || now.isr.contains(&broker);
            counts && now.assignment(broker) == Assignment::Directory(directory)
        };
        let left = self.places().filter(is_there);
        left.filter_map(|place| self.without(place, &[broker], Leaving::Away)).collect()
    }
}

#[cfg(test)]
mod tests;
