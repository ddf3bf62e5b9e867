//! Who reads which partition: the assignors that a group's leader runs.
//!
//! Pure functions from the members' subscriptions to a list of partitions for each member. Every
//! assignor hands out each partition of a subscribed topic once, to a member that subscribed to it.
//! Cooperative-sticky withholds for one round the partitions that another member still owns.
//! Source: Kafka's `RangeAssignor`, `RoundRobinAssignor`, `StickyAssignor` and
//! `CooperativeStickyAssignor`; KIP-54, KIP-341, KIP-429.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::topic_partition::TopicPartition;

mod balance;
pub mod protocol;
mod range;
mod round_robin;
mod sticky;
#[cfg(test)]
mod tests;

/// How many partitions each topic has; a topic that does not exist is missing.
pub type PartitionCounts = BTreeMap<Arc<str>, i32>;

/// What each member gets, by member id. Every member is there, if only with nothing.
pub type Assignments = BTreeMap<String, Vec<TopicPartition>>;

/// What one member said of itself when it joined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemberSubscription {
    /// The id that the coordinator gave it.
    pub member_id: String,
    /// Its name, if it is a static member.
    pub instance_id: Option<String>,
    /// What it wants to read.
    pub topics: BTreeSet<Arc<str>>,
    /// What it reads and has not given up; empty under the eager protocol.
    pub owned: Vec<TopicPartition>,
    /// The generation in which it came to own that; -1 if it does not say.
    pub generation: i32,
    /// Bytes of its assignor.
    pub user_data: Option<Bytes>,
    /// Where it stands, if it says so.
    pub rack: Option<String>,
    /// The version of its subscription's encoding.
    pub version: i16,
}

/// The four assignors of Kafka's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assignor {
    /// Consecutive partitions of each topic, topic by topic.
    Range,
    /// All partitions of all topics dealt out in turn.
    RoundRobin,
    /// Balanced, with as few moves as possible; every member gives up all before it joins.
    Sticky,
    /// The same, and members keep reading what does not move (KIP-429).
    CooperativeSticky,
}

impl Assignor {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::Range, Self::RoundRobin, Self::Sticky, Self::CooperativeSticky];

    /// The name that members agree on.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        }
    }

    /// The assignor of this name, or of this Java class.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let class = match name.rsplit('.').next().unwrap_or(name) {
            "RangeAssignor" => "range",
            "RoundRobinAssignor" => "roundrobin",
            "StickyAssignor" => "sticky",
            "CooperativeStickyAssignor" => "cooperative-sticky",
            other => other,
        };
        Self::ALL.into_iter().find(|assignor| assignor.name() == class)
    }

    /// Whether members may keep what they own while they join again.
    #[must_use]
    pub const fn is_cooperative(self) -> bool {
        matches!(self, Self::CooperativeSticky)
    }

    /// The bytes of its own that a member's subscription carries.
    #[must_use]
    pub fn user_data(self, last: &[TopicPartition], generation: i32) -> Option<Bytes> {
        match self {
            Self::Range | Self::RoundRobin => None,
            // A member that never had an assignment says nothing, as in Kafka.
            Self::Sticky => (generation >= 0).then(|| protocol::sticky_data(last, generation)),
            Self::CooperativeSticky => Some(protocol::cooperative_data(generation)),
        }
    }

    /// Deals out the partitions of every subscribed topic.
    #[must_use]
    pub fn assign(self, counts: &PartitionCounts, members: &[MemberSubscription]) -> Assignments {
        match self {
            Self::Range => range::assign(counts, members),
            Self::RoundRobin => round_robin::assign(counts, members),
            Self::Sticky => sticky::assign(counts, members),
            Self::CooperativeSticky => sticky::assign_cooperatively(counts, members),
        }
    }
}

/// Members in the order in which Kafka deals: static ones first, by name, then the others by id.
fn in_order(members: &[MemberSubscription]) -> Vec<&MemberSubscription> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by_key(|member| {
        (member.instance_id.is_none(), member.instance_id.clone(), member.member_id.clone())
    });
    sorted
}

/// An entry without partitions for each member.
fn empty(members: &[MemberSubscription]) -> Assignments {
    members.iter().map(|member| (member.member_id.clone(), Vec::new())).collect()
}

/// The topics that a member wants and that exist, in order.
fn subscribed_topics(
    counts: &PartitionCounts,
    members: &[MemberSubscription],
) -> BTreeMap<Arc<str>, i32> {
    let wanted: BTreeSet<&Arc<str>> = members.iter().flat_map(|member| &member.topics).collect();
    counts
        .iter()
        .filter(|(topic, _)| wanted.contains(topic))
        .map(|(topic, count)| (topic.clone(), *count))
        .collect()
}
