//! The classic group protocol, and the offsets that groups commit, on the coordinator runtime.
//!
//! [`group_state`] is one group, pure. [`Groups`] is the state of one partition of
//! `__consumer_offsets`: its groups, with their offsets and the requests that wait.

mod commits;
mod describing;
mod group;
pub mod group_state;
mod groups;
mod member;
mod members;
mod offsets;
mod removing;
mod subscription;

pub use commits::{Commit, Committed, Committer};
pub use group_state::JoinContext;
pub use groups::{Groups, GroupsConfig, GroupsShared};
pub use member::Token;
pub use members::{refused_join, refused_leave, refused_sync};
pub use offsets::TopicPartition;
pub use subscription::{assigned_partitions, subscribed_topics};
