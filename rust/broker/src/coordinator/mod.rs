//! The group coordinator: who is in a group, who reads what, and how far they have come.
//!
//! [`runtime`] brings the state of each partition of `__consumer_offsets` back that this broker
//! leads, and lets it write there. [`classic`] is that state: the classic group protocol and the
//! offsets. [`GroupCoordinator`] takes requests to the partition that their group lives in.

pub mod classic;
mod group_coordinator;
mod group_record;
mod offsets_partitions;
mod offsets_topic;
pub mod runtime;
#[cfg(test)]
mod tests;

pub use classic::{
    Commit, Committed, Committer, JoinContext, TopicPartition, assigned_partitions,
    subscribed_topics,
};
pub use group_coordinator::{GroupCoordinator, GroupCoordinatorConfig, GroupCoordinatorParts};
pub use group_record::{GroupRecord, parse as parse_record};
pub use offsets_partitions::OffsetsPartitions;
pub use offsets_topic::OffsetsTopic;
pub use runtime::{Answer, ExecuteLoad, Load, LoaderThread, partition_of};
