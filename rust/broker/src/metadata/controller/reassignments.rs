//! Moving partitions to other brokers.
//!
//! ```text
//!  asked       replicas = target + those that leave; both kinds of change are noted
//!  under way   new replicas catch up, and their leader proposes them for the ISR
//!  all in ISR  those that leave are gone, in the record that took the last one in
//!  cancelled   the new replicas are gone, those that were to leave stay
//! ```
//! Everything is in the image, so the next controller goes on with it.
//! Source: Kafka's `PartitionReassignmentReplicas`, `PartitionReassignmentRevert` and
//! `ReplicationControlManager.alterPartitionReassignments`; KIP-455.

use super::super::error::ApiError;
use super::super::image::{MetadataImage, PartitionImage};
use super::super::records::MetadataRecord;
use super::Decision;
use super::elections::{Elections, Place};
use super::placement::validate_assignment;
use kafkalite_protocol::ErrorCode;
use std::sync::Arc;

/// Where a partition is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reassignment {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's index.
    pub partition: i32,
    /// Broker ids, the preferred leader first. `None` cancels what is under way.
    pub replicas: Option<Vec<i32>>,
}

/// Moves partitions to other brokers, each named once, or cancels that.
pub fn reassign(
    image: &MetadataImage,
    partitions: &[Reassignment],
    may_resize: bool,
) -> Decision<()> {
    let is_alive = |id| image.is_alive(id);
    let elections = Elections { image, is_alive: &is_alive };
    let mut records = Vec::new();
    let reassign = |asked: &Reassignment| {
        elections.reassign(asked, may_resize).map(|record| records.extend(record))
    };
    let answers = partitions.iter().map(reassign).collect();
    (records, answers)
}

impl Elections<'_> {
    /// Begins, changes or cancels the reassignment of a partition; `None` if it is so already.
    ///
    /// # Errors
    /// - `UnknownTopicOrPartition`: there is none
    /// - `InvalidReplicaAssignment`: the replicas are no brokers, or a cancellation would elect a
    ///   leader that may lack records
    /// - `InvalidReplicationFactor`: their number is another one, and `may_resize` forbids that
    /// - `NoReassignmentInProgress`: there is nothing to cancel
    pub fn reassign(
        &self,
        asked: &Reassignment,
        may_resize: bool,
    ) -> Result<Option<MetadataRecord>, ApiError> {
        let Reassignment { topic: name, partition: index, replicas } = asked;
        let unknown = |message| ApiError::new(ErrorCode::UnknownTopicOrPartition, message);
        let topic = self.image.topic(name);
        let topic =
            topic.ok_or_else(|| unknown(format!("Unable to find a topic named {name}.")))?;
        let place = Place::of(topic, *index);
        let place =
            place.ok_or_else(|| unknown(format!("Unable to find partition {name}:{index}.")))?;
        let next = match replicas {
            None => self.cancelled(place)?,
            Some(target) => {
                validate_assignment(self.image, target, None)?;
                if !may_resize {
                    check_size(place.now, target.len())?;
                }
                moving_to(place.now, target)
            }
        };
        Ok(self.record(place, next))
    }

    fn cancelled(&self, place: Place<'_>) -> Result<PartitionImage, ApiError> {
        let now = place.now;
        if !now.is_moving() {
            return Err(ErrorCode::NoReassignmentInProgress.into());
        }
        let stays = |id: &i32| !now.adding_replicas.contains(id);
        let refuse = |message| Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
        let replicas: Vec<i32> = now.replicas.iter().copied().filter(stays).collect();
        let mut isr: Vec<i32> = now.isr.iter().copied().filter(stays).collect();
        let Some(first) = replicas.first().copied() else {
            let message = "Invalid replica assignment: addingReplicas contains all replicas.";
            return refuse(message.to_owned());
        };
        if isr.is_empty() {
            if self.is_unclean_allowed(place.topic) != Some(true) {
                return refuse(format!(
                    "Unable to revert partition assignment for {}:{} because it would require an \
                     unclean leader election.",
                    place.topic.name, place.index
                ));
            }
            isr.push(first);
        }
        let next = now.with_replicas(replicas);
        let (adding_replicas, removing_replicas) = (Vec::new(), Vec::new());
        Ok(PartitionImage { isr, adding_replicas, removing_replicas, ..next })
    }
}

/// A partition on its way to `target`. What an earlier reassignment added counts as new until it
/// ends, so that a cancellation takes it back.
pub(super) fn moving_to(now: &PartitionImage, target: &[i32]) -> PartitionImage {
    let was_here = |id: &i32| now.replicas.contains(id) && !now.adding_replicas.contains(id);
    let sorted = |ids: &[i32], is_one: &dyn Fn(&i32) -> bool| {
        let mut ids: Vec<i32> = ids.iter().copied().filter(is_one).collect();
        ids.sort_unstable();
        ids
    };
    let removing_replicas = sorted(&now.replicas, &|id| !target.contains(id));
    let adding_replicas = sorted(target, &|id| !was_here(id));
    let replicas = target.iter().chain(&removing_replicas).copied().collect();
    PartitionImage { adding_replicas, removing_replicas, ..now.with_replicas(replicas) }
}

fn check_size(now: &PartitionImage, target: usize) -> Result<(), ApiError> {
    let stays = now.replicas.iter().filter(|id| !now.removing_replicas.contains(id));
    let size = stays.count();
    if size == target {
        return Ok(());
    }
    let message = format!("The replication factor is changed from {size} to {target}");
    Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message))
}

/// The partition as it is when its reassignment ended, if every new replica is in sync, and one
/// that stays.
pub(super) fn end_reassignment(next: PartitionImage) -> PartitionImage {
    let stays = |id: &i32| !next.removing_replicas.contains(id);
    let isr: Vec<i32> = next.isr.iter().copied().filter(stays).collect();
    let is_complete = next.adding_replicas.iter().all(|id| isr.contains(id));
    if !next.is_moving() || isr.is_empty() || !is_complete {
        return next;
    }
    let replicas = next.replicas.iter().copied().filter(stays).collect();
    let (adding_replicas, removing_replicas) = (Vec::new(), Vec::new());
    PartitionImage { isr, adding_replicas, removing_replicas, ..next.with_replicas(replicas) }
}

#[cfg(test)]
mod tests;
