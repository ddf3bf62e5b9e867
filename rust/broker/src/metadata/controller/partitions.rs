//! Adding partitions to a topic.
//!
//! Source: Kafka's `ReplicationControlManager`, its error codes and its words.

use super::super::error::ApiError;
use super::super::image::{MetadataImage, TopicImage};
use super::super::records::{CreatePartitionsRecord, MetadataRecord, PartitionRecord};
use super::Decision;
use super::placement::{assigned, place};
use super::topics::{MAX_PARTITIONS_PER_REQUEST, excessive};
use kafkalite_protocol::{ErrorCode, Uuid};

/// A request for more partitions.
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
    // Counted before anything is built for them.
    if topics.iter().map(|topic| partitions_asked(image, topic)).sum::<usize>()
        > MAX_PARTITIONS_PER_REQUEST
    {
        return (Vec::new(), vec![Err(excessive()); topics.len()]);
    }
    let mut records = Vec::new();
    let mut turn = image.topics.partition_count();
    let answers = topics.iter().map(|topic| {
        added(image, topic, turn).map(|(topic_id, partitions)| {
            turn += partitions.len();
            let record = CreatePartitionsRecord { topic_id, partitions };
            records.push(MetadataRecord::CreatePartitions(record));
        })
    });
    let answers = answers.collect();
    (records, answers)
}

/// How many partitions a topic would get more; none if there is no such topic.
fn partitions_asked(image: &MetadataImage, asked: &NewPartitions) -> usize {
    let present = image.topic(&asked.name).map(|topic| topic.partition_count());
    let more = present.map_or(0, |present| asked.count.saturating_sub(present));
    usize::try_from(more).unwrap_or(0)
}

fn added(
    image: &MetadataImage,
    asked: &NewPartitions,
    turn: usize,
) -> Result<(Uuid, Vec<PartitionRecord>), ApiError> {
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
    let partitions = match &asked.assignments {
        None => place(image, turn, more, replication_factor(topic))?,
        Some(assignments) => by_hand(image, topic, more, assignments)?,
    };
    Ok((topic.id, partitions))
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
    let indexes = topic.partition_count()..;
    let placed = indexes.zip(assignments);
    placed.map(|(index, replicas)| assigned(image, index, replicas, expected)).collect()
}
