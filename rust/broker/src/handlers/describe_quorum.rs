//! DescribeQuorum: who votes on metadata, who leads, how far each has come.
//!
//! Only the leader of the quorum knows how far the others are, so another broker asks it. Where it
//! is not reached, a broker tells what it knows itself. As in Kafka a request that names more than
//! one partition gets none of them: it could name this one a million times.
//! Source: Kafka's `RaftUtil.describeQuorumResponse`, KIP-595, KIP-853 for the voters' addresses.

use super::endpoint::endpoint;
use super::messages::Messages;
use super::parked_change::park;
use super::{Call, Reply, Rooms};
use crate::cluster::peers::CLIENT_ID;
use crate::metadata::controller::Done;
use crate::metadata::quorum::{QuorumMember, QuorumStatus};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, PartitionData,
    PartitionDataResponse, ReplicaState, TopicData, TopicDataResponse,
};
use kafkalite_quorum::VoterId;

const METADATA_TOPIC: &str = "__cluster_metadata";

/// How long the leader may take.
const TIMEOUT_MS: u64 = 10_000;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeQuorumRequest>) {
    let Call { request, reply } = call;
    let (known, nodes) = (quorum(rooms), nodes(rooms, &reply));
    // A broker that asks takes this one for the leader; the request is not sent on and on.
    if reply.client_id.as_deref() == Some(CLIENT_ID) {
        return answer(reply, &request, &known, nodes);
    }
    let partitions = vec![PartitionData { partition_index: 0 }];
    let topics = vec![TopicData { topic_name: METADATA_TOPIC.to_owned(), partitions }];
    let ask = |done: Done<Option<DescribeQuorumResponse>>| {
        let done = move |told| done.tell(told);
        rooms.cluster.ask_leader(DescribeQuorumRequest { topics }, done);
    };
    park(rooms, reply.memory_bytes, TIMEOUT_MS, ask, move |told| {
        let told = told.ok().flatten().and_then(told_by_leader);
        answer(reply, &request, &told.unwrap_or(known), nodes);
    });
}

/// The quorum in an answer of the leader.
fn told_by_leader(mut answer: DescribeQuorumResponse) -> Option<PartitionDataResponse> {
    let partition = answer.topics.pop()?.partitions.pop()?;
    (answer.error_code == 0 && partition.error_code == 0).then_some(partition)
}

fn answer(
    reply: Reply<DescribeQuorumRequest>,
    request: &DescribeQuorumRequest,
    quorum: &PartitionDataResponse,
    mut nodes: Vec<Node>,
) {
    let is_one = matches!(&*request.topics, [topic] if topic.partitions.len() == 1);
    let (quorum, mut messages) = (Some(quorum).filter(|_| is_one), Messages::new());
    let topics = request.topics.iter().map(|topic| describe(quorum, topic, &mut messages));
    let topics: Vec<_> = topics.collect();
    let mut described = topics.iter().flat_map(|topic| &topic.partitions);
    let is_told = described.any(|partition| partition.error_code == 0);
    let voters = quorum.map(|quorum| &quorum.current_voters).into_iter().flatten();
    let votes = |id| voters.clone().any(|voter| voter.replica_id == id);
    nodes.retain(|node| is_told && votes(node.node_id));
    let error_message = Some(String::new());
    reply.send(&DescribeQuorumResponse { error_code: 0, error_message, topics, nodes });
}

fn describe(
    quorum: Option<&PartitionDataResponse>,
    topic: &TopicData,
    messages: &mut Messages,
) -> TopicDataResponse {
    let partitions = topic.partitions.iter().map(|PartitionData { partition_index }| {
        let is_meant = topic.topic_name == METADATA_TOPIC && *partition_index == 0;
        if let Some(quorum) = quorum.filter(|_| is_meant) {
            return quorum.clone();
        }
        let unknown = ErrorCode::UnknownTopicOrPartition;
        let words = || "This server does not host this topic-partition.".to_owned();
        PartitionDataResponse {
            partition_index: *partition_index,
            error_code: unknown.code(),
            error_message: messages.error(unknown, words).message,
            ..PartitionDataResponse::default()
        }
    });
    TopicDataResponse { topic_name: topic.topic_name.clone(), partitions: partitions.collect() }
}

/// The quorum as this broker knows it.
fn quorum(rooms: &Rooms) -> PartitionDataResponse {
    let status = rooms.controller.quorum().status();
    let now_ms = rooms.clock.wall_ms();
    let state = |member: &QuorumMember| replica(rooms, &status, member, now_ms);
    let states = |all: &[QuorumMember]| all.iter().map(state).collect();
    PartitionDataResponse {
        partition_index: 0,
        error_message: Some(String::new()),
        leader_id: status.leader_id,
        leader_epoch: status.leader_epoch,
        high_watermark: status.high_watermark,
        current_voters: states(&status.voters),
        observers: states(&status.observers),
        ..PartitionDataResponse::default()
    }
}

fn replica(
    rooms: &Rooms,
    status: &QuorumStatus,
    member: &QuorumMember,
    now_ms: i64,
) -> ReplicaState {
    let QuorumMember { node_id, directory_id, end, answered_ms_ago } = *member;
    // What is not known has the default of the protocol: only the leader knows of others.
    let fetched = answered_ms_ago.map(|ago| now_ms.saturating_sub_unsigned(ago));
    let caught_up = match fetched {
        fetched @ Some(_) if end >= status.high_watermark => fetched,
        _ => rooms.cluster.caught_up_ms(VoterId { node_id, directory_id }),
    };
    ReplicaState {
        replica_id: node_id,
        replica_directory_id: directory_id,
        log_end_offset: end,
        last_fetch_timestamp: fetched.unwrap_or(-1),
        last_caught_up_timestamp: caught_up.unwrap_or(-1),
    }
}

/// Where the client finds the brokers.
fn nodes(rooms: &Rooms, reply: &Reply<DescribeQuorumRequest>) -> Vec<Node> {
    let (image, context) = (rooms.controller.image(), &reply.context);
    let node = |broker| {
        let (host, port) = endpoint(rooms, context, broker);
        // Controller and broker share a process and its listeners.
        let port = u16::try_from(port).unwrap_or(0);
        let listener = Listener { name: context.listener.to_string(), host, port };
        Node { node_id: broker.id, listeners: vec![listener] }
    };
    image.brokers.values().map(node).collect()
}
