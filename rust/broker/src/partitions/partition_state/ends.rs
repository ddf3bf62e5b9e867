//! Where the log of a leader ends, and how far its followers are.

use super::PartitionState;
use kafkalite_protocol::Offset;

/// How far one follower is, as its leader knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerEnd {
    /// Its broker.
    pub broker_id: i32,
    /// The newest image has it among the in-sync replicas.
    pub in_sync: bool,
    /// Offsets from its end to that of the leader; `None` if it has not fetched since this broker
    /// leads.
    pub behind: Option<u64>,
}

/// Where the log of a leader ends, and what of it is committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderEnd {
    /// The end of the log.
    pub log_end_offset: Offset,
    /// What is before is on every in-sync replica.
    pub high_watermark: Offset,
}

impl PartitionState {
    /// Calls `each` with every follower; `None` if this broker does not lead.
    pub fn replication(&self, each: impl FnMut(FollowerEnd)) -> Option<LeaderEnd> {
        let log_end_offset = self.log_end.offset;
        let behind =
            |end: Offset| u64::try_from(log_end_offset.0.saturating_sub(end.0)).unwrap_or(0);
        self.is_leader().then(|| {
            let followers = self.in_sync.followers();
            let ends = followers.map(|(broker_id, in_sync, end)| FollowerEnd {
                broker_id,
                in_sync,
                behind: end.map(behind),
            });
            ends.for_each(each);
            LeaderEnd { log_end_offset, high_watermark: self.high_watermark }
        })
    }
}
