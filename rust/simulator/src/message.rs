//! What nodes say to each other.
//!
//! Group requests are those of the protocol; the others carry what matters to the machines.

use bytes::Bytes;
use kafkalite_broker::metadata::controller::IsrMember;
use kafkalite_broker::metadata::records::RecordsBatch;
use kafkalite_broker::replication::{Answer, Question};
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use kafkalite_protocol::messages::leave_group::LeaveGroupRequest;
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Records, Uuid};
use std::sync::Arc;

/// Who sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node {
    /// The active controller.
    Controller,
    /// A broker by its id.
    Broker(i32),
    /// A client by its number.
    Client(u32),
}

impl Node {
    /// A number of its own, for hashes.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Self::Controller => 1,
            Self::Broker(id) => 0x100 + u64::from(id.unsigned_abs()),
            Self::Client(number) => 0x1_0000 + u64::from(number),
        }
    }
}

/// A batch for a leader.
#[derive(Clone, Debug)]
pub struct Produce {
    /// The partition.
    pub partition: usize,
    /// One batch.
    pub batch: Bytes,
    /// All in-sync replicas, or the leader alone.
    pub acks_all: bool,
}

/// A read of one partition, by a follower or a consumer.
#[derive(Clone, Copy, Debug)]
pub struct Fetch {
    /// The partition.
    pub partition: usize,
    /// From where.
    pub offset: Offset,
    /// The leader epoch that the reader knows; -1 if none.
    pub claimed: LeaderEpoch,
    /// The epoch of the reader's last record; -1 if it does not say.
    pub last_fetched: LeaderEpoch,
    /// Where the reader's own log begins; a consumer, which has none, names `offset`.
    pub log_start: Offset,
    /// A follower's broker epoch; `None` for consumers.
    pub broker_epoch: Option<i64>,
}

/// What a leader answers to a fetch.
#[derive(Clone, Debug)]
pub struct Fetched {
    /// The partition.
    pub partition: usize,
    /// Why there is nothing, or none.
    pub error: ErrorCode,
    /// The leader epoch in which it was read.
    pub epoch: LeaderEpoch,
    /// The leader's high watermark.
    pub high_watermark: Offset,
    /// Where the leader's log begins.
    pub log_start: Offset,
    /// Where the follower's log parts from the leader's.
    pub diverging: Option<(LeaderEpoch, Offset)>,
    /// Whole batches.
    pub batches: Bytes,
}

/// A leader's proposal for the in-sync replicas.
#[derive(Clone, Debug)]
pub struct AlterPartition {
    /// The partition.
    pub partition: usize,
    /// The leader's epoch.
    pub leader_epoch: LeaderEpoch,
    /// The state it was made from.
    pub partition_epoch: i32,
    /// The new in-sync replicas, each in the life that the leader knows.
    pub isr: Vec<IsrMember>,
}

/// What a member of a group asks.
#[derive(Clone, Debug)]
pub enum GroupRequest {
    /// JoinGroup.
    Join(JoinGroupRequest),
    /// SyncGroup.
    Sync(SyncGroupRequest),
    /// Heartbeat.
    Heartbeat(HeartbeatRequest),
    /// LeaveGroup.
    Leave(LeaveGroupRequest),
    /// Offsets to commit by partition.
    Commit {
        /// Who commits.
        member_id: String,
        /// The generation it knows.
        generation: i32,
        /// The topic that the offsets are of.
        topic: Uuid,
        /// Partition and offset.
        offsets: Vec<(i32, i64)>,
    },
    /// Asks for the committed offsets of these partitions.
    FetchOffsets(Vec<i32>),
}

/// What the coordinator answers.
#[derive(Clone, Debug)]
pub enum GroupAnswer {
    /// To JoinGroup.
    Join(JoinGroupResponse),
    /// To SyncGroup.
    Sync(SyncGroupResponse),
    /// To Heartbeat, LeaveGroup and commits, and in place of any other answer.
    Error(i16),
    /// Partition and committed offset; -1 is none.
    Offsets(Vec<(i32, i64)>),
}

/// A change of topics or configs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes the topic that the group shares out, with this value of its config.
    Create {
        /// The value.
        config: String,
    },
    /// Deletes a topic.
    Delete(Uuid),
    /// Gives the topic another value of its config.
    Configure {
        /// The value.
        config: String,
    },
}

