//! Faults of the APIs that commit and fetch offsets, and of DeleteRecords.

use kafkalite_protocol::messages as m;
use kafkalite_protocol::{ErrorCode, Uuid};
use m::delete_records::{DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult};
use m::offset_commit::{OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponseTopic};
use m::offset_fetch::{OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup as Group};

use super::data_apis::{join_topics, split, throttled};
use super::faulted::{Faulted, Named};
use super::parts::Parts;

impl Faulted for OffsetCommitRequest {
    const TAKES: bool = true;

    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        self.topics.iter().any(|topic| {
            let mut partitions = topic.partitions.iter();
            partitions.any(|one| parts.hit(&topic.name, topic.topic_id, one.partition_index))
        })
    }

    fn take(&mut self, parts: &Parts, error_code: i16) -> OffsetCommitResponse {
        let mut refused = OffsetCommitResponse::default();
        for topic in &mut self.topics {
            let (name, topic_id) = (topic.name.clone(), topic.topic_id);
            let is_hit = |index| parts.hit(&name, topic_id, index);
            let hit = split(&mut topic.partitions, |one| is_hit(one.partition_index));
            let answered = hit.into_iter().map(|one| {
                let partition_index = one.partition_index;
                m::offset_commit::OffsetCommitResponsePartition { partition_index, error_code }
            });
            let partitions = answered.collect();
            refused.topics.push(OffsetCommitResponseTopic { name, topic_id, partitions });
        }
        refused.topics.retain(|topic| !topic.partitions.is_empty());
        self.topics.retain(|topic| !topic.partitions.is_empty());
        refused
    }

    fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn join(answer: &mut OffsetCommitResponse, refused: OffsetCommitResponse) {
        join_topics(
            &mut answer.topics,
            refused.topics,
            |one, other| (&one.name, one.topic_id) == (&other.name, other.topic_id),
            |one, other| one.partitions.extend(other.partitions),
        );
    }

    fn mark(
        answer: &mut OffsetCommitResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let mut marked = 0;
        for topic in &mut answer.topics {
            for one in &mut topic.partitions {
                if parts.hit(&topic.name, topic.topic_id, one.partition_index) {
                    one.error_code = error.code();
                    marked += 1;
                }
            }
        }
        marked
    }

    throttled!();
}

/// Errors of a partition's offset; others are those of the group.
fn is_of_offset(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::UnstableOffsetCommit
            | ErrorCode::UnknownTopicOrPartition
            | ErrorCode::UnknownTopicId
            | ErrorCode::TopicAuthorizationFailed
    )
}

impl Faulted for OffsetFetchRequest {
    fn is_whole(error: ErrorCode, parts: &Parts) -> bool {
        parts.are_all() && !is_of_offset(error)
    }

    /// A group may be asked for all that it has.
    fn names(&self, parts: &Parts) -> bool {
        let hits = |name: &str, id, list: &[i32]| list.iter().any(|one| parts.hit(name, id, *one));
        let in_topics = self.topics.as_ref().is_none_or(|topics| {
            topics.iter().any(|topic| hits(&topic.name, Uuid::ZERO, &topic.partition_indexes))
        });
        let mut groups = self.groups.iter();
        parts.are_all()
            || in_topics
            || groups.any(|group| {
                parts.hit_group(&group.group_id)
                    && group.topics.as_ref().is_none_or(|topics| {
                        let mut topics = topics.iter();
                        topics.any(|topic| {
                            hits(&topic.name, topic.topic_id, &topic.partition_indexes)
                        })
                    })
            })
    }

    fn mark(
        answer: &mut OffsetFetchResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let (mut marked, code) = (0, error.code());
        for topic in &mut answer.topics {
            for one in &mut topic.partitions {
                if parts.hit(&topic.name, Uuid::ZERO, one.partition_index) {
                    (one.error_code, one.committed_offset) = (code, -1);
                    marked += 1;
                }
            }
        }
        let hit = |group: &&mut Group| parts.hit_group(&group.group_id);
        for group in answer.groups.iter_mut().filter(hit) {
            if Self::is_whole(error, parts) {
                group.error_code = code;
                group.topics.clear();
                marked += 1;
            }
            for topic in &mut group.topics {
                for one in &mut topic.partitions {
                    if parts.hit(&topic.name, topic.topic_id, one.partition_index) {
                        (one.error_code, one.committed_offset) = (code, -1);
                        marked += 1;
                    }
                }
            }
        }
        marked
    }

    throttled!();
}

impl Faulted for DeleteRecordsRequest {
    const TAKES: bool = true;

    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        let is_hit = |name: &str, one| parts.hit(name, Uuid::ZERO, one);
        self.topics.iter().any(|topic| {
            topic.partitions.iter().any(|one| is_hit(&topic.name, one.partition_index))
        })
    }

    fn take(&mut self, parts: &Parts, error_code: i16) -> DeleteRecordsResponse {
        let mut refused = DeleteRecordsResponse::default();
        for topic in &mut self.topics {
            let name = topic.name.clone();
            let is_hit = |index| parts.hit(&name, Uuid::ZERO, index);
            let hit = split(&mut topic.partitions, |one| is_hit(one.partition_index));
            let answered = hit.into_iter().map(|one| {
                let (partition_index, low_watermark) = (one.partition_index, -1);
                m::delete_records::DeleteRecordsPartitionResult {
                    partition_index,
                    low_watermark,
                    error_code,
                }
            });
            let partitions = answered.collect();
            refused.topics.push(DeleteRecordsTopicResult { name, partitions });
        }
        refused.topics.retain(|topic| !topic.partitions.is_empty());
        self.topics.retain(|topic| !topic.partitions.is_empty());
        refused
    }

    fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    fn join(answer: &mut DeleteRecordsResponse, refused: DeleteRecordsResponse) {
        join_topics(
            &mut answer.topics,
            refused.topics,
            |one, other| one.name == other.name,
            |one, other| one.partitions.extend(other.partitions),
        );
    }

    fn mark(
        answer: &mut DeleteRecordsResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let mut marked = 0;
        for topic in &mut answer.topics {
            for one in &mut topic.partitions {
                if parts.hit(&topic.name, Uuid::ZERO, one.partition_index) {
                    (one.error_code, one.low_watermark) = (error.code(), -1);
                    marked += 1;
                }
            }
        }
        marked
    }

    throttled!();
}
