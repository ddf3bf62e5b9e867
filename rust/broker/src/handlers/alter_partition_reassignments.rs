//! AlterPartitionReassignments: partitions move to other brokers.
//!
//! A request that names a partition twice asks for what it says last.
//! Source: Kafka's `ReplicationControlManager.alterPartitionReassignments`, its error codes and its
//! words; KIP-455.

use super::messages::Messages;
use super::parked_change::park;
use super::{Call, Reply, Rooms, is_too_late};
use crate::metadata::controller::{Reassignment, reassign};
use crate::metadata::{ApiError, MetadataImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The answers of the controller, by topic and partition.
type Answers = BTreeMap<(Arc<str>, i32), Result<(), ApiError>>;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<AlterPartitionReassignmentsRequest>) {
    let Call { request, reply } = call;
    if request.topics.is_empty() {
        // Where there is nothing to do, Kafka's controller is not asked.
        return reply.send(&AlterPartitionReassignmentsResponse::default());
    }
    if is_too_late(request.timeout_ms) {
        return refuse(reply, &request, &ErrorCode::RequestTimedOut.into());
    }
    let request = Arc::new(request);
    let asked = Arc::clone(&request);
    // The image of this broker may be behind: what is there is found out within the change.
    let decide = move |image: &MetadataImage| {
        let wanted = known(image, &asked);
        let (records, answers) = reassign(image, &wanted, asked.allow_replication_factor_change);
        let places = wanted.into_iter().map(|one| (one.topic, one.partition));
        (records, (image.clone(), places.zip(answers).collect::<Answers>()))
    };
    let ask = |done| rooms.controller.change_whole(decide, done);
    let timeout_ms = u64::from(request.timeout_ms.unsigned_abs());
    park(rooms, reply.memory_bytes, timeout_ms, ask, move |decided| match decided.flatten() {
        Ok((image, answers)) => tell(reply, &image, &request, &answers),
        Err(error) => refuse(reply, &request, &error),
    });
}

/// What is asked of the partitions that are there.
fn known(image: &MetadataImage, request: &AlterPartitionReassignmentsRequest) -> Vec<Reassignment> {
    let mut wanted: BTreeMap<(&Arc<str>, i32), Option<&Vec<i32>>> = BTreeMap::new();
    for asked in &request.topics {
        let Some(topic) = image.topic(&asked.name) else { continue };
        for partition in &asked.partitions {
            let index = partition.partition_index;
            if topic.partition(index).is_some() {
                wanted.insert((&topic.name, index), partition.replicas.as_ref());
            }
        }
    }
    let wanted = wanted.into_iter().map(|((topic, partition), replicas)| Reassignment {
        topic: Arc::clone(topic),
        partition,
        replicas: replicas.cloned(),
    });
    wanted.collect()
}

/// Nothing was done, for a reason that is the same for all.
fn refuse(
    reply: Reply<AlterPartitionReassignmentsRequest>,
    request: &AlterPartitionReassignmentsRequest,
    error: &ApiError,
) {
    let error_code = error.code.code();
    let head = AlterPartitionReassignmentsResponse { error_code, ..Default::default() };
    let mut messages = Messages::new();
    let topics = request.topics.iter().map(|topic| {
        let partitions = topic.partitions.iter();
        let refused =
            partitions.map(|one| told(one.partition_index, Err(messages.keep(error.clone()))));
        ReassignableTopicResponse { name: topic.name.clone(), partitions: refused.collect() }
    });
    reply.send_each(&head, topics);
}

fn tell(
    reply: Reply<AlterPartitionReassignmentsRequest>,
    image: &MetadataImage,
    request: &AlterPartitionReassignmentsRequest,
    answers: &Answers,
) {
    let head = AlterPartitionReassignmentsResponse {
        allow_replication_factor_change: request.allow_replication_factor_change,
        ..AlterPartitionReassignmentsResponse::default()
    };
    let mut messages = Messages::new();
    let topics = request.topics.iter().map(|asked| {
        let topic = image.topic(&asked.name).map(|topic| &topic.name);
        let partitions = asked.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            let place = (asked.name.as_str(), topic, index);
            told(index, answered(place, answers, &mut messages))
        });
        ReassignableTopicResponse { name: asked.name.clone(), partitions: partitions.collect() }
    });
    reply.send_each(&head, topics);
}

fn answered(
    (name, topic, index): (&str, Option<&Arc<str>>, i32),
    answers: &Answers,
    messages: &mut Messages,
) -> Result<(), ApiError> {
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let Some(topic) = topic else {
        return Err(messages.error(unknown, || format!("Unable to find a topic named {name}.")));
    };
    let Some(answer) = answers.get(&(Arc::clone(topic), index)) else {
        return Err(messages.error(unknown, || format!("Unable to find partition {name}:{index}.")));
    };
    answer.clone().map_err(|error| messages.keep(error))
}

fn told(partition_index: i32, answer: Result<(), ApiError>) -> ReassignablePartitionResponse {
    let (error_code, error_message) = match answer {
        Ok(()) => (0, None),
        Err(ApiError { code, message }) => (code.code(), message),
    };
    ReassignablePartitionResponse { partition_index, error_code, error_message }
}
