//! Three brokers with real logs and sockets: what is acknowledged is on every in-sync replica, and
//! survives the loss of a leader.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../client/mod.rs"]
mod client;
mod cluster;
mod configs;
mod follower;

use client::{Client, awaited, batch};
use cluster::Cluster;
use kafkalite_broker::metadata::controller::Leaving;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};

const ACKS_ALL: i16 = -1;

/// Produces `value` with acks=all to the leader; its offset, or why not.
fn produce(cluster: &Cluster, value: &str, acks: i16) -> Result<i64, ErrorCode> {
    let mut client = Client::connect(cluster.broker(cluster.leader()));
    let answer = client.produce("t", batch(&[value], None), acks);
    match ErrorCode::from_code(answer.error_code) {
        ErrorCode::None => Ok(answer.base_offset),
        error => Err(error),
    }
}

fn produce_many(cluster: &Cluster, values: std::ops::Range<usize>) {
    let mut client = Client::connect(cluster.broker(cluster.leader()));
    for value in values {
        // A leader may hear later than the quorum that enough replicas are in sync.
        awaited::until("enough in-sync replicas", || {
            let answer = client.produce("t", batch(&[&value.to_string()], None), ACKS_ALL);
            if answer.error_code == ErrorCode::NotEnoughReplicas as i16 {
                return false;
            }
            assert_eq!((answer.error_code, answer.base_offset), (0, value as i64));
            true
        });
    }
}

#[test]
fn what_acks_all_acknowledges_is_on_every_in_sync_replica() {
    let cluster = Cluster::start(3, 2);
    produce_many(&cluster, 0..200);
    for id in 1..=3 {
        assert_eq!(cluster.partition(id).log_end_offset().0, 200, "broker {id}");
    }
    // Followers learn the high watermark with the next answers.
    for id in 1..=3 {
        let partition = cluster.partition(id);
        awaited::until("the high watermark", || partition.high_watermark().0 == 200);
    }
    let bytes = cluster.bytes(1);
    assert!((2..=3).all(|id| cluster.bytes(id) == bytes), "the same to the byte");
}

#[test]
fn no_acknowledged_record_is_lost_with_its_leader() {
    let mut cluster = Cluster::start(3, 2);
    produce_many(&cluster, 0..50);
    let first = cluster.leader();
    cluster.kill(first);
    cluster.leaves(first, Leaving::Away);
    let second = cluster.leader();
    assert_ne!(second, first);
    produce_many(&cluster, 50..100);
    cluster.restart(first);
    cluster.until_in_sync(&[1, 2, 3]);
    cluster.kill(second);
    cluster.leaves(second, Leaving::Away);
    produce_many(&cluster, 100..150);
    let values: Vec<String> = (0..150).map(|value| value.to_string()).collect();
    assert_eq!(cluster.values(cluster.leader()), values);
}

/// The leader's disk failed, and no other broker led: no record was taken until an operator came.
#[test]
fn another_replica_leads_when_the_disk_of_the_leader_fails() {
    let cluster = Cluster::start(3, 2);
    produce_many(&cluster, 0..10);
    let first = cluster.leader();
    cluster.fail_disk(first);
    assert_eq!(produce(&cluster, "lost", ACKS_ALL), Err(ErrorCode::KafkaStorageError));
    cluster.until_led_by_another(first);
    produce_many(&cluster, 10..20);
    let others: Vec<i32> = (1..=3).filter(|id| *id != first).collect();
    cluster.until_in_sync(&others);
    let values: Vec<String> = (0..20).map(|value| value.to_string()).collect();
    assert_eq!(cluster.values(cluster.leader()), values);
}

