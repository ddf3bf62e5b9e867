//! One partition as its replica on this broker sees it: leader, epochs, in-sync replicas, high
//! watermark.
//!
//! Pure: no clock, log or lock inside. Facts go in (the image says, the log grew, a follower
//! fetched), facts come out ("the high watermark moved to"). The high watermark never goes back
//! within a leader epoch.
//! Source: Kafka's `Partition` and `PartitionState`.

use crate::metadata::PartitionImage;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

/// What the leader knows of another replica.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Follower {
    id: i32,
    log_end_offset: Offset,
}

/// Leadership, in-sync replicas and high watermark of one partition.
#[derive(Clone, Debug)]
pub struct PartitionState {
    local_id: i32,
    leader: i32,
    leader_epoch: LeaderEpoch,
    in_sync: Vec<i32>,
    followers: Vec<Follower>,
    /// Where this broker's own log ends, as far as it may be counted (see [`Self::log_grew`]).
    local_end: Offset,
    high_watermark: Offset,
    /// Where the log ended when this broker began to lead.
    epoch_start: Offset,
}

impl PartitionState {
    /// A replica on broker `local_id` whose log ends at `log_end`, with what was known of its high
    /// watermark.
    #[must_use]
    pub fn new(local_id: i32, log_end: Offset, high_watermark: Offset) -> Self {
        Self {
            local_id,
            leader: -1,
            leader_epoch: LeaderEpoch::UNKNOWN,
            in_sync: Vec::new(),
            followers: Vec::new(),
            local_end: log_end,
            high_watermark: high_watermark.min(log_end),
            epoch_start: log_end,
        }
    }

    /// Whether this broker begins to lead, in a new epoch, once it follows `image`.
    #[must_use]
    pub fn begins_with(&self, image: &PartitionImage) -> bool {
        image.leader == self.local_id && image.leader_epoch > self.leader_epoch
    }

    /// Follows the control plane's image. An image older than the last one changes nothing.
    ///
    /// Returns the high watermark if it moved: a smaller in-sync set may let it pass.
    pub fn follow_image(&mut self, image: &PartitionImage) -> Option<Offset> {
        if image.leader_epoch < self.leader_epoch {
            return None;
        }
        let begins = self.begins_with(image);
        self.leader = image.leader;
        self.leader_epoch = image.leader_epoch;
        self.in_sync.clone_from(&image.isr);
        let others = image.replicas.iter().filter(|id| **id != self.local_id);
        self.followers = others
            .map(|id| {
                let known = self.followers.iter().find(|follower| follower.id == *id && !begins);
                let unknown = Follower { id: *id, log_end_offset: Offset(-1) };
                known.cloned().unwrap_or(unknown)
            })
            .collect();
        if begins {
            self.epoch_start = self.local_end;
        }
        self.advance()
    }

    /// The local log now ends at `end`, as far as an acknowledgement may rely on it: with
    /// `flush.messages` that is the durable offset, else the log end offset. Returns the high
    /// watermark if it moved.
    pub fn log_grew(&mut self, end: Offset) -> Option<Offset> {
        self.local_end = self.local_end.max(end);
        self.advance()
    }

    /// The log was cut back to `end`.
    pub fn log_truncated(&mut self, end: Offset) {
        self.local_end = self.local_end.min(end);
        self.high_watermark = self.high_watermark.min(end);
    }

    /// Every record before `start` was deleted. Returns the high watermark if it had to follow.
    pub fn log_start_moved(&mut self, start: Offset) -> Option<Offset> {
        (self.high_watermark < start).then(|| {
            self.high_watermark = start;
            start
        })
    }

    /// Follower `id` fetches from `offset`, so it holds everything before. Returns the high
    /// watermark if it moved.
    pub fn follower_fetched(&mut self, id: i32, offset: Offset) -> Option<Offset> {
        let follower = self.followers.iter_mut().find(|follower| follower.id == id)?;
        follower.log_end_offset = offset;
        self.advance()
    }

    fn advance(&mut self) -> Option<Offset> {
        if !self.is_leader() {
            return None;
        }
        let in_sync = self.followers.iter().filter(|follower| self.in_sync.contains(&follower.id));
        let lowest =
            in_sync.map(|follower| follower.log_end_offset).fold(self.local_end, Offset::min);
        (lowest > self.high_watermark).then(|| {
            self.high_watermark = lowest;
            lowest
        })
    }

    /// Whether this broker leads the partition.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.leader == self.local_id
    }

    /// Whether broker `id` has another replica of this partition.
    #[must_use]
    pub fn is_followed_by(&self, id: i32) -> bool {
        self.followers.iter().any(|follower| follower.id == id)
    }

    /// Whether there are other replicas.
    #[must_use]
    pub fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// The leader's node id; -1 if there is none.
    #[must_use]
    pub fn leader(&self) -> i32 {
        self.leader
    }

    /// The reign this replica knows of.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// Every record below is in every in-sync replica.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// How many replicas are in sync, the leader among them.
    #[must_use]
    pub fn in_sync_count(&self) -> usize {
        self.in_sync.len()
    }

    /// How many replicas there are, the local one among them.
    #[must_use]
    pub fn replica_count(&self) -> usize {
        self.followers.len() + 1
    }

    /// Whether a fresh leader's high watermark has not yet reached its own epoch: it cannot say
    /// where the log ends.
    #[must_use]
    pub fn is_catching_up(&self) -> bool {
        self.high_watermark < self.epoch_start && self.in_sync.len() > 1
    }

    /// Whether a request may be served here.
    ///
    /// # Errors
    /// - `FencedLeaderEpoch`: the client knows an older reign
    /// - `UnknownLeaderEpoch`: it knows a newer one than this broker
    /// - `NotLeaderOrFollower`: another broker leads
    pub fn check_leader(&self, claimed: LeaderEpoch) -> Result<(), ErrorCode> {
        if claimed != LeaderEpoch::UNKNOWN {
            match claimed.cmp(&self.leader_epoch) {
                std::cmp::Ordering::Less => return Err(ErrorCode::FencedLeaderEpoch),
                std::cmp::Ordering::Greater => return Err(ErrorCode::UnknownLeaderEpoch),
                std::cmp::Ordering::Equal => {}
            }
        }
        if self.is_leader() { Ok(()) } else { Err(ErrorCode::NotLeaderOrFollower) }
    }
}

#[cfg(test)]
mod tests;
