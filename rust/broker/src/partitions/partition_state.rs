//! One partition as its replica on this broker sees it: leader, epochs, in-sync replicas, high
//! watermark.
//!
//! Nothing is acknowledged before the metadata note the log directory of this replica. A directory
//! that is lost before the note looks like one that was never made.
//!
//! Pure: no clock, log or lock inside. Facts go in (the image says, the log ends at, a follower
//! fetched), facts come out ("the high watermark moved to"). The high watermark never goes back
//! within a leader epoch.
//!
//! Facts about the log may come late, from threads that were overtaken. Each carries the log's
//! version, and an older fact changes nothing: an append that is reported late does not undo a
//! truncation. An image of an older partition epoch changes nothing either.
//! Source: Kafka's `Partition` and `PartitionState`; KIP-966.

use crate::metadata::PartitionImage;
use crate::metadata::controller::IsrMember;
use crate::metadata::image::Assignment;
use kafkalite_log::{DurableEnd, LogEnd, Role};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};

mod ends;
mod in_sync;
mod serving;

pub use ends::{FollowerEnd, LeaderEnd};
use in_sync::InSync;
pub use in_sync::{FollowerFetch, IsrProposal};

/// The outcome of an appended batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitStatus {
    /// The batch is not as safe yet as was asked for.
    Pending,
    /// The batch is as safe as was asked for, and this broker has led since it was appended.
    Committed,
    /// The outcome stays unknown: the answer is this error. The batch may be in the log or not.
    Lost(ErrorCode),
}

/// Leadership, in-sync replicas and high watermark of one partition.
#[derive(Clone, Debug)]
pub struct PartitionState {
    local_id: i32,
    /// The log directory that the log is in.
    directory: Uuid,
    /// The metadata say that the replica is in this directory.
    is_noted: bool,
    /// The log went on in this directory here or a little later, and that is not noted. If the
    /// disk fails, the log is without what came since.
    moved_at: Option<Offset>,
    leader: i32,
    leader_epoch: LeaderEpoch,
    /// This broker has led from this epoch on, and no other one in between.
    led_since: LeaderEpoch,
    /// The topic is deleted.
    is_gone: bool,
    /// This replica serves no client any more; another one may.
    is_withdrawn: bool,
    in_sync: InSync,
    /// The newest reported end of this broker's own log.
    log_end: LogEnd,
    /// The newest reported durable offset.
    durable: DurableEnd,
    /// `flush.messages=1`: nothing counts that is not on the disk.
    durable_only: bool,
    high_watermark: Offset,
    /// Where the log ended when this broker began to lead.
    epoch_start: Offset,
}

impl PartitionState {
    /// A replica on broker `local_id` whose log is in `directory` and ends at `log_end`, with what
    /// was known of its high watermark.
    #[must_use]
    pub fn new(local_id: i32, directory: Uuid, log_end: LogEnd, high_watermark: Offset) -> Self {
        Self {
            local_id,
            directory,
            is_noted: false,
            moved_at: None,
            leader: -1,
            leader_epoch: LeaderEpoch::UNKNOWN,
            led_since: LeaderEpoch::UNKNOWN,
            is_gone: false,
            is_withdrawn: false,
            in_sync: InSync::new(local_id),
            log_end,
            durable: DurableEnd { offset: log_end.durable, version: log_end.version },
            durable_only: false,
            high_watermark: high_watermark.min(log_end.offset),
            epoch_start: log_end.offset,
        }
    }

    /// The role that the log takes before this state follows `image`; `None` if its role stays.
    #[must_use]
    pub fn new_role(&self, image: &PartitionImage) -> Option<Role> {
        let is_same = image.leader == self.leader && image.leader_epoch == self.leader_epoch;
        if self.is_gone || self.is_withdrawn || is_same || self.is_newer_than(image) {
            None
        } else if image.leader == self.local_id {
            Some(Role::Leader(image.leader_epoch))
        } else {
            Some(Role::Follower(image.leader_epoch))
        }
    }

    fn is_newer_than(&self, image: &PartitionImage) -> bool {
        image.leader_epoch < self.leader_epoch || image.partition_epoch < self.in_sync.epoch()
    }

