//! Which replicas of a partition are in sync, as its leader asks (AlterPartition).
//!
//! The leader names the partition epoch that it knows, and the broker epoch of each replica. A
//! replica that restarted since its last fetch has to fetch again first.
//! Source: Kafka's `ReplicationControlManager.alterPartition`; KIP-497, KIP-903.

use super::super::error::ApiError;
use super::super::image::MetadataImage;
use super::super::records::MetadataRecord;
use super::Decision;
use super::elections::{Elections, Place, Wanted};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Uuid};
use std::collections::HashSet;

/// A replica in one of its broker's lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsrMember {
    /// The broker.
    pub id: i32,
    /// The epoch in which it fetched; -1 if the leader does not know.
    pub broker_epoch: i64,
}

/// The in-sync replicas that the leader of a partition asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrChange {
    /// The topic.
    pub topic_id: Uuid,
    /// The partition's index.
    pub partition: i32,
    /// The epoch in which the sender leads.
    pub leader_epoch: LeaderEpoch,
    /// The state that the change was decided upon.
    pub partition_epoch: i32,
    /// The in-sync replicas as they are to be.
    pub isr: Vec<IsrMember>,
}

/// Decides on what broker `broker`, in its life `broker_epoch`, asks for.
pub fn alter_partitions(
    elections: &Elections<'_>,
    broker: i32,
    broker_epoch: i64,
    changes: &[IsrChange],
) -> Decision<()> {
    if !is_life(elections.image, broker, broker_epoch) {
        let stale = || Err(ErrorCode::StaleBrokerEpoch.into());
        return (Vec::new(), changes.iter().map(|_| stale()).collect());
    }
    let (mut records, mut seen) = (Vec::new(), HashSet::new());
    let mut decide = |change: &IsrChange| {
        if !seen.insert((change.topic_id, change.partition)) {
            // The first one changed the state that the second was decided upon.
            return Err(ErrorCode::InvalidUpdateVersion);
        }
        records.extend(elections.alter(broker, change)?);
        Ok(())
    };
    let answers = changes.iter().map(|change| decide(change).map_err(ApiError::from)).collect();
    (records, answers)
}

fn is_life(image: &MetadataImage, broker: i32, epoch: i64) -> bool {
    image.brokers.get(&broker).is_some_and(|broker| broker.epoch == epoch)
}

impl Elections<'_> {
    /// Decides on one change that `leader` asks for; `None` if the partition is so already.
    ///
    /// # Errors
    /// - `UnknownTopicId`, `UnknownTopicOrPartition`: there is none
    /// - `FencedLeaderEpoch`: another broker leads, or in another epoch
    /// - `InvalidUpdateVersion`: the partition has changed since
    /// - `InvalidRequest`: the leader is not among the in-sync replicas, or one is no replica
    /// - `IneligibleReplica`: one of them is away, its disk is, or it began again since it fetched
    pub fn alter(
        &self,
        leader: i32,
        change: &IsrChange,
    ) -> Result<Option<MetadataRecord>, ErrorCode> {
        let topic = self.image.topic_by_id(change.topic_id).ok_or(ErrorCode::UnknownTopicId)?;
        let place = Place::of(topic, change.partition);
        let place = place.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let now = place.now;
        if now.leader != leader || now.leader_epoch != change.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if now.partition_epoch != change.partition_epoch {
            return Err(ErrorCode::InvalidUpdateVersion);
        }
        let mut isr: Vec<i32> = Vec::with_capacity(change.isr.len());
        for member in &change.isr {
            if !now.replicas.contains(&member.id) || isr.contains(&member.id) {
                return Err(ErrorCode::InvalidRequest);
            }
            isr.push(member.id);
        }
        if !isr.contains(&leader) {
            return Err(ErrorCode::InvalidRequest);
        }
        let is_eligible = |member: &IsrMember| {
            let is_known =
                member.broker_epoch == -1 || is_life(self.image, member.id, member.broker_epoch);
            is_known && self.can_lead(now, member.id)
        };
        if !change.isr.iter().all(is_eligible) {
            return Err(ErrorCode::IneligibleReplica);
        }
        let elr = self.eligible(place, &isr);
        Ok(self.change(place, Wanted { leader, isr, elr }))
    }
}
