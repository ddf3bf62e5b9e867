//! What a replica appends and cuts, and how safe that is: as leader, as follower, and when the
//! disk has it.
//!
//! The log is asked first, and judges the leader epoch under its own lock. What the log tells
//! carries a version, so the state takes it in whatever order threads come back from the log.

use super::Partition;
use crate::error::{AppendRefusal, log_error_code};
use crate::partitions::partition_state::CommitStatus;
use bytes::Bytes;
use kafkalite_log::validation::ValidatedBatch;
use kafkalite_log::{Appended, FollowerAppended, LogEnd, LogError, Role};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

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
    /// The leader epoch in which it happened.
    pub leader_epoch: LeaderEpoch,
    /// How safe the batch was right after the append, as the caller's acks ask for it.
    pub status: CommitStatus,
}

impl Partition {
    /// Appends one validated batch as the leader, in the epoch of now.
    ///
    /// Completes the requests that waited for it, on this thread and with no lock held.
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
        let epoch = self.state.lock().may_append(acks_all)?;
        self.append_in(epoch, batch, acks_all, now_ms)
    }

    /// As [`Self::append`] with acks=all, for a caller whose state is that of `expected_epoch`: a
    /// coordinator that loaded the partition in that epoch.
    ///
    /// # Errors
    /// As [`Self::append`]; `NotLeaderOrFollower` in every other epoch.
    pub fn append_as_leader(
        &self,
        batch: &ValidatedBatch,
        expected_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<AppendedToPartition, AppendRefusal> {
        // Only for the in-sync replicas: the log judges the epoch.
        self.state.lock().may_append(true)?;
        self.append_in(expected_epoch, batch, true, now_ms)
    }

    pub(super) fn append_in(
        &self,
        epoch: LeaderEpoch,
        batch: &ValidatedBatch,
        acks_all: bool,
        now_ms: i64,
    ) -> Result<AppendedToPartition, AppendRefusal> {
        // Before the log has it: no new producer gets an id that a log holds.
        self.producer_ids.saw(batch.header().producer_id);
        let appended = self.log.append_as_leader(batch, epoch, now_ms);
        let appended = appended.map_err(|error| self.refusal(error))?;
        let status = self.after_append(&appended, epoch, acks_all);
        Ok(AppendedToPartition {
            base_offset: appended.base_offset,
            end_offset: appended.end_offset(),
            log_append_time_ms: appended.log_append_time_ms,
            log_start_offset: appended.log_start_offset,
            leader_epoch: epoch,
            status,
        })
    }

    fn refusal(&self, error: LogError) -> AppendRefusal {
        let LogError::WrongRole { role, .. } = &error else { return error.into() };
        let state = self.state.lock();
        match role {
            Role::Gone if !state.is_withdrawn() => error.into(),
            _ => AppendRefusal::not_leader(state.leader(), state.leader_epoch()),
        }
    }

    pub(super) fn after_append(
        &self,
        appended: &Appended,
        epoch: LeaderEpoch,
        acks_all: bool,
    ) -> CommitStatus {
        let (moved, tells_readers, status) = {
            let mut state = self.state.lock();
            let moved = appended.log_end.is_some_and(|end| state.log_ended(end).is_some());
            self.publish(&state);
            let end = appended.end_offset();
            let status = match acks_all {
                true => state.commit_status(end, epoch),
                false => state.local_status(end, epoch),
            };
            // Followers read on to the log's end. Readers are notified too if another append
            // reported this one's end with its own, because that append counted only its own bytes.
            let tells = moved || !state.counts_durable_only() || state.has_followers();
            (moved, tells && !appended.duplicate, status)
        };
        self.traffic.appended(appended);
        if moved {
            self.produce_waiters.check();
        }
        if tells_readers {
            self.tell_readers(u64::from(appended.bytes), appended.starts_segment);
        }
        if !appended.duplicate {
            self.flush_if_due();
        }
        status
    }

    fn tell_readers(&self, bytes: u64, look_again: bool) {
        if look_again {
            // Fetches that wait in the previous segment get what there is: that segment will not
            // grow.
            self.fetch_waiters.check();
        } else {
            self.fetch_waiters.check_bytes(bytes);
        }
    }

    /// Appends what a fetch from the leader of `epoch` brought, as it is. `high_watermark` is what
    /// the leader told with it.
    ///
    /// # Errors
    /// As [`CommitLog::append_as_follower`]. Batches before a failure of the disk are in the log.
    ///
    /// [`CommitLog::append_as_follower`]: kafkalite_log::CommitLog::append_as_follower
    pub fn append_as_follower(
        &self,
        records: &Bytes,
        epoch: LeaderEpoch,
        high_watermark: Offset,
        now_ms: i64,
    ) -> Result<FollowerAppended, LogError> {
        let appended = self.log.append_as_follower(records, epoch, high_watermark, now_ms);
        match &appended {
            Ok(appended) => {
                let moved = {
                    let mut state = self.state.lock();
                    let moved = state.followed(appended.log_end, high_watermark);
                    self.publish(&state);
                    moved
                };
                // Consumers here wait for the high watermark: new records are not theirs yet.
                self.tell_readers(appended.bytes, appended.starts_segment || moved.is_some());
            }
            Err(_) => self.look_at_log_end(),
        }
        self.flush_if_due();
        appended
    }

    /// Drops `offset` and every record after it, as the leader of `epoch` has others there.
    ///
    /// # Errors
    /// As [`CommitLog::truncate_as_follower`].
    ///
    /// [`CommitLog::truncate_as_follower`]: kafkalite_log::CommitLog::truncate_as_follower
    pub fn truncate_as_follower(
        &self,
        offset: Offset,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<LogEnd, LogError> {
        let truncated = self.log.truncate_as_follower(offset, epoch, now_ms);
        match &truncated {
            Ok(end) => self.take_log_end(*end),
            Err(_) => self.look_at_log_end(),
        }
        self.tell_everyone();
        truncated
    }

    /// Drops every record; the next one gets `start`, where the log of the leader of `epoch`
    /// begins.
    ///
    /// # Errors
    /// As [`CommitLog::restart_as_follower`].
    ///
    /// [`CommitLog::restart_as_follower`]: kafkalite_log::CommitLog::restart_as_follower
    pub fn restart_as_follower(
        &self,
        start: Offset,
        epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<LogEnd, LogError> {
        let restarted = self.log.restart_as_follower(start, epoch, now_ms);
        match &restarted {
            Ok(end) => {
                let mut state = self.state.lock();
                state.log_restarted(*end);
                self.publish(&state);
            }
            Err(_) => self.look_at_log_end(),
        }
        self.tell_everyone();
        restarted
    }

    fn look_at_log_end(&self) {
        self.take_log_end(self.log.log_end());
    }

    fn take_log_end(&self, end: LogEnd) {
        let mut state = self.state.lock();
        state.log_ended(end);
        // A full disk may stop a log that starts again after its start moved up.
        state.log_start_moved(self.log.log_start_offset().min(end.offset));
        self.publish(&state);
    }

    /// The outcome for acks=all of a batch that was appended in `epoch` and ends at `end`. Leader,
    /// epoch and high watermark are read together.
    #[must_use]
    pub fn commit_status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        if self.is_offline() {
            return CommitStatus::Lost(ErrorCode::KafkaStorageError);
        }
        self.state.lock().commit_status(end, epoch)
    }

    /// As [`Self::commit_status`], for the answer to a producer with acks=all.
    #[must_use]
    pub fn produce_status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        if self.is_offline() {
            return CommitStatus::Lost(ErrorCode::KafkaStorageError);
        }
        self.state.lock().produce_status(end, epoch)
    }

    /// As [`Self::commit_status`], for acks=1: whether the batch is on this broker's disk, if
    /// `flush.messages=1` asks for that.
    #[must_use]
    pub fn local_status(&self, end: Offset, epoch: LeaderEpoch) -> CommitStatus {
        if self.is_offline() {
            return CommitStatus::Lost(ErrorCode::KafkaStorageError);
        }
        self.state.lock().local_status(end, epoch)
    }

    /// Flushes the log to the disk, and then answers the requests that wait for the flush.
    ///
    /// # Errors
    /// The disk failed; the log directory is offline then, and the requests that wait here got an
    /// error.
    pub fn flush(&self) -> Result<(), LogError> {
        let flushed = self.log.flush();
        let mut moved = false;
        if let Ok(durable) = &flushed {
            let mut state = self.state.lock();
            moved = state.flushed(*durable).is_some();
            self.publish(&state);
        }
        if moved || flushed.is_err() {
            self.fetch_waiters.check();
        }
        // acks=1 waits for the disk and not for the high watermark; and a failure is news as well.
        self.produce_waiters.check();
        flushed.map(|_| ())
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
}
