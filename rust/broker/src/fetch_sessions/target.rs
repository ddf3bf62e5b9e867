//! What a fetch asks for, read out of its request.

use super::TOPIC_ID_VERSION;
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::fetch::FetchRequest;
use std::sync::Arc;

/// A topic as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TopicRef {
    /// Before Fetch v13 and Produce v13.
    Name(Arc<str>),
    /// From then on.
    Id(Uuid),
}

/// One partition that a fetch asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchTarget {
    /// Its topic, shared by all its partitions: a request may name a million.
    pub topic: Arc<TopicRef>,
    /// Its index in the topic.
    pub partition: i32,
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// Most bytes of this partition.
    pub max_bytes: i32,
    /// The leader epoch the client believes in; -1 if it does not know.
    pub current_leader_epoch: i32,
    /// The epoch of the last batch the client has; -1 if it does not say.
    pub last_fetched_epoch: i32,
    /// A follower's log start offset; -1 from a consumer.
    pub log_start_offset: i64,
    /// Whether no replica but the leader may answer. Consumers may ask any since v11 (KIP-392).
    pub leader_only: bool,
}

/// Who fetches, as far as it decides what may be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// The follower's broker id; negative is a consumer.
    pub replica_id: i32,
    /// The follower's broker epoch; -1 if it does not say.
    pub broker_epoch: i64,
    /// 0 reads everything that is committed to the log, 1 committed transactions only.
    pub isolation_level: i8,
}

/// First version of consumers that may ask any replica (KIP-392).
pub const ANY_REPLICA_VERSION: i16 = 11;

/// First version that carries the replica's id in a tagged struct.
const REPLICA_STATE_VERSION: i16 = 15;

impl Reader {
    /// Who sent `request`.
    #[must_use]
    pub fn of(request: &FetchRequest, version: i16) -> Self {
        let (replica_id, broker_epoch) = if version < REPLICA_STATE_VERSION {
            (request.replica_id, -1)
        } else {
            (request.replica_state.replica_id, request.replica_state.replica_epoch)
        };
        Self { replica_id, broker_epoch, isolation_level: request.isolation_level }
    }

    /// Whether a broker fetches, to follow this one.
    #[must_use]
    pub fn is_follower(self) -> bool {
        self.replica_id >= 0
    }
}

pub(super) fn topic_ref(by_id: bool, name: &str, id: Uuid) -> Arc<TopicRef> {
    Arc::new(if by_id { TopicRef::Id(id) } else { TopicRef::Name(name.into()) })
}

/// The partitions that `request` lists, in its order; one that it names twice comes twice.
pub(super) fn targets(request: &FetchRequest, version: i16) -> impl Iterator<Item = FetchTarget> {
    let by_id = version >= TOPIC_ID_VERSION;
    let leader_only = version < ANY_REPLICA_VERSION || Reader::of(request, version).is_follower();
    request.topics.iter().flat_map(move |topic| {
        let name = topic_ref(by_id, &topic.topic, topic.topic_id);
        topic.partitions.iter().map(move |partition| FetchTarget {
            topic: name.clone(),
            partition: partition.partition,
            fetch_offset: partition.fetch_offset,
            max_bytes: partition.partition_max_bytes,
            current_leader_epoch: partition.current_leader_epoch,
            last_fetched_epoch: partition.last_fetched_epoch,
            log_start_offset: partition.log_start_offset,
            leader_only,
        })
    })
}
