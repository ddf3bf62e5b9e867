//! Replication that is throttled, on the leader's side and on the follower's.

use super::ReplicaManager;
use crate::config::BrokerConfig;
use crate::partitions::{Partition, Throttle, TopicSettings};

/// Has a partition obey its topic's settings.
pub(super) fn configure(partition: &Partition, settings: &TopicSettings) {
    partition.throttled().set(&settings.throttled, partition.index());
    partition.set_config(settings.log.clone(), settings.min_in_sync_replicas);
}

impl ReplicaManager {
    /// Takes the limits over from the configuration in force.
    pub fn limit_throttles(&self, config: &BrokerConfig) {
        let now_ns = self.config.clock.monotonic_ns();
        self.throttles.leader.limit(config.leader_throttle_bytes, now_ns);
        self.throttles.follower.limit(config.follower_throttle_bytes, now_ns);
        self.throttles.log_dirs.limit(config.log_dirs_throttle_bytes, now_ns);
    }

    /// Whether the follower with this id gets nothing of a partition for now. One that is in sync
    /// always does.
    #[must_use]
    pub fn holds_back(&self, partition: &Partition, follower: i32) -> bool {
        partition.throttled().leader()
            && self.is_exceeded(&self.throttles.leader)
            && !partition.is_in_sync(follower)
    }

    /// A follower of a partition gets so many bytes.
    pub fn sent(&self, partition: &Partition, bytes: u64) {
        if partition.throttled().leader() {
            self.throttles.leader.record(bytes, self.config.clock.monotonic_ns());
        }
    }

    /// Whether a partition that follows, and is behind, fetches nothing for now. A replica in sync
    /// always fetches: right after an election it is not known yet what it lacks.
    #[must_use]
    pub fn waits(&self, partition: &Partition) -> bool {
        partition.throttled().follower()
            && self.is_exceeded(&self.throttles.follower)
            && !partition.is_in_sync(self.config.local_id)
    }

    /// A partition that follows fetched so many bytes.
    pub fn fetched(&self, partition: &Partition, bytes: u64) {
        if partition.throttled().follower() {
            self.throttles.follower.record(bytes, self.config.clock.monotonic_ns());
        }
    }

    fn is_exceeded(&self, throttle: &Throttle) -> bool {
        throttle.is_exceeded(self.config.clock.monotonic_ns())
    }
}
