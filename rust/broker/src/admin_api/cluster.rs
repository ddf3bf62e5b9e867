//! `/cluster`: the brokers, and how the voters of the metadata stand.

use kafkalite_protocol::Uuid;
use serde::Serialize;

use super::asked::Asked;
use super::{AdminApi, Answer, json};
use crate::metadata::BrokerImage;
use crate::metadata::quorum::QuorumMember;

#[derive(Serialize)]
struct Cluster<'a> {
    broker_id: i32,
    cluster_id: &'a str,
    controller_id: Option<i32>,
    /// The last record of the metadata log that this broker knows.
    metadata_offset: i64,
    brokers: Vec<Broker<'a>>,
    quorum: Quorum,
}

#[derive(Serialize)]
struct Broker<'a> {
    id: i32,
    host: &'a str,
    port: u16,
    rack: Option<&'a str>,
    listeners: Vec<Listener<'a>>,
    /// Clients are not sent to it: it starts, it stops, or it sends no heartbeats.
    fenced: bool,
    epoch: i64,
    leaders: usize,
    replicas: usize,
    in_sync: usize,
}

#[derive(Serialize)]
struct Listener<'a> {
    name: &'a str,
    host: &'a str,
    port: u16,
}

#[derive(Serialize)]
struct Quorum {
    leader_id: Option<i32>,
    leader_epoch: i32,
    high_watermark: i64,
    voters: Vec<Member>,
    observers: Vec<Member>,
}

#[derive(Serialize)]
struct Member {
    broker_id: i32,
    /// `None`: the broker is alone.
    directory_id: Option<String>,
    /// `None`: only the leader knows.
    log_end_offset: Option<i64>,
    answered_ms_ago: Option<u64>,
}

/// Partitions of one broker.
#[derive(Clone, Copy, Default)]
struct Share {
    leaders: usize,
    replicas: usize,
    in_sync: usize,
}

/// `GET /cluster`
pub(super) fn cluster(api: &AdminApi, _: &Asked) -> Answer {
    let image = api.controller.image();
    let mut shares: std::collections::BTreeMap<i32, Share> = std::collections::BTreeMap::new();
    for partition in image.topics.iter().flat_map(|topic| &topic.partitions) {
        shares.entry(partition.leader).or_default().leaders += 1;
        partition.replicas.iter().for_each(|id| shares.entry(*id).or_default().replicas += 1);
        partition.isr.iter().for_each(|id| shares.entry(*id).or_default().in_sync += 1);
    }
    let share = |id: i32| shares.get(&id).copied().unwrap_or_default();
    json(&Cluster {
        broker_id: api.local_id,
        cluster_id: &image.cluster_id,
        controller_id: some_id(image.controller_id),
        metadata_offset: image.offset,
        brokers: image.brokers.values().map(|one| broker(one, share(one.id))).collect(),
        quorum: quorum(api),
    })
}

fn broker(broker: &BrokerImage, share: Share) -> Broker<'_> {
    let listeners = broker.listeners.iter();
    let listeners =
        listeners.map(|one| Listener { name: &one.name, host: &one.host, port: one.port });
    let Share { leaders, replicas, in_sync } = share;
    Broker {
        id: broker.id,
        host: &broker.host,
        port: broker.port,
        rack: broker.rack.as_deref(),
        listeners: listeners.collect(),
        fenced: broker.fenced,
        epoch: broker.epoch,
        leaders,
        replicas,
        in_sync,
    }
}

/// The quorum as this broker knows it.
fn quorum(api: &AdminApi) -> Quorum {
    let status = api.controller.quorum().status();
    let members = |all: &[QuorumMember]| all.iter().map(member).collect();
    Quorum {
        leader_id: some_id(status.leader_id),
        leader_epoch: status.leader_epoch,
        high_watermark: status.high_watermark,
        voters: members(&status.voters),
        observers: members(&status.observers),
    }
}

fn member(member: &QuorumMember) -> Member {
    Member {
        broker_id: member.node_id,
        directory_id: Some(member.directory_id).filter(|id| !id.is_zero()).map(text),
        log_end_offset: Some(member.end).filter(|end| *end >= 0),
        answered_ms_ago: member.answered_ms_ago,
    }
}

fn text(id: Uuid) -> String {
    id.to_string()
}

fn some_id(id: i32) -> Option<i32> {
    Some(id).filter(|id| *id >= 0)
}
