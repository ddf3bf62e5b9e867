//! Making and deleting topics.
//!
//! Source: Kafka's `ReplicationControlManager`, its error codes and its words.

use super::super::error::ApiError;
use super::super::image::{CLUSTER_METADATA_TOPIC, Configs, MetadataImage};
use super::super::records::{
    CreateTopicRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicConfig,
};
use super::Decision;
use super::configs::ConfigRules;
use super::names::{TakenNames, invalid_topic_name};
use super::placement::{assigned, place};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Partitions that one request may make at most; as in Kafka.
pub const MAX_PARTITIONS_PER_REQUEST: usize = 10_000;

/// A request for a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions; -1 is the default.
    pub num_partitions: i32,
    /// On how many brokers each; -1 is the default.
    pub replication_factor: i16,
    /// Partition -> broker ids, instead of the two numbers.
    pub assignments: Vec<(i32, Vec<i32>)>,
    /// Configs to set.
    pub configs: Vec<(String, Option<String>)>,
}

/// What stands in for -1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicDefaults {
    /// `num.partitions`.
    pub num_partitions: i32,
    /// `default.replication.factor`.
    pub replication_factor: i16,
}

/// A topic as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: Uuid,
    /// How many partitions it has.
    pub num_partitions: i32,
    /// On how many brokers each.
    pub replication_factor: i16,
    /// What was set on it.
    pub configs: Arc<Configs>,
}

/// Which topic is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TopicName {
    /// The one of this name.
    Name(String),
    /// The one with this id.
    Id(Uuid),
}

/// The refusal of a request that asks for more than [`MAX_PARTITIONS_PER_REQUEST`].
pub fn excessive() -> ApiError {
    let message = "Excessively large number of partitions per request.";
    ApiError::new(ErrorCode::PolicyViolation, message)
}

/// Decides which of `topics` are made; `ids` has one for each.
pub fn create_topics(
    image: &MetadataImage,
    topics: &[NewTopic],
    ids: &[Uuid],
    defaults: TopicDefaults,
    rules: &dyn ConfigRules,
) -> Decision<CreatedTopic> {
    let mut records = Vec::new();
    let mut names = HashSet::new();
    let mut answers = Vec::with_capacity(topics.len());
    if topics.iter().map(|topic| partitions_asked(topic, defaults)).sum::<usize>()
        > MAX_PARTITIONS_PER_REQUEST
    {
        return (records, vec![Err(excessive()); topics.len()]);
    }
    let taken = TakenNames::of(image, topics.len());
    let mut turn = image.topics.partition_count();
    for (topic, id) in topics.iter().zip(ids) {
        let decided =
            create_topic(image, &taken, topic, *id, turn, defaults, rules).and_then(|made| {
                // Two new names may collide with each other as well as with an old one.
                if names.insert(topic.name.replace('.', "_")) {
                    return Ok(made);
                }
                Err(collision(&topic.name, "another topic of this request"))
            });
        answers.push(decided.map(|(record, created)| {
            turn += usize::try_from(created.num_partitions).unwrap_or(0);
            records.push(record);
            created
        }));
    }
    (records, answers)
}

/// How many partitions a topic would get; counted before anything is built for them.
fn partitions_asked(topic: &NewTopic, defaults: TopicDefaults) -> usize {
    let by_number =
        if topic.num_partitions == -1 { defaults.num_partitions } else { topic.num_partitions };
    topic.assignments.len().max(usize::try_from(by_number).unwrap_or(0))
}

