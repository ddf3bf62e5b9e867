//! AlterPartitionReassignments: a partition moves to other brokers.
//!
//! With one broker a partition can only be where it is. A request for that place succeeds and
//! changes nothing. Any other request is refused as in Kafka.
//! Source: Kafka's `ReplicationControlManager.alterPartitionReassignments`, its error codes and its
//! words; KIP-455.

use super::messages::Messages;
use super::{Call, Rooms, is_too_late};
use crate::metadata::controller::validate_assignment;
use crate::metadata::{ApiError, MetadataImage, TopicImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse, ReassignableTopic, ReassignableTopicResponse,
};
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<AlterPartitionReassignmentsRequest>) {
    let Call { request, reply } = call;
    let image = rooms.controller.image();
    // Where there is nothing to do, Kafka's controller is not asked.
    let is_asked = !request.topics.is_empty();
    let is_late = is_asked && is_too_late(request.timeout_ms);
    let late = is_late.then_some(ErrorCode::RequestTimedOut);
    let mut response = AlterPartitionReassignmentsResponse {
        error_code: late.map_or(0, ErrorCode::code),
        error_message: None,
        ..AlterPartitionReassignmentsResponse::default()
    };
    if is_asked && !is_late {
        response.allow_replication_factor_change = request.allow_replication_factor_change;
    }
    let mut messages = Messages::new();
    let topics = request.topics.iter().map(|topic| answer(&image, topic, late, &mut messages));
    reply.send_each(&response, topics);
}

fn answer(
    image: &MetadataImage,
    topic: &ReassignableTopic,
    late: Option<ErrorCode>,
    messages: &mut Messages,
) -> ReassignableTopicResponse {
    let known = image.topic(&topic.name);
    let partitions = topic.partitions.iter().map(|partition| {
        let index = partition.partition_index;
        let replicas = partition.replicas.as_deref();
        let answer = match late {
            Some(error) => Err(error.into()),
            None => reassign(image, (&topic.name, known), index, replicas, messages),
        };
        let error: Option<ApiError> = answer.err();
        ReassignablePartitionResponse {
            partition_index: index,
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            error_message: error.and_then(|error| error.message),
        }
    });
    ReassignableTopicResponse { name: topic.name.clone(), partitions: partitions.collect() }
}

fn reassign(
    image: &MetadataImage,
    (name, topic): (&str, Option<&Arc<TopicImage>>),
    index: i32,
    replicas: Option<&[i32]>,
    messages: &mut Messages,
) -> Result<(), ApiError> {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let Some(topic) = topic else {
        return Err(messages.error(unknown, || format!("Unable to find a topic named {name}.")));
    };
    let Some(partition) = topic.partition(index) else {
        return Err(messages.error(unknown, || format!("Unable to find partition {name}:{index}.")));
    };
    let Some(replicas) = replicas else {
        return Err(ErrorCode::NoReassignmentInProgress.into());
    };
    validate_assignment(image, replicas, None).map_err(|error| messages.keep(error))?;
    if replicas == partition.replicas {
        return Ok(());
    }
    let message = || "Partitions cannot move between brokers yet.".to_owned();
    Err(messages.error(ErrorCode::InvalidReplicaAssignment, message))
}
