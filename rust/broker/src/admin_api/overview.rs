//! `/overview`: the broker at a glance, and in words what is wrong with it.

use serde::Serialize;

use super::asked::Asked;
use super::replication::Replication;
use super::{AdminApi, Answer, json};
use crate::clock::NS_PER_MS;
use crate::metadata::MetadataImage;

#[derive(Serialize)]
struct Overview<'a> {
    broker_id: i32,
    version: &'static str,
    cluster_id: &'a str,
    controller_id: Option<i32>,
    uptime_ms: u64,
    brokers: usize,
    /// Topics of the cluster, and their partitions.
    topics: usize,
    partitions: usize,
    under_replicated: usize,
    without_leader: usize,
    /// What this broker has.
    here: Here,
    replication: Replication,
    /// The API may change the cluster.
    writable: bool,
    alerts: Vec<Alert>,
}

#[derive(Default, Serialize)]
struct Here {
    replicas: usize,
    leaders: usize,
    /// Replicas whose log directory failed.
    offline: usize,
    groups: usize,
    connections: usize,
    bytes: u64,
    /// Totals since the logs were opened.
    records_in: u64,
    bytes_in: u64,
    bytes_out: u64,
}

/// Something that a person should look at.
#[derive(Serialize)]
struct Alert {
    /// Whose trouble it is; `None`: the cluster's.
    broker_id: Option<i32>,
    what: String,
    why: &'static str,
    hint: &'static str,
}

/// Partitions of the cluster in some state.
#[derive(Default)]
struct Counts {
    led_here: usize,
    under_replicated: usize,
    without_leader: usize,
}

/// `GET /overview`
pub(super) fn overview(api: &AdminApi, _: &Asked) -> Answer {
    let image = api.controller.image();
    let counts = count(api.local_id, &image);
    let here = here(api, &counts);
    let now_ns = api.clock.monotonic_ns();
    json(&Overview {
        broker_id: api.local_id,
        version: env!("CARGO_PKG_VERSION"),
        cluster_id: &image.cluster_id,
        controller_id: Some(image.controller_id).filter(|id| *id >= 0),
        uptime_ms: now_ns.saturating_sub(api.started_ns) / NS_PER_MS,
        brokers: image.brokers.len(),
        topics: image.topics.len(),
        partitions: image.topics.partition_count(),
        under_replicated: counts.under_replicated,
        without_leader: counts.without_leader,
        writable: api.config.load().console_write,
        alerts: alerts(api.local_id, &image, &counts, &here),
        replication: Replication::of(api),
        here,
    })
}

fn count(local_id: i32, image: &MetadataImage) -> Counts {
    let mut counts = Counts::default();
    for partition in image.topics.iter().flat_map(|topic| &topic.partitions) {
        counts.led_here += usize::from(partition.leader == local_id);
        counts.without_leader += usize::from(partition.leader < 0);
        counts.under_replicated += usize::from(partition.is_under_replicated());
    }
    counts
}

fn here(api: &AdminApi, counts: &Counts) -> Here {
    let traffic = api.partitions.traffic();
    let mut here = Here {
        records_in: traffic.records_in,
        bytes_in: traffic.bytes_in,
        bytes_out: traffic.bytes_out,
        leaders: counts.led_here,
        groups: api.groups.list(&[], &[]).1.len(),
        connections: api.connections.count(),
        ..Here::default()
    };
    for partition in api.partitions.all() {
        here.replicas += 1;
        here.offline += usize::from(partition.is_offline());
        here.bytes += partition.size_bytes();
    }
    here
}

fn alerts(local_id: i32, image: &MetadataImage, counts: &Counts, here: &Here) -> Vec<Alert> {
    let all = [
        (
            counts.without_leader,
            None,
            "partitions have no leader".to_owned(),
            "no in-sync replica of them is on a broker that serves",
            "start the brokers that have them; kafkalite cluster health names them.",
        ),
        (
            here.offline,
            Some(local_id),
            format!("replicas on broker {local_id} are offline"),
            "the disk under their log directory failed",
            "look into the broker's log, mend the disk, and start the broker again.",
        ),
        (
            counts.under_replicated,
            None,
            "partitions lack an in-sync replica".to_owned(),
            "a broker is away, or it does not keep up",
            "kafkalite cluster health names the brokers; their logs say why.",
        ),
        (
            image.fenced_brokers(),
            None,
            "brokers are fenced".to_owned(),
            "they start, they stop, or they send no heartbeats",
            "look whether their processes run and reach this broker.",
        ),
    ];
    let wrong = all.into_iter().filter(|(count, ..)| *count > 0);
    wrong
        .map(|(count, broker_id, what, why, hint)| Alert {
            broker_id,
            what: format!("{count} {what}"),
            why,
            hint,
        })
        .collect()
}
