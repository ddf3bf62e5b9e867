//! DescribeQuorum: who votes on metadata, who leads, how far each has come.
//!
//! Source: Kafka's `RaftUtil.describeQuorumResponse`, KIP-595, KIP-853 for the voters' addresses.

use super::endpoint::endpoint;
use super::{Call, Rooms};
use crate::metadata::quorum::QuorumStatus;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_quorum::{
    DescribeQuorumRequest, DescribeQuorumResponse, Listener, Node, PartitionData,
    PartitionDataResponse, ReplicaState, TopicData, TopicDataResponse,
};

const METADATA_TOPIC: &str = "__cluster_metadata";

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeQuorumRequest>) {
    let Call { request, reply } = call;
    let status = rooms.controller.quorum().status();
    let now_ms = rooms.clock.wall_ms();
    let topics: Vec<_> =
        request.topics.iter().map(|topic| describe(&status, now_ms, topic)).collect();
    let described = topics.iter().flat_map(|topic| &topic.partitions);
    let nodes = if described.clone().any(|partition| partition.error_code == 0) {
        nodes(rooms, &reply.context, &status)
    } else {
        Vec::new()
    };
    let error_message = Some(String::new());
    reply.send(&DescribeQuorumResponse { error_code: 0, error_message, topics, nodes });
}

fn describe(status: &QuorumStatus, now_ms: i64, topic: &TopicData) -> TopicDataResponse {
    let partitions = topic.partitions.iter().map(|PartitionData { partition_index, .. }| {
        let index = *partition_index;
        if topic.topic_name == METADATA_TOPIC && index == 0 {
            return quorum(status, now_ms);
        }
        PartitionDataResponse {
            partition_index: index,
            error_code: ErrorCode::UnknownTopicOrPartition.code(),
            error_message: Some("This server does not host this topic-partition.".to_owned()),
            ..PartitionDataResponse::default()
        }
    });
    TopicDataResponse { topic_name: topic.topic_name.clone(), partitions: partitions.collect() }
}

fn quorum(status: &QuorumStatus, now_ms: i64) -> PartitionDataResponse {
    // What is not known has the default of the protocol: only the leader knows of others.
    let state = |(replica_id, log_end_offset): &(i32, i64)| ReplicaState {
        replica_id: *replica_id,
        log_end_offset: *log_end_offset,
        last_fetch_timestamp: if *log_end_offset < 0 { -1 } else { now_ms },
        last_caught_up_timestamp: if *log_end_offset < status.high_watermark { -1 } else { now_ms },
        ..ReplicaState::default()
    };
    let states = |all: &[(i32, i64)]| all.iter().map(state).collect();
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

fn nodes(
    rooms: &Rooms,
    context: &crate::request_queue::RequestContext,
    status: &QuorumStatus,
) -> Vec<Node> {
    let image = rooms.controller.image();
    let brokers = status.voters.iter().filter_map(|(id, _)| image.brokers.get(id));
    let node = |broker| {
        let (host, port) = endpoint(rooms, context, broker);
        // Controller and broker share a process and its listeners.
        let port = u16::try_from(port).unwrap_or(0);
        let listener = Listener { name: context.listener.to_string(), host, port };
        Node { node_id: broker.id, listeners: vec![listener] }
    };
    brokers.map(node).collect()
}
