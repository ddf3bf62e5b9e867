//! `/topics` and `/topics/{name}`: what the cluster decided, and what this broker holds of it.

use std::sync::Arc;

use axum::http::StatusCode;
use serde::Serialize;

use super::asked::Asked;
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;
use crate::metadata::image::{MetadataImage, PartitionImage, TopicImage};
use crate::partitions::{Partition, Totals};

#[derive(Serialize)]
struct Listed<'a> {
    broker_id: i32,
    /// Topics of the cluster.
    total: usize,
    /// Those that the search finds.
    matched: usize,
    topics: Vec<Topic<'a>>,
    /// What `after` has to be for the next page.
    next: Option<&'a str>,
}

#[derive(Serialize)]
struct Topic<'a> {
    name: &'a str,
    id: String,
    internal: bool,
    partitions: usize,
    /// Replicas of the partition that has most.
    replication_factor: usize,
    /// Partitions that lack an in-sync replica.
    under_replicated: usize,
    /// Partitions that no broker leads.
    without_leader: usize,
    here: Here,
}

/// What this broker has of a topic.
#[derive(Default, Serialize)]
struct Here {
    replicas: usize,
    leaders: usize,
    bytes: u64,
    records_in: u64,
    bytes_in: u64,
    bytes_out: u64,
}

#[derive(Serialize)]
struct Described<'a> {
    broker_id: i32,
    topic: Topic<'a>,
    partitions: Vec<PartitionRow<'a>>,
    next: Option<i32>,
}

#[derive(Serialize)]
struct PartitionRow<'a> {
    partition: i32,
    /// `None`: no broker leads it.
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: &'a [i32],
    isr: &'a [i32],
    adding_replicas: &'a [i32],
    removing_replicas: &'a [i32],
    /// `None`: this broker has no replica of it, or its log does not open.
    here: Option<Replica>,
}

/// The replica on this broker.
#[derive(Serialize)]
struct Replica {
    log_start_offset: i64,
    high_watermark: i64,
    log_end_offset: i64,
    bytes: u64,
    segments: usize,
    log_dir: String,
    /// Its log directory failed.
    offline: bool,
}

/// `GET /topics`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, search) = (asked.limit()?, asked.search());
    let after = asked.text("after").unwrap_or_default();
    let image = api.controller.image();
    let later = image.topics.iter_from(after).filter(|topic| &*topic.name != after);
    let mut found = later.filter(|topic| search.wants(&topic.name));
    let page: Vec<_> = found.by_ref().take(limit).collect();
    let has_more = found.next().is_some();
    let matched = match search.is_empty() {
        true => image.topics.len(),
        false => image.topics.iter().filter(|topic| search.wants(&topic.name)).count(),
    };
    json(&Listed {
        broker_id: api.local_id,
        total: image.topics.len(),
        matched,
        topics: page.iter().map(|topic| row(api, topic)).collect(),
        next: page.last().filter(|_| has_more).map(|topic| &*topic.name),
    })
}

/// `GET /topics/{name}`
pub(super) fn describe(api: &AdminApi, asked: &Asked) -> Answer {
    let (limit, after) = (asked.limit()?, asked.number("after", 0..=i32::MAX)?);
    let image = api.controller.image();
    let topic = find(&image, asked.part("name"))?;
    let first = after.map_or(0, |after| after.saturating_add(1));
    let all = (0i32..).zip(&topic.partitions);
    let page: Vec<_> = all.skip_while(|(index, _)| *index < first).take(limit).collect();
    let last = page.last().map(|(index, _)| *index);
    let has_more =
        |last: &i32| usize::try_from(*last).is_ok_and(|at| at + 1 < topic.partitions.len());
    json(&Described {
        broker_id: api.local_id,
        topic: row(api, topic),
        partitions: page
            .iter()
            .map(|(index, image)| partition(api, topic, *index, image))
            .collect(),
        next: last.filter(has_more),
    })
}

/// The topic of this name.
pub(super) fn find<'a>(
    image: &'a MetadataImage,
    name: &str,
) -> Result<&'a Arc<TopicImage>, Refusal> {
    image.topic(name).ok_or_else(|| {
        let what = format!("there is no topic {name:?}");
        let hint = "GET /api/v1/topics lists the topics.";
        Refusal::new(StatusCode::NOT_FOUND, what, "the cluster's metadata do not have it", hint)
    })
}

/// The partition of a topic that a request names.
fn find_partition(topic: &TopicImage, index: i32) -> Result<&PartitionImage, Refusal> {
    topic.partition(index).ok_or_else(|| {
        let (name, count) = (&topic.name, topic.partitions.len());
        let what = format!("topic {name} has no partition {index}");
        let (why, hint) = (format!("it has {count}"), "partitions are counted from 0.");
        Refusal::new(StatusCode::NOT_FOUND, what, why, hint)
    })
}

/// The replica of a partition on this broker.
pub(super) fn replica(
    api: &AdminApi,
    topic: &TopicImage,
    index: i32,
) -> Result<Arc<Partition>, Refusal> {
    let leader = find_partition(topic, index)?.leader;
    api.partitions.find_by_id(topic.id, index).map_err(|error| {
        let what = format!("partition {index} of {} is not read here", topic.name);
        let hint = format!("ask the admin port of broker {leader}, which leads it.");
        Refusal::new(StatusCode::CONFLICT, what, error.name(), hint)
    })
}

fn row<'a>(api: &AdminApi, topic: &'a TopicImage) -> Topic<'a> {
    let count = |is_counted: fn(&PartitionImage) -> bool| {
        topic.partitions.iter().filter(|partition| is_counted(partition)).count()
    };
    let replicas = topic.partitions.iter().map(|partition| partition.replicas.len());
    Topic {
        name: &topic.name,
        id: topic.id.to_string(),
        internal: topic.internal,
        partitions: topic.partitions.len(),
        replication_factor: replicas.max().unwrap_or(0),
        under_replicated: count(PartitionImage::is_under_replicated),
        without_leader: count(|partition| partition.leader < 0),
        here: here(api, topic),
    }
}

fn here(api: &AdminApi, topic: &TopicImage) -> Here {
    let Totals { records_in, bytes_in, bytes_out } = api.partitions.traffic_of(topic.id);
    let mut here = Here { records_in, bytes_in, bytes_out, ..Here::default() };
    for (index, image) in (0..).zip(&topic.partitions) {
        let Ok(partition) = api.partitions.find_by_id(topic.id, index) else { continue };
        here.replicas += 1;
        here.leaders += usize::from(image.leader == api.local_id);
        here.bytes += partition.size_bytes();
    }
    here
}

fn partition<'a>(
    api: &AdminApi,
    topic: &TopicImage,
    index: i32,
    image: &'a PartitionImage,
) -> PartitionRow<'a> {
    let here = api.partitions.find_by_id(topic.id, index).ok();
    PartitionRow {
        partition: index,
        leader: Some(image.leader).filter(|leader| *leader >= 0),
        leader_epoch: image.leader_epoch.0,
        replicas: &image.replicas,
        isr: &image.isr,
        adding_replicas: &image.adding_replicas,
        removing_replicas: &image.removing_replicas,
        here: here.map(|partition| Replica {
            log_start_offset: partition.log_start_offset().0,
            high_watermark: partition.high_watermark().0,
            log_end_offset: partition.log_end_offset().0,
            bytes: partition.size_bytes(),
            segments: partition.log().segment_count(),
            log_dir: partition.log().log_dir().path().display().to_string(),
            offline: partition.is_offline(),
        }),
    }
}
