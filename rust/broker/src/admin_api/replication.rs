//! `/cluster/partitions`: partitions on their way to other brokers, and those that lack a replica.
//!
//! How far a follower is, its leader alone knows. So the rows of the partitions that this broker
//! leads have figures. An answer of all brokers has those of every partition with a leader.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde::Serialize;

use super::asked::Asked;
use super::{AdminApi, Answer, json};
use crate::admin_http::Refusal;
use crate::metadata::image::{PartitionImage, TopicImage};
use crate::partitions::{FollowerEnd, LeaderEnd};

/// The parameter that says which partitions are wanted.
pub(super) const STATE: &str = "state";

#[derive(Serialize)]
struct Listed<'a> {
    broker_id: i32,
    state: &'static str,
    /// Partitions of the cluster in this state.
    total: usize,
    partitions: Vec<Row<'a>>,
    /// What `after` has to be for the next page.
    next: Option<String>,
}

#[derive(Serialize)]
struct Row<'a> {
    topic: &'a str,
    topic_id: String,
    partition: i32,
    /// `None`: no broker leads it.
    leader: Option<i32>,
    replicas: &'a [i32],
    isr: &'a [i32],
    adding_replicas: &'a [i32],
    removing_replicas: &'a [i32],
    /// `None`: this broker does not lead it.
    here: Option<Led>,
}

/// What a leader knows of its partition.
#[derive(Serialize)]
struct Led {
    log_start_offset: i64,
    high_watermark: i64,
    log_end_offset: i64,
    followers: Vec<Follower>,
}

#[derive(Serialize)]
struct Follower {
    broker_id: i32,
    in_sync: bool,
    /// `None`: it has not fetched since this broker leads.
    records_behind: Option<u64>,
}

/// How far the followers are of the partitions that this broker leads, for `/overview`.
#[derive(Default, Serialize)]
pub(super) struct Replication {
    /// Sums over these partitions.
    log_end_offset: u64,
    high_watermark: u64,
    followers: Vec<Followers>,
}

/// The followers on one broker.
#[derive(Default, Serialize)]
struct Followers {
    broker_id: i32,
    replicas: usize,
    in_sync: usize,
    /// Those that lack records, or have not fetched yet.
    replicas_behind: usize,
    records_behind: u64,
}

impl Replication {
    /// Of all partitions that this broker leads now.
    pub(super) fn of(api: &AdminApi) -> Self {
        let mut sum = Self::default();
        let mut of_broker: BTreeMap<i32, Followers> = BTreeMap::new();
        for partition in api.partitions.all() {
            let led = partition.replication(|FollowerEnd { broker_id, in_sync, behind }| {
                let of = of_broker.entry(broker_id).or_default();
                of.broker_id = broker_id;
                of.replicas += 1;
                of.in_sync += usize::from(in_sync);
                of.replicas_behind += usize::from(behind != Some(0));
                of.records_behind = of.records_behind.saturating_add(behind.unwrap_or(0));
            });
            if let Some(LeaderEnd { log_end_offset, high_watermark }) = led {
                sum.log_end_offset += u64::try_from(log_end_offset.0).unwrap_or(0);
                sum.high_watermark += u64::try_from(high_watermark.0).unwrap_or(0);
            }
        }
        sum.followers = of_broker.into_values().collect();
        sum
    }
}

/// Which partitions are wanted.
struct State {
    name: &'static str,
    has: fn(&PartitionImage) -> bool,
}

const STATES: &[State] = &[
    State { name: "moving", has: PartitionImage::is_moving },
    State { name: "under_replicated", has: PartitionImage::is_under_replicated },
];

/// `GET /cluster/partitions`
pub(super) fn list(api: &AdminApi, asked: &Asked) -> Answer {
    let limit = asked.limit()?;
    let wanted = asked.text(STATE).unwrap_or_default();
    let state = STATES.iter().find(|state| state.name == wanted);
    let state = state.ok_or_else(|| {
        let why = format!("{wanted:?} is not a state of a partition that is listed");
        unreadable(STATE, why, "give moving or under_replicated.")
    })?;
    let (topic, partition) = match asked.text("after") {
        Some(after) => place(after)?,
        None => ("", -1),
    };
    let image = api.controller.image();
    let later = image.topics.iter_from(topic).flat_map(|topic| {
        (0i32..).zip(&topic.partitions).map(move |(index, partition)| (topic, index, partition))
    });
    let later = later.filter(|(of, index, image)| {
        (state.has)(image) && (&*of.name, *index) > (topic, partition)
    });
    let mut page: Vec<_> = later.take(limit.saturating_add(1)).collect();
    let has_more = page.len() > limit;
    page.truncate(limit);
    let last = page.last().filter(|_| has_more);
    let next = last.map(|(topic, index, _)| format!("{}-{index}", topic.name));
    let all = image.topics.iter().flat_map(|topic| &topic.partitions);
    json(&Listed {
        broker_id: api.local_id,
        state: state.name,
        total: all.filter(|partition| (state.has)(partition)).count(),
        partitions: page.iter().map(|(of, index, image)| row(api, of, *index, image)).collect(),
        next,
    })
}

/// The topic and the partition that a page begins behind.
fn place(after: &str) -> Result<(&str, i32), Refusal> {
    let parts = after.rsplit_once('-');
    let place = parts.and_then(|(topic, index)| Some((topic, index.parse::<i32>().ok()?)));
    place.ok_or_else(|| {
        let why = format!("{after:?} is no topic with a partition");
        unreadable("after", why, "give what next of the page before says.")
    })
}

fn unreadable(parameter: &str, why: String, hint: &str) -> Refusal {
    let what = format!("the parameter {parameter} cannot be read");
    Refusal::new(StatusCode::BAD_REQUEST, what, why, hint)
}

fn row<'a>(
    api: &AdminApi,
    topic: &'a TopicImage,
    index: i32,
    image: &'a PartitionImage,
) -> Row<'a> {
    Row {
        topic: &topic.name,
        topic_id: topic.id.to_string(),
        partition: index,
        leader: Some(image.leader).filter(|leader| *leader >= 0),
        replicas: &image.replicas,
        isr: &image.isr,
        adding_replicas: &image.adding_replicas,
        removing_replicas: &image.removing_replicas,
        here: led(api, topic, index),
    }
}

/// What this broker knows of a partition if it leads it.
fn led(api: &AdminApi, topic: &TopicImage, index: i32) -> Option<Led> {
    let partition = api.partitions.find_by_id(topic.id, index).ok()?;
    let mut followers = Vec::new();
    let end = partition.replication(|FollowerEnd { broker_id, in_sync, behind }| {
        followers.push(Follower { broker_id, in_sync, records_behind: behind });
    })?;
    Some(Led {
        log_start_offset: partition.log_start_offset().0,
        high_watermark: end.high_watermark.0,
        log_end_offset: end.log_end_offset.0,
        followers,
    })
}
