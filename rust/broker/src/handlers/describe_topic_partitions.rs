//! DescribeTopicPartitions: topics and their partitions, in pages.
//!
//! Topics come in the order of their names, at most `response_partition_limit` partitions in one
//! answer; the answer's cursor is where the next page starts.
//! Source: Kafka's `DescribeTopicPartitionsRequestHandler`, KIP-966.

use super::authorized_operations::Resource;
use super::{Call, Rooms};
use crate::metadata::controller::invalid_topic_name;
use crate::metadata::image::INTERNAL_TOPICS;
use crate::metadata::{MetadataImage, PartitionImage, TopicImage};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::describe_topic_partitions::{
    Cursor, CursorResponse, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<DescribeTopicPartitionsRequest>) {
    let Call { request, reply } = call;
    let limit = request.response_partition_limit;
    let limit = limit.min(rooms.config().max_request_partition_size_limit).max(1);
    let image = rooms.controller.image();
    let asked: BTreeSet<&str> = request.topics.iter().map(|topic| topic.name.as_str()).collect();
    if request.cursor.as_ref().is_some_and(|cursor| !is_valid(cursor, &asked)) {
        let topics = request.topics.iter().map(|topic| DescribeTopicPartitionsResponseTopic {
            topic_authorized_operations: i32::MIN,
            ..nothing(&topic.name, ErrorCode::InvalidRequest)
        });
        return reply.send_each(&DescribeTopicPartitionsResponse::default(), topics);
    }
    let page = page(&image, asked, request.cursor.as_ref(), limit);
    let next_cursor = page.next_cursor;
    let head = DescribeTopicPartitionsResponse { next_cursor, ..Default::default() };
    let topics = page.topics.into_iter().map(|(name, described_or_not)| match described_or_not {
        Ok((topic, partitions)) => described(&image, topic, partitions),
        Err(error) => nothing(name, error),
    });
    reply.send_each(&head, topics);
}

fn page<'a>(
    image: &'a MetadataImage,
    asked: BTreeSet<&'a str>,
    from: Option<&'a Cursor>,
    limit: i32,
) -> Page<'a> {
    let first_name = from.map_or("", |cursor| cursor.topic_name.as_str());
    let names: Box<dyn Iterator<Item = &str>> = if asked.is_empty() {
        Box::new(image.topics.iter_from(first_name).map(|topic| &*topic.name))
    } else {
        Box::new(asked.into_iter().skip_while(move |name| *name < first_name))
    };
    let mut page = Page { left: limit, ..Page::default() };
    for name in names {
        let first = match from {
            Some(cursor) if cursor.topic_name == name => cursor.partition_index,
            _ => 0,
        };
        if !page.add(image, name, first) {
            break;
        }
    }
    page
}

/// A cursor points at a partition of a topic that is asked for.
fn is_valid(cursor: &Cursor, asked: &BTreeSet<&str>) -> bool {
    let named = asked.is_empty() || asked.contains(cursor.topic_name.as_str());
    named && cursor.partition_index >= 0
}

/// A topic of the page: which of its partitions are described, or why it is not.
type Entry<'a> = Result<(&'a Arc<TopicImage>, Range<i32>), ErrorCode>;

/// An answer while it is filled. A request may name a million topics, so a topic is described only
/// when it is written.
#[derive(Default)]
struct Page<'a> {
    /// Partitions that still fit.
    left: i32,
    topics: Vec<(&'a str, Entry<'a>)>,
    next_cursor: Option<CursorResponse>,
}

impl<'a> Page<'a> {
    /// Adds a topic from its partition `first` on; `false` when the page is full. A topic that
    /// cannot be described takes no room, but comes no sooner than the page it belongs to.
    fn add(&mut self, image: &'a MetadataImage, name: &'a str, first: i32) -> bool {
        if self.left == 0 {
            self.next_cursor = Some(cursor(name, first));
            return false;
        }
        let Some(topic) = image.topic(name) else {
            let invalid = invalid_topic_name(name).is_some();
            let error = if invalid {
                ErrorCode::InvalidTopicException
            } else {
                ErrorCode::UnknownTopicOrPartition
            };
            self.topics.push((name, Err(error)));
            return true;
        };
        let end = first.saturating_add(self.left).min(topic.partition_count()).max(first);
        self.left -= end - first;
        self.topics.push((name, Ok((topic, first..end))));
        let whole = end >= topic.partition_count();
        if !whole {
            self.next_cursor = Some(cursor(name, end));
        }
        whole
    }
}

fn cursor(topic: &str, partition_index: i32) -> CursorResponse {
    CursorResponse { topic_name: topic.to_owned(), partition_index }
}

fn nothing(name: &str, error: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: error.code(),
        name: Some(name.to_owned()),
        is_internal: INTERNAL_TOPICS.contains(&name),
        topic_authorized_operations: Resource::Topic.operations(),
        ..DescribeTopicPartitionsResponseTopic::default()
    }
}

fn described(
    image: &MetadataImage,
    topic: &TopicImage,
    indexes: Range<i32>,
) -> DescribeTopicPartitionsResponseTopic {
    let partitions = indexes.filter_map(|index| Some((index, topic.partition(index)?)));
    DescribeTopicPartitionsResponseTopic {
        error_code: 0,
        name: Some(topic.name.to_string()),
        topic_id: topic.id,
        is_internal: topic.internal,
        partitions: partitions.map(|(index, one)| partition(image, index, one)).collect(),
        topic_authorized_operations: Resource::Topic.operations(),
    }
}

fn partition(
    image: &MetadataImage,
    partition_index: i32,
    partition: &PartitionImage,
) -> DescribeTopicPartitionsResponsePartition {
    let led = image.is_alive(partition.leader);
    let last_known = Some(partition.last_leader).into_iter().filter(|id| *id != -1);
    let error = if led { ErrorCode::None } else { ErrorCode::LeaderNotAvailable };
    DescribeTopicPartitionsResponsePartition {
        error_code: error.code(),
        partition_index,
        leader_id: if led { partition.leader } else { -1 },
        leader_epoch: partition.leader_epoch.0,
        replica_nodes: partition.replicas.clone(),
        isr_nodes: partition.isr.clone(),
        eligible_leader_replicas: Some(partition.elr.clone()),
        last_known_elr: Some(last_known.collect()),
        offline_replicas: image.offline_replicas(partition),
    }
}
