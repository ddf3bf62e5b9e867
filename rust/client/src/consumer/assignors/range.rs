//! Range: each topic's partitions in order, cut into as many pieces as it has readers.
//!
//! Topics with the same readers and the same number of partitions are cut alike, so that members
//! read the same partition number of each. Source: Kafka's `RangeAssignor` without racks.

use super::{Assignments, MemberSubscription, PartitionCounts, TopicPartition};

pub(super) fn assign(counts: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
    let mut assignments = super::empty(members);
    let ordered = super::in_order(members);
    for (topic, count) in super::subscribed_topics(counts, members) {
        let readers: Vec<_> =
            ordered.iter().filter(|member| member.topics.contains(&topic)).collect();
        let (share, extra) = (count as usize / readers.len(), count as usize % readers.len());
        let mut next = 0;
        for (index, member) in readers.iter().enumerate() {
            // The first readers get one more where it does not divide.
            let length = share + usize::from(index < extra);
            let pieces = (next..next + length)
                .map(|partition| TopicPartition::new(topic.clone(), partition as i32));
            assignments.entry(member.member_id.clone()).or_default().extend(pieces);
            next += length;
        }
    }
    assignments
}
