//! One partition's replica on this broker: its state and its log, and the order in which they move.
//!
//! Appends are serial inside the log. After an append the log's new end is reported to
//! [`PartitionState`], which may move the high watermark. Then, with no lock held, the caller
//! checks the waiting requests. Offsets that readers need on every look are atomics beside the
//! lock.
//! Source: Kafka's `Partition`.

use super::group_commit::GroupCommit;
use super::partition_state::PartitionState;
use super::producer_ids::ProducerIdsSeen;
use super::throttles::ThrottledHere;
use crate::metadata::PartitionImage;
use crate::waiters::{PartitionSubscription, WatchList};
use kafkalite_log::{
    ActiveProducer, CommitLog, LogConfig, LogEnd, LogError, NotedTruncation, Retained, Role,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};

mod appending;
mod followers;
mod lag;
mod reading;
#[cfg(test)]
mod tests;
mod traffic;

pub use appending::AppendedToPartition;
pub use followers::KnownBrokers;
pub use reading::{FetchReader, Fetched, ReadPlan};
pub use traffic::{Totals, Traffic};

/// What one partition shares with the rooms above it.
pub struct Partition {
    key: u64,
    topic: Arc<str>,
    topic_id: Uuid,
    index: i32,
    internal: bool,
    log: Arc<CommitLog>,
    state: Mutex<PartitionState>,
    high_watermark: AtomicI64,
    /// See [`PartitionState::followers_end`].
    followers_end: AtomicI64,
    leader_epoch: AtomicI32,
    committer: Arc<GroupCommit>,
    /// Fetches and produces that wait here, and the fetch sessions that have this partition. They
    /// are notified after every change of what a fetch returns: high watermark, log start, leader,
    /// epoch, deletion and the disk's failure. For followers the log's end counts too.
    fetch_waiters: Arc<WatchList>,
    produce_waiters: Arc<WatchList>,
    brokers: Arc<KnownBrokers>,
    max_lag_ms: u64,
    traffic: Traffic,
    throttled: ThrottledHere,
    producer_ids: Arc<ProducerIdsSeen>,
}

/// A partition's name, key and waiter lists, as its maker knows them.
pub struct PartitionIdentity {
    /// Unique in this process; purgatory's key.
    pub key: u64,
    /// The topic's name.
    pub topic: Arc<str>,
    /// The topic's id.
    pub topic_id: Uuid,
    /// The partition's index in its topic.
    pub index: i32,
    /// The id of the log directory that its log is in.
    pub directory: Uuid,
    /// Clients do not write here.
    pub internal: bool,
    /// Where fetches wait.
    pub fetch_waiters: Arc<WatchList>,
    /// Where produces wait.
    pub produce_waiters: Arc<WatchList>,
    /// Who puts its log on the disk.
    pub committer: Arc<GroupCommit>,
    /// Which brokers serve: no other one becomes an in-sync replica.
    pub brokers: Arc<KnownBrokers>,
    /// `replica.lag.time.max.ms`
    pub max_lag_ms: u64,
    /// The producer ids that logs here hold.
    pub producer_ids: Arc<ProducerIdsSeen>,
}

impl Partition {
    /// Puts the replica on broker `local_id` together; it leads or follows once an image says so.
    /// `high_watermark` is what the checkpoint says.
    #[must_use]
    pub fn new(
        identity: PartitionIdentity,
        local_id: i32,
        log: Arc<CommitLog>,
        high_watermark: Offset,
    ) -> Self {
        let PartitionIdentity { key, topic, topic_id, index, directory, internal, .. } = identity;
        // The checkpoint may be older than the last truncation, and than the last deletion of
        // records.
        let truncated = log.noted_truncation().map_or(high_watermark, |noted| noted.lowest);
        let high_watermark = high_watermark.min(truncated).max(log.log_start_offset());
        let state = PartitionState::new(local_id, directory, log.log_end(), high_watermark);
        Self {
            key,
            topic,
            topic_id,
            index,
            internal,
            high_watermark: AtomicI64::new(state.high_watermark().0),
            followers_end: AtomicI64::new(i64::MAX),
            leader_epoch: AtomicI32::new(-1),
            committer: identity.committer,
            state: Mutex::new(state),
            log,
            fetch_waiters: identity.fetch_waiters,
            produce_waiters: identity.produce_waiters,
            brokers: identity.brokers,
            max_lag_ms: identity.max_lag_ms,
            traffic: Traffic::default(),
            throttled: ThrottledHere::default(),
            producer_ids: identity.producer_ids,
        }
    }

