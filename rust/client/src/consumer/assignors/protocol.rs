//! What members tell each other, as bytes: subscriptions, assignments, and the data of the sticky
//! assignors.
//!
//! A subscription and an assignment begin with their version. A version newer than ours is read
//! as the newest we know: fields are only ever added at the end.
//! ```text
//! sticky:             [ topic string, [ partition i32 ] ] | generation i32, missing in old members
//! cooperative-sticky: generation i32
//! ```
//! Source: Kafka's `ConsumerProtocol`; `StickyAssignorUserData`, `CooperativeStickyAssignor`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::messages::Versioned;
use kafkalite_protocol::messages::consumer_protocol::{
    AssignedTopic, ConsumerProtocolAssignment, ConsumerProtocolSubscription,
    TopicPartition as OwnedTopic,
};
use kafkalite_protocol::{DecodeError, Reader, Writer};

use super::MemberSubscription;
use crate::topic_partition::TopicPartition;

/// A generation that is not known.
pub const NO_GENERATION: i32 = -1;

/// A member's subscription in the newest version.
#[must_use]
pub fn encode_subscription(member: &MemberSubscription) -> Bytes {
    let owned = by_topic(&member.owned)
        .into_iter()
        .map(|(topic, partitions)| OwnedTopic { topic: topic.to_string(), partitions })
        .collect();
    let message = ConsumerProtocolSubscription {
        topics: member.topics.iter().map(ToString::to_string).collect(),
        user_data: member.user_data.clone(),
        owned_partitions: owned,
        generation_id: member.generation,
        rack_id: member.rack.clone(),
    };
    with_version(&message, ConsumerProtocolSubscription::VERSIONS.max)
}

/// What the member with this id said.
///
/// # Errors
/// If the bytes end early or a length in them is not possible.
pub fn decode_subscription(
    member_id: &str,
    instance_id: Option<&str>,
    bytes: Bytes,
) -> Result<MemberSubscription, DecodeError> {
    let (version, message) = versioned::<ConsumerProtocolSubscription>(bytes)?;
    let owned = message.owned_partitions.into_iter().flat_map(|topic| {
        let name: Arc<str> = topic.topic.into();
        topic.partitions.into_iter().map(move |number| TopicPartition::new(name.clone(), number))
    });
    Ok(MemberSubscription {
        member_id: member_id.to_owned(),
        instance_id: instance_id.map(str::to_owned),
        topics: message.topics.into_iter().map(Into::into).collect(),
        owned: owned.collect(),
        generation: message.generation_id,
        user_data: message.user_data,
        rack: message.rack_id,
        version,
    })
}

/// An assignment in a version that a member understands.
#[must_use]
pub fn encode_assignment(version: i16, partitions: &[TopicPartition]) -> Bytes {
    let assigned = by_topic(partitions)
        .into_iter()
        .map(|(topic, partitions)| AssignedTopic { topic: topic.to_string(), partitions })
        .collect();
    let message = ConsumerProtocolAssignment { assigned_partitions: assigned, user_data: None };
    let VersionBounds { min, max } = VersionBounds::of::<ConsumerProtocolAssignment>();
    with_version(&message, version.clamp(min, max))
}

/// The partitions of an assignment. No bytes at all are no partitions, as some leaders send it.
///
/// # Errors
/// If the bytes end early, or a partition is negative.
pub fn decode_assignment(bytes: Bytes) -> Result<Vec<TopicPartition>, DecodeError> {
    if bytes.is_empty() {
        return Ok(Vec::new());
    }
    let (_, message) = versioned::<ConsumerProtocolAssignment>(bytes)?;
    let mut partitions = Vec::new();
    for topic in message.assigned_partitions {
        let name: Arc<str> = topic.topic.into();
        for number in topic.partitions {
            if number < 0 {
                return Err(DecodeError::InvalidLength { length: number.into() });
            }
            partitions.push(TopicPartition::new(name.clone(), number));
        }
    }
    Ok(partitions)
}

struct VersionBounds {
    min: i16,
    max: i16,
}

impl VersionBounds {
    fn of<M: Versioned>() -> Self {
        Self { min: M::VERSIONS.min, max: M::VERSIONS.max }
    }
}

fn with_version<M: Versioned>(message: &M, version: i16) -> Bytes {
    let mut writer = Writer::new();
    writer.i16(version);
    message.encode(&mut writer, version);
    writer.into_bytes()
}

fn versioned<M: Versioned>(bytes: Bytes) -> Result<(i16, M), DecodeError> {
    let mut reader = Reader::new(bytes);
    let version = reader.i16()?;
    if version < 0 {
        return Err(DecodeError::InvalidLength { length: version.into() });
    }
    let known = version.min(VersionBounds::of::<M>().max);
    Ok((known, M::decode(&mut reader, known)?))
}

fn by_topic(partitions: &[TopicPartition]) -> BTreeMap<&Arc<str>, Vec<i32>> {
    let mut topics: BTreeMap<&Arc<str>, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    for numbers in topics.values_mut() {
        numbers.sort_unstable();
    }
    topics
}

/// What a member of the sticky assignor had last, and since when.
#[must_use]
pub fn sticky_data(last: &[TopicPartition], generation: i32) -> Bytes {
    let topics = by_topic(last);
    let mut writer = Writer::new();
    writer.array_len(topics.len(), false);
    for (topic, partitions) in topics {
        writer.string(topic, false);
        writer.array_len(partitions.len(), false);
        for partition in partitions {
            writer.i32(partition);
        }
    }
    writer.i32(generation);
    writer.into_bytes()
}

/// Reads [`sticky_data`]; what cannot be read counts as nothing, as in Kafka.
#[must_use]
pub fn read_sticky_data(data: Option<&Bytes>) -> (Vec<TopicPartition>, i32) {
    let read = |bytes: &Bytes| -> Result<_, DecodeError> {
        let mut reader = Reader::new(bytes.clone());
        let mut last = Vec::new();
        for _ in 0..reader.array_len(false)? {
            let topic: Arc<str> = reader.string(false)?.into();
            let count = reader.array_len(false)?;
            for number in reader.elements(count, Reader::i32)? {
                last.push(TopicPartition::new(topic.clone(), number));
            }
        }
        // Members from before KIP-341 end here.
        let generation = if reader.remaining() >= 4 { reader.i32()? } else { NO_GENERATION };
        Ok((last, generation))
    };
    data.and_then(|bytes| read(bytes).ok()).unwrap_or((Vec::new(), NO_GENERATION))
}

/// The generation of a member of the cooperative-sticky assignor.
#[must_use]
pub fn cooperative_data(generation: i32) -> Bytes {
    Bytes::copy_from_slice(&generation.to_be_bytes())
}

/// Reads [`cooperative_data`].
#[must_use]
pub fn read_cooperative_data(data: Option<&Bytes>) -> i32 {
    data.and_then(|bytes| Reader::new(bytes.clone()).i32().ok()).unwrap_or(NO_GENERATION)
}
