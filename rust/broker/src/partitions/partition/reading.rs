//! What a replica lets readers see: byte ranges of its log, bounded by who reads.
//!
//! Source: Kafka's `Partition.readRecords` and `UnifiedLog.read`.

use super::Partition;
use crate::error::log_error_code;
use crate::fetch_sessions::FetchTarget;
use kafkalite_log::{Agreement, CopyEnd, FileSlice, TimestampOffset};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};
use std::sync::atomic::Ordering;

/// Who reads, and so how far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchReader {
    /// A consumer: below the high watermark.
    ReadUncommitted,
    /// A consumer that sees committed transactions only: below the last stable offset.
    ReadCommitted,
    /// A follower with this broker id: below the log end offset.
    Follower(i32),
}

/// What a fetch of one partition gives.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// `None`, or why there are no records.
    pub error: ErrorCode,
    /// -1 with an error.
    pub high_watermark: Offset,
    /// -1 with an error. Equal to the high watermark while there are no transactions.
    pub last_stable_offset: Offset,
    /// -1 with an error.
    pub log_start_offset: Offset,
    /// Where the reader had to stop at the time: the end of what it may read; -1 with an error.
    pub readable_end: Offset,
    /// Where the reader's log parted from ours: the epoch and its end here.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// The leader to ask instead.
    pub leader: Option<(i32, LeaderEpoch)>,
    /// The replica in the reader's rack to ask instead (KIP-392).
    pub nearby: Option<i32>,
    /// Ranges of the log's files.
    pub slices: Vec<FileSlice>,
    /// Their length together.
    pub bytes: u32,
}

impl Fetched {
    /// Nothing but an error.
    #[must_use]
    pub fn refused(error: ErrorCode) -> Self {
        let unknown = Offset(-1);
        Self {
            error,
            high_watermark: unknown,
            last_stable_offset: unknown,
            log_start_offset: unknown,
            readable_end: unknown,
            diverging: None,
            leader: None,
            nearby: None,
            slices: Vec::new(),
            bytes: 0,
        }
    }
}

/// What one reader may read of a partition at one moment, after all checks. Readiness, residency
/// and the read itself are questions to a plan, so they cannot disagree about what is checked.
///
/// A plan is good for one look. After a wait the leader, the log's start or its bytes may be
/// others: the reader plans again.
#[derive(Clone, Copy)]
pub struct ReadPlan<'a> {
    partition: &'a Partition,
    /// The first offset that is asked for.
    from: Offset,
    /// The end of what the reader may read, exclusive.
    to: Offset,
    high_watermark: Offset,
    log_start_offset: Offset,
    /// Where the reader's log parted from ours: the epoch and its end here.
    diverging: Option<(LeaderEpoch, Offset)>,
}

impl ReadPlan<'_> {
    /// About how many bytes could be read; never too few by a batch that could be read whole.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.partition.log.bytes_between(self.from, self.to)
    }

    /// Whether a wait brings nothing more: the offset lies on an older segment, or the reader's log
    /// diverged.
    #[must_use]
    pub fn will_not_grow(&self) -> bool {
        let active = self.partition.log.active_base_offset();
        self.diverging.is_some() || (self.from < self.to && self.from < active)
    }

    /// Whether the reader's log parted from ours.
    #[must_use]
    pub fn is_diverging(&self) -> bool {
        self.diverging.is_some()
    }

    /// The range of a file that [`ReadPlan::read`] reads to find the first offset.
    #[must_use]
    pub fn lookup_range(&self) -> Option<FileSlice> {
        self.partition.log.lookup_range(self.from)
    }

    /// Reads up to `max_bytes`; with `min_one_batch` the first batch is whole even if it is larger.
    #[must_use]
    pub fn read(&self, max_bytes: u64, min_one_batch: bool) -> Fetched {
        let told = Fetched {
            high_watermark: self.high_watermark,
            last_stable_offset: self.high_watermark,
            log_start_offset: self.log_start_offset,
            readable_end: self.to,
            diverging: self.diverging,
            ..Fetched::refused(ErrorCode::None)
        };
        if self.diverging.is_some() {
            return told;
        }
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        match self.partition.log.read(self.from, max_bytes, self.to, min_one_batch) {
            Ok(read) => Fetched { slices: read.slices, bytes: read.bytes, ..told },
            Err(error) => Fetched::refused(log_error_code(&error)),
        }
    }
}

impl Partition {
    /// The end of what `reader` may read, exclusive.
    #[must_use]
    pub fn readable_end(&self, reader: FetchReader) -> Offset {
        match reader {
            // No transaction is ever open, so the last stable offset is the high watermark.
            FetchReader::ReadUncommitted | FetchReader::ReadCommitted => self.high_watermark(),
            FetchReader::Follower(_) => {
                // In this order: a log that moves sets the bound before it gets other records.
                let end = self.log_end_offset();
                end.min(Offset(self.followers_end.load(Ordering::Acquire)))
            }
        }
    }