    /// Follows the control plane's image; `log_end` is what the log told when it took its new role.
    /// An image older than the last one changes nothing. Returns the high watermark if it moved: a
    /// smaller in-sync set may let it pass.
    pub fn follow_image(
        &mut self,
        image: &PartitionImage,
        log_end: Option<LogEnd>,
    ) -> Option<Offset> {
        if let Some(log_end) = log_end {
            self.take_log_end(log_end);
        }
        if self.is_newer_than(image) {
            return None;
        }
        let begins = image.leader == self.local_id && image.leader_epoch > self.leader_epoch;
        self.is_noted = image.assignment(self.local_id) == Assignment::Directory(self.directory);
        self.moved_at = self.moved_at.filter(|_| !self.is_noted);
        if begins && !(self.is_leader() && image.leader_epoch.0 == self.leader_epoch.0 + 1) {
            self.led_since = image.leader_epoch;
        }
        self.leader = image.leader;
        self.leader_epoch = image.leader_epoch;
        self.in_sync.follow_image(image, begins);
        if begins {
            self.epoch_start = self.log_end.offset;
        }
        self.advance()
    }

    /// Takes over `flush.messages=1` and `min.insync.replicas`. Returns the high watermark if it
    /// moved.
    pub fn set_rules(&mut self, durable_only: bool, min_in_sync: usize) -> Option<Offset> {
        self.durable_only = durable_only;
        self.in_sync.set_min(min_in_sync);
        self.advance()
    }

    /// The log ends at `end` after an append or a truncation. Returns the high watermark if it
    /// moved up; after a truncation it may have moved down.
    pub fn log_ended(&mut self, end: LogEnd) -> Option<Offset> {
        self.take_log_end(end);
        self.advance()
    }

    /// As [`Self::log_ended`], after an append of what the leader sent together with its own high
    /// watermark.
    pub fn followed(&mut self, end: LogEnd, leaders_high_watermark: Offset) -> Option<Offset> {
        // What the leader told holds for the log as it was then.
        if !self.take_log_end(end) || self.is_leader() {
            return None;
        }
        self.raise(leaders_high_watermark.min(end.offset))
    }

    /// The log is on the disk up to `durable`. Returns the high watermark if it moved.
    pub fn flushed(&mut self, durable: DurableEnd) -> Option<Offset> {
        self.take_durable(durable);
        self.advance()
    }

    /// Whether it was news.
    fn take_log_end(&mut self, end: LogEnd) -> bool {
        self.take_durable(DurableEnd { offset: end.durable, version: end.version });
        if end.version <= self.log_end.version {
            return false;
        }
        self.log_end = end;
        self.high_watermark = self.high_watermark.min(end.offset);
        true
    }

    fn take_durable(&mut self, durable: DurableEnd) {
        if durable.version > self.durable.version {
            self.durable = durable;
        }
    }

    /// The log was emptied: it begins, and ends, at `end`. So does what every replica has, as far
    /// as is known here.
    pub fn log_restarted(&mut self, end: LogEnd) {
        if self.take_log_end(end) {
            self.high_watermark = end.offset;
        }
    }

    /// The version of the newest reported end of the log.
    #[must_use]
    pub fn log_version(&self) -> u64 {
        self.log_end.version
    }

    /// Every record before `start` was deleted. Returns the high watermark if it had to follow.
    pub fn log_start_moved(&mut self, start: Offset) -> Option<Offset> {
        self.raise(start)
    }

    /// A follower in the life that the image knows fetched. `lives` says whether a broker serves in
    /// the life with an epoch. One that serves, and was up to date within the last `max_lag_ms`, is
    /// about to join the in-sync replicas, and is waited for. Returns the high watermark if it
    /// moved.
    pub fn follower_fetched(
        &mut self,
        fetch: &FollowerFetch,
        max_lag_ms: u64,
        lives: impl Fn(i32, i64) -> bool,
    ) -> Option<Offset> {
        self.in_sync.fetched(fetch, self.log_end.offset, max_lag_ms, lives);
        self.advance()
    }

