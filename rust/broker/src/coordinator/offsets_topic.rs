//! What the coordinator must know of `__consumer_offsets`, and of the topics that groups read.

use kafkalite_protocol::Uuid;

use super::runtime::TopicFacts;

/// The control plane and the logs as the coordinator sees them.
pub trait OffsetsTopic: Send + Sync {
    /// `__consumer_offsets` as it is now; `None` while there is no such topic. Of two calls, the
    /// later one never returns an older state.
    fn facts(&self) -> Option<TopicFacts>;

    /// The id of the topic that has this name now. An offset that was committed for another topic
    /// of the name says nothing about this one. Takes no lock: it is called under that of a
    /// partition's state.
    fn id_of(&self, topic: &str) -> Option<Uuid>;
}
