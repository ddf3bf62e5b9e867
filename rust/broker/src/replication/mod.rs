//! Replicas on this broker: which partitions there are, who leads them, how far they are readable.
//!
//! [`PartitionState`] is pure, [`Partition`] puts it beside its log, [`Partitions`] finds them and
//! follows the control plane's image. Replica fetchers come here with more brokers.

mod checkpoints;
mod group_commit;
mod log_cleaner;
mod log_dirs;
mod log_manager;
mod partition;
mod partition_state;
mod partitions;
mod topic_settings;

pub use checkpoints::{Checkpoint, Checkpoints};
pub use group_commit::GroupCommit;
pub use log_dirs::{LogDirectory, LogDirs};
pub use log_manager::{LogManager, Maintenance};
pub use partition::{AppendedToPartition, FetchReader, Fetched, Partition, Readable};
pub use partition_state::PartitionState;
pub use partitions::{Partitions, PartitionsConfig};
pub use topic_settings::TopicSettings;