    /// Looks at which followers keep up; `quiet_ms` says when one was last known to have
    /// everything, as its fetch session knows, and `lives` which serve. Returns the high watermark
    /// if it moved.
    pub fn look_at_lag(
        &mut self,
        (now_ms, max_lag_ms): (u64, u64),
        quiet_ms: impl Fn(i32) -> Option<u64>,
        lives: impl Fn(i32, i64) -> bool,
    ) -> Option<Offset> {
        self.in_sync.look_at_lag((now_ms, max_lag_ms), self.log_end.offset, quiet_ms, lives);
        self.advance()
    }

    /// Proposes a replica for the in-sync ones that holds all that is committed, if there is one.
    /// As [`Self::propose_isr`].
    pub fn expand_isr(&mut self) -> Option<IsrProposal> {
        let isr = self.in_sync.expanded(self.high_watermark.max(self.epoch_start))?;
        self.propose_isr(isr)
    }

    /// Proposes the in-sync replicas without those that had not everything at any time in the last
    /// `max_lag_ms`, if there are such. As [`Self::propose_isr`].
    pub fn shrink_isr(&mut self, now_ms: u64, max_lag_ms: u64) -> Option<IsrProposal> {
        let isr = self.in_sync.shrunk(now_ms, max_lag_ms)?;
        self.propose_isr(isr)
    }

    /// This leader is about to propose other in-sync replicas to the controller. Until the answer
    /// comes the high watermark counts over both sets, as either may hold. `None` if it does not
    /// lead, or a proposal is on its way.
    pub fn propose_isr(&mut self, isr: Vec<IsrMember>) -> Option<IsrProposal> {
        let leader_epoch = self.leader_epoch;
        self.is_leader().then(|| self.in_sync.propose(isr, leader_epoch)).flatten()
    }

    /// The controller refused `proposal` finally. Returns the high watermark if it moved. A
    /// proposal that was accepted comes back as an image, and so does what overtook it.
    pub fn isr_refused(&mut self, proposal: &IsrProposal) -> Option<Offset> {
        self.in_sync.refused(proposal);
        self.advance()
    }

    /// Where the local log ends, as far as an acknowledgement may rely on it.
    pub(super) fn local_end(&self) -> Offset {
        if self.durable_only {
            self.durable.offset.min(self.log_end.offset)
        } else {
            self.log_end.offset
        }
    }

    fn advance(&mut self) -> Option<Offset> {
        if !self.is_leader() || !self.is_noted || self.in_sync.is_under_min() {
            return None;
        }
        self.raise(self.in_sync.lowest_end(self.local_end()))
    }

    fn raise(&mut self, to: Offset) -> Option<Offset> {
        (to > self.high_watermark).then(|| {
            self.high_watermark = to;
            to
        })
    }

