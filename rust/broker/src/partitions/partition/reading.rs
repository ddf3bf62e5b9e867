//! What a replica lets readers see: byte ranges of its log, bounded by who reads.
//!
//! Source: Kafka's `Partition.readRecords` and `UnifiedLog.read`.

use super::Partition;
use crate::error::log_error_code;
use crate::fetch_sessions::FetchTarget;
use kafkalite_log::{FileSlice, TimestampOffset};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset};

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
            slices: Vec::new(),
            bytes: 0,
        }
    }
}

/// How much a fetch could read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readable {
    /// In bytes, as an estimate that is never too low by a batch that could be read whole.
    pub bytes: u64,
    /// The offset lies on an older segment, or its epoch diverged: waiting brings nothing more.
    pub will_not_grow: bool,
}

impl Partition {
    /// The end of what `reader` may read, exclusive.
    #[must_use]
    pub fn readable_end(&self, reader: FetchReader) -> Offset {
        match reader {
            // No transaction is ever open, so the last stable offset is the high watermark.
            FetchReader::ReadUncommitted | FetchReader::ReadCommitted => self.high_watermark(),
            FetchReader::Follower(_) => self.log_end_offset(),
        }
    }

    /// How much could be read now.
    ///
    /// # Errors
    /// Whatever [`Partition::read`] would answer.
    pub fn readable(
        &self,
        target: &FetchTarget,
        reader: FetchReader,
    ) -> Result<Readable, ErrorCode> {
        self.check_reader(target, reader)?;
        if self.is_offline() {
            return Err(ErrorCode::KafkaStorageError);
        }
        let from = Offset(target.fetch_offset);
        self.check_offset(from)?;
        let diverged = self.divergence(target)?.is_some();
        let end = self.readable_end(reader);
        let bytes = self.log.bytes_between(from, end);
        let on_older_segment = from < end && from < self.log.active_base_offset();
        Ok(Readable { bytes, will_not_grow: diverged || on_older_segment })
    }

    fn check_offset(&self, from: Offset) -> Result<(), ErrorCode> {
        let inside = from >= self.log_start_offset() && from <= self.log_end_offset();
        if inside { Ok(()) } else { Err(ErrorCode::OffsetOutOfRange) }
    }

    /// Where the log of a reader parted from this one, if it did.
    fn divergence(&self, target: &FetchTarget) -> Result<Option<(LeaderEpoch, Offset)>, ErrorCode> {
        if target.last_fetched_epoch < 0 {
            return Ok(None);
        }
        let last_fetched = LeaderEpoch(target.last_fetched_epoch);
        // An epoch that this log cannot place is none that it ever was in.
        let known = self.end_of_epoch(last_fetched).ok_or(ErrorCode::OffsetOutOfRange)?;
        let diverged = known.0 < last_fetched || known.1 < Offset(target.fetch_offset);
        Ok(diverged.then_some(known))
    }

    /// Whether this reader may read here: a follower has to be one of the replicas.
    fn check_reader(&self, target: &FetchTarget, reader: FetchReader) -> Result<(), ErrorCode> {
        // In a fetch every negative epoch says "unknown".
        self.check_leader(LeaderEpoch(target.current_leader_epoch.max(-1)))?;
        match reader {
            FetchReader::Follower(id) if !self.state.lock().is_followed_by(id) => {
                Err(ErrorCode::NotLeaderOrFollower)
            }
            _ => Ok(()),
        }
    }

    /// Reads up to `max_bytes`; with `min_one_batch` the first batch is whole even if it is larger.
    #[must_use]
    pub fn read(
        &self,
        target: &FetchTarget,
        max_bytes: u64,
        min_one_batch: bool,
        reader: FetchReader,
    ) -> Fetched {
        if let Err(error) = self.check_reader(target, reader) {
            return Fetched { leader: self.leader_behind(error), ..Fetched::refused(error) };
        }
        let high_watermark = self.high_watermark();
        let told = Fetched {
            high_watermark,
            last_stable_offset: high_watermark,
            log_start_offset: self.log_start_offset(),
            readable_end: self.readable_end(reader),
            ..Fetched::refused(ErrorCode::None)
        };
        match self.divergence(target) {
            Ok(None) => {}
            Ok(diverging) => return Fetched { diverging, ..told },
            Err(error) => return Fetched::refused(error),
        }
        let from = Offset(target.fetch_offset);
        if let Err(error) = self.check_offset(from) {
            return Fetched::refused(error);
        }
        let max_bytes = u32::try_from(max_bytes).unwrap_or(u32::MAX);
        match self.log.read(from, max_bytes, told.readable_end, min_one_batch) {
            Ok(read) => Fetched { slices: read.slices, bytes: read.bytes, ..told },
            Err(error) => Fetched::refused(log_error_code(&error)),
        }
    }

    /// What finding the fetch offset reads of the log's files, see [`CommitLog::lookup_range`].
    ///
    /// [`CommitLog::lookup_range`]: kafkalite_log::CommitLog::lookup_range
    #[must_use]
    pub fn lookup_range(&self, target: &FetchTarget) -> Option<FileSlice> {
        self.log.lookup_range(Offset(target.fetch_offset))
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
