//! ListPartitionReassignments: which partitions are on their way to other brokers.
//!
//! Source: Kafka's `ReplicationControlManager.listPartitionReassignments`, KIP-455.

use super::{Call, Rooms};
use crate::metadata::TopicImage;
use kafkalite_protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use std::collections::{BTreeMap, HashSet};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<ListPartitionReassignmentsRequest>) {
    let Call { request, reply } = call;
    let image = rooms.controller.image();
    let topics = match &request.topics {
        None => image.topics.iter().filter_map(|topic| ongoing(topic, |_| true)).collect(),
        Some(asked) => {
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
    };
    reply.send(&ListPartitionReassignmentsResponse {
        error_message: None,
        topics,
        ..Default::default()
    });
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
