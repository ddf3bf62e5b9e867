//! `__consumer_offsets`: which of its partitions a group lives in, and the log beneath as a trait.
//!
//! Source: Kafka's `GroupCoordinatorService.partitionFor` and `Utils.abs`.

use bytes::Bytes;
use kafkalite_protocol::{ErrorCode, Offset, Uuid};

/// Called once, when a batch is committed or can no longer be, however long that takes: what is in
/// the log must come to be known, or a restart would find what nobody saw before.
pub type AppendDone = Box<dyn FnOnce(Result<Offset, ErrorCode>) + Send>;

/// Called at most once, before [`AppendDone`]: `offsets.commit.timeout.ms` is over and nothing is
/// known yet. A client that waits is told so; the batch stays in the log.
pub type AppendLate = Box<dyn FnOnce() + Send>;

/// The internal topic that groups and offsets are stored in, and what its groups must know of the
/// topics that they read.
pub trait OffsetsTopic: Send + Sync {
    /// How many partitions it has; 0 while there is no such topic.
    fn partition_count(&self) -> i32;

    /// The id of the topic that has this name now. An offset that was committed for another topic
    /// of the name says nothing about this one.
    fn id_of(&self, topic: &str) -> Option<Uuid>;

    /// Makes the topic, compacted, with what `offsets.topic.*` says. It is no error if it is there.
    ///
    /// # Errors
    /// The controller refused.
    fn create(&self) -> Result<(), ErrorCode>;

    /// Appends one batch, whose base offset is 0 until the log gives it another, and calls `done`
    /// with that offset once the high watermark has passed the batch: from any thread, in any
    /// order, maybe before `append` returns. `late` is called if that takes too long. No lock of
    /// the log is held.
    fn append(&self, partition: i32, batch: Bytes, done: AppendDone, late: AppendLate);

    /// Whole batches from the first one on that holds an offset of at least `from`, up to the high
    /// watermark and about 1 MiB; empty at the end. `None` begins at the log's start.
    ///
    /// # Errors
    /// The log cannot be read.
    fn read(&self, partition: i32, from: Option<Offset>) -> Result<Bytes, ErrorCode>;
}

/// The partition that `group_id` is stored in, out of `count`.
pub fn partition_of(group_id: &str, count: i32) -> i32 {
    let hash = java_hash(group_id);
    // The one number that has no positive counterpart counts as 0.
    let positive = if hash == i32::MIN { 0 } else { hash.abs() };
    positive % count.max(1)
}

/// Java's `String.hashCode`, which goes over UTF-16.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16()
        .fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

#[cfg(test)]
mod tests;
