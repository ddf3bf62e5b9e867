//! Metadata: brokers, topics, partitions, and who leads them. Topics that are not there are made
//! when allowed.
//!
//! The request that creates a topic gets UNKNOWN_TOPIC_OR_PARTITION, as in Kafka, whose controller
//! is elsewhere. Clients ask again, and some tests rely on the topic being absent. It is answered
//! when the topic is made, so that a client that asks again finds it.
//! Source: Kafka's `KafkaApis.handleTopicMetadataRequest`, KIP-516 for topic ids, KIP-430 for the
//! operations.

use super::authorized_operations::{Resource, answer as operations};
use super::endpoint::endpoint;
use super::parked_change::park;
use super::{Call, Reply, Rooms};
use crate::metadata::controller::{MAX_PARTITIONS_PER_REQUEST, invalid_topic_name};
use crate::metadata::{ApiError, MetadataImage, PartitionImage, TopicImage};
use kafkalite_protocol::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::HashSet;
use std::sync::Arc;

/// How long a request waits at most for the topics that it makes; what is made later is there when
/// the client asks again.
const AUTO_CREATION_TIMEOUT_MS: u64 = 30_000;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<MetadataRequest>) {
    let Call { request, reply } = call;
    if is_malformed(&request, reply.version) {
        let topics = request.topics.unwrap_or_default().into_iter();
        let refused = topics.map(|topic| MetadataResponseTopic {
            error_code: ErrorCode::InvalidRequest.code(),
            name: Some(topic.name.unwrap_or_default()),
            topic_id: topic.topic_id,
            ..MetadataResponseTopic::default()
        });
        return reply.send_each(&MetadataResponse::default(), refused);
    }
    // Of before the topics are made that are not there.
    let image = rooms.controller.image();
    let brokers = image.alive_brokers().map(|broker| {
        let (host, port) = endpoint(rooms, &reply.context, broker);
        MetadataResponseBroker { node_id: broker.id, host, port, rack: broker.rack.clone() }
    });
    let seen = Seen { brokers: brokers.collect(), gone: rooms.cluster.gone(&image), image };
    let missing = missing(rooms, &asked(&request, reply.version), &seen.image, &request);
    if missing.is_empty() {
        return answer(reply, &request, seen);
    }
    let (names, config) = (missing.clone(), rooms.config());
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let ask = |done| rooms.controller.create_automatically(&names, &config, done);
    park(rooms, reply.memory_bytes, AUTO_CREATION_TIMEOUT_MS, ask, move |answers| {
        report(&missing, answers);
        answer(reply, &request, seen);
    });
}

/// What a request sees.
struct Seen {
    image: Arc<MetadataImage>,
    brokers: Vec<MetadataResponseBroker>,
    /// Brokers that the image has alive, and whose processes are gone.
    gone: Vec<i32>,
}

impl Seen {
    /// Whether a client can be sent to this leader.
    fn has_leader(&self, leader: i32) -> bool {
        self.image.is_alive(leader) && !self.gone.contains(&leader)
    }
}

/// Logs the topics that could not be created.
fn report(missing: &[String], answers: Result<Vec<Result<(), ApiError>>, ApiError>) {
    let answers = answers.unwrap_or_else(|error| vec![Err(error); missing.len()]);
    let refused = missing.iter().zip(answers);
    for (topic, refused) in refused.filter_map(|(topic, answer)| Some((topic, answer.err()?))) {
        tracing::debug!(topic, error = refused.code.name(), "a topic is not made");
    }
}

fn answer(reply: Reply<MetadataRequest>, request: &MetadataRequest, mut seen: Seen) {
    let brokers = std::mem::take(&mut seen.brokers);
    let image = &seen.image;
    let asked = asked(request, reply.version);
    let with_operations = request.include_topic_authorized_operations;
    let response = MetadataResponse {
        brokers,
        cluster_id: Some(image.cluster_id.to_string()),
        controller_id: image.controller_id,
        cluster_authorized_operations: operations(
            request.include_cluster_authorized_operations,
            Resource::Cluster,
        ),
        ..MetadataResponse::default()
    };
    let count = match &asked {
        Asked::All => image.topics.len(),
        Asked::Ids(ids) => ids.len(),
        Asked::Names(names) => names.len(),
    };
    let mut all = image.topics.iter();
    let topics = (0..count).map(|place| {
        let topic = match &asked {
            Asked::All => all.next().map(|topic| found(&seen, topic)).unwrap_or_default(),
            Asked::Ids(ids) => by_id(&seen, ids[place]),
            Asked::Names(names) => by_name(&seen, names[place]),
        };
        MetadataResponseTopic {
            // Kafka says nothing of what may be done to a topic that it cannot name.
            topic_authorized_operations: operations(
                with_operations && topic.name.is_some(),
                Resource::Topic,
            ),
            ..topic
        }
    });
    reply.send_each(&response, topics);
}

