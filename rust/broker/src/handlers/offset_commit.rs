//! OffsetCommit: where a group has read to. Answered when the record is committed.
//!
//! Source: Kafka's `KafkaApis.handleOffsetCommitRequest`; topics by id from version 10 on
//! (KIP-848).

use super::{Call, Rooms};
use crate::coordinator::{Commit, Committer};
use crate::metadata::MetadataImage;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestTopic, OffsetCommitResponse,
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use std::sync::Arc;

/// First version that names topics by id.
const TOPIC_ID_VERSION: i16 = 10;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<OffsetCommitRequest>) {
    let Call { request, reply } = call;
    let who = Committer {
        group_id: request.group_id,
        generation: request.generation_id_or_member_epoch,
        member_id: request.member_id,
        group_instance_id: request.group_instance_id,
        retention_time_ms: request.retention_time_ms,
        version: reply.version,
    };
    let (mut response, commits) = judge(&rooms.controller.image(), request.topics, reply.version);
    if commits.is_empty() {
        return reply.send(&response);
    }
    let answer = move |errors: Vec<ErrorCode>| {
        let accepted = response
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions)
            .filter(|partition| partition.error_code == 0);
        for (partition, error) in accepted.zip(errors) {
            partition.error_code = error.code();
        }
        reply.send(&response);
    };
    rooms.groups.commit(who, commits, Box::new(answer));
}

/// The answer with the errors that metadata shows, and what is left to commit, in order.
fn judge(
    image: &MetadataImage,
    topics: Vec<OffsetCommitRequestTopic>,
    version: i16,
) -> (OffsetCommitResponse, Vec<Commit>) {
    let mut response = OffsetCommitResponse::default();
    let mut commits = Vec::new();
    for topic in topics {
        let (known, unknown) = if version >= TOPIC_ID_VERSION {
            (image.topic_by_id(topic.topic_id), ErrorCode::UnknownTopicId)
        } else {
            (image.topic(&topic.name), ErrorCode::UnknownTopicOrPartition)
        };
        // As in Kafka's answers: a topic is there with its partitions, or not known.
        if topic.partitions.is_empty() && known.is_some() {
            continue;
        }
        let mut answer = OffsetCommitResponseTopic {
            name: topic.name.clone(),
            topic_id: topic.topic_id,
            partitions: Vec::with_capacity(topic.partitions.len()),
        };
        for partition in topic.partitions {
            let index = partition.partition_index;
            let error = match known.map(|known| known.partition(index)) {
                None => unknown,
                Some(None) => ErrorCode::UnknownTopicOrPartition,
                Some(Some(_)) => ErrorCode::None,
            };
            answer.partitions.push(OffsetCommitResponsePartition {
                partition_index: index,
                error_code: error.code(),
            });
            if let Some(known) = known.filter(|_| error == ErrorCode::None) {
                commits.push(Commit {
                    topic: Arc::clone(&known.name),
                    topic_id: known.id,
                    partition: index,
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata,
                });
            }
        }
        response.topics.push(answer);
    }
    (response, commits)
}
