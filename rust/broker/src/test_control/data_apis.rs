//! Faults of Produce, Fetch and the other APIs of data: where requests and answers name partitions.

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages as m;
use kafkalite_protocol::primitives::Records;
use m::fetch::{FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData};
use m::list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
use m::metadata::{MetadataRequest, MetadataResponse};
use m::offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use m::produce::{ProduceRequest, ProduceResponse, TopicProduceResponse};

use super::faulted::{Faulted, Named};
use super::parts::Parts;
use kafkalite_protocol::Uuid;

/// Takes what `is_hit` says out of a list.
pub(super) fn split<T>(list: &mut Vec<T>, is_hit: impl FnMut(&T) -> bool) -> Vec<T> {
    let (hit, rest) = std::mem::take(list).into_iter().partition(is_hit);
    *list = rest;
    hit
}

/// Adds topics to those of an answer: a topic stands there once.
pub(super) fn join_topics<T>(
    answer: &mut Vec<T>,
    refused: Vec<T>,
    is_same: impl Fn(&T, &T) -> bool,
    add: impl Fn(&mut T, T),
) {
    for topic in refused {
        match answer.iter_mut().find(|other| is_same(other, &topic)) {
            Some(other) => add(other, topic),
            None => answer.push(topic),
        }
    }
}

macro_rules! throttled {
    () => {
        fn throttle(answer: &mut Self::Response, ms: i32) -> bool {
            answer.throttle_time_ms = ms;
            true
        }
    };
}
pub(super) use throttled;

impl Faulted for ProduceRequest {
    const TAKES: bool = true;

    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        self.topic_data.iter().any(|topic| {
            let mut partitions = topic.partition_data.iter();
            partitions.any(|one| parts.hit(&topic.name, topic.topic_id, one.index))
        })
    }

    fn take(&mut self, parts: &Parts, error: i16) -> ProduceResponse {
        let mut refused = ProduceResponse::default();
        for topic in &mut self.topic_data {
            let (name, topic_id) = (topic.name.clone(), topic.topic_id);
            let hit = split(&mut topic.partition_data, |one| parts.hit(&name, topic_id, one.index));
            let answered = hit.into_iter().map(|one| m::produce::PartitionProduceResponse {
                index: one.index,
                error_code: error,
                base_offset: -1,
                ..Default::default()
            });
            let partition_responses = answered.collect();
            refused.responses.push(TopicProduceResponse { name, topic_id, partition_responses });
        }
        refused.responses.retain(|topic| !topic.partition_responses.is_empty());
        self.topic_data.retain(|topic| !topic.partition_data.is_empty());
        refused
    }

    fn is_empty(&self) -> bool {
        self.topic_data.is_empty()
    }

    fn join(answer: &mut ProduceResponse, refused: ProduceResponse) {
        join_topics(
            &mut answer.responses,
            refused.responses,
            |one, other| (&one.name, one.topic_id) == (&other.name, other.topic_id),
            |one, other| one.partition_responses.extend(other.partition_responses),
        );
    }

    fn mark(answer: &mut ProduceResponse, parts: &Parts, _: &[Named], error: ErrorCode) -> usize {
        let mut marked = 0;
        for topic in &mut answer.responses {
            for one in &mut topic.partition_responses {
                if parts.hit(&topic.name, topic.topic_id, one.index) {
                    (one.error_code, one.base_offset) = (error.code(), -1);
                    (one.log_append_time_ms, one.log_start_offset) = (-1, -1);
                    marked += 1;
                }
            }
        }
        marked
    }

    throttled!();
}

/// Errors that say something of the session: they are those of the whole answer.
fn is_of_session(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::FetchSessionIdNotFound
            | ErrorCode::InvalidFetchSessionEpoch
            | ErrorCode::FetchSessionTopicIdError
    )
}

fn failed(partition_index: i32, error: ErrorCode) -> PartitionData {
    let (error_code, records) = (error.code(), Some(Records::default()));
    PartitionData { partition_index, error_code, high_watermark: -1, records, ..Default::default() }
}

