//! CreateTopics: new topics, or with `validate_only` whether they could be made.
//!
//! Source: Kafka's `ControllerApis.createTopics`, its error codes and its words.

use super::{Call, Rooms, is_too_late};
use crate::config::describe_topic;
use crate::metadata::ApiError;
use crate::metadata::controller::{
    CreatedTopic, MAX_PARTITIONS_PER_REQUEST, NewTopic, TableRules, TopicDefaults, excessive,
};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest,
    CreateTopicsResponse,
};
use std::collections::HashMap;

/// The metadata log is no topic, but its directory is named like one.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<CreateTopicsRequest>) {
    let Call { request, reply } = call;
    if is_too_late(request.timeout_ms) {
        let late = |topic: &CreatableTopic| refused(&topic.name, ErrorCode::RequestTimedOut.into());
        return reply.send_each(&CreateTopicsResponse::default(), request.topics.iter().map(late));
    }
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *counts.entry(&topic.name).or_default() += 1;
    }
    let unique = request.topics.iter().filter(|topic| counts[topic.name.as_str()] == 1);
    let (prohibited, allowed): (Vec<_>, Vec<_>) =
        unique.partition(|topic| topic.name == METADATA_TOPIC);
    let rules = TableRules::new(rooms.config());
    // Each has a partition at least: so many are refused before anything is built for them.
    let answers = if allowed.len() > MAX_PARTITIONS_PER_REQUEST {
        Vec::new()
    } else {
        let asked: Vec<NewTopic> = allowed.iter().map(|topic| new_topic(topic)).collect();
        let defaults = TopicDefaults::of(rules.broker());
        rooms.controller.create_topics(&asked, defaults, &rules, request.validate_only)
    };
    let prohibited = prohibited.iter().map(|topic| {
        let message = format!("Creation of internal topic {METADATA_TOPIC} is prohibited.");
        refused(&topic.name, ApiError::new(ErrorCode::InvalidRequest, message))
    });
    let mut others: Vec<_> = prohibited.collect();
    // A name that comes twice is answered once, and not made at all.
    for topic in &request.topics {
        if counts.remove(topic.name.as_str()).is_some_and(|count| count > 1) {
            let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
            others.push(refused(&topic.name, error));
        }
    }
    let count = allowed.len() + others.len();
    let (mut answers, mut others) = (answers.into_iter(), others.into_iter());
    let mut allowed = allowed.iter();
    let results = (0..count).map(|_| match allowed.next() {
        Some(topic) => match answers.next() {
            Some(Ok(created)) => made(&rules, &created),
            Some(Err(error)) => refused(&topic.name, error),
            None => refused(&topic.name, excessive()),
        },
        None => others.next().unwrap_or_default(),
    });
    reply.send_each(&CreateTopicsResponse::default(), results);
}

fn new_topic(topic: &CreatableTopic) -> NewTopic {
    let assignments = topic.assignments.iter();
    let configs = topic.configs.iter();
    NewTopic {
        name: topic.name.clone(),
        num_partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.map(|a| (a.partition_index, a.broker_ids.clone())).collect(),
        configs: configs.map(|c| (c.name.clone(), c.value.clone())).collect(),
    }
}

fn made(rules: &TableRules, created: &CreatedTopic) -> CreatableTopicResult {
    let configs = describe_topic(rules.broker(), &created.configs).into_iter();
    let configs = configs.map(|entry| CreatableTopicConfigs {
        // As Kafka: what was asked for comes back as it was written.
        value: created.configs.get(&*entry.name).cloned().or(entry.value),
        name: entry.name.into_owned(),
        read_only: entry.read_only,
        config_source: entry.source.code(),
        is_sensitive: entry.sensitive,
    });
    CreatableTopicResult {
        name: created.name.clone(),
        topic_id: created.id,
        error_message: None,
        num_partitions: created.num_partitions,
        replication_factor: created.replication_factor,
        configs: Some(configs.collect()),
        ..CreatableTopicResult::default()
    }
}

fn refused(name: &str, error: ApiError) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.to_owned(),
        error_code: error.code.code(),
        error_message: error.message,
        ..CreatableTopicResult::default()
    }
}
