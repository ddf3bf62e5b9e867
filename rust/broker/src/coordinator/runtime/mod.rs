//! The coordinator runtime loads a state machine from one partition of an internal topic, and lets
//! it write there. Both hold while this broker leads the partition in one leader epoch.
//!
//! ```text
//!  step ──> queue of the partition ──> decide, under the lock
//!                  ^                      │ records
//!                  │                      v
//!             next step <── replay <── append in the expected epoch, with no lock
//!                           at the real offset
//!                              │
//!                              v
//!             answer, when `commit_status` says that the offset is committed
//! ```
//! Records are replayed after their append. So a failed append leaves nothing to revert. Steps of a
//! partition run one after another, on the thread of a caller. A step runs at once if no other
//! thread runs steps of the partition.
//! Source: the role of Kafka's `CoordinatorRuntime`. Why it differs: ADR 0043.

mod context;
mod contexts;
mod effects;
mod loader_thread;
mod loading;
mod log;
mod partition_of;
mod replay;
#[cfg(test)]
pub(super) mod tests;

use bytes::Bytes;
use kafkalite_protocol::{DecodeError, Offset};

pub use context::Phase;
pub use contexts::{ExecuteLoad, Load, Runtime, RuntimeConfig};
pub use effects::{Effects, FirstAnswer, Late, Stored, Write};
pub use loader_thread::LoaderThread;
pub use log::{Appended, CoordinatorLog, LedPartition, OnSettled, TopicFacts};
pub use partition_of::partition_of;

use crate::purgatory::{Timer, TimerTask};

/// Takes one answer back to its client.
pub type Answer<T> = Box<dyn FnOnce(T) + Send>;

/// Both times at once: deadlines are monotonic, what is stored is UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Monotonic milliseconds.
    pub ms: i64,
    /// Milliseconds since 1970.
    pub wall_ms: i64,
}

/// A key and a value as they are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// Kind and key.
    pub key: Bytes,
    /// Version and value; `None` is a tombstone.
    pub value: Option<Bytes>,
}

/// Runs tasks later.
pub trait CoordinatorTimer: Send + Sync {
    /// Runs `task` once `delay_ms` have passed. Nothing is ever cancelled: a task that comes too
    /// early or too late finds nothing to do.
    fn schedule(&self, delay_ms: u64, task: TimerTask);
}

impl CoordinatorTimer for Timer {
    fn schedule(&self, delay_ms: u64, task: TimerTask) {
        Self::schedule(self, delay_ms, task);
    }
}

/// The state of one partition. Pure: the runtime calls it under the lock of the partition, and
/// carries out its effects after unlocking.
pub trait StateMachine: Send + Sized + 'static {
    /// What is stored.
    type Record: Send;
    /// What a wake-up is for.
    type Timer: Send;

    /// A record in the bytes of the log.
    fn encode(record: &Self::Record) -> StoredRecord;

    /// The record in these bytes; `None` if it belongs to another state machine.
    ///
    /// # Errors
    /// The bytes are damaged. The record is left out.
    fn decode(key: &[u8], value: Option<&[u8]>) -> Result<Option<Self::Record>, DecodeError>;

    /// The log has `record` at offset `at`. An uncommitted record may be lost: reads must not show
    /// it before [`Self::on_committed`]. While a partition is loaded every record counts as
    /// committed, because no read is served before all of them are.
    fn replay(&mut self, at: Offset, record: Self::Record, is_committed: bool);

    /// Every record before `end` is committed.
    fn on_committed(&mut self, end: Offset);

    /// Every record was replayed, and all of them are committed. From here on reads and steps come.
    fn on_loaded(&mut self, now: Now, effects: &mut Effects<Self>);

    /// A wake-up that an effect asked for.
    fn on_timer(&mut self, now: Now, timer: Self::Timer, effects: &mut Effects<Self>);

    /// This broker coordinates the partition no more: every parked request is answered with
    /// NOT_COORDINATOR. What is written from here on is refused.
    fn on_unloaded(&mut self, now: Now, effects: &mut Effects<Self>);
}

/// The state under its lock.
pub struct Turn<'a, S: StateMachine> {
    /// The state.
    pub state: &'a mut S,
    /// The time; it never goes back from one turn to the next.
    pub now: Now,
    /// What to do after unlocking.
    pub effects: &'a mut Effects<S>,
}
