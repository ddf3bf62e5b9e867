//! Metadata: brokers, topics, partitions, and who leads them. Topics that are not there are made
//! when allowed.
//!
//! Kafka answers UNKNOWN_TOPIC_OR_PARTITION to the request that makes a topic, because its
//! controller is elsewhere; here the topic is there when the request is answered, so the answer has
//! it.
//! Source: Kafka's `KafkaApis.handleTopicMetadataRequest`, KIP-516 for topic ids, KIP-430 for the
//! operations.

use super::authorized_operations::{CLUSTER, TOPIC, answer};
use super::endpoint::endpoint;
use super::{Call, Rooms};
use crate::metadata::controller::invalid_topic_name;
use crate::metadata::{MetadataImage, PartitionImage, TopicImage};
use kafkalite_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<MetadataRequest>) {
    let Call { request, reply } = call;
    if let Some(refusal) = refused(&request, reply.version) {
        return reply.send(&refusal);
    }
    let failed = create_missing(rooms, &request);
    let image = rooms.controller.image();
    let with_operations = request.include_topic_authorized_operations;
    let brokers = image.brokers.values().map(|broker| {
        let (host, port) = endpoint(rooms, &reply.context, broker);
        MetadataResponseBroker { node_id: broker.id, host, port, rack: broker.rack.clone() }
    });
    let response = MetadataResponse {
        brokers: brokers.collect(),
        cluster_id: Some(image.cluster_id.to_string()),
        controller_id: image.controller_id,
        topics: topics(&image, &request, reply.version, &failed)
            .map(|topic| MetadataResponseTopic {
                // Kafka says nothing of what may be done to a topic that it cannot name.
                topic_authorized_operations: answer(with_operations && topic.name.is_some(), TOPIC),
                ..topic
            })
            .collect(),
        cluster_authorized_operations: answer(
            request.include_cluster_authorized_operations,
            CLUSTER,
        ),
        ..MetadataResponse::default()
    };
    reply.send(&response);
}

/// Versions 10 and 11 have room for topic ids but ask by name; a topic with neither is nobody.
fn refused(request: &MetadataRequest, version: i16) -> Option<MetadataResponse> {
    let asked = request.topics.as_deref().unwrap_or_default();
    let malformed = |topic: &MetadataRequestTopic| match version {
        ..=9 => false,
        10 | 11 => topic.name.is_none() || !topic.topic_id.is_zero(),
        _ => topic.name.is_none() && topic.topic_id.is_zero(),
    };
    asked.iter().any(malformed).then(|| {
        let topics = asked.iter().map(|topic| MetadataResponseTopic {
            error_code: ErrorCode::InvalidRequest.code(),
            name: Some(topic.name.clone().unwrap_or_default()),
            topic_id: topic.topic_id,
            ..MetadataResponseTopic::default()
        });
        MetadataResponse { topics: topics.collect(), ..MetadataResponse::default() }
    })
}

/// Makes the topics that are asked for and are not there; says of which ones it could not.
fn create_missing(rooms: &Rooms, request: &MetadataRequest) -> BTreeMap<String, ErrorCode> {
    let enabled = rooms.config().auto_create_topics_enable && request.allow_auto_topic_creation;
    let asked = request.topics.as_deref().unwrap_or_default();
    if !enabled || asked.iter().any(|topic| !topic.topic_id.is_zero()) {
        return BTreeMap::new();
    }
    let image = rooms.controller.image();
    let missing: Vec<&str> = (asked.iter().filter_map(|topic| topic.name.as_deref()))
        .filter(|name| image.topic(name).is_none() && invalid_topic_name(name).is_none())
        .collect();
    let answers = rooms.controller.create_automatically(&missing, &rooms.config());
    let failed = missing.iter().zip(answers);
    failed.filter_map(|(name, answer)| Some(((*name).to_owned(), answer.err()?.code))).collect()
}

fn topics<'a>(
    image: &'a MetadataImage,
    request: &'a MetadataRequest,
    version: i16,
    failed: &'a BTreeMap<String, ErrorCode>,
) -> Box<dyn Iterator<Item = MetadataResponseTopic> + 'a> {
    let asked = match &request.topics {
        Some(asked) if version > 0 || !asked.is_empty() => asked,
        // Version 0 has no null: there an empty list asks for all.
        _ => return Box::new(image.topics.iter().map(|topic| found(image, topic))),
    };
    // Ids win: Kafka looks at names only where no topic of the request has an id.
    if asked.iter().any(|topic| !topic.topic_id.is_zero()) {
        let mut seen = HashSet::new();
        let ids = asked.iter().map(|topic| topic.topic_id);
        let ids = ids.filter(move |id| !id.is_zero() && seen.insert(*id));
        return Box::new(ids.map(|id| by_id(image, id)));
    }
    let mut seen = HashSet::new();
    let names = asked.iter().filter_map(|topic| topic.name.as_deref());
    let names = names.filter(move |name| seen.insert(*name));
    Box::new(names.map(|name| by_name(image, name, failed)))
}

fn by_id(image: &MetadataImage, topic_id: Uuid) -> MetadataResponseTopic {
    match image.topic_by_id(topic_id) {
        Some(topic) => found(image, topic),
        None => MetadataResponseTopic {
            error_code: ErrorCode::UnknownTopicId.code(),
            name: None,
            topic_id,
            ..MetadataResponseTopic::default()
        },
    }
}

fn by_name(
    image: &MetadataImage,
    name: &str,
    failed: &BTreeMap<String, ErrorCode>,
) -> MetadataResponseTopic {
    if let Some(topic) = image.topic(name) {
        return found(image, topic);
    }
    let error = match failed.get(name) {
        Some(error) => *error,
        None if invalid_topic_name(name).is_some() => ErrorCode::InvalidTopicException,
        None => ErrorCode::UnknownTopicOrPartition,
    };
    MetadataResponseTopic {
        error_code: error.code(),
        name: Some(name.to_owned()),
        is_internal: crate::metadata::image::INTERNAL_TOPICS.contains(&name),
        ..MetadataResponseTopic::default()
    }
}

fn found(image: &MetadataImage, topic: &Arc<TopicImage>) -> MetadataResponseTopic {
    let partitions = (0..).zip(&topic.partitions);
    MetadataResponseTopic {
        error_code: 0,
        name: Some(topic.name.to_string()),
        topic_id: topic.id,
        is_internal: topic.internal,
        partitions: partitions.map(|(index, one)| partition(image, index, one)).collect(),
        ..MetadataResponseTopic::default()
    }
}

fn partition(
    image: &MetadataImage,
    index: i32,
    partition: &PartitionImage,
) -> MetadataResponsePartition {
    let led = image.brokers.contains_key(&partition.leader);
    let error = if led { ErrorCode::None } else { ErrorCode::LeaderNotAvailable };
    MetadataResponsePartition {
        error_code: error.code(),
        partition_index: index,
        leader_id: if led { partition.leader } else { -1 },
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: partition.replicas.clone(),
        isr_nodes: partition.isr.clone(),
        offline_replicas: offline(image, partition),
    }
}

/// The replicas whose brokers are not there.
pub(super) fn offline(image: &MetadataImage, partition: &PartitionImage) -> Vec<i32> {
    let replicas = partition.replicas.iter().copied();
    replicas.filter(|id| !image.brokers.contains_key(id)).collect()
}
