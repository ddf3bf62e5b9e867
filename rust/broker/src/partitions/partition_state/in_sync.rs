//! Which replicas the high watermark waits for, and how far each of them is.
//!
//! ```text
//!  committed ISR   what the controller's newest record says; min.insync.replicas is about it
//!  maximal ISR     committed + proposed: a proposal may have been accepted without our knowing
//!  waited for      maximal ISR + replicas that are about to be proposed (KIP-966)
//! ```
//! Only a replica in its broker's newest life, unfenced, is about to be proposed: the controller
//! takes no other one.
//!
//! A replica that is waited for too long costs time; one that is not waited for and becomes leader
//! costs acknowledged records.
//! Source: Kafka's `Partition.maybeIncrementLeaderHW` and `PendingPartitionChange.maximalIsr`.

use crate::metadata::PartitionImage;
use crate::metadata::controller::IsrMember;
use kafkalite_protocol::{LeaderEpoch, Offset};

/// A fetch of a follower, as its leader sees it. Time is monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerFetch {
    /// The follower.
    pub id: i32,
    /// Its broker epoch: which of its lives fetches.
    pub broker_epoch: i64,
    /// From where, so it holds everything before.
    pub offset: Offset,
    /// Where its log starts.
    pub log_start: Offset,
    /// When.
    pub now_ms: u64,
}

/// What the leader knows of another replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Follower {
    id: i32,
    log_end_offset: Offset,
    /// -1 is unknown.
    log_start_offset: Offset,
    broker_epoch: i64,
    /// When it last had everything that the leader had at the time of a fetch; `None` if nothing is
    /// known yet.
    caught_up_ms: Option<u64>,
    /// When it fetched last, and where the leader's log ended then.
    fetched: Option<(u64, Offset)>,
    /// It has caught up, and is about to be proposed for the in-sync replicas.
    is_joining: bool,
}

impl Follower {
    fn unknown(id: i32) -> Self {
        Self {
            id,
            log_end_offset: Offset(-1),
            log_start_offset: Offset(-1),
            broker_epoch: -1,
            caught_up_ms: None,
            fetched: None,
            is_joining: false,
        }
    }

    /// Whether it had everything at some time within the last `max_lag_ms`.
    fn keeps_up(&self, now_ms: u64, max_lag_ms: u64) -> bool {
        self.caught_up_ms.is_some_and(|at_ms| now_ms <= at_ms.saturating_add(max_lag_ms))
    }
}

/// In-sync replicas that a leader wants, for the controller's AlterPartition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IsrProposal {
    /// The leader epoch of who proposes.
    pub leader_epoch: LeaderEpoch,
    /// What the proposal builds upon; the controller refuses it if the partition changed since.
    pub partition_epoch: i32,
    /// The replicas, each in the life that the leader knows.
    pub isr: Vec<IsrMember>,
}

/// The in-sync replicas of one partition.
#[derive(Clone, Debug)]
pub(super) struct InSync {
    local_id: i32,
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
    pub fn new(local_id: i32) -> Self {
        let (committed, followers) = (Vec::new(), Vec::new());
        Self { local_id, epoch: -1, committed, proposal: None, followers, min: 1 }
    }

    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Takes an image over that is not older; with `begins` nothing is known of the followers yet.
    pub fn follow_image(&mut self, image: &PartitionImage, begins: bool) {
        if image.partition_epoch > self.epoch || begins {
            // It was accepted, or the controller will refuse it.
            self.proposal = None;
        }
        self.epoch = image.partition_epoch;
        self.committed.clone_from(&image.isr);
        let others = image.replicas.iter().filter(|id| **id != self.local_id);
        self.followers = others
            .map(|id| {
                let known = self.followers.iter().find(|follower| follower.id == *id && !begins);
                known.copied().unwrap_or_else(|| Follower::unknown(*id))
            })
            .collect();
        for follower in &mut self.followers {
            // From now on it counts as one of them.
            follower.is_joining &= !self.committed.contains(&follower.id);
        }
    }

    pub fn set_min(&mut self, min: usize) {
        self.min = min;
    }

