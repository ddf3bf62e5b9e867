//! The group coordinator: who is in a group, who reads what, and how far they have come.
//!
//! `group_state` is the classic group protocol, pure. Around it stands a thin shell with one lock
//! per group (`group`), and a log of records that brings every group back after a restart
//! (`group_record`, `loader`).

mod admin;
mod commits;
mod group;
mod group_coordinator;
mod group_record;
pub mod group_state;
mod loader;
mod member;
mod offsets;
mod offsets_partitions;
mod offsets_topic;
mod subscription;
#[cfg(test)]
mod tests;

pub use commits::{Commit, Committed, Committer};
pub use group::{Answer, GroupTimer};
pub use group_coordinator::{GroupCoordinator, GroupCoordinatorConfig};
pub use group_record::{GroupRecord, parse as parse_record};
pub use group_state::JoinContext;
pub use member::Token;
pub use offsets::TopicPartition;
pub use offsets_partitions::OffsetsPartitions;
pub use offsets_topic::{AppendDone, AppendLate, OffsetsTopic, partition_of};
pub use subscription::{assigned_partitions, subscribed_topics};
