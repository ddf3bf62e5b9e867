//! What a consumer asked for.

use std::collections::BTreeSet;
use std::sync::Arc;

/// Which topics a pattern stands for.
pub type TopicFilter = Arc<dyn Fn(&str) -> bool + Send + Sync>;

/// What the consumer asked for.
#[derive(Clone)]
pub enum Wish {
    /// Nothing yet.
    Nothing,
    /// These partitions, without a group's help.
    Assigned,
    /// Topics by name; the group decides which of their partitions.
    Topics(BTreeSet<Arc<str>>),
    /// Topics whose names match; as they come and go.
    Pattern(TopicFilter),
}

impl Wish {
    /// Whether partitions of this topic may be meant.
    #[must_use]
    pub fn may_be(&self, topic: &str) -> bool {
        match self {
            Self::Nothing | Self::Assigned => true,
            Self::Topics(topics) => topics.contains(topic),
            Self::Pattern(filter) => filter(topic),
        }
    }

    /// Whether the group assigns partitions.
    #[must_use]
    pub fn is_by_group(&self) -> bool {
        matches!(self, Self::Topics(_) | Self::Pattern(_))
    }
}