/// Adds to an incremental answer what it leaves out because it has not changed; how much it was.
fn add_left_out(
    answer: &mut FetchResponse,
    asked: &[Named],
    made: impl Fn(i32) -> PartitionData,
) -> usize {
    let mut added = 0;
    for (name, id, partition) in asked {
        let is_topic =
            |topic: &&mut FetchableTopicResponse| topic.topic == *name && topic.topic_id == *id;
        match answer.responses.iter_mut().find(is_topic) {
            Some(topic) if topic.partitions.iter().any(|p| p.partition_index == *partition) => {}
            Some(topic) => {
                topic.partitions.push(made(*partition));
                added += 1;
            }
            None => {
                let (topic, topic_id) = (name.clone(), *id);
                let partitions = vec![made(*partition)];
                answer.responses.push(FetchableTopicResponse { topic, topic_id, partitions });
                added += 1;
            }
        }
    }
    added
}

impl Faulted for FetchRequest {
    fn is_whole(error: ErrorCode, _: &Parts) -> bool {
        is_of_session(error)
    }

    /// Replicas that follow are left alone: faults are for clients.
    fn names(&self, _: &Parts) -> bool {
        self.replica_id < 0 && self.replica_state.replica_id < 0
    }

    fn asked(&self, _: i16, parts: &Parts) -> (Vec<Named>, Option<i32>) {
        let all = self.topics.iter().flat_map(|topic| {
            let named = |one: i32| (topic.topic.clone(), topic.topic_id, one);
            topic.partitions.iter().map(move |one| named(one.partition))
        });
        let hit = all.filter(|(name, id, partition)| parts.hit(name, *id, *partition));
        (hit.collect(), (self.session_epoch > 0).then_some(self.session_id))
    }

    fn hurry(&mut self) {
        self.max_wait_ms = 0;
    }

    fn mark(answer: &mut FetchResponse, parts: &Parts, asked: &[Named], error: ErrorCode) -> usize {
        if answer.error_code != 0 {
            return 0;
        }
        let mut marked = 0;
        for topic in &mut answer.responses {
            for one in &mut topic.partitions {
                if parts.hit(&topic.topic, topic.topic_id, one.partition_index) {
                    *one = failed(one.partition_index, error);
                    marked += 1;
                }
            }
        }
        marked + add_left_out(answer, asked, |partition| failed(partition, error))
    }

    fn point(
        answer: &mut FetchResponse,
        parts: &Parts,
        asked: &[Named],
        broker: i32,
        _: Option<i32>,
    ) -> usize {
        if answer.error_code != 0 {
            return 0;
        }
        let mut pointed = 0;
        for topic in &mut answer.responses {
            for one in &mut topic.partitions {
                if parts.hit(&topic.topic, topic.topic_id, one.partition_index)
                    && one.error_code == 0
                {
                    (one.preferred_read_replica, one.records) = (broker, Some(Records::default()));
                    pointed += 1;
                }
            }
        }
        let elsewhere = |index| PartitionData {
            preferred_read_replica: broker,
            ..failed(index, ErrorCode::None)
        };
        pointed + add_left_out(answer, asked, elsewhere)
    }

    fn corrupt(answer: &mut FetchResponse, parts: &Parts) -> bool {
        for topic in &mut answer.responses {
            for one in &mut topic.partitions {
                if !parts.hit(&topic.topic, topic.topic_id, one.partition_index) {
                    continue;
                }
                let Some(records) = one.records.take() else { continue };
                let mut bytes = records.into_bytes().to_vec();
                // The header says how long the first batch is. Its last byte is under its checksum.
                let length = bytes.get(8..12).and_then(|field| field.try_into().ok());
                let length = length.map_or(0, i32::from_be_bytes);
                let last = usize::try_from(length).unwrap_or(0) + 11;
                let is_batch = length > 0 && last < bytes.len();
                if is_batch {
                    bytes[last] ^= 0xff;
                }
                one.records = Some(Records::Bytes(bytes.into()));
                if is_batch {
                    return true;
                }
            }
        }
        false
    }

