//! Adding partitions to a topic.
//!
//! Source: Kafka's `ReplicationControlManager`, its error codes and its words.

use super::super::error::ApiError;
use super::super::image::{MetadataImage, TopicImage};
use super::super::records::{MetadataRecord, PartitionRecord};
use super::Decision;
use super::placement::{new_partition, place, validate_assignment};
use super::topics::MAX_PARTITIONS_PER_REQUEST;
use kafkalite_protocol::ErrorCode;

/// More partitions that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPartitions {
    /// The topic's name.
    pub name: String,
    /// How many it shall have in all.
    pub count: i32,
    /// Broker ids for each new one; `None` leaves the choice to us.
    pub assignments: Option<Vec<Vec<i32>>>,
}

/// Decides which of `topics` get more partitions.
pub fn create_partitions(image: &MetadataImage, topics: &[NewPartitions]) -> Decision<()> {
    let mut records = Vec::new();
    let mut answers = Vec::with_capacity(topics.len());
    let mut total = 0;
    for topic in topics {
        answers.push(added(image, topic).map(|(topic_id, partitions)| {
            total += partitions.len();
            records.push(MetadataRecord::CreatePartitions { topic_id, partitions });
        }));
    }
    if total > MAX_PARTITIONS_PER_REQUEST {
        let message = "Excessively large number of partitions per request.";
        let error = ApiError::new(ErrorCode::PolicyViolation, message);
        return (Vec::new(), topics.iter().map(|_| Err(error.clone())).collect());
    }
    (records, answers)
}

fn added(
    image: &MetadataImage,
    asked: &NewPartitions,
) -> Result<([u8; 16], Vec<PartitionRecord>), ApiError> {
    let topic = image.topic(&asked.name).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let present = topic.partition_count();
    let refuse = |message: String| Err(ApiError::new(ErrorCode::InvalidPartitions, message));
    if asked.count == present {
        return refuse(format!("Topic already has {present} partition(s)."));
    }
    if asked.count < present {
        return refuse(format!(
            "The topic {} currently has {present} partition(s); {} would not be an increase.",
            asked.name, asked.count
        ));
    }
    let more = asked.count - present;
    if usize::try_from(more).is_ok_and(|more| more > MAX_PARTITIONS_PER_REQUEST) {
        let message = "Excessively large number of partitions per request.";
        return Err(ApiError::new(ErrorCode::PolicyViolation, message));
    }
    let partitions = match &asked.assignments {
        None => place(image, present, more, replication_factor(topic))?,
        Some(assignments) => by_hand(image, topic, more, assignments)?,
    };
    Ok((topic.id.0, partitions))
}

fn replication_factor(topic: &TopicImage) -> i16 {
    let replicas = topic.partitions.first().map_or(1, |partition| partition.replicas.len());
    i16::try_from(replicas).unwrap_or(i16::MAX)
}

fn by_hand(
    image: &MetadataImage,
    topic: &TopicImage,
    more: i32,
    assignments: &[Vec<i32>],
) -> Result<Vec<PartitionRecord>, ApiError> {
    if i32::try_from(assignments.len()).ok() != Some(more) {
        let message = format!(
            "Attempted to add {more} additional partition(s), but only {} assignment(s) were \
             specified.",
            assignments.len()
        );
        return Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    let expected = usize::try_from(replication_factor(topic)).ok();
    for replicas in assignments {
        validate_assignment(image, replicas, expected)?;
    }
    Ok(assignments.iter().map(|replicas| new_partition(replicas.clone())).collect())
}
