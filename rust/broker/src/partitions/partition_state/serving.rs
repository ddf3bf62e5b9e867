//! Whom a replica serves.

use super::PartitionState;
use crate::error::AppendRefusal;
use kafkalite_protocol::{ErrorCode, LeaderEpoch};

impl PartitionState {
    /// The partition is being deleted: it has no leader, and never will have one again.
    pub fn vanish(&mut self) {
        self.is_gone = true;
    }

    /// This replica serves no client from here on. Another one may: on another broker, or from
    /// other files on this one. A client that asks here has to look for it.
    pub fn withdraw(&mut self) {
        self.is_withdrawn = true;
    }

    /// Whether it serves no client because another replica may.
    #[must_use]
    pub fn is_withdrawn(&self) -> bool {
        self.is_withdrawn
    }

    /// The epoch to append in.
    ///
    /// # Errors
    /// Deleted, not the leader, or, for `acks_all`, too few in-sync replicas.
    pub fn may_append(&self, acks_all: bool) -> Result<LeaderEpoch, AppendRefusal> {
        if self.is_gone {
            return Err(ErrorCode::UnknownTopicOrPartition.into());
        }
        if !self.is_leader() {
            return Err(AppendRefusal::not_leader(self.leader, self.leader_epoch));
        }
        if acks_all && self.in_sync.is_under_min() {
            return Err(ErrorCode::NotEnoughReplicas.into());
        }
        Ok(self.leader_epoch)
    }

    /// Whether this broker leads the partition.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leader == self.local_id && !self.is_gone && !self.is_withdrawn
    }

    /// Whether a request may be served here.
    ///
    /// # Errors
    /// - `UnknownTopicOrPartition`: it was deleted
    /// - `FencedLeaderEpoch`: the client knows an older leader epoch
    /// - `UnknownLeaderEpoch`: it knows a newer one than this broker
    /// - `NotLeaderOrFollower`: another broker leads, or this replica was withdrawn
    pub fn check_leader(&self, claimed: LeaderEpoch) -> Result<(), ErrorCode> {
        self.check_epoch(claimed)?;
        if self.is_leader() { Ok(()) } else { Err(ErrorCode::NotLeaderOrFollower) }
    }

    /// Whether a request that any replica may answer may be served here.
    ///
    /// # Errors
    /// Those of [`Self::check_leader`], but no other leader is one.
    pub fn check_epoch(&self, claimed: LeaderEpoch) -> Result<(), ErrorCode> {
        if self.is_gone {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        if self.is_withdrawn {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        if claimed != LeaderEpoch::UNKNOWN {
            match claimed.cmp(&self.leader_epoch) {
                std::cmp::Ordering::Less => return Err(ErrorCode::FencedLeaderEpoch),
                std::cmp::Ordering::Greater => return Err(ErrorCode::UnknownLeaderEpoch),
                std::cmp::Ordering::Equal => {}
            }
        }
        Ok(())
    }
}