    /// Purgatory's key.
    #[must_use]
    pub fn key(&self) -> u64 {
        self.key
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The topic's name, shared.
    #[must_use]
    pub fn topic_name(&self) -> Arc<str> {
        self.topic.clone()
    }

    /// The topic's id.
    #[must_use]
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    /// The partition's index in its topic.
    #[must_use]
    pub fn index(&self) -> i32 {
        self.index
    }

    /// Whether clients may not write here.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.internal
    }

    /// The log beneath, for those who look after it: retention, compaction, recovery.
    #[must_use]
    pub fn log(&self) -> &Arc<CommitLog> {
        &self.log
    }

    /// The settings of its log.
    #[must_use]
    pub fn log_config(&self) -> Arc<LogConfig> {
        self.log.config()
    }

    /// Whether its log directory failed.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.log.log_dir().is_offline()
    }

    /// Every record below is in every in-sync replica.
    #[must_use]
    pub fn high_watermark(&self) -> Offset {
        Offset(self.high_watermark.load(Ordering::Acquire))
    }

    /// First offset there is.
    #[must_use]
    pub fn log_start_offset(&self) -> Offset {
        self.log.log_start_offset()
    }

    /// The offset the next record gets.
    #[must_use]
    pub fn log_end_offset(&self) -> Offset {
        self.log.log_end_offset()
    }

    /// The leader epoch this replica knows of.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::Acquire))
    }

    /// The truncation of its log that the checkpoints may not have yet. Offsets read after this
    /// call are those of the truncated log: the result is `None` until the state has the
    /// truncation.
    #[must_use]
    pub fn noted_truncation(&self) -> Option<NotedTruncation> {
        let noted = self.log.noted_truncation()?;
        (self.state.lock().log_version() > noted.version).then_some(noted)
    }

    /// Whether a fresh leader cannot say yet where the log ends.
    #[must_use]
    pub fn is_catching_up(&self) -> bool {
        self.state.lock().is_catching_up()
    }

    /// Whether a request that believes in `claimed` may be served here.
    ///
    /// # Errors
    /// As [`PartitionState::check_leader`].
    pub fn check_leader(&self, claimed: LeaderEpoch) -> Result<(), ErrorCode> {
        self.state.lock().check_leader(claimed)
    }

    /// The log directory of this replica, as long as the metadata do not name it.
    #[must_use]
    pub fn unassigned_directory(&self) -> Option<Uuid> {
        self.state.lock().unassigned_directory()
    }

    /// Its log is about to go on in another log directory: nothing is acknowledged from here on
    /// before the metadata note it.
    pub(super) fn moves_to(&self, directory: Uuid) {
        let mut state = self.state.lock();
        state.moves_to(directory, self.log.log_end_offset());
        self.publish(&state);
    }

    /// Its log is given up here and opened from other files. Nothing more is appended to it.
    /// Requests that wait here get the error that makes clients ask again.
    pub(super) fn give_up(&self) {
        // Before the log: an append that it refuses gets the error of a replica that is elsewhere.
        self.state.lock().withdraw();
        self.take_role(Role::Gone);
        self.tell_everyone();
    }

    /// Its log stays in its directory after all.
    pub(super) fn stays_in(&self, directory: Uuid) {
        {
            let mut state = self.state.lock();
            state.stays_in(directory);
            self.publish(&state);
        }
        self.tell_everyone();
    }

    /// Follows the control plane's image and wakes the requests that wait here. One call at a time.
    pub fn follow_image(&self, image: &PartitionImage) {
        // The log first. A new leader knows where its epoch begins before a client can see the
        // epoch; a former one appends nothing from here on. Not under the lock of the state: an
        // append may have to end first.
        let role = self.state.lock().new_role(image);
        let log_end = role.and_then(|role| self.take_role(role));
        {
            let mut state = self.state.lock();
            state.follow_image(image, log_end);
            self.leader_epoch.store(state.leader_epoch().0, Ordering::Release);
            self.publish(&state);
        }
        self.tell_everyone();
    }

    /// Where the log ends in its new role; `None` if it does not take the role.
    fn take_role(&self, role: Role) -> Option<LogEnd> {
        let taken = match role {
            Role::Leader(epoch) => self.log.become_leader(epoch),
            Role::Follower(epoch) => self.log.become_follower(epoch),
            Role::Gone => {
                self.log.become_gone();
                return None;
            }
        };
        let log = self.log.path();
        let refused = |error: &LogError| {
            tracing::error!(log = %log.display(), %role, %error, "log does not take its new role");
        };
        taken.inspect_err(refused).ok()
    }

    /// Takes over the topic's settings.
    pub fn set_config(&self, config: Arc<LogConfig>, min_in_sync_replicas: usize) {
        {
            let mut state = self.state.lock();
            state.set_rules(config.flush_messages == 1, min_in_sync_replicas);
            self.log.set_config(config);
            self.publish(&state);
        }
        self.flush_if_due();
        self.tell_everyone();
    }

    /// Whether its replication is limited here.
    #[must_use]
    pub fn throttled(&self) -> &ThrottledHere {
        &self.throttled
    }

    /// Has the log flushed if it needs that. With `flush.messages=1` produce requests wait for it.
    fn flush_if_due(&self) {
        // The log may be on the disk, and the state not know it: the cleaner flushes as well.
        if self.state.lock().waits_for_disk() {
            self.committer.commit(self.key);
        } else if self.log.needs_flush() {
            self.committer.commit_later(self.key);
        }
    }

    /// The topic is being deleted: requests that wait here get the error for an unknown partition.
    pub fn vanish(&self) {
        self.take_role(Role::Gone);
        self.state.lock().vanish();
        self.tell_everyone();
    }

    /// The image takes the replica away from this broker: from here on it serves no client.
    /// Requests that wait here, or found the partition before, get the error that sends clients to
    /// another broker.
    pub fn leave(&self, image: &PartitionImage) {
        self.follow_image(image);
        self.give_up();
    }

    fn publish(&self, state: &PartitionState) {
        self.high_watermark.store(state.high_watermark().0, Ordering::Release);
        self.followers_end.store(state.followers_end().0, Ordering::Release);
    }

    /// Asks everyone who waits here to look again: after changes that move no offset.
    pub fn tell_everyone(&self) {
        self.fetch_waiters.check();
        self.produce_waiters.check();
    }

    /// Marks the partition dirty for a fetch session at every move from now on.
    pub fn subscribe(&self, subscription: &Arc<PartitionSubscription>) {
        self.fetch_waiters.subscribe(subscription);
    }

    /// Where fetches of this partition wait.
    #[must_use]
    pub fn fetch_waiters(&self) -> &Arc<WatchList> {
        &self.fetch_waiters
    }

    /// Where produces to this partition wait.
    #[must_use]
    pub fn produce_waiters(&self) -> &Arc<WatchList> {
        &self.produce_waiters
    }

    /// Deletes what its retention lets go, and tells who waits if the log starts later now.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn retain(&self, now_ms: i64) -> Result<Retained, LogError> {
        let before = self.log_start_offset();
        let retained = self.log.retain(now_ms, self.high_watermark());
        if self.log_start_offset() != before {
            self.fetch_waiters.check();
        }
        retained
    }

    /// The idempotent producers the log remembers.
    #[must_use]
    pub fn producers(&self) -> Vec<ActiveProducer> {
        self.log.producers()
    }

    /// What went in and out since it was opened.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Bytes of its segments on disk.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.log.size_bytes()
    }
}
