//! OffsetFetch: where groups had read to. One group up to version 7, several after it.
//!
//! `require_stable` waits for transactions that could still change an answer; there are none.
//! Source: Kafka's `KafkaApis.handleOffsetFetchRequest`, KIP-709; topics by id from version 10 on.

use super::{Call, Rooms};
use crate::metadata::MetadataImage;
use kafkalite_protocol::messages::group_records::OffsetCommitValue;
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafkalite_protocol::{ErrorCode, Uuid};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// First version with several groups.
const BATCH_VERSION: i16 = 8;
/// First version that names topics by id.
const TOPIC_ID_VERSION: i16 = 10;
/// First version with an error for a whole group.
const GROUP_ERROR_VERSION: i16 = 2;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<OffsetFetchRequest>) {
    let Call { request, reply } = call;
    let version = reply.version;
    let image = rooms.controller.image();
    if version >= BATCH_VERSION {
        // All offsets of a group go out once, however often a request asks for them: they may be
        // many.
        let mut whole = HashSet::new();
        let mut told = Told::new();
        let groups = request.groups.into_iter();
        let once =
            groups.filter(|group| group.topics.is_some() || whole.insert(group.group_id.clone()));
        let groups = once.map(|group| fetch(rooms, &image, group, version, &mut told)).collect();
        return reply.send(&OffsetFetchResponse { groups, ..OffsetFetchResponse::default() });
    }
    let topics = request.topics.map(|topics| {
        let topic = |topic: kafkalite_protocol::messages::offset_fetch::OffsetFetchRequestTopic| {
            OffsetFetchRequestTopics {
                name: topic.name,
                partition_indexes: topic.partition_indexes,
                ..OffsetFetchRequestTopics::default()
            }
        };
        topics.into_iter().map(topic).collect()
    });
    let group = OffsetFetchRequestGroup {
        group_id: request.group_id,
        topics,
        ..OffsetFetchRequestGroup::default()
    };
    reply.send(&of_one(fetch(rooms, &image, group, version, &mut Told::new())));
}

fn fetch(
    rooms: &Rooms,
    image: &MetadataImage,
    group: OffsetFetchRequestGroup,
    version: i16,
    told: &mut Told,
) -> OffsetFetchResponseGroup {
    let found = match group.topics {
        Some(topics) => {
            fetch_asked(rooms, image, &group.group_id, once(told, &group.group_id, topics), version)
        }
        None => fetch_all(rooms, image, &group.group_id, version).map_err(|error| (error, None)),
    };
    let answer = OffsetFetchResponseGroup {
        group_id: group.group_id,
        ..OffsetFetchResponseGroup::default()
    };
    match found {
        Ok(topics) => OffsetFetchResponseGroup { topics, ..answer },
        Err((error, topics)) => OffsetFetchResponseGroup {
            error_code: error.code(),
            topics: topics.unwrap_or_default(),
            ..answer
        },
    }
}

/// Partitions that an answer tells already: group, topic by id and name, partition.
type Told = HashSet<(Arc<str>, Uuid, Arc<str>, i32)>;

/// What is asked for, each partition of a group once: its offset may come with 4 KiB of text.
fn once(
    told: &mut Told,
    group_id: &str,
    mut topics: Vec<OffsetFetchRequestTopics>,
) -> Vec<OffsetFetchRequestTopics> {
    let group: Arc<str> = Arc::from(group_id);
    for topic in &mut topics {
        let (id, name) = (topic.topic_id, Arc::<str>::from(topic.name.as_str()));
        let indexes = &mut topic.partition_indexes;
        indexes.retain(|index| told.insert((group.clone(), id, name.clone(), *index)));
    }
    topics
}

type Refused = (ErrorCode, Option<Vec<OffsetFetchResponseTopics>>);

