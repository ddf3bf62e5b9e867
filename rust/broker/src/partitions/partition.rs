//! One partition's replica on this broker: its state and its log, and the order in which they move.
//!
//! Appends are serial inside the log. After one, the log's new end is reported to
//! [`PartitionState`], which may move the high watermark; only then, with no lock held, does the
//! caller look after who waits. Offsets that readers need on every look are atomics beside the
//! lock.
//! Source: Kafka's `Partition`.

use super::group_commit::GroupCommit;
use super::partition_state::PartitionState;
use crate::error::{AppendRefusal, log_error_code};
use crate::metadata::PartitionImage;
use crate::purgatory::{Rope, WatchList};
use kafkalite_log::validation::ValidatedBatch;
use kafkalite_log::{ActiveProducer, Appended, CommitLog, LogConfig, LogError, Retained};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize, Ordering};

mod reading;
#[cfg(test)]
mod tests;

pub use reading::{FetchReader, Fetched, Readable};

/// What an append did.
#[derive(Clone, Copy, Debug)]
pub struct AppendedToPartition {
    /// Offset of the first record; the original one if the batch was here already.
    pub base_offset: Offset,
    /// One past the last record.
    pub end_offset: Offset,
    /// -1, or the broker's time where the topic asks for it.
    pub log_append_time_ms: i64,
    /// First offset there is.
    pub log_start_offset: Offset,
    /// The reign in which it happened.
    pub leader_epoch: LeaderEpoch,
}

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
    leader_epoch: AtomicI32,
    /// `min.insync.replicas` of the topic.
    min_in_sync_replicas: AtomicUsize,
    /// The topic is being deleted.
    gone: AtomicBool,
    committer: Arc<GroupCommit>,
    /// Fetches and produces that wait here, and the fetch sessions that have this partition. They
    /// are told after every move of what a fetch tells: high watermark, log start, leader, epoch,
    /// deletion, the disk's failure, and for followers the log's end.
    fetch_waiters: Arc<WatchList>,
    produce_waiters: Arc<WatchList>,
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
    /// Clients do not write here.
    pub internal: bool,
    /// Where fetches wait.
    pub fetch_waiters: Arc<WatchList>,
    /// Where produces wait.
    pub produce_waiters: Arc<WatchList>,
    /// Who puts its log on the disk.
    pub committer: Arc<GroupCommit>,
}

