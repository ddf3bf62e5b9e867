//! CreateTopics: new topics, or with `validate_only` whether they could be made.
//!
//! Source: Kafka's `ControllerApis.createTopics`, its error codes and its words.

use super::parked_change::park;
use super::{Call, Reply, Rooms, is_too_late};
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
use std::sync::Arc;

/// The metadata log is no topic, but its directory is named like one.
const METADATA_TOPIC: &str = "__cluster_metadata";

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<CreateTopicsRequest>) {
    let Call { request, reply } = call;
    if is_too_late(request.timeout_ms) {
        let late = |topic: &CreatableTopic| refused(&topic.name, ErrorCode::RequestTimedOut.into());
        return reply.send_each(&CreateTopicsResponse::default(), request.topics.iter().map(late));
    }
    let asked = Asked::of(request);
    let rules = Arc::new(TableRules::new(rooms.config()));
    // Each has a partition at least: so many are refused before anything is built for them.
    if asked.allowed.len() > MAX_PARTITIONS_PER_REQUEST {
        return asked.answer(reply, &rules, Vec::new(), &excessive());
    }
    let topics: Vec<NewTopic> = asked.topics().map(new_topic).collect();
    let (timeout_ms, validate_only) = (asked.request.timeout_ms, asked.request.validate_only);
    let own = Arc::clone(&rules);
    let ask = |done| {
        let defaults = TopicDefaults::of(own.broker());
        rooms.controller.create_topics(topics, defaults, own, validate_only, done);
    };
    let timeout_ms = u64::from(timeout_ms.unsigned_abs());
    park(rooms, reply.memory_bytes, timeout_ms, ask, move |answers| match answers {
        Ok(answers) => asked.answer(reply, &rules, answers, &ErrorCode::UnknownServerError.into()),
        Err(error) => asked.answer(reply, &rules, Vec::new(), &error),
    });
}

/// A request, and which of its topics the controller is asked for.
struct Asked {
    request: CreateTopicsRequest,
    /// Their places.
    allowed: Vec<usize>,
    /// Those that are refused at once.
    refused: Vec<CreatableTopicResult>,
}

impl Asked {
    fn of(request: CreateTopicsRequest) -> Self {
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for topic in &request.topics {
            *counts.entry(&topic.name).or_default() += 1;
        }
        let name = |place: &usize| request.topics[*place].name.as_str();
        let unique = (0..request.topics.len()).filter(|place| counts[name(place)] == 1);
        let (prohibited, allowed): (Vec<_>, Vec<_>) =
            unique.partition(|place| name(place) == METADATA_TOPIC);
        let prohibited = prohibited.iter().map(|_| {
            let message = format!("Creation of internal topic {METADATA_TOPIC} is prohibited.");
            refused(METADATA_TOPIC, ApiError::new(ErrorCode::InvalidRequest, message))
        });
        let mut others: Vec<_> = prohibited.collect();
        // A name that comes twice is answered once, and not made at all.
        for topic in &request.topics {
            if counts.remove(topic.name.as_str()).is_some_and(|count| count > 1) {
                let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
                others.push(refused(&topic.name, error));
            }
        }
        Self { request, allowed, refused: others }
    }

    fn topics(&self) -> impl Iterator<Item = &CreatableTopic> {
        self.allowed.iter().map(|place| &self.request.topics[*place])
    }

    /// Sends the controller's answers, in the place of those that are missing `otherwise`.
    fn answer(
        self,
        reply: Reply<CreateTopicsRequest>,
        rules: &TableRules,
        answers: Vec<Result<CreatedTopic, ApiError>>,
        otherwise: &ApiError,
    ) {
        let (mut answers, mut others) = (answers.into_iter(), self.refused.iter().cloned());
        let mut allowed = self.topics();
        let count = self.allowed.len() + self.refused.len();
        let results = (0..count).map(|_| match allowed.next() {
            Some(topic) => match answers.next() {
                Some(Ok(created)) => made(rules, &created),
                Some(Err(error)) => refused(&topic.name, error),
                None => refused(&topic.name, otherwise.clone()),
            },
            None => others.next().unwrap_or_default(),
        });
        reply.send_each(&CreateTopicsResponse::default(), results);
    }
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
