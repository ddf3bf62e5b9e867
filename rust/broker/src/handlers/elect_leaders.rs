//! ElectLeaders: make the preferred replica lead, or any that is there.
//!
//! With one broker the one replica leads already, so no election is needed.
//! Source: Kafka's `ReplicationControlManager.electLeaders`, its error codes and its words;
//! KIP-460.

use super::messages::Messages;
use super::{Call, Rooms, is_too_late};
use crate::metadata::{ApiError, TopicImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use std::sync::Arc;

const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ElectLeadersRequest>) {
    let Call { request, reply } = call;
    let image = rooms.controller.image();
    // Kafka looks at the type with the first partition.
    let is_nothing = request.topic_partitions.as_ref().is_some_and(Vec::is_empty);
    let is_type = matches!(request.election_type, PREFERRED | UNCLEAN);
    let is_unknown = reply.version >= 1 && !is_type;
    let kind = request.election_type;
    let refused = if is_nothing {
        None
    } else if is_too_late(request.timeout_ms) {
        Some(ErrorCode::RequestTimedOut.into())
    } else if is_unknown {
        let message = format!("Unknown election type {kind}");
        Some(ApiError::new(ErrorCode::InvalidRequest, message))
    } else {
        None
    };
    let head = ElectLeadersResponse {
        error_code: refused.as_ref().map_or(0, |error| error.code.code()),
        ..ElectLeadersResponse::default()
    };
    let Some(asked) = &request.topic_partitions else {
        // Asked for all, Kafka lists only those where an election was needed.
        let topics = image.topics.iter().filter(|_| refused.is_none());
        let results = topics.map(|topic| ReplicaElectionResult {
            topic: topic.name.to_string(),
            partition_result: Vec::new(),
        });
        return reply
            .send(&ElectLeadersResponse { replica_election_results: results.collect(), ..head });
    };
    let mut messages = Messages::new();
    let results = asked.iter().map(|asked| {
        let topic = image.topic(&asked.topic);
        let partitions = asked.partitions.iter().map(|index| match &refused {
            Some(error) => told(*index, messages.keep(error.clone())),
            None => told(*index, refusal(topic, &asked.topic, *index, &mut messages)),
        });
        ReplicaElectionResult { topic: asked.topic.clone(), partition_result: partitions.collect() }
    });
    reply.send_each(&head, results);
}

fn told(partition_id: i32, error: ApiError) -> PartitionResult {
    let ApiError { code, message } = error;
    PartitionResult { partition_id, error_code: code.code(), error_message: message }
}

fn refusal(
    topic: Option<&Arc<TopicImage>>,
    name: &str,
    index: i32,
    messages: &mut Messages,
) -> ApiError {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let Some(topic) = topic else {
        return messages.error(unknown, || format!("No such topic as {name}"));
    };
    if topic.partition(index).is_none() {
        return messages.error(unknown, || format!("No such partition as {name}-{index}"));
    }
    let message = || "Leader election not needed for topic partition.".to_owned();
    messages.error(ErrorCode::ElectionNotNeeded, message)
}