/// Records that only the dead leader had are cut off when it follows: other records have their
/// offsets.
#[test]
fn a_former_leader_cuts_what_its_followers_never_had() {
    let mut cluster = Cluster::start(3, 2);
    produce_many(&cluster, 0..10);
    let first = cluster.leader();
    let others: Vec<i32> = (1..=3).filter(|id| *id != first).collect();
    others.iter().for_each(|id| cluster.broker(*id).rooms().fetchers.stop());
    for value in ["lost-1", "lost-2", "lost-3"] {
        produce(&cluster, value, 1).unwrap();
    }
    cluster.kill(first);
    cluster.leaves(first, Leaving::Away);
    let second = cluster.leader();
    let third = others.iter().copied().find(|id| *id != second).unwrap();
    // One whose fetchers run again.
    cluster.kill(third);
    cluster.restart(third);
    cluster.until_in_sync(&others);
    produce_many(&cluster, 10..12);
    cluster.restart(first);
    cluster.until_in_sync(&[1, 2, 3]);
    produce_many(&cluster, 12..14);
    let values: Vec<String> = (0..14).map(|value| value.to_string()).collect();
    for id in 1..=3 {
        assert_eq!(cluster.values(id), values, "broker {id}");
    }
}

#[test]
fn with_too_few_in_sync_replicas_acks_all_is_refused_and_acks_1_is_not() {
    let mut cluster = Cluster::start(3, 2);
    produce_many(&cluster, 0..3);
    let leader = cluster.leader();
    for id in (1..=3).filter(|id| *id != leader) {
        cluster.kill(id);
        cluster.leaves(id, Leaving::Away);
    }
    let partition = cluster.partition(leader);
    assert_eq!(produce(&cluster, "x", ACKS_ALL), Err(ErrorCode::NotEnoughReplicas));
    assert_eq!(produce(&cluster, "x", 1), Ok(3));
    assert_eq!(partition.high_watermark().0, 3, "it is not committed");
}

/// A follower that does not answer holds records back until it has left, and no longer.
#[test]
fn a_produce_waits_until_a_silent_follower_has_left() {
    let mut cluster = Cluster::start(3, 2);
    produce_many(&cluster, 0..1);
    let leader = cluster.leader();
    let silent = (1..=3).find(|id| *id != leader).unwrap();
    cluster.kill(silent);
    let mut client = Client::connect(cluster.broker(leader));
    let request = client::produce_request("t", batch(&["1"], None), ACKS_ALL);
    let sent = client.send(&request, 9);
    let partition = cluster.partition(leader);
    awaited::until("the append", || partition.log_end_offset().0 == 2);
    assert_eq!(partition.high_watermark().0, 1);
    cluster.leaves(silent, Leaving::Away);
    let (received, response) =
        client.receive::<kafkalite_protocol::messages::produce::ProduceRequest>(9).unwrap();
    assert_eq!(received, sent);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
}

/// A follower whose next records were deleted asks for the earliest offset. It cannot wait for the
/// high watermark: that may be waiting for the follower.
#[test]
fn a_leader_that_is_catching_up_tells_where_its_log_starts_and_not_where_it_ends() {
    let mut cluster = Cluster::start(3, 2);
    let first = cluster.leader();
    let (second, third) = (first % 3 + 1, (first + 1) % 3 + 1);
    // It stays in sync, so the high watermark waits for it.
    cluster.kill(third);
    for value in ["0", "1"] {
        produce(&cluster, value, 1).unwrap();
    }
    let partition = cluster.partition(second);
    awaited::until("the records", || partition.log_end_offset().0 == 2);
    cluster.kill(first);
    cluster.leaves(first, Leaving::Away);
    assert_eq!((cluster.leader(), partition.high_watermark().0), (second, 0));
    let mut client = Client::connect(cluster.broker(second));
    let mut at = |timestamp| {
        let partition = ListOffsetsPartition { timestamp, ..ListOffsetsPartition::default() };
        let topics = vec![ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition] }];
        let request = ListOffsetsRequest { replica_id: third, topics, ..Default::default() };
        let answer = client.call(&request, 7).topics[0].partitions[0].clone();
        (ErrorCode::from_code(answer.error_code), answer.offset)
    };
    let [latest, earliest] = [-1, -2];
    assert_eq!(at(earliest), (ErrorCode::None, 0));
    assert_eq!(at(latest), (ErrorCode::OffsetNotAvailable, -1));
    assert_eq!(at(i64::MAX), (ErrorCode::OffsetNotAvailable, -1), "a time after all records");
}