    /// What `reader` may read now.
    ///
    /// # Errors
    /// The reason of the refusal: `NotLeaderOrFollower`, an epoch that is not the leader's, or a
    /// follower that is no replica. Also an offset out of range, or a failed log directory.
    pub fn plan(
        &self,
        target: &FetchTarget,
        reader: FetchReader,
    ) -> Result<ReadPlan<'_>, ErrorCode> {
        self.check_reader(target, reader)?;
        if self.is_offline() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let high_watermark = self.high_watermark();
        let from = Offset(target.fetch_offset);
        let to = self.readable_end(reader);
        let diverging = self.divergence(target, reader)?;
        // Looked at last: where the logs part is never beyond the start that the answer names.
        let log_start_offset = self.log_start_offset();
        // A reader whose log diverged cuts its own first; its offset says nothing here.
        if diverging.is_none() && (from < log_start_offset || from > self.log_end_offset()) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        Ok(ReadPlan { partition: self, from, to, high_watermark, log_start_offset, diverging })
    }

    /// Plans and reads at once.
    #[must_use]
    pub fn read(
        &self,
        target: &FetchTarget,
        max_bytes: u64,
        min_one_batch: bool,
        reader: FetchReader,
    ) -> Fetched {
        match self.plan(target, reader) {
            Ok(plan) => {
                let fetched = plan.read(max_bytes, min_one_batch);
                if !matches!(reader, FetchReader::Follower(_)) {
                    self.traffic.read(fetched.bytes);
                }
                fetched
            }
            Err(error) => Fetched { leader: self.leader_behind(error), ..Fetched::refused(error) },
        }
    }

    /// The in-sync replica in `rack` that a consumer shall ask instead of this leader. It has what
    /// the consumer asks for, and the leader is in another rack.
    ///
    /// Source: Kafka's `RackAwareReplicaSelector`.
    #[must_use]
    pub fn nearby(&self, target: &FetchTarget, rack: &str) -> Option<i32> {
        let is_near = |id| self.brokers.serves_in(id, rack);
        let state = self.state.lock();
        state.check_leader(LeaderEpoch(target.current_leader_epoch.max(-1))).ok()?;
        if is_near(state.leader()) {
            return None;
        }
        state.nearest(Offset(target.fetch_offset), is_near)
    }

    /// The answer to a consumer that shall ask replica `nearby` instead: no records.
    #[must_use]
    pub fn sends_to(&self, nearby: i32) -> Fetched {
        let end = self.high_watermark();
        Fetched {
            high_watermark: end,
            last_stable_offset: end,
            log_start_offset: self.log_start_offset(),
            readable_end: end,
            nearby: Some(nearby),
            ..Fetched::refused(ErrorCode::None)
        }
    }

    /// Where the log of a reader parted from this one, if it did.
    fn divergence(
        &self,
        target: &FetchTarget,
        reader: FetchReader,
    ) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
        if target.last_fetched_epoch < 0 {
            return Ok(None);
        }
        let (epoch, end) = (LeaderEpoch(target.last_fetched_epoch), Offset(target.fetch_offset));
        let start = match reader {
            FetchReader::Follower(_) => Offset(target.log_start_offset),
            FetchReader::ReadUncommitted | FetchReader::ReadCommitted => end,
        };
        match self.log.agreement(&CopyEnd { start, end, epoch }) {
            Agreement::Agrees => Ok(None),
            Agreement::Parts(end) => Ok(Some((end.epoch, end.end_offset))),
            // An epoch that this log cannot place is none that it ever was in.
            Agreement::UnknownEpoch => Err(ErrorCode::OffsetOutOfRange),
        }
    }

    /// Whether this reader may read here: a follower has to be one of the replicas.
    fn check_reader(&self, target: &FetchTarget, reader: FetchReader) -> Result<(), ErrorCode> {
        let state = self.state.lock();
        // In a fetch every negative epoch says "unknown".
        let claimed = LeaderEpoch(target.current_leader_epoch.max(-1));
        match target.leader_only {
            true => state.check_leader(claimed)?,
            false => state.check_epoch(claimed)?,
        }
        match reader {
            FetchReader::Follower(id) if !state.is_followed_by(id) => {
                Err(ErrorCode::NotLeaderOrFollower)
            }
            _ => Ok(()),
        }
    }

    /// Whom to ask instead, or from which epoch on (KIP-951): what a client with stale metadata
    /// needs to go on.
    fn leader_behind(&self, error: ErrorCode) -> Option<(i32, LeaderEpoch)> {
        let state = self.state.lock();
        let told = matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
        told.then(|| (state.leader(), state.leader_epoch()))
    }

    /// The largest epoch up to `epoch` that the log knows, and where it ended.
    #[must_use]
    pub fn end_of_epoch(&self, epoch: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        self.log.end_offset_for_epoch(epoch).map(|end| (end.epoch, end.end_offset))
    }

    /// The epoch that wrote the record at `offset`, or will write it at the log's end.
    #[must_use]
    pub fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.log.epoch_at(offset)
    }

    /// The first record at or after a time.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn offset_for_timestamp(
        &self,
        timestamp_ms: i64,
    ) -> Result<Option<TimestampOffset>, ErrorCode> {
        self.log.offset_for_timestamp(timestamp_ms).map_err(|error| log_error_code(&error))
    }

    /// The record with the largest timestamp.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn offset_of_max_timestamp(&self) -> Result<Option<TimestampOffset>, ErrorCode> {
        self.log.offset_of_max_timestamp().map_err(|error| log_error_code(&error))
    }
}