    /// The outcome for acks=all of a batch that was appended in `epoch` and ends at `end`. It
    /// counts if the high watermark passes it while this broker leads, as it has since that epoch.
    #[must_use]
    pub fn commit_status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        self.status(epoch, self.high_watermark >= end)
    }

    /// As [`Self::commit_status`], for the answer to a producer. It is an error if fewer replicas
    /// than `min.insync.replicas` are in sync by now.
    #[must_use]
    pub fn produce_status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        match self.commit_status(end, epoch) {
            CommitStatus::Committed if self.in_sync.is_surely_under_min() => {
                CommitStatus::Lost(ErrorCode::NotEnoughReplicasAfterAppend)
            }
            status => status,
        }
    }

    /// As [`Self::commit_status`], for acks=1: the directory of the replica has to be noted. With
    /// `flush.messages=1` the batch has to be on this broker's disk, too.
    #[must_use]
    pub fn local_status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        if self.is_noted && !self.durable_only {
            return CommitStatus::Committed;
        }
        self.status(epoch, self.is_noted && self.local_end() >= end)
    }

    fn status(&self, epoch: LeaderEpoch, is_safe: bool) -> CommitStatus {
        let has_led = self.is_leader() && (self.led_since..=self.leader_epoch).contains(&epoch);
        // The log changes its role first: whether this broker leads on is seen a moment later.
        let is_certain = self.log_end.epoch <= self.leader_epoch;
        match (has_led && self.log_end.epoch >= self.leader_epoch, is_safe && is_certain) {
            (false, _) => CommitStatus::Lost(ErrorCode::NotLeaderOrFollower),
            (true, true) => CommitStatus::Committed,
            (true, false) => CommitStatus::Pending,
        }
    }

    /// Whether broker `id` has another replica of this partition.
    #[must_use]
    pub fn is_followed_by(&self, id: i32) -> bool {
        self.in_sync.is_follower(id)
    }

    /// Whether the newest image has broker `id` among the in-sync replicas.
    #[must_use]
    pub fn is_in_sync(&self, id: i32) -> bool {
        self.in_sync.is_committed(id)
    }

    /// Whether there are other replicas.
    #[must_use]
    pub fn has_followers(&self) -> bool {
        self.in_sync.replica_count() > 1
    }

    /// Whether nothing is acknowledged or read before it is on the disk: `flush.messages=1`.
    #[must_use]
    pub fn counts_durable_only(&self) -> bool {
        self.durable_only
    }

    /// Whether records count only when a flush is reported that has them.
    #[must_use]
    pub fn waits_for_disk(&self) -> bool {
        self.local_end() < self.log_end.offset
    }

    /// The log directory of this replica, as long as the metadata do not name it.
    #[must_use]
    pub fn unassigned_directory(&self) -> Option<Uuid> {
        (!self.is_noted).then_some(self.directory)
    }

    /// The log, which ends at `log_end` by now, is about to go on in another log directory. From
    /// here on nothing is acknowledged before the metadata note that one.
    pub fn moves_to(&mut self, directory: Uuid, log_end: Offset) {
        (self.directory, self.is_noted) = (directory, false);
        self.moved_at = Some(log_end);
    }

    /// The log stays in its directory after all, which is noted. Returns the high watermark if it
    /// moved.
    pub fn stays_in(&mut self, directory: Uuid) -> Option<Offset> {
        (self.directory, self.is_noted, self.moved_at) = (directory, true, None);
        self.advance()
    }

    /// Followers get nothing from here on: this replica may lose it and append other records in
    /// the same epoch. The end of all offsets unless the log just moved.
    #[must_use]
    pub fn followers_end(&self) -> Offset {
        self.moved_at.unwrap_or(Offset(i64::MAX))
    }

    /// The leader's node id; -1 if there is none.
    #[must_use]
    pub fn leader(&self) -> i32 {
        self.leader
    }

    /// The leader epoch this replica knows of.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    /// Every record below is in every in-sync replica.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// The lowest start of the logs of this partition, on brokers that are alive; the one here
    /// starts at `local_start`. -1 as long as one of them is not known.
    #[must_use]
    pub fn lowest_start(&self, local_start: Offset, is_alive: impl Fn(i32) -> bool) -> Offset {
        self.in_sync.lowest_start(local_start, is_alive)
    }

    /// Whether fewer replicas than `min.insync.replicas` are in sync.
    #[must_use]
    pub fn is_under_min(&self) -> bool {
        self.in_sync.is_under_min()
    }

    /// The followers that are waited for and lack what is before `end`: broker and log end.
    #[must_use]
    pub fn lacking(&self, end: Offset) -> Vec<(i32, i64)> {
        self.in_sync.lacking(end)
    }

    /// Where the log of a follower starts, as its last fetch said.
    #[must_use]
    pub fn follower_start(&self, id: i32) -> Option<Offset> {
        self.in_sync.start_of(id)
    }

    /// Where the log of a follower ends, as its last fetch said.
    #[must_use]
    pub fn follower_end(&self, id: i32) -> Option<Offset> {
        self.in_sync.end_of(id)
    }

    /// Whether a fresh leader's high watermark is below its epoch: it cannot tell the log's end.
    #[must_use]
    pub fn is_catching_up(&self) -> bool {
        self.high_watermark < self.epoch_start && self.has_followers()
    }

    /// The in-sync replica, of those that are near a reader, to read from `offset` on.
    #[must_use]
    pub fn nearest(&self, offset: Offset, is_near: impl Fn(i32) -> bool) -> Option<i32> {
        self.in_sync.nearest(offset, is_near)
    }
}

#[cfg(test)]
mod tests;
