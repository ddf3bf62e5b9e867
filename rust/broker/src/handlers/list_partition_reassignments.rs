//! ListPartitionReassignments: which partitions are on their way to other brokers.
//!
//! Source: Kafka's `ReplicationControlManager.listPartitionReassignments`, KIP-455.

use super::parked_change::{NO_TIMEOUT_MS, park};
use super::{Call, Rooms};
use crate::metadata::{MetadataImage, TopicImage};
use kafkalite_protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use std::collections::{BTreeMap, HashSet};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ListPartitionReassignmentsRequest>) {
    let Call { request, reply } = call;
    let timeout_ms = u64::try_from(request.timeout_ms).ok().filter(|timeout_ms| *timeout_ms > 0);
    // A change that changes nothing. The image of this broker may be behind, and a move that is not
    // in it looks as if it were complete.
    let list = move |image: &MetadataImage| (Vec::new(), asked(image, &request));
    let ask = |done| rooms.controller.change_whole(list, done);
    park(rooms, reply.memory_bytes, timeout_ms.unwrap_or(NO_TIMEOUT_MS), ask, move |listed| {
        let response = match listed.flatten() {
            Ok(topics) => ListPartitionReassignmentsResponse { topics, ..Default::default() },
            Err(error) => ListPartitionReassignmentsResponse {
                error_code: error.code.code(),
                error_message: error.message,
                ..Default::default()
            },
        };
        reply.send(&response);
    });
}

/// The moves of the partitions that the request names, or of all.
fn asked(
    image: &MetadataImage,
    request: &ListPartitionReassignmentsRequest,
) -> Vec<OngoingTopicReassignment> {
    let Some(asked) = &request.topics else {
        return image.topics.iter().filter_map(|topic| ongoing(topic, |_| true)).collect();
    };
    // A topic that is named many times is looked at once.
    let mut named: BTreeMap<&str, HashSet<i32>> = BTreeMap::new();
    for topic in asked {
        named.entry(&topic.name).or_default().extend(&topic.partition_indexes);
    }
    let topics = named.into_iter().filter_map(|(name, indexes)| {
        ongoing(image.topic(name)?, |index| indexes.contains(&index))
    });
    topics.collect()
}

fn ongoing(topic: &TopicImage, asked: impl Fn(i32) -> bool) -> Option<OngoingTopicReassignment> {
    let partitions: Vec<_> = ((0..).zip(&topic.partitions))
        .filter(|(index, partition)| asked(*index) && partition.is_moving())
        .map(|(partition_index, partition)| OngoingPartitionReassignment {
            partition_index,
            replicas: partition.replicas.clone(),
            adding_replicas: partition.adding_replicas.clone(),
            removing_replicas: partition.removing_replicas.clone(),
        })
        .collect();
    let name = topic.name.to_string();
    (!partitions.is_empty()).then_some(OngoingTopicReassignment { name, partitions })
}