/// Versions 10 and 11 have room for topic ids but ask by name; a topic with neither is invalid.
fn is_malformed(request: &MetadataRequest, version: i16) -> bool {
    let asked = request.topics.as_deref().unwrap_or_default();
    asked.iter().any(|topic| match version {
        ..=9 => false,
        10 | 11 => topic.name.is_none() || !topic.topic_id.is_zero(),
        _ => topic.name.is_none() && topic.topic_id.is_zero(),
    })
}

/// What a request asks for, each topic once.
enum Asked<'a> {
    All,
    Ids(Vec<Uuid>),
    Names(Vec<&'a str>),
}

fn asked(request: &MetadataRequest, version: i16) -> Asked<'_> {
    let asked = match &request.topics {
        Some(asked) if version > 0 || !asked.is_empty() => asked,
        // Version 0 has no null: there an empty list asks for all.
        _ => return Asked::All,
    };
    // Ids win: Kafka looks at names only where no topic of the request has an id.
    if asked.iter().any(|topic| !topic.topic_id.is_zero()) {
        let mut seen = HashSet::new();
        let ids = asked.iter().map(|topic| topic.topic_id);
        return Asked::Ids(ids.filter(|id| !id.is_zero() && seen.insert(*id)).collect());
    }
    let mut seen = HashSet::new();
    let names = asked.iter().filter_map(|topic| topic.name.as_deref());
    Asked::Names(names.filter(|name| seen.insert(*name)).collect())
}

/// The topics to make: those that are asked for and are not in `image`. One that cannot be made is
/// answered like one that is being made, as in Kafka.
fn missing(
    rooms: &Rooms,
    asked: &Asked<'_>,
    image: &MetadataImage,
    request: &MetadataRequest,
) -> Vec<String> {
    let Asked::Names(names) = asked else { return Vec::new() };
    if !request.allow_auto_topic_creation || !rooms.config().auto_create_topics_enable {
        return Vec::new();
    }
    let missing = names.iter().copied();
    let missing = missing.filter(|name| image.topic(name).is_none() && is_valid(name));
    // Each has a partition at least, so the controller would refuse them all, one by one.
    if missing.clone().nth(MAX_PARTITIONS_PER_REQUEST).is_some() {
        tracing::debug!("a request asks for more topics than may be made at once");
        return Vec::new();
    }
    missing.map(str::to_owned).collect()
}

fn is_valid(name: &str) -> bool {
    invalid_topic_name(name).is_none()
}

fn by_id(seen: &Seen, topic_id: Uuid) -> MetadataResponseTopic {
    match seen.image.topic_by_id(topic_id) {
        Some(topic) => found(seen, topic),
        None => MetadataResponseTopic {
            error_code: ErrorCode::UnknownTopicId.code(),
            name: None,
            topic_id,
            ..MetadataResponseTopic::default()
        },
    }
}

fn by_name(seen: &Seen, name: &str) -> MetadataResponseTopic {
    if let Some(topic) = seen.image.topic(name) {
        return found(seen, topic);
    }
    let error = if is_valid(name) {
        ErrorCode::UnknownTopicOrPartition
    } else {
        ErrorCode::InvalidTopicException
    };
    MetadataResponseTopic {
        error_code: error.code(),
        name: Some(name.to_owned()),
        is_internal: crate::metadata::image::INTERNAL_TOPICS.contains(&name),
        ..MetadataResponseTopic::default()
    }
}

fn found(seen: &Seen, topic: &Arc<TopicImage>) -> MetadataResponseTopic {
    let partitions = (0..).zip(&topic.partitions);
    MetadataResponseTopic {
        error_code: 0,
        name: Some(topic.name.to_string()),
        topic_id: topic.id,
        is_internal: topic.internal,
        partitions: partitions.map(|(index, one)| partition(seen, index, one)).collect(),
        ..MetadataResponseTopic::default()
    }
}

fn partition(seen: &Seen, index: i32, partition: &PartitionImage) -> MetadataResponsePartition {
    let led = seen.has_leader(partition.leader);
    let error = if led { ErrorCode::None } else { ErrorCode::LeaderNotAvailable };
    MetadataResponsePartition {
        error_code: error.code(),
        partition_index: index,
        leader_id: if led { partition.leader } else { -1 },
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: partition.replicas.clone(),
        isr_nodes: partition.isr.clone(),
        offline_replicas: seen.image.offline_replicas(partition),
    }
}