fn create_topic(
    image: &MetadataImage,
    taken: &TakenNames<'_>,
    topic: &NewTopic,
    id: Uuid,
    turn: usize,
    defaults: TopicDefaults,
    rules: &dyn ConfigRules,
) -> Result<(MetadataRecord, CreatedTopic), ApiError> {
    let name = &topic.name;
    if let Some(reason) = invalid_topic_name(name) {
        let message = format!("Topic name is invalid: {reason}");
        return Err(ApiError::new(ErrorCode::InvalidTopicException, message));
    }
    if name == CLUSTER_METADATA_TOPIC {
        let message = format!("Creation of internal topic {name} is prohibited.");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    if image.topic(name).is_some() {
        let message = format!("Topic '{name}' already exists.");
        return Err(ApiError::new(ErrorCode::TopicAlreadyExists, message));
    }
    if let Some(other) = taken.collides(name) {
        return Err(collision(name, &other));
    }
    let configs = rules.new_topic_configs(image, &topic.configs)?;
    let partitions = if topic.assignments.is_empty() {
        place_by_numbers(image, topic, turn, defaults)?
    } else {
        place_by_hand(image, topic)?
    };
    let replication_factor = partitions.first().map_or(0, |partition| partition.replicas.len());
    let created = CreatedTopic {
        name: name.clone(),
        id,
        num_partitions: i32::try_from(partitions.len()).unwrap_or(i32::MAX),
        replication_factor: i16::try_from(replication_factor).unwrap_or(i16::MAX),
        configs: Arc::new(configs.clone()),
    };
    let configs = configs.into_iter().map(|(name, value)| TopicConfig { name, value }).collect();
    let record = CreateTopicRecord { name: name.clone(), topic_id: id, partitions, configs };
    Ok((MetadataRecord::CreateTopic(record), created))
}

fn collision(name: &str, other: &str) -> ApiError {
    let message = format!("Topic '{name}' collides with existing topic: {other}");
    ApiError::new(ErrorCode::InvalidTopicException, message)
}

fn place_by_numbers(
    image: &MetadataImage,
    topic: &NewTopic,
    turn: usize,
    defaults: TopicDefaults,
) -> Result<Vec<PartitionRecord>, ApiError> {
    if topic.replication_factor < -1 || topic.replication_factor == 0 {
        let message = "Replication factor must be larger than 0, or -1 to use the default value.";
        return Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message));
    }
    if topic.num_partitions < -1 || topic.num_partitions == 0 {
        let message = "Number of partitions was set to an invalid non-positive value.";
        return Err(ApiError::new(ErrorCode::InvalidPartitions, message));
    }
    let replication_factor = match topic.replication_factor {
        -1 => defaults.replication_factor,
        asked => asked,
    };
    let count = match topic.num_partitions {
        -1 => defaults.num_partitions,
        asked => asked,
    };
    place(image, turn, count, replication_factor)
}

fn place_by_hand(
    image: &MetadataImage,
    topic: &NewTopic,
) -> Result<Vec<PartitionRecord>, ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    if topic.replication_factor != -1 {
        return invalid(
            "A manual partition assignment was specified, but replication factor was not set to \
             -1.",
        );
    }
    if topic.num_partitions != -1 {
        return invalid(
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        );
    }
    let mut replication_factor = None;
    let mut by_index = BTreeMap::new();
    for (index, replicas) in &topic.assignments {
        if by_index.contains_key(index) {
            let message =
                format!("Found multiple manual partition assignments for partition {index}");
            return Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
        }
        let partition = assigned(image, *index, replicas, replication_factor)?;
        replication_factor = Some(replicas.len());
        by_index.insert(*index, partition);
    }
    if !by_index.keys().copied().eq(0..i32::try_from(by_index.len()).unwrap_or(i32::MAX)) {
        let message = "partitions should be a consecutive 0-based integer sequence";
        return Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    Ok(by_index.into_values().collect())
}

/// Decides which of `topics` go.
pub fn delete_topics(image: &MetadataImage, topics: &[TopicName]) -> Decision<(String, Uuid)> {
    let mut gone = HashSet::new();
    let mut records = Vec::new();
    let answers = topics
        .iter()
        .map(|topic| {
            let (found, unknown) = match topic {
                TopicName::Name(name) => (image.topic(name), ErrorCode::UnknownTopicOrPartition),
                TopicName::Id(id) => (image.topic_by_id(*id), ErrorCode::UnknownTopicId),
            };
            let found = found.ok_or_else(|| ApiError::from(unknown))?;
            if gone.insert(found.id) {
                let record = RemoveTopicRecord { topic_id: found.id };
                records.push(MetadataRecord::RemoveTopic(record));
            }
            Ok((found.name.to_string(), found.id))
        })
        .collect();
    (records, answers)
}
