//! Partitions that move to other brokers: production decides, as an operator or a broker asks.
//!
//! An operator who removes the last replicas that have a record loses it, in Kafka too. So a
//! replica that may have committed records stays as long as another one lost some.

use super::elections::Deciding;
use super::{Answer, Controller, DIRECTORY, partition_image, place};
use crate::io::Io;
use crate::planted::Planted;
use kafkalite_broker::metadata::controller::{
    ElectionKind, Reassignment, ReplicaDirectories, assign_replicas,
};
use kafkalite_broker::metadata::records::{MetadataRecord, PartitionChangeRecord, PartitionRecord};
use kafkalite_broker::metadata::{MetadataImage, PartitionImage};
use kafkalite_protocol::ErrorCode;
use std::sync::Arc;

impl Controller {
    /// An operator moves a partition to these brokers, or cancels its move.
    pub fn reassign(&mut self, partition: usize, replicas: Option<Vec<i32>>, io: &mut Io<'_>) {
        let decide = move |now: &Deciding<'_>| now.reassign(partition, replicas.clone());
        self.decide(decide, |_| Answer::Moved);
        self.settle(io);
    }

    /// An operator has the first replica of a partition lead.
    pub fn prefer_leader(&mut self, partition: usize, io: &mut Io<'_>) {
        self.decide(move |now| now.prefer_leader(partition), |_| Answer::Moved);
        self.settle(io);
    }

    /// A broker has the replicas of these partitions in its log directory.
    pub(super) fn assign(&self, broker: i32, partitions: Vec<usize>) {
        let decide = move |now: &Deciding<'_>| Ok(now.assign(broker, &partitions));
        self.decide(decide, |_| Answer::Moved);
    }

    /// This broker lost records; with `None` each one has them again.
    pub fn bereave(&self, broker: Option<i32>) {
        self.roster.lock().bereft = broker;
    }

    /// Whether other replicas are proposed for some partition, and not committed yet.
    #[must_use]
    pub fn is_about_to_move(&self) -> bool {
        let image = self.quorum.image();
        let proposed = self.under_way.values().flat_map(|((proposal, _), _)| &proposal.records);
        proposed.filter_map(change).any(|change| {
            let now = of_change(&image, change);
            now.is_some_and(|now| now.replicas != change.partition.replicas)
        })
    }
}

impl Deciding<'_> {
    fn reassign(
        &self,
        partition: usize,
        replicas: Option<Vec<i32>>,
    ) -> Result<Vec<MetadataRecord>, ErrorCode> {
        let (topic, index) = place(self.settings, partition);
        let now = partition_image(self.image, self.settings, partition);
        if let (Some(now), Some(bereft)) = (now, self.roster.bereft) {
            let is_old = |id: &i32| !now.adding_replicas.contains(id);
            let stays = |id: &i32| match &replicas {
                Some(replicas) => replicas.contains(id),
                None => is_old(id),
            };
            if !now.isr.iter().chain(&now.elr).all(|id| *id == bereft || stays(id)) {
                return Ok(Vec::new());
            }
        }
        let asked = Reassignment { topic: Arc::from(topic), partition: index, replicas };
        let record = self.elections(|now| now.reassign(&asked, true));
        Ok(record.map_err(|error| error.code)?.into_iter().collect())
    }

    fn prefer_leader(&self, partition: usize) -> Result<Vec<MetadataRecord>, ErrorCode> {
        let (topic, index) = place(self.settings, partition);
        let elected = self.elections(|now| now.elect(topic, index, ElectionKind::Preferred));
        Ok(vec![elected.map_err(|error| error.code)?])
    }

    fn assign(&self, broker: i32, partitions: &[usize]) -> Vec<MetadataRecord> {
        let mut directories = ReplicaDirectories::new();
        for partition in partitions {
            let (topic, index) = place(self.settings, *partition);
            let Some(topic) = self.image.topic(topic) else { continue };
            directories.entry(topic.id).or_default().insert(index, DIRECTORY);
        }
        assign_replicas(self.image, broker, &directories)
    }

    /// The records that come of a decision, with the bug of this run in them.
    pub(super) fn spoilt(&self, mut records: Vec<MetadataRecord>) -> Vec<MetadataRecord> {
        for record in &mut records {
            let MetadataRecord::PartitionChange(change) = record else { continue };
            let Some(now) = of_change(self.image, change) else { continue };
            match self.planted {
                Some(Planted::EpochStaysWhenReplicaLeaves) => keep_epoch(now, change),
                Some(Planted::MoveEndsEarly) => end_early(now, &mut change.partition),
                _ => {}
            }
        }
        records
    }
}

fn keep_epoch(now: &PartitionImage, change: &mut PartitionChangeRecord) {
    if change.partition.leader == now.leader {
        change.partition.leader_epoch = now.leader_epoch.0;
    }
}

fn end_early(now: &PartitionImage, next: &mut PartitionRecord) {
    if std::mem::take(&mut next.adding_replicas).is_empty() {
        return;
    }
    let leaving = std::mem::take(&mut next.removing_replicas);
    let stays: Vec<bool> = next.replicas.iter().map(|id| !leaving.contains(id)).collect();
    let mut each = stays.iter();
    next.directories.retain(|_| each.next().copied().unwrap_or(true));
    next.replicas.retain(|id| !leaving.contains(id));
    next.isr.retain(|id| !leaving.contains(id));
    if next.isr.is_empty() {
        next.isr.extend(next.replicas.first());
    }
    if !next.isr.contains(&next.leader) {
        next.leader = next.isr[0];
    }
    next.leader_epoch = now.leader_epoch.0 + 1;
}

fn change(record: &MetadataRecord) -> Option<&PartitionChangeRecord> {
    match record {
        MetadataRecord::PartitionChange(change) => Some(change),
        _ => None,
    }
}

fn of_change<'a>(
    image: &'a MetadataImage,
    change: &PartitionChangeRecord,
) -> Option<&'a PartitionImage> {
    image.topic_by_id(change.topic_id)?.partition(change.partition_index)
}