impl Partition {
    /// Puts the replica on broker `local_id` together; it leads or follows once an image says so.
    #[must_use]
    pub fn new(
        identity: PartitionIdentity,
        local_id: i32,
        log: Arc<CommitLog>,
        high_watermark: Offset,
    ) -> Self {
        let PartitionIdentity { key, topic, topic_id, index, internal, .. } = identity;
        let state = PartitionState::new(local_id, log.log_end_offset(), high_watermark);
        Self {
            key,
            topic,
            topic_id,
            index,
            internal,
            high_watermark: AtomicI64::new(state.high_watermark().0),
            leader_epoch: AtomicI32::new(-1),
            min_in_sync_replicas: AtomicUsize::new(1),
            gone: AtomicBool::new(false),
            committer: identity.committer,
            state: Mutex::new(state),
            log,
            fetch_waiters: identity.fetch_waiters,
            produce_waiters: identity.produce_waiters,
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

    /// The reign this replica knows of.
    #[must_use]
    pub fn leader_epoch(&self) -> LeaderEpoch {
        LeaderEpoch(self.leader_epoch.load(Ordering::Acquire))
    }

    /// Whether this broker leads the partition in that very epoch. One that is deleted is led by
    /// nobody.
    #[must_use]
    pub fn leads_in(&self, epoch: LeaderEpoch) -> bool {
        let state = self.state.lock();
        state.is_leader() && state.leader_epoch() == epoch && !self.gone.load(Ordering::Acquire)
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
        if self.gone.load(Ordering::Acquire) {
            return Err(ErrorCode::UnknownTopicOrPartition);
        }
        self.state.lock().check_leader(claimed)
    }

    /// Follows the control plane's image and wakes the requests that wait here. One call at a time.
    pub fn follow_image(&self, image: &PartitionImage) {
        // Before a client can see the epoch, so that the log knows where it ends. Not under the
        // lock: an append may have to end first.
        let begins = self.state.lock().begins_with(image);
        if begins && let Err(error) = self.log.begin_leading(image.leader_epoch) {
            tracing::error!(log = %self.log.path().display(), %error, "cannot lead");
        }
        {
            let mut state = self.state.lock();
            state.follow_image(image);
            self.leader_epoch.store(state.leader_epoch().0, Ordering::Release);
            self.publish(&state);
        }
        self.tell_everyone();
    }

    /// Takes over the topic's settings.
    pub fn set_config(&self, config: Arc<LogConfig>, min_in_sync_replicas: usize) {
        {
            // Appends and flushes take this lock after they publish an end. So either they see
            // these settings, or the end is counted here.
            let mut state = self.state.lock();
            self.log.set_config(config);
            self.count(&mut state);
        }
        self.min_in_sync_replicas.store(min_in_sync_replicas, Ordering::Relaxed);
        // Produce requests may wait for the disk from now on.
        if self.log.needs_flush() {
            self.committer.commit(self.key);
        }
        self.tell_everyone();
    }

    /// The topic is being deleted: whoever waits here is told that there is no such partition.
    pub fn vanish(&self) {
        self.gone.store(true, Ordering::Release);
        self.tell_everyone();
    }

    fn publish(&self, state: &PartitionState) {
        self.high_watermark.store(state.high_watermark().0, Ordering::Release);
    }

    /// Asks everyone who waits here to look again: after changes that move no offset.
    pub fn tell_everyone(&self) {
        self.fetch_waiters.check();
        self.produce_waiters.check();
    }

    /// Appends one validated batch as the leader.
    ///
    /// Completes whoever waited for it, on this thread and with no lock held.
    ///
    /// # Errors
    /// Not the leader, too few in-sync replicas for acks=all, a sequence that does not follow, a
    /// full or failing disk.
    pub fn append(
        &self,
        batch: &ValidatedBatch,
        acks_all: bool,
        now_ms: i64,
    ) -> Result<AppendedToPartition, AppendRefusal> {
        let leader_epoch = self.led_epoch(acks_all)?;
        let appended = self.log.append(batch, leader_epoch, now_ms)?;
        if !appended.duplicate {
            self.after_append(&appended);
        }
        Ok(AppendedToPartition {
            base_offset: appended.base_offset,
            end_offset: appended.end_offset(),
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset,
            leader_epoch,
        })
    }

    /// The epoch in which this broker may append now.
    fn led_epoch(&self, acks_all: bool) -> Result<LeaderEpoch, AppendRefusal> {
        if self.gone.load(Ordering::Acquire) {
            return Err(ErrorCode::UnknownTopicOrPartition.into());
        }
        let state = self.state.lock();
        if !state.is_leader() {
            return Err(AppendRefusal::not_leader(state.leader(), state.leader_epoch()));
        }
        // It cannot ask for more replicas than there are.
        let wanted = self.min_in_sync_replicas.load(Ordering::Relaxed).min(state.replica_count());
        if acks_all && state.in_sync_count() < wanted {
            return Err(ErrorCode::NotEnoughReplicas.into());
        }
        Ok(state.leader_epoch())
    }

    /// Has a fetch session hear of every move from now on.
    pub fn hang(&self, rope: &Arc<Rope>) {
        self.fetch_waiters.hang(rope);
    }

    /// When follower `id` was last known to have everything of this partition, as its fetch
    /// sessions say, in ms of wall time. Beside what its own fetches of this partition say: a
    /// session does not look at partitions whose follower has everything.
    #[must_use]
    pub fn caught_up_ms(&self, id: i32) -> Option<i64> {
        self.fetch_waiters.caught_up_ms(id)
    }

    fn after_append(&self, appended: &Appended) {
        let (moved, tells_readers) = {
            let mut state = self.state.lock();
            let moved = self.count(&mut state);
            // Followers read on to the log's end. And also if another append published this one's
            // end together with its own: that one reported its own bytes only.
            (moved, moved || !self.waits_for_disk() || state.has_followers())
        };
        if moved {
            self.produce_waiters.check();
        }
        if tells_readers {
            if appended.starts_segment {
                // Whoever reads the segment before gets what there is: it will not grow.
                self.fetch_waiters.check();
            } else {
                self.fetch_waiters.check_bytes(u64::from(appended.bytes));
            }
        }
        if self.log.needs_flush() {
            self.committer.commit(self.key);
        }
    }

    /// Whether nothing is acknowledged or read before it is on the disk: `flush.messages=1`.
    fn waits_for_disk(&self) -> bool {
        self.log.acknowledges_durable_only()
    }

    /// Puts the log on the disk, and lets everybody see it who waited for that.
    ///
    /// # Errors
    /// The disk failed; the log directory is offline then, and who waits here was told.
    pub fn flush(&self) -> Result<(), LogError> {
        let flushed = self.log.flush();
        if self.count(&mut self.state.lock()) {
            self.fetch_waiters.check();
        }
        // acks=1 waits for the disk and not for the high watermark; and a failure is news as well.
        self.produce_waiters.check();
        if flushed.is_err() {
            self.fetch_waiters.check();
        }
        flushed.map(|_| ())
    }

    /// Reports to `state` how far the log counts: to its end, or, with `flush.messages=1`, to its
    /// durable offset. Whether the high watermark moved.
    ///
    /// Appends, flushes and a change of that setting all come here, and nothing else decides it.
    fn count(&self, state: &mut PartitionState) -> bool {
        let end = if self.waits_for_disk() {
            self.log.durable_offset()
        } else {
            self.log.log_end_offset()
        };
        let moved = state.log_grew(end).is_some();
        self.publish(state);
        moved
    }

    /// Whether a batch that ends at `end` is as safe as `acks` (1 or -1) asks for.
    #[must_use]
    pub fn is_acknowledged(&self, end: Offset, acks: i16) -> bool {
        if acks == -1 {
            return self.high_watermark() >= end;
        }
        !self.waits_for_disk() || self.log.durable_offset() >= end
    }

    /// Deletes every record before `to`. The caller puts the new start on the disk before it
    /// answers.
    ///
    /// # Errors
    /// `OffsetOutOfRange` beyond the high watermark or below zero; a full or failing disk.
    pub fn delete_records(&self, to: Offset, now_ms: i64) -> Result<Offset, ErrorCode> {
        if to > self.high_watermark() || to < Offset::ZERO {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let deleted = self.log.delete_records(to, now_ms);
        let start = deleted.map_err(|error| log_error_code(&error))?;
        self.fetch_waiters.check();
        Ok(start)
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

    /// Bytes of its segments on disk.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.log.size_bytes()
    }
}
