//! OffsetDelete: removes committed offsets of topics that the group does not read.
//!
//! Source: Kafka's `KafkaApis.handleOffsetDeleteRequest`, KIP-496.

use super::{Call, Rooms};
use crate::coordinator::TopicPartition;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
};
use std::collections::HashMap;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<OffsetDeleteRequest>) {
    let Call { request, reply } = call;
    let image = rooms.controller.image();
    let mut wanted: Vec<TopicPartition> = Vec::new();
    // Each partition is wanted once, however often it is named, and its answer told each time.
    let mut places: HashMap<(&str, i32), u32> = HashMap::new();
    let mut asked: Vec<u32> = Vec::new();
    let mut response = OffsetDeleteResponse::default();
    for topic in &request.topics {
        let partitions = topic.partitions.iter().map(|partition| {
            let partition_index = partition.partition_index;
            let error = if image.partition(&topic.name, partition_index).is_some() {
                let place = places.entry((&topic.name, partition_index)).or_insert_with(|| {
                    wanted.push((topic.name.clone(), partition_index));
                    u32::try_from(wanted.len() - 1).unwrap_or(u32::MAX)
                });
                asked.push(*place);
                ErrorCode::None
            } else {
                ErrorCode::UnknownTopicOrPartition
            };
            OffsetDeleteResponsePartition { partition_index, error_code: error.code() }
        });
        let partitions: Vec<_> = partitions.collect();
        // As in Kafka's answers: a topic is there with its partitions, or not known.
        if partitions.is_empty() && image.topic(&topic.name).is_some() {
            continue;
        }
        response.topics.push(OffsetDeleteResponseTopic { name: topic.name.clone(), partitions });
    }
    let answer = move |result: Result<Vec<ErrorCode>, ErrorCode>| match result {
        Ok(errors) => {
            let known = response
                .topics
                .iter_mut()
                .flat_map(|topic| &mut topic.partitions)
                .filter(|partition| partition.error_code == 0);
            for (partition, place) in known.zip(asked) {
                let error = errors.get(place as usize).copied();
                partition.error_code = error.unwrap_or(ErrorCode::UnknownServerError).code();
            }
            reply.send(&response);
        }
        Err(error) => {
            let error_code = error.code();
            reply.send(&OffsetDeleteResponse { error_code, ..OffsetDeleteResponse::default() });
        }
    };
    rooms.groups.delete_offsets(&request.group_id, wanted, Box::new(answer));
}
