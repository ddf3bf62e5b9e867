//! What the quorum is about: voters, where they are, what is proposed; and the same to openraft.
//!
//! A term is Kafka's controller epoch. [`LeaderId`] is Raft's own: at most one leader in a term.

use bytes::Bytes;
use kafkalite_protocol::Uuid;
use openraft::RaftTypeConfig;
use std::fmt;

/// A voter or a learner: a node together with the disk that keeps its vote.
///
/// A node whose disk was wiped comes back with another directory id. So it is another voter, and
/// the votes that the lost disk knew of are never given a second time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VoterId {
    /// `node.id`
    pub node_id: i32,
    /// The id of the directory that holds the log.
    pub directory_id: Uuid,
}

impl fmt::Display for VoterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.node_id, self.directory_id)
    }
}

/// Where the others reach a voter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address.
    pub host: String,
    /// The port of the listener between controllers.
    pub port: u16,
}

/// Records that are to count, all or none, directly behind `expected`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The offset of the last record of the state that they were decided upon; -1 is none.
    pub expected: i64,
    /// How many records the payload holds; each takes an offset.
    pub records: u32,
    /// The records; opaque to the quorum.
    pub payload: Bytes,
}

impl fmt::Display for Proposal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} records behind {}", self.records, self.expected)
    }
}

/// The result of applying an entry, the same on every voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// It holds no records.
    Nothing,
    /// Its records count; the offset is the last one's.
    Counts(i64),
    /// Another proposal was faster: the last offset is not the expected one. It never counts.
    Overtaken(i64),
}

/// Committed records, as they reach a [`StateMachine`](crate::StateMachine).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The offset of the first record.
    pub base_offset: i64,
    /// How many there are.
    pub records: u32,
    /// The term of the leader that proposed them.
    pub term: u64,
    /// The records.
    pub payload: Bytes,
}

/// A state and the end of the records that it is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The offset that the next record gets.
    pub end: i64,
    /// The state; opaque to the quorum.
    pub bytes: Bytes,
}

pub(crate) type LeaderId = openraft::impls::leader_id_std::LeaderId<u64, VoterId>;
pub(crate) type CommittedLeaderId = <LeaderId as openraft::vote::RaftLeaderId>::Committed;
pub(crate) type Vote = openraft::impls::Vote<LeaderId>;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId>;
pub(crate) type Payload = openraft::EntryPayload<Proposal, VoterId, Endpoint>;
pub(crate) type Entry = openraft::Entry<CommittedLeaderId, Payload>;
pub(crate) type Membership = openraft::Membership<VoterId, Endpoint>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, VoterId, Endpoint>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, VoterId, Endpoint>;
pub(crate) type Snapshot = openraft::Snapshot<CommittedLeaderId, VoterId, Endpoint, State>;

/// openraft's types as this crate has them; only the runtime differs, between tests and the rest.
pub(crate) trait Types:
    RaftTypeConfig<
        D = Proposal,
        R = Applied,
        NodeId = VoterId,
        Node = Endpoint,
        Term = u64,
        LeaderId = LeaderId,
        Vote = Vote,
        Payload = Payload,
        Entry = Entry,
    >
{
}

impl<C> Types for C where
    C: RaftTypeConfig<
            D = Proposal,
            R = Applied,
            NodeId = VoterId,
            Node = Endpoint,
            Term = u64,
            LeaderId = LeaderId,
            Vote = Vote,
            Payload = Payload,
            Entry = Entry,
        >
{
}

openraft::declare_raft_types!(
    /// The quorum on tokio.
    pub(crate) TokioTypes:
        D = Proposal,
        R = Applied,
        NodeId = VoterId,
        Node = Endpoint,
        LeaderId = LeaderId,
);

/// The index behind `log_id`, at which the log goes on.
pub(crate) fn next_index(log_id: Option<&LogId>) -> u64 {
    log_id.map_or(0, |log_id| log_id.index() + 1)
}
