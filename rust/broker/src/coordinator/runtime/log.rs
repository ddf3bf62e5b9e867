//! What the runtime needs of the log beneath it, and of the control plane.

use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Uuid};

use crate::partitions::CommitStatus;

/// Called once, from any thread, maybe before [`CoordinatorLog::watch`] returns. Dropped uncalled
/// when the broker stops.
pub type OnSettled = Box<dyn FnOnce() + Send>;

/// A batch that is in the log.
#[derive(Clone, Copy, Debug)]
pub struct Appended {
    /// Offset of the first record.
    pub base: Offset,
    /// One past the last record.
    pub end: Offset,
    /// How safe the batch was right after the append.
    pub status: CommitStatus,
}

/// One partition of an internal topic, in the one leader epoch that a context stands for. The
/// runtime holds no lock when it calls.
pub trait CoordinatorLog: Send + Sync {
    /// First offset and end of the log. Only this context appends, so the end stays while it loads.
    fn bounds(&self) -> (Offset, Offset);

    /// Whole batches from the first one on that holds an offset of at least `from`, up to `to` and
    /// some MiB; empty at the end. `None` begins at the log's start. `to` may lie above the high
    /// watermark.
    ///
    /// # Errors
    /// The log cannot be read. `CorruptMessage`: it is damaged, and reading again does not help.
    fn read(&self, from: Option<Offset>, to: Offset) -> Result<Bytes, ErrorCode>;

    /// The largest batch that the log takes, in bytes before it is compressed.
    fn max_batch_bytes(&self) -> usize;

    /// Appends one batch, whose base offset is 0 until the log gives it another, in the epoch of
    /// this log and in no other.
    ///
    /// # Errors
    /// Nothing of the batch is in the log. `NotLeaderOrFollower` or `UnknownTopicOrPartition`: the
    /// epoch is over.
    fn append(&self, batch: Bytes) -> Result<Appended, ErrorCode>;

    /// Whether all before `end` is committed, in the epoch of this log.
    fn commit_status(&self, end: Offset) -> CommitStatus;

    /// Calls `settled` when [`Self::commit_status`] of `end` is pending no more.
    fn watch(&self, end: Offset, settled: OnSettled);
}

/// A partition that this broker leads, and whose log is open.
#[derive(Clone)]
pub struct LedPartition {
    /// The leader epoch.
    pub epoch: LeaderEpoch,
    /// Which of the logs of this epoch it is: one that was opened again is greater.
    pub opening: u64,
    /// Its log in that epoch.
    pub log: Arc<dyn CoordinatorLog>,
}

/// What is known of the internal topic.
#[derive(Clone)]
pub struct TopicFacts {
    /// The topic's id.
    pub id: Uuid,
    /// By partition; `None` where another broker leads, or the log is not open.
    pub partitions: Vec<Option<LedPartition>>,
}
