//! The commit log of one partition on disk, byte for byte Apache Kafka's.
//!
//! [`CommitLog`] is the entry: append, read, roll, truncate. [`validation`] runs before an append
//! and checks its records. [`LogDir`] is the directory of the logs, which all go offline with it.
//! [`checkpoint`] holds the small files beside the logs. [`frames`] is the journal of a cluster's
//! metadata. No socket, no clock, no thread of its own.

// What tests share with those of other crates knows this one by its name.
#[cfg(test)]
extern crate self as kafkalite_log;

mod adopt;
#[cfg(test)]
#[path = "../../testing/awaited.rs"]
mod awaited;
mod batch_scan;
pub mod checkpoint;
mod commit_log;
mod compaction;
mod config;
mod error;
#[cfg(test)]
#[path = "../../testing/faulty_storage.rs"]
mod faulty_storage;
pub mod frames;
mod index;
pub mod inspect;
mod leader_epochs;
mod log_dir;
pub mod move_notes;
mod producer_state;
mod recovery;
pub mod residency;
mod retention;
mod segment;
mod segment_file;
pub mod storage;
mod tail_ring;
mod truncation_note;
pub mod validation;

pub use adopt::{Adopted, adopt};
pub use commit_log::{
    Appended, Checked, CommitLog, Copied, Damage, DurableEnd, FollowerAppended, FutureLog, LeftLog,
    LogEnd, NotedTruncation, OpenState, ReadResult, Role, SegmentFigures, TimestampOffset,
};
pub use compaction::{Compactable, Compacted};
pub use config::{BatchValidation, LogConfig};
pub use error::LogError;
pub use leader_epochs::{Agreement, CopyEnd, EpochEnd, EpochStart, LeaderEpochs};
pub use log_dir::LogDir;
pub use producer_state::{ActiveProducer, Duplicate, FIRST_INVENTED_ID, ProducerState, Undo};
pub use recovery::RecoveryReport;
pub use retention::{Retained, SegmentExtent, SegmentTimes, retention_bound};
pub use segment_file::{FileSlice, SegmentFile};
pub use validation::{RecordError, ValidatedBatch, ValidationError};
