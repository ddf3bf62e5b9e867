//! What a subscription remembers of partitions that it does not hold now: their topic and tenure,
//! and their place if they may come back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use kafkalite_protocol::Uuid;

use super::{PartitionState, Status, Wish};
use crate::topic_partition::TopicPartition;

/// A topic that brokers do not know for this long was deleted.
const ASIDE_FOR: Duration = Duration::from_secs(600);

/// How a partition was held.
#[derive(Clone, Copy, Debug)]
struct GivenUp {
    tenure: u64,
    topic_id: Uuid,
}

/// Partitions that are not held now.
#[derive(Default)]
pub(super) struct Past {
    /// What was held since the consumer last asked for nothing.
    given_up: BTreeMap<TopicPartition, GivenUp>,
    /// Tenures in which a topic was made again: the one before, and the one that began with that.
    renewed: BTreeMap<TopicPartition, (u64, u64)>,
    /// Partitions of topics that brokers do not know, and since when.
    aside: BTreeMap<TopicPartition, (PartitionState, Instant)>,
}

impl Past {
    /// The consumer asks for something else.
    pub fn set_wish(&mut self, wish: &Wish) {
        if matches!(wish, Wish::Nothing) {
            self.given_up.clear();
            self.renewed.clear();
        }
        self.aside.retain(|one, _| wish.is_by_group() && wish.may_be(&one.topic));
    }

    /// A partition is held no more.
    pub fn give_up(&mut self, partition: TopicPartition, state: &PartitionState) {
        let (tenure, topic_id) = (state.cursor().tenure(), state.topic_id());
        self.given_up.insert(partition, GivenUp { tenure, topic_id });
    }

    /// Whether a partition was held.
    pub fn has(&self, partition: &TopicPartition) -> bool {
        self.given_up.contains_key(partition)
    }

    /// A partition that is held from now on, in a tenure. A partition that was assigned by hand
    /// keeps its remembered topic. So does a group's partition in the tenure in which it was given
    /// up. So a new topic of the name is noticed.
    pub fn begin(
        &mut self,
        one: &TopicPartition,
        tenure: u64,
        start: Status,
        by_group: bool,
    ) -> PartitionState {
        let tenure = self.own_tenure(one, tenure);
        let before = self.given_up.get(one);
        let before = before.filter(|before| !by_group || before.tenure == tenure);
        let topic_id = before.map_or(Uuid::ZERO, |before| before.topic_id);
        PartitionState::new(one.clone(), start, tenure).of_topic(topic_id)
    }

    /// A partition is held.
    pub fn forget(&mut self, partition: &TopicPartition) {
        self.given_up.remove(partition);
    }

    /// The tenure of a partition's records where the group's is `tenure`.
    pub fn own_tenure(&self, partition: &TopicPartition, tenure: u64) -> u64 {
        let renewed = self.renewed.get(partition).filter(|(of_group, _)| *of_group == tenure);
        renewed.map_or(tenure, |(_, own)| *own)
    }

    /// The tenure that began when the topic of a partition was made again, if it was.
    pub fn renewed_in(&self, partition: &TopicPartition) -> Option<u64> {
        self.renewed.get(partition).map(|(_, own)| *own)
    }

    /// The topic of a partition was made again: the tenure is no more `before` but `own`.
    pub fn renew(&mut self, partition: &TopicPartition, before: u64, own: u64) {
        let earlier = self.renewed.get(partition).filter(|(_, own)| *own == before);
        let of_group = earlier.map_or(before, |(of_group, _)| *of_group);
        self.renewed.insert(partition.clone(), (of_group, own));
    }

    /// Brokers do not know the topic of a partition now. Without topic ids it is unknown whether
    /// the topic that comes back is the same, so the place is forgotten.
    pub fn set_aside(&mut self, partition: TopicPartition, state: PartitionState, now: Instant) {
        if !state.topic_id().is_zero() {
            self.aside.insert(partition, (state, now));
        }
    }

    /// Forgets what was set aside too long ago.
    pub fn forget_old(&mut self, now: Instant) {
        self.aside.retain(|_, (_, since)| now.saturating_duration_since(*since) < ASIDE_FOR);
    }

    /// Takes out what was set aside of the topic with this name; nothing of an earlier one.
    pub fn take_back(&mut self, topic: &str, id: Uuid) -> Vec<(TopicPartition, PartitionState)> {
        let partitions: BTreeSet<_> =
            self.aside.keys().filter(|one| *one.topic == *topic).cloned().collect();
        let taken = partitions.into_iter().filter_map(|one| {
            let (state, _) = self.aside.remove(&one)?;
            (state.topic_id() == id).then_some((one, state))
        });
        taken.collect()
    }

    /// What was set aside of a partition.
    pub fn aside(&self, partition: &TopicPartition) -> Option<&PartitionState> {
        self.aside.get(partition).map(|(state, _)| state)
    }
}