    throttled!();
}

impl Faulted for ListOffsetsRequest {
    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        let is_hit = |name: &str, one| parts.hit(name, Uuid::ZERO, one);
        self.topics.iter().any(|topic| {
            topic.partitions.iter().any(|one| is_hit(&topic.name, one.partition_index))
        })
    }

    fn mark(
        answer: &mut ListOffsetsResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let mut marked = 0;
        for topic in &mut answer.topics {
            for one in &mut topic.partitions {
                if parts.hit(&topic.name, Uuid::ZERO, one.partition_index) {
                    (one.error_code, one.timestamp, one.offset) = (error.code(), -1, -1);
                    one.leader_epoch = -1;
                    marked += 1;
                }
            }
        }
        marked
    }

    throttled!();
}

impl Faulted for OffsetForLeaderEpochRequest {
    fn is_whole(_: ErrorCode, _: &Parts) -> bool {
        false
    }

    fn names(&self, parts: &Parts) -> bool {
        let mut topics = self.topics.iter();
        self.replica_id < 0
            && topics.any(|topic| {
                let mut partitions = topic.partitions.iter();
                partitions.any(|one| parts.hit(&topic.topic, Uuid::ZERO, one.partition))
            })
    }

    fn mark(
        answer: &mut OffsetForLeaderEpochResponse,
        parts: &Parts,
        _: &[Named],
        error: ErrorCode,
    ) -> usize {
        let mut marked = 0;
        for topic in &mut answer.topics {
            for one in &mut topic.partitions {
                if parts.hit(&topic.topic, Uuid::ZERO, one.partition) {
                    (one.error_code, one.leader_epoch, one.end_offset) = (error.code(), -1, -1);
                    marked += 1;
                }
            }
        }
        marked
    }

    throttled!();
}

impl Faulted for MetadataRequest {
    fn is_whole(error: ErrorCode, _: &Parts) -> bool {
        error == ErrorCode::RebootstrapRequired
    }

    fn names(&self, parts: &Parts) -> bool {
        let Some(topics) = &self.topics else { return true };
        let is_hit = |name: Option<&str>, id| parts.hit_topic(name.unwrap_or_default(), id);
        parts.are_all() || topics.iter().any(|topic| is_hit(topic.name.as_deref(), topic.topic_id))
    }

    /// A fault of a partition is an error of that partition, any other one of the topic.
    fn mark(answer: &mut MetadataResponse, parts: &Parts, _: &[Named], error: ErrorCode) -> usize {
        let mut marked = 0;
        for topic in &mut answer.topics {
            let name = topic.name.clone().unwrap_or_default();
            if !parts.hit_topic(&name, topic.topic_id) {
                continue;
            }
            let Some(partition) = parts.partition else {
                topic.error_code = error.code();
                topic.partitions.clear();
                marked += 1;
                continue;
            };
            for one in &mut topic.partitions {
                if one.partition_index == partition {
                    (one.error_code, one.leader_id) = (error.code(), -1);
                    marked += 1;
                }
            }
        }
        marked
    }

    fn point(
        answer: &mut MetadataResponse,
        parts: &Parts,
        _: &[Named],
        broker: i32,
        leader_epoch: Option<i32>,
    ) -> usize {
        let mut pointed = 0;
        for topic in &mut answer.topics {
            let name = topic.name.clone().unwrap_or_default();
            for one in &mut topic.partitions {
                if parts.hit(&name, topic.topic_id, one.partition_index) && one.error_code == 0 {
                    one.leader_id = broker;
                    one.leader_epoch = leader_epoch.unwrap_or(one.leader_epoch);
                    pointed += 1;
                }
            }
        }
        pointed
    }

    throttled!();
}
