//! DescribeProducers: the idempotent producers that a partition remembers.
//!
//! Source: Kafka's `UnifiedLog.activeProducers`; KIP-664.

use super::{Call, Rooms};
use crate::metadata::controller::invalid_topic_name;
use kafkalite_protocol::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState,
    TopicResponse,
};
use kafkalite_protocol::{ErrorCode, LeaderEpoch};
use std::collections::HashSet;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeProducersRequest>) {
    // A partition that is named a million times is described once, because it may have many
    // producers.
    let mut told = HashSet::new();
    let topics = call.request.topics.iter().map(|topic| TopicResponse {
        name: topic.name.clone(),
        partitions: (topic.partition_indexes.iter())
            .filter(|index| told.insert((topic.name.as_str(), **index)))
            .map(|index| describe(rooms, &topic.name, *index))
            .collect(),
    });
    let response = DescribeProducersResponse { topics: topics.collect(), ..Default::default() };
    call.reply.send(&response);
}

fn describe(rooms: &Rooms, topic: &str, index: i32) -> PartitionResponse {
    let found = match invalid_topic_name(topic) {
        Some(_) => Err(ErrorCode::InvalidTopicException),
        None => rooms.partitions.find_by_name(topic, index),
    };
    let producers = found.and_then(|partition| {
        partition.check_leader(LeaderEpoch::UNKNOWN)?;
        Ok(partition.producers())
    });
    let (error, producers) = match producers {
        Ok(producers) => (ErrorCode::None, producers),
        Err(error) => (error, Vec::new()),
    };
    let active_producers = producers.into_iter().map(|producer| ProducerState {
        producer_id: producer.producer_id,
        producer_epoch: i32::from(producer.producer_epoch),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp_ms,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.current_txn_start_offset.map_or(-1, |start| start.0),
    });
    PartitionResponse {
        partition_index: index,
        error_code: error.code(),
        active_producers: active_producers.collect(),
        ..PartitionResponse::default()
    }
}
