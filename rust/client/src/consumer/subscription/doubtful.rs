//! Leaders that may lead no more.

use std::time::{Duration, Instant};

use super::Subscription;
use crate::topic_partition::TopicPartition;

impl Subscription {
    /// The partitions whose leader is known from older metadata than their place is.
    pub fn old_leaders_due(&mut self, now: Instant) -> Vec<TopicPartition> {
        let due = self.partitions.iter_mut().filter(|(_, state)| state.is_due(now));
        let old = due.filter_map(|(one, state)| state.note_old_leader(now).then_some(one));
        old.cloned().collect()
    }

    /// The partitions that brought no records for a while. The wait until the next look is `most`
    /// at most.
    pub fn quiet_due(&mut self, now: Instant, most: Duration) -> Vec<TopicPartition> {
        let quiet = self
            .partitions
            .iter_mut()
            .filter_map(|(partition, state)| state.is_quiet(now, most).then(|| partition.clone()));
        quiet.collect()
    }
}
