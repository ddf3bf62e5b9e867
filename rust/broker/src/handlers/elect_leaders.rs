//! ElectLeaders: make the preferred replica lead, or any that is there.
//!
//! With one broker the one replica leads already, so no election is needed.
//! Source: Kafka's `ReplicationControlManager.electLeaders`, its error codes and its words;
//! KIP-460.

use super::{Call, Rooms, is_too_late};
use crate::metadata::{ApiError, MetadataImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};

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
    let results = match &request.topic_partitions {
        // Asked for all, Kafka lists only those where an election was needed.
        None if refused.is_some() => Vec::new(),
        None => (image.topics.iter())
            .map(|topic| ReplicaElectionResult {
                topic: topic.name.to_string(),
                partition_result: Vec::new(),
            })
            .collect(),
        Some(asked) => (asked.iter())
            .map(|asked| ReplicaElectionResult {
                topic: asked.topic.clone(),
                partition_result: (asked.partitions.iter())
                    .map(|index| match &refused {
                        Some(error) => told(*index, error.clone()),
                        None => told(*index, refusal(&image, &asked.topic, *index)),
                    })
                    .collect(),
            })
            .collect(),
    };
    let error_code = refused.as_ref().map_or(0, |error| error.code.code());
    let replica_election_results = results;
    reply.send(&ElectLeadersResponse {
        error_code,
        replica_election_results,
        ..ElectLeadersResponse::default()
    });
}

fn told(partition_id: i32, error: ApiError) -> PartitionResult {
    let ApiError { code, message } = error;
    PartitionResult { partition_id, error_code: code.code(), error_message: message }
}

fn refusal(image: &MetadataImage, name: &str, index: i32) -> ApiError {
    let unknown = |message| ApiError::new(ErrorCode::UnknownTopicOrPartition, message);
    let Some(topic) = image.topic(name) else {
        return unknown(format!("No such topic as {name}"));
    };
    if topic.partition(index).is_none() {
        return unknown(format!("No such partition as {name}-{index}"));
    }
    let message = "Leader election not needed for topic partition.";
    ApiError::new(ErrorCode::ElectionNotNeeded, message)
}
