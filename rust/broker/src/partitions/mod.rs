//! Replicas on this broker: which partitions there are, who leads them, how far they are readable.
//!
//! [`PartitionState`] is pure, [`Partition`] puts it beside its log, [`ReplicaManager`] finds them
//! and follows the control plane's image. Replica fetchers get a room of their own, `replication`.

mod checkpoints;
mod copying;
mod group_commit;
mod log_cleaner;
mod log_dirs;
mod log_manager;
mod partition;
mod partition_state;
mod producer_ids;
mod replica_manager;
mod throttles;
mod topic_settings;

pub use checkpoints::{Checkpoint, Checkpoints, Entry, Noted};
pub use group_commit::GroupCommit;
pub use log_dirs::{LogDirectory, LogDirs, is_partition_name};
pub use log_manager::{Chore, FlushAges, LogManager, Maintenance, Next, Rounds, SteppedChores};
pub use partition::{
    AppendedToPartition, FetchReader, Fetched, Partition, ReadPlan, Totals, Traffic,
};
pub use partition_state::{
    CommitStatus, FollowerEnd, FollowerFetch, IsrProposal, LeaderEnd, PartitionState,
};
pub use producer_ids::ProducerIdsSeen;
pub use replica_manager::{FutureReplica, PartitionProposal, ReplicaManager, ReplicaManagerConfig};
pub use throttles::{Throttle, ThrottledHere, Throttles};
pub use topic_settings::TopicSettings;
