//! Round robin: all partitions of all topics, in order, dealt to the members in turn.
//!
//! A member that did not subscribe to a partition's topic is passed over.
//! Source: Kafka's `RoundRobinAssignor`.

use super::{Assignments, MemberSubscription, PartitionCounts, TopicPartition};

pub(super) fn assign(counts: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
    let mut assignments = super::empty(members);
    let ordered = super::in_order(members);
    let mut turn = 0;
    for (topic, count) in super::subscribed_topics(counts, members) {
        for partition in 0..count {
            // At least one member subscribed to the topic, so the turn comes to such a member.
            while !ordered[turn].topics.contains(&topic) {
                turn = (turn + 1) % ordered.len();
            }
            let owned = assignments.entry(ordered[turn].member_id.clone()).or_default();
            owned.push(TopicPartition::new(topic.clone(), partition));
            turn = (turn + 1) % ordered.len();
        }
    }
    assignments
}
