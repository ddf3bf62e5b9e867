//! Which replicas the high watermark waits for, and how far each of them is.
//!
//! ```text
//!  committed ISR   what the controller's newest record says; min.insync.replicas is about it
//!  maximal ISR     committed + proposed: a proposal may have been accepted without our knowing
//!  waited for      maximal ISR + replicas that are about to be proposed (KIP-966)
//! ```
//! A replica that is waited for too long costs time; one that is not waited for and becomes leader
//! costs acknowledged records.
//! Source: Kafka's `Partition.maybeIncrementLeaderHW` and `PendingPartitionChange.maximalIsr`.

use crate::metadata::PartitionImage;
use kafkalite_protocol::{LeaderEpoch, Offset};

/// What the leader knows of another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Follower {
    id: i32,
    log_end_offset: Offset,
    /// It has caught up and may join the in-sync replicas.
    is_joining: bool,
}

/// In-sync replicas that a leader wants, for the controller's AlterPartition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrProposal {
    /// The leader epoch of who proposes.
    pub leader_epoch: LeaderEpoch,
    /// What the proposal builds upon; the controller refuses it if the partition changed since.
    pub partition_epoch: i32,
    /// Broker ids.
    pub isr: Vec<i32>,
}

/// The in-sync replicas of one partition.
#[derive(Clone, Debug)]
pub(super) struct InSync {
    /// The partition epoch of the newest image.
    epoch: i32,
    committed: Vec<i32>,
    /// In a box: there may be thousands of partitions, and few have one.
    proposal: Option<Box<IsrProposal>>,
    /// The replicas on other brokers.
    followers: Vec<Follower>,
    /// `min.insync.replicas`
    min: usize,
}

impl InSync {
    pub fn new() -> Self {
        let (committed, followers) = (Vec::new(), Vec::new());
        Self { epoch: -1, committed, proposal: None, followers, min: 1 }
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Takes an image over that is not older; with `begins` nothing is known of the followers yet.
    pub fn follow_image(&mut self, local_id: i32, image: &PartitionImage, begins: bool) {
        if image.partition_epoch > self.epoch || begins {
            // It was accepted, or the controller will refuse it.
            self.proposal = None;
        }
        self.epoch = image.partition_epoch;
        self.committed.clone_from(&image.isr);
        let others = image.replicas.iter().filter(|id| **id != local_id);
        self.followers = others
            .map(|id| {
                let known = self.followers.iter().find(|follower| follower.id == *id && !begins);
                let unknown = Follower { id: *id, log_end_offset: Offset(-1), is_joining: false };
                known.copied().unwrap_or(unknown)
            })
            .collect();
    }

    pub fn set_min(&mut self, min: usize) {
        self.min = min;
    }

    pub fn fetched(&mut self, id: i32, offset: Offset, is_joining: bool) {
        if let Some(follower) = self.followers.iter_mut().find(|follower| follower.id == id) {
            *follower = Follower { id, log_end_offset: offset, is_joining };
        }
    }

    pub fn propose(&mut self, isr: &[i32], leader_epoch: LeaderEpoch) -> Option<IsrProposal> {
        if self.proposal.is_some() {
            return None;
        }
        let partition_epoch = self.epoch;
        let proposal = IsrProposal { leader_epoch, partition_epoch, isr: isr.to_vec() };
        self.proposal = Some(Box::new(proposal.clone()));
        Some(proposal)
    }

    pub fn refused(&mut self, proposal: &IsrProposal) {
        // The answer to an older one says nothing of this one.
        self.proposal.take_if(|pending| **pending == *proposal);
    }

    /// Whether fewer replicas are in sync than `min.insync.replicas` asks for, or than there are
    /// if it asks for more.
    pub fn is_under_min(&self) -> bool {
        self.committed.len() < self.min.min(self.replica_count())
    }

    /// The lowest end of all replicas that are waited for; the leader's own log ends at
    /// `local_end`.
    pub fn lowest_end(&self, local_end: Offset) -> Offset {
        let waited_for = self.followers.iter().filter(|follower| self.waits_for(follower));
        waited_for.map(|follower| follower.log_end_offset).fold(local_end, Offset::min)
    }

    fn waits_for(&self, follower: &Follower) -> bool {
        let proposed = self.proposal.iter().flat_map(|proposal| &proposal.isr);
        let mut maximal = self.committed.iter().chain(proposed);
        follower.is_joining || maximal.any(|id| *id == follower.id)
    }

    pub fn is_follower(&self, id: i32) -> bool {
        self.followers.iter().any(|follower| follower.id == id)
    }

    /// How many replicas there are, the local one among them.
    pub fn replica_count(&self) -> usize {
        self.followers.len() + 1
    }
}
