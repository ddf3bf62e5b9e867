//! The followers of this broker, as a fetcher needs them.

use super::fetcher::{FetchedRecords, LocalReplicas, Position, ReplicaKey};
use crate::clock::Clock;
use crate::partitions::{Partition, ReplicaManager};
use kafkalite_log::LogError;
use kafkalite_protocol::{LeaderEpoch, Offset};
use std::sync::Arc;

/// Appends to the replicas of a [`ReplicaManager`], and cuts them.
#[derive(Clone)]
pub struct LocalLogs {
    partitions: Arc<ReplicaManager>,
    clock: Arc<dyn Clock>,
}

impl LocalLogs {
    /// The logs of this broker.
    #[must_use]
    pub fn new(partitions: Arc<ReplicaManager>, clock: Arc<dyn Clock>) -> Self {
        Self { partitions, clock }
    }

    /// Whose they are.
    pub(super) fn partitions(&self) -> &Arc<ReplicaManager> {
        &self.partitions
    }

    fn find(&self, key: ReplicaKey) -> Option<Arc<Partition>> {
        self.partitions.find_by_id(key.topic_id, key.partition).ok()
    }

    /// Runs a change of a log, and tells how far the log is then.
    fn change<T>(
        &self,
        key: ReplicaKey,
        what: &str,
        change: impl FnOnce(&Partition, i64) -> Result<T, LogError>,
    ) -> Option<Position> {
        let partition = self.find(key)?;
        match change(&partition, self.clock.wall_ms()) {
            Ok(_) => position(&partition),
            // It leads by now, or follows in a newer epoch.
            Err(LogError::WrongRole { .. } | LogError::Closed { .. }) => None,
            Err(error) => {
                let log = partition.log().path();
                tracing::error!(log = %log.display(), %error, "{what}");
                None
            }
        }
    }
}

/// A follower acknowledges by fetching, so its end is what is durable where `flush.messages` asks
/// for that.
fn position(partition: &Partition) -> Option<Position> {
    if partition.is_offline() || partition.unassigned_directory().is_some() {
        return None;
    }
    let log = partition.log();
    if log.config().flush_messages == 1 && log.durable_offset() < log.log_end_offset() {
        // The disk's failure is reported where it happens.
        partition.flush().ok()?;
    }
    let latest_epoch = log.latest_epoch().unwrap_or(LeaderEpoch::UNKNOWN);
    Some(Position { start: log.log_start_offset(), end: log.log_end_offset(), latest_epoch })
}

impl LocalReplicas for LocalLogs {
    fn position(&self, key: ReplicaKey) -> Option<Position> {
        position(&*self.find(key)?)
    }

    fn end_of_epoch(&self, key: ReplicaKey, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.find(key)?.end_of_epoch(epoch)
    }

    fn is_throttled(&self, key: ReplicaKey) -> bool {
        self.find(key).is_some_and(|partition| self.partitions.waits(&partition))
    }

    fn append(
        &self,
        key: ReplicaKey,
        epoch: LeaderEpoch,
        fetched: &FetchedRecords,
    ) -> Option<Position> {
        self.change(key, "records of the leader are not appended", |partition, now_ms| {
            let FetchedRecords { records, high_watermark, log_start } = fetched;
            self.partitions.fetched(partition, records.len() as u64);
            partition.append_as_follower(records, epoch, *high_watermark, now_ms)?;
            partition.follow_log_start(*log_start, now_ms)
        })
    }

    fn truncate(&self, key: ReplicaKey, epoch: LeaderEpoch, to: Offset) -> Option<Position> {
        self.change(key, "a log that parted from its leader's is not cut", |partition, now_ms| {
            let log = partition.log().path();
            tracing::info!(log = %log.display(), to = to.0, "cut where the leader has others");
            partition.truncate_as_follower(to, epoch, now_ms)
        })
    }

    fn restart(&self, key: ReplicaKey, epoch: LeaderEpoch, start: Offset) -> Option<Position> {
        self.change(key, "a log is not restarted", |partition, now_ms| {
            let log = partition.log().path();
            let why = "the leader deleted the next records";
            tracing::warn!(log = %log.display(), start = start.0, "restarted: {why}");
            partition.restart_as_follower(start, epoch, now_ms)
        })
    }
}