    /// A follower fetched while the leader's log ended at `leader_end`. `lives` says whether a
    /// broker serves in a life.
    pub fn fetched(
        &mut self,
        fetch: &FollowerFetch,
        leader_end: Offset,
        max_lag_ms: u64,
        lives: impl Fn(i32, i64) -> bool,
    ) {
        let is_in = self.committed.contains(&fetch.id);
        let Some(follower) = self.followers.iter_mut().find(|one| one.id == fetch.id) else {
            return;
        };
        if follower.broker_epoch > fetch.broker_epoch {
            // A fetch of a former life that was on its way for long.
            return;
        }
        if follower.broker_epoch != fetch.broker_epoch {
            // What its former life had says nothing of this one.
            (follower.fetched, follower.caught_up_ms) = (None, None);
        }
        let caught_up_ms = match follower.fetched {
            _ if fetch.offset >= leader_end => Some(fetch.now_ms),
            // It has now what there was at its last fetch.
            Some((at_ms, end)) if fetch.offset >= end => Some(at_ms),
            _ => None,
        };
        follower.caught_up_ms = follower.caught_up_ms.max(caught_up_ms);
        follower.fetched = Some((fetch.now_ms, leader_end));
        (follower.broker_epoch, follower.log_end_offset) = (fetch.broker_epoch, fetch.offset);
        follower.log_start_offset = fetch.log_start;
        let keeps_up = follower.keeps_up(fetch.now_ms, max_lag_ms);
        follower.is_joining = !is_in && keeps_up && lives(fetch.id, fetch.broker_epoch);
    }

    /// Looks at which followers keep up. `quiet_ms` says when a follower last had everything, as
    /// its fetch session knows: a session does not look at partitions that do not move.
    pub fn look_at_lag(
        &mut self,
        (now_ms, max_lag_ms): (u64, u64),
        leader_end: Offset,
        quiet_ms: impl Fn(i32) -> Option<u64>,
        lives: impl Fn(i32, i64) -> bool,
    ) {
        for follower in &mut self.followers {
            let is_in = self.committed.contains(&follower.id);
            // The session of a former life may be there yet.
            let has_all = follower.log_end_offset >= leader_end;
            let quiet_ms = quiet_ms(follower.id).filter(|_| has_all);
            follower.caught_up_ms = follower.caught_up_ms.max(quiet_ms);
            if follower.caught_up_ms.is_none() && is_in {
                // A leader that begins gives it as long as any other.
                follower.caught_up_ms = Some(now_ms);
            }
            let keeps_up = follower.keeps_up(now_ms, max_lag_ms);
            follower.is_joining = !is_in && keeps_up && lives(follower.id, follower.broker_epoch);
        }
    }

    /// The in-sync replicas with one more that has everything up to `needed`, if there is one.
    pub fn expanded(&self, needed: Offset) -> Option<Vec<IsrMember>> {
        let mut joining = self.followers.iter().filter(|follower| follower.is_joining);
        let joins = joining.find(|follower| follower.log_end_offset >= needed)?;
        let ids = self.committed.iter().copied().chain([joins.id]);
        Some(ids.map(|id| self.member(id)).collect())
    }

    /// The in-sync replicas without those that fell behind, if there are any.
    pub fn shrunk(&self, now_ms: u64, max_lag_ms: u64) -> Option<Vec<IsrMember>> {
        let lags = |id: &i32| {
            let follower = self.followers.iter().find(|follower| follower.id == *id);
            follower.is_some_and(|follower| !follower.keeps_up(now_ms, max_lag_ms))
        };
        let stay: Vec<i32> = self.committed.iter().copied().filter(|id| !lags(id)).collect();
        let is_smaller = stay.len() < self.committed.len();
        is_smaller.then(|| stay.into_iter().map(|id| self.member(id)).collect())
    }

    fn member(&self, id: i32) -> IsrMember {
        let follower = self.followers.iter().find(|follower| follower.id == id);
        IsrMember { id, broker_epoch: follower.map_or(-1, |follower| follower.broker_epoch) }
    }