/// One message. Every request has an id that its answer repeats.
#[derive(Clone, Debug)]
pub enum Message {
    /// To a leader.
    Produce(Produce),
    /// The answer: the base offset, or why not.
    Produced(Result<Offset, ErrorCode>),
    /// To a leader.
    Fetch(Fetch),
    /// The answer.
    Fetched(Fetched),
    /// A follower's, to its leader.
    Ask(Box<Question>),
    /// The answer.
    Answer(Box<Answer>),
    /// To the coordinator of the group.
    Group(GroupRequest),
    /// The answer.
    GroupAnswer(GroupAnswer),
    /// To the controller: a broker's process started.
    Register,
    /// The answer: the broker's epoch.
    Registered(i64),
    /// To the controller: a broker lives and has the metadata up to this offset.
    Heartbeat {
        /// The broker's epoch.
        epoch: i64,
        /// The last metadata record it has; -1 is none.
        offset: i64,
    },
    /// The answer: what follows in the metadata log.
    Metadata(Vec<Arc<RecordsBatch>>),
    /// To the controller.
    AlterPartition(AlterPartition),
    /// The answer: whether it was changed. The image says how the partition is.
    Altered(usize, Result<(), ErrorCode>),
    /// To the controller: the replicas of these partitions are in the broker's log directory.
    AssignReplicas(Vec<usize>),
    /// To the controller.
    Change(Change),
    /// The answer: the topic that was made or deleted, or why not.
    Changed(Result<Option<Uuid>, ErrorCode>),
}

impl Message {
    /// A short name, and a number for hashes.
    #[must_use]
    pub fn kind(&self) -> (&'static str, u64) {
        match self {
            Self::Produce(_) => ("Produce", 1),
            Self::Produced(_) => ("Produced", 2),
            Self::Fetch(_) => ("Fetch", 3),
            Self::Fetched(_) => ("Fetched", 4),
            Self::Group(_) => ("Group", 5),
            Self::GroupAnswer(_) => ("GroupAnswer", 6),
            Self::Register => ("Register", 7),
            Self::Registered(_) => ("Registered", 8),
            Self::Heartbeat { .. } => ("Heartbeat", 9),
            Self::Metadata(_) => ("Metadata", 10),
            Self::AlterPartition(_) => ("AlterPartition", 11),
            Self::Altered(..) => ("Altered", 12),
            Self::Change(_) => ("Change", 13),
            Self::Changed(_) => ("Changed", 14),
            Self::Ask(_) => ("Ask", 15),
            Self::Answer(_) => ("Answer", 16),
            Self::AssignReplicas(_) => ("AssignReplicas", 17),
        }
    }

    /// A number that stands for the content, for hashes.
    #[must_use]
    pub fn content(&self) -> u64 {
        let offset = |offset: Offset| u64::try_from(offset.0).unwrap_or(u64::MAX);
        match self {
            Self::Produce(produce) => produce.batch.len() as u64,
            Self::Produced(Ok(base)) => offset(*base),
            Self::Produced(Err(error)) => 1 << 40 | u64::from((*error as i16).unsigned_abs()),
            Self::Fetch(fetch) => offset(fetch.offset),
            Self::Fetched(fetched) => {
                offset(fetched.high_watermark) << 20 ^ fetched.batches.len() as u64
            }
            Self::Registered(epoch) | Self::Heartbeat { offset: epoch, .. } => epoch.unsigned_abs(),
            Self::Ask(question) => content_of_question(question),
            Self::Answer(answer) => content_of_answer(answer),
            Self::Metadata(batches) => batches.len() as u64,
            Self::AssignReplicas(partitions) => partitions.len() as u64,
            Self::AlterPartition(alter) => alter.isr.len() as u64,
            Self::Altered(_, answer) => u64::from(answer.is_ok()),
            Self::Changed(answer) => u64::from(answer.is_ok()),
            Self::Group(_) | Self::GroupAnswer(_) | Self::Register | Self::Change(_) => 0,
        }
    }
}

fn content_of_question(question: &Question) -> u64 {
    match question {
        Question::Fetch(request) => {
            let asked = request.topics.iter().flat_map(|topic| &topic.partitions);
            asked.fold(0, |hash, one| (hash * 31) ^ one.fetch_offset.unsigned_abs())
        }
        Question::Epochs(_) => 1,
        Question::Starts(_) => 2,
    }
}

fn content_of_answer(answer: &Answer) -> u64 {
    match answer {
        Answer::Fetch(response) => {
            let told = response.responses.iter().flat_map(|topic| &topic.partitions);
            told.fold(0, |hash, one| {
                let length = one.records.as_ref().map_or(0, Records::len);
                (hash * 31) ^ one.high_watermark.unsigned_abs() << 20 ^ length as u64
            })
        }
        Answer::Epochs(_) => 1,
        Answer::Starts(_) => 2,
    }
}
