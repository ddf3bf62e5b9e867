//! What a member says of itself when it joins, and what a leader makes of what all members said.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{GroupEvent, GroupMember, Phase};
use crate::consumer::assignors::protocol::{NO_GENERATION, encode_assignment, encode_subscription};
use crate::consumer::assignors::{Assignor, MemberSubscription, PartitionCounts};
use crate::consumer::cursor::{NO_TENURE, next_tenure};
use crate::topic_partition::TopicPartition;

impl GroupMember {
    /// Its subscription, once for each assignor, each with that one's data.
    pub(super) fn protocols(&self) -> Vec<(&'static str, Bytes)> {
        let cooperative = self.is_cooperative();
        let owned: Vec<_> = self.owned.iter().cloned().collect();
        self.config
            .assignors
            .iter()
            .map(|assignor| {
                let user_data = match assignor {
                    Assignor::CooperativeSticky => assignor.user_data(&owned, self.generation),
                    _ => assignor.user_data(&self.last.0, self.last.1),
                };
                let subscription = MemberSubscription {
                    topics: self.wanted.clone(),
                    owned: if cooperative { owned.clone() } else { Vec::new() },
                    generation: self.generation,
                    user_data,
                    rack: self.config.rack.clone(),
                    ..MemberSubscription::default()
                };
                (assignor.name(), encode_subscription(&subscription))
            })
            .collect()
    }

    /// The topics that all members together want.
    pub(super) fn topics_of(members: &[MemberSubscription]) -> BTreeSet<Arc<str>> {
        members.iter().flat_map(|member| member.topics.iter().cloned()).collect()
    }

    /// The topics that members want and of which the leader, as which it dealt last, found nothing.
    /// Only a leader deals them when they come, whether it reads them itself or not.
    pub fn missing_topics(&self) -> BTreeSet<Arc<str>> {
        let missing = self.counted.iter().flatten().filter(|(_, count)| **count == 0);
        missing.map(|(topic, _)| Arc::clone(topic)).collect()
    }

    /// The answer to `CountPartitions`, with 0 for a topic that was not found: the leader deals.
    pub fn counted(&mut self, counts: PartitionCounts) {
        if self.phase != Phase::Counting {
            return;
        }
        let members = self.leading.take().unwrap_or_default();
        // The coordinator chose among the names that we offered.
        let assignor = Assignor::from_name(&self.protocol).unwrap_or(Assignor::Range);
        let oldest = members.iter().map(|member| member.version).min().unwrap_or(0);
        if !std::mem::take(&mut self.skip_assignment) {
            self.assignments = assignor
                .assign(&counts, &members)
                .into_iter()
                .map(|(member, partitions)| (member, encode_assignment(oldest, &partitions)))
                .collect();
        }
        self.counted = Some(counts);
        self.phase = Phase::Assigned;
    }

    /// Takes an assignment: what is new, what goes, and whether to join again.
    pub(super) fn take_assignment(&mut self, assigned: Vec<TopicPartition>) {
        let unwanted = assigned.iter().any(|one| !self.wanted.contains(&one.topic));
        if unwanted {
            // It was made for an older wish: another round follows, and this one counts for what
            // is still wanted.
            self.request_rejoin("assigned topics that are not subscribed to any more");
        }
        let wanted = assigned.into_iter().filter(|one| self.wanted.contains(&one.topic));
        let assigned: BTreeSet<_> = wanted.collect();
        self.last = (assigned.iter().cloned().collect(), self.generation);
        self.note_tenures(&assigned);
        if !self.is_cooperative() {
            self.events.push_back(GroupEvent::Assign(assigned.into_iter().collect()));
            return;
        }
        let gone: Vec<_> = self.owned.difference(&assigned).cloned().collect();
        let new: Vec<_> = assigned.difference(&self.owned).cloned().collect();
        if !gone.is_empty() {
            self.events.push_back(GroupEvent::Revoke(gone));
            // What was withheld for our sake can be dealt when we come back without it.
            self.request_rejoin("gave up partitions that move");
        }
        self.events.push_back(GroupEvent::Assign(new));
    }

    /// No other member had in between what this member had in the generation before this one.
    fn note_tenures(&mut self, assigned: &BTreeSet<TopicPartition>) {
        let unbroken = self.assigned_in != NO_GENERATION && self.generation == self.assigned_in + 1;
        self.assigned_in = self.generation;
        let before = std::mem::take(&mut self.tenures);
        let begun = next_tenure();
        let tenure = |one: &TopicPartition| {
            let since = before.get(one).filter(|_| unbroken);
            (one.clone(), since.copied().unwrap_or(begun))
        };
        self.tenures = assigned.iter().map(tenure).collect();
    }

    /// Since when it has held a partition without a break: a number for the assignment with which
    /// that began. Others may have had the partition before, and committed for it.
    #[must_use]
    pub fn tenure(&self, partition: &TopicPartition) -> u64 {
        self.tenures.get(partition).copied().unwrap_or(NO_TENURE)
    }
}
