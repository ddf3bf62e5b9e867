//! One member of a group: what it told when it joined, and which of its requests wait.
//!
//! Source: Kafka's `ClassicGroupMember`.

use std::collections::HashSet;

use bytes::Bytes;
use kafkalite_protocol::messages::join_group::JoinGroupRequestProtocol;

/// Stands for a request whose answer is still owed; the shell knows who asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A member's name for an assignment strategy, and the bytes it sent for it. The coordinator does
/// not look inside.
pub type Protocol = (String, Bytes);

/// One member.
#[derive(Clone, Debug)]
pub struct Member {
    /// Given by the coordinator.
    pub member_id: String,
    /// Chosen by the client: a member that outlives its process (KIP-345).
    pub group_instance_id: Option<String>,
    /// What the client calls itself.
    pub client_id: String,
    /// Its address, with the slash that Kafka puts before it.
    pub client_host: String,
    /// How long a rebalance waits for it to join again, in ms.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent, in ms.
    pub session_timeout_ms: i32,
    /// In order of preference; no name twice.
    pub protocols: Vec<Protocol>,
    /// What the leader gave it in this generation; empty if nothing.
    pub assignment: Bytes,
    /// It has not got the answer to its first join yet, so it cannot send heartbeats.
    pub is_new: bool,
    /// Its parked JoinGroup.
    pub awaiting_join: Option<Token>,
    /// Its parked SyncGroup.
    pub awaiting_sync: Option<Token>,
    /// When it is taken for dead, in monotonic ms; `None` while a parked request vouches for it.
    pub deadline_ms: Option<i64>,
}

impl Member {
    /// The bytes it sent for `protocol`; empty if it does not know that one.
    pub fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(name, _)| name == protocol)
            .map_or_else(Bytes::new, |(_, metadata)| metadata.clone())
    }

    /// Its most preferred protocol among those for which `is_candidate` holds.
    pub fn vote(&self, is_candidate: impl Fn(&str) -> bool) -> Option<&str> {
        self.protocols.iter().map(|(name, _)| name.as_str()).find(|name| is_candidate(name))
    }

    /// Whether silence is no sign of death: a parked request holds its connection. A new member is
    /// not excused, or clients that gave up during a long rebalance would pile up.
    pub fn has_satisfied_heartbeat(&self) -> bool {
        !self.is_new && (self.awaiting_join.is_some() || self.awaiting_sync.is_some())
    }

    /// About how much memory its ids and names cost.
    pub fn weight_of_texts(&self) -> usize {
        weight_of_texts(
            self.member_id.len(),
            self.group_instance_id.as_deref(),
            &self.client_id,
            &self.client_host,
        )
    }

    /// Whether it is known by an instance id.
    pub fn is_static(&self) -> bool {
        self.group_instance_id.is_some()
    }
}

/// About how much memory the ids and names of a member cost, whose own id has `id_len` bytes. Ids
/// stand in several places of their group.
pub fn weight_of_texts(id_len: usize, instance: Option<&str>, client: &str, host: &str) -> usize {
    4 * id_len + 2 * instance.map_or(0, str::len) + client.len() + host.len()
}

/// The protocols of a request, without repetitions of a name.
pub fn protocols_of(request: &[JoinGroupRequestProtocol]) -> Vec<Protocol> {
    let mut names = HashSet::new();
    let once = request.iter().filter(|protocol| names.insert(protocol.name.as_str()));
    once.map(|protocol| (protocol.name.clone(), own(&protocol.metadata))).collect()
}

/// A copy of its own: a slice would keep the whole frame alive as long as the member lives.
pub fn own(bytes: &Bytes) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
