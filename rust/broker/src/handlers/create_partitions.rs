//! CreatePartitions: more partitions for topics that are there.
//!
//! Source: Kafka's `ControllerApis.createPartitions`, its error codes and its words.

use super::parked_change::park;
use super::{Call, Rooms, is_too_late};
use crate::metadata::ApiError;
use crate::metadata::controller::NewPartitions;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic,
    CreatePartitionsTopicResult,
};
use std::collections::HashMap;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<CreatePartitionsRequest>) {
    let Call { request, reply } = call;
    if is_too_late(request.timeout_ms) {
        let late = |topic: &CreatePartitionsTopic| {
            result(&topic.name, Err(ErrorCode::RequestTimedOut.into()))
        };
        let results = request.topics.iter().map(late).collect();
        let response = CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() };
        return reply.send(&response);
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *counts.entry(&topic.name).or_default() += 1;
    }
    let unique = request.topics.iter().filter(|topic| counts[topic.name.as_str()] == 1);
    let asked: Vec<NewPartitions> = unique.map(new_partitions).collect();
    let names: Vec<String> = asked.iter().map(|topic| topic.name.clone()).collect();
    let mut refused = Vec::new();
    for topic in &request.topics {
        if counts.remove(topic.name.as_str()).is_some_and(|count| count > 1) {
            let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
            refused.push(result(&topic.name, Err(error)));
        }
    }
    let validate_only = request.validate_only;
    let ask = |done| rooms.controller.create_partitions(asked, validate_only, done);
    let timeout_ms = u64::from(request.timeout_ms.unsigned_abs());
    park(rooms, reply.memory_bytes, timeout_ms, ask, move |answers| {
        let answers = answers.unwrap_or_else(|error| vec![Err(error); names.len()]);
        let results = names.iter().zip(answers).map(|(name, answer)| result(name, answer));
        let results = results.chain(refused).collect();
        reply.send(&CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() });
    });
}

fn new_partitions(topic: &CreatePartitionsTopic) -> NewPartitions {
    let assignments = topic.assignments.as_ref();
    NewPartitions {
        name: topic.name.clone(),
        count: topic.count,
        assignments: assignments
            .map(|list| list.iter().map(|assignment| assignment.broker_ids.clone()).collect()),
    }
}

fn result(name: &str, answer: Result<(), ApiError>) -> CreatePartitionsTopicResult {
    let error = answer.err();
    CreatePartitionsTopicResult {
        name: name.to_owned(),
        error_code: error.as_ref().map_or(0, |error| error.code.code()),
        error_message: error.and_then(|error| error.message),
    }
}