    pub fn propose(
        &mut self,
        isr: Vec<IsrMember>,
        leader_epoch: LeaderEpoch,
    ) -> Option<IsrProposal> {
        if self.proposal.is_some() {
            return None;
        }
        let proposal = IsrProposal { leader_epoch, partition_epoch: self.epoch, isr };
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
        self.committed.len() < self.effective_min()
    }

    /// Whether fewer replicas than that are in sync even if a proposal that is on its way counts.
    pub fn is_surely_under_min(&self) -> bool {
        let proposed = self.proposal.as_ref().map_or(0, |proposal| proposal.isr.len());
        self.committed.len().max(proposed) < self.effective_min()
    }

    fn effective_min(&self) -> usize {
        self.min.min(self.replica_count())
    }

    /// The lowest end of all replicas that are waited for; the leader's own log ends at
    /// `local_end`.
    pub fn lowest_end(&self, local_end: Offset) -> Offset {
        let waited_for = self.followers.iter().filter(|follower| self.waits_for(follower));
        waited_for.map(|follower| follower.log_end_offset).fold(local_end, Offset::min)
    }

    /// The replicas that are waited for and lack what is before `end`: broker and log end.
    pub fn lacking(&self, end: Offset) -> Vec<(i32, i64)> {
        let waited_for = self.followers.iter().filter(|follower| self.waits_for(follower));
        let lack = waited_for.filter(|follower| follower.log_end_offset < end);
        lack.map(|follower| (follower.id, follower.log_end_offset.0)).collect()
    }

    /// The lowest start of the logs on brokers that are alive; the leader's own starts at
    /// `local_start`.
    pub fn lowest_start(&self, local_start: Offset, is_alive: impl Fn(i32) -> bool) -> Offset {
        let alive = self.followers.iter().filter(|follower| is_alive(follower.id));
        alive.map(|follower| follower.log_start_offset).fold(local_start, Offset::min)
    }

    /// The committed in-sync replica, of those that are near a reader, to read from `offset` on:
    /// one that has this offset, and of several the one that is furthest.
    pub fn nearest(&self, offset: Offset, is_near: impl Fn(i32) -> bool) -> Option<i32> {
        let may_serve = |follower: &&Follower| {
            let has_it = (follower.log_start_offset..=follower.log_end_offset).contains(&offset);
            has_it && self.committed.contains(&follower.id) && is_near(follower.id)
        };
        let near = self.followers.iter().filter(may_serve);
        near.max_by_key(|one| (one.log_end_offset, one.caught_up_ms, one.id)).map(|one| one.id)
    }

    pub fn start_of(&self, id: i32) -> Option<Offset> {
        let follower = self.followers.iter().find(|follower| follower.id == id);
        follower.map(|follower| follower.log_start_offset)
    }

    pub fn end_of(&self, id: i32) -> Option<Offset> {
        let follower = self.followers.iter().find(|follower| follower.id == id);
        follower.map(|follower| follower.log_end_offset)
    }

    fn waits_for(&self, follower: &Follower) -> bool {
        let proposed = self.proposal.iter().flat_map(|proposal| &proposal.isr);
        let mut maximal = self.committed.iter().copied().chain(proposed.map(|member| member.id));
        follower.is_joining || maximal.any(|id| id == follower.id)
    }

    pub fn is_committed(&self, id: i32) -> bool {
        self.committed.contains(&id)
    }

    pub fn is_follower(&self, id: i32) -> bool {
        self.followers.iter().any(|follower| follower.id == id)
    }

    /// Every replica on another broker: its id, whether it is in sync, and where its log ends. The
    /// end is the one that its fetches told in this leader's epoch.
    pub fn followers(&self) -> impl Iterator<Item = (i32, bool, Option<Offset>)> {
        self.followers.iter().map(|follower| {
            let end = Some(follower.log_end_offset).filter(|end| end.0 >= 0);
            (follower.id, self.committed.contains(&follower.id), end)
        })
    }

    /// How many replicas there are, the local one among them.
    pub fn replica_count(&self) -> usize {
        self.followers.len() + 1
    }
}
