//! What the controller does for partitions without being asked. Their preferred leaders lead again,
//! and a topic gets more replicas when the cluster has more brokers.
//!
//! Pure, and it comes to rest: on an image that has the records, it decides on none. So nothing is
//! kept elsewhere, and the next controller goes on.
//! Source: Kafka's `ReplicationControlManager.maybeBalancePartitionLeaders`. The growth is ours
//! (ADR 0142).

use super::super::records::MetadataRecord;
use super::elections::{Elections, Place, Wanted};
use super::placement::grown;
use super::reassignments::moving_to;

/// Partitions that one pass changes at most, as in Kafka: other changes wait for it meanwhile.
pub const MAX_CHANGES_PER_PASS: usize = 1_000;

/// How many replicas the partitions of a topic shall have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    /// The topic's name.
    pub topic: &'static str,
    /// Replicas of each partition, where as many brokers serve.
    pub replicas: usize,
}

impl Elections<'_> {
    /// Elects preferred leaders that can lead and do not. Whether there are more of them than one
    /// pass changes.
    #[must_use]
    pub fn prefer_leaders(&self) -> (Vec<MetadataRecord>, bool) {
        let mut elected = self.places().filter_map(|place| self.prefer_leader(place));
        let records: Vec<_> = elected.by_ref().take(MAX_CHANGES_PER_PASS).collect();
        let is_cut = elected.next().is_some();
        (records, is_cut)
    }

    fn prefer_leader(&self, place: Place<'_>) -> Option<MetadataRecord> {
        let now = place.now;
        let leader = self.preferred(now).filter(|id| *id != now.leader)?;
        self.change(place, Wanted { leader, isr: now.isr.clone(), elr: now.elr.clone() })
    }

    /// Begins to give partitions more replicas, as many as one pass changes. One without a leader
    /// has nothing to copy, and one that is moving is left alone until it has arrived.
    #[must_use]
    pub fn grow(&self, growth: Growth) -> Vec<MetadataRecord> {
        let alive = self.image.alive_brokers().count();
        let wanted = growth.replicas.min(alive);
        let topic = self.image.topic(growth.topic).into_iter();
        let places = topic.flat_map(|topic| {
            let indexes = 0..topic.partition_count();
            indexes.filter_map(|index| Place::of(topic, index))
        });
        let is_due = |place: &Place<'_>| {
            let now = place.now;
            now.leader != -1 && !now.is_moving() && now.replicas.len() < wanted
        };
        let begin = |place: Place<'_>| {
            let turn = usize::try_from(place.index).unwrap_or_default();
            let target = grown(self.image, turn, &place.now.replicas, wanted);
            self.record(place, moving_to(place.now, &target))
        };
        places.filter(is_due).filter_map(begin).take(MAX_CHANGES_PER_PASS).collect()
    }
}

#[cfg(test)]
mod tests;