fn fetch_asked(
    rooms: &Rooms,
    image: &MetadataImage,
    group_id: &str,
    topics: Vec<OffsetFetchRequestTopics>,
    version: i16,
) -> Result<Vec<OffsetFetchResponseTopics>, Refused> {
    let by_id = version >= TOPIC_ID_VERSION;
    let named: Vec<(String, Vec<i32>)> = topics
        .iter()
        .map(|topic| {
            let known = image.topic_by_id(topic.topic_id).filter(|_| by_id);
            let name = known.map_or_else(|| topic.name.clone(), |known| known.name.to_string());
            (name, topic.partition_indexes.clone())
        })
        .collect();
    let committed = rooms.groups.fetch(group_id, Some(&named)).map_err(|error| {
        // The first version can only say it of each partition.
        let each = || topics.iter().map(|topic| refused(topic, error)).collect();
        (error, (version < GROUP_ERROR_VERSION).then(each))
    })?;
    let answer = topics.iter().enumerate().map(|(place, topic)| {
        if by_id && image.topic_by_id(topic.topic_id).is_none() {
            return refused(topic, ErrorCode::UnknownTopicId);
        }
        let values = committed.get(place).map_or(&[][..], |(_, values)| values.as_slice());
        // Its name may be another topic's since it was looked up by its id.
        let is_asked = |id: Uuid| !by_id || id.is_zero() || id == topic.topic_id;
        let values = values.iter().filter(|(_, value)| is_asked(value.topic_id));
        let values: HashMap<i32, &OffsetCommitValue> =
            values.map(|(index, value)| (*index, value)).collect();
        let indexes = topic.partition_indexes.iter();
        let partitions = indexes.map(|index| partition(*index, values.get(index).copied()));
        topic_answer(&topic.name, topic.topic_id, partitions.collect())
    });
    Ok(answer.collect())
}

fn fetch_all(
    rooms: &Rooms,
    image: &MetadataImage,
    group_id: &str,
    version: i16,
) -> Result<Vec<OffsetFetchResponseTopics>, ErrorCode> {
    let committed = rooms.groups.fetch(group_id, None)?;
    let topics = committed.into_iter().filter_map(|(name, values)| {
        let id = image.topic(&name).map_or(Uuid::ZERO, |topic| topic.id);
        // A topic that is gone has no id to be called by.
        if version >= TOPIC_ID_VERSION && id.is_zero() {
            return None;
        }
        let partitions = values.iter().map(|(index, value)| partition(*index, Some(value)));
        Some(topic_answer(&name, id, partitions.collect()))
    });
    Ok(topics.collect())
}

fn topic_answer(
    name: &str,
    topic_id: Uuid,
    partitions: Vec<OffsetFetchResponsePartitions>,
) -> OffsetFetchResponseTopics {
    OffsetFetchResponseTopics { name: name.to_owned(), topic_id, partitions }
}

fn partition(index: i32, value: Option<&OffsetCommitValue>) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: value.map_or(-1, |value| value.offset),
        committed_leader_epoch: value.map_or(-1, |value| value.leader_epoch),
        metadata: Some(value.map_or_else(String::new, |value| value.metadata.clone())),
        error_code: 0,
    }
}

fn refused(topic: &OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics {
    let partitions = topic.partition_indexes.iter().map(|index| OffsetFetchResponsePartitions {
        error_code: error.code(),
        ..partition(*index, None)
    });
    topic_answer(&topic.name, topic.topic_id, partitions.collect())
}

/// The answer before version 8.
fn of_one(group: OffsetFetchResponseGroup) -> OffsetFetchResponse {
    let topics = group.topics.into_iter().map(|topic| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| OffsetFetchResponsePartition {
                partition_index: partition.partition_index,
                committed_offset: partition.committed_offset,
                committed_leader_epoch: partition.committed_leader_epoch,
                metadata: partition.metadata,
                error_code: partition.error_code,
            })
            .collect(),
    });
    OffsetFetchResponse {
        topics: topics.collect(),
        error_code: group.error_code,
        ..OffsetFetchResponse::default()
    }
}
