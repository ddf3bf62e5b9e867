//! Brokers of one process that join each other, and those who only say that they are brokers.

use super::*;
use kafkalite_broker::metadata::MetadataImage;
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::broker_heartbeat::BrokerHeartbeatRequest;
use kafkalite_protocol::messages::describe_cluster::DescribeClusterRequest;
use kafkalite_protocol::messages::join_cluster::{JoinClusterRequest, JoinFeature, JoinListener};
use kafkalite_protocol::messages::propose_records::ProposeRecordsRequest;
use kafkalite_protocol::messages::quorum::QuorumRequest;
use std::path::Path;
use std::sync::Arc;

const REFUSED: i8 = 4;
const NOT_LEADER: i8 = 3;

pub(super) fn image(broker: &Broker) -> Arc<MetadataImage> {
    broker.rooms().controller.image()
}

fn joined(directory: &Path, first: &Broker) -> Broker {
    let address = first.listeners()[0].1.to_string();
    client::start(directory, &[("kafkalite.join", &address)])
}

pub(super) fn serve(brokers: &[&Broker]) {
    awaited::until("every broker knows that all serve", || {
        brokers.iter().all(|broker| image(broker).alive_brokers().count() == brokers.len())
    });
}

/// A broker that wants in and is none.
fn stranger(directory: u8) -> JoinClusterRequest {
    let listener = JoinListener { name: "A".into(), host: "127.0.0.1".into(), port: 1 };
    let feature = |name: &str, level| JoinFeature {
        name: name.to_owned(),
        min_level: level,
        max_level: level,
    };
    JoinClusterRequest {
        directory_id: Uuid([directory; 16]),
        listeners: vec![listener],
        features: vec![feature("metadata.version", 30), feature("kafkalite.record.version", 2)],
        ..JoinClusterRequest::default()
    }
}

#[test]
fn a_broker_joins_and_is_the_same_one_after_a_restart() {
    let fixture = Fixture::with_topics(&[("before", 1)]);
    let directory = tempfile::tempdir().unwrap();
    let second = joined(directory.path(), &fixture.broker);
    serve(&[&fixture.broker, &second]);
    assert_eq!(second.rooms().config().node_id, 2);
    assert!(image(&second).topic("before").is_some());
    client::create_topic(&second, "by-the-second", 2, &[]);
    let place = second.listeners()[0].1.to_string();
    let before = image(&second).brokers[&2].epoch;
    second.stop();
    awaited::until("the cluster knows of the stop", || !image(&fixture.broker).is_alive(2));
    drop(second);
    // The directory says which node this is, and that it belongs to a cluster.
    let listeners = format!("PLAINTEXT://{place}");
    let second = client::start(directory.path(), &[("listeners", &listeners)]);
    serve(&[&fixture.broker, &second]);
    assert!(image(&second).brokers[&2].epoch > before);
    assert_eq!(image(&second).topics, image(&fixture.broker).topics);
}

#[test]
fn the_first_broker_goes_on_as_a_voter_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let first = client::start(directory.path(), &[]);
    client::create_topic(&first, "kept", 1, &[]);
    let mut asking = Client::connect(&first);
    assert_eq!(asking.call(&stranger(9), 0).error_code, 0);
    client::create_topic(&first, "later", 1, &[]);
    first.stop();
    drop(first);
    let first = client::start(directory.path(), &[]);
    assert!(first.rooms().cluster.has_company());
    let image = image(&first);
    assert!(image.topic("kept").is_some() && image.topic("later").is_some());
    client::create_topic(&first, "more", 1, &[]);
}

#[test]
fn a_stranger_is_refused_and_the_broker_stays_alone() {
    let mut fixture = Fixture::new();
    let other = JoinClusterRequest { cluster_id: Some("other".into()), ..stranger(9) };
    let taken = JoinClusterRequest { node_id: 1, ..stranger(9) };
    let nowhere = JoinClusterRequest { listeners: vec![], ..stranger(9) };
    for (request, error) in [
        (other, ErrorCode::InconsistentClusterId),
        (taken, ErrorCode::DuplicateBrokerRegistration),
        (nowhere, ErrorCode::InvalidRequest),
        (stranger(0), ErrorCode::InvalidRequest),
        (JoinClusterRequest { features: vec![], ..stranger(9) }, ErrorCode::UnsupportedVersion),
    ] {
        assert_eq!(fixture.call(&request, 0).error_code, error.code());
    }
    let call = QuorumRequest { body: bytes::Bytes::from_static(b"vote for me") };
    assert_eq!(fixture.call(&call, 0).error_code, ErrorCode::NotController.code());
    let propose = ProposeRecordsRequest::default();
    assert_eq!(fixture.call(&propose, 0).outcome, NOT_LEADER);
    let beat = BrokerHeartbeatRequest { broker_id: 1, ..BrokerHeartbeatRequest::default() };
    assert_eq!(fixture.call(&beat, 0).error_code, ErrorCode::NotController.code());
    assert!(!fixture.broker.rooms().cluster.has_company());
}

/// The voters would ask themselves for the first one, and the new broker would never serve.
#[test]
fn a_broker_without_an_address_for_others_stays_alone() {
    let mut fixture = Fixture::with(&[("listeners", "PLAINTEXT://0.0.0.0:0")]);
    let answer = fixture.call(&stranger(9), 0);
    assert_eq!(answer.error_code, ErrorCode::InvalidRequest.code());
    let message = answer.error_message.unwrap();
    assert_eq!(message, "broker 1 has no address for other brokers: set --advertise");
    assert!(!fixture.broker.rooms().cluster.has_company());
}

#[test]
fn nonsense_between_brokers_is_refused_and_harms_nothing() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    assert_eq!(fixture.call(&stranger(9), 0).node_id, 2);
    let cluster_id = image(&fixture.broker).cluster_id.to_string();
    awaited::until("it leads", || {
        let empty = ProposeRecordsRequest {
            cluster_id: cluster_id.clone(),
            expected: i64::MAX,
            ..ProposeRecordsRequest::default()
        };
        drop(fixture.call(&empty, 0));
        fixture.broker.rooms().controller.quorum().status().leader_id == 1
    });
    for len in 0..64_usize {
        let body: Vec<u8> = (0..len).map(|at| (at * 37 + len) as u8).collect();
        let answer = fixture.call(&QuorumRequest { body: body.clone().into() }, 0);
        assert_eq!(answer.error_code, 0, "the refusal is in the body");
        let batch = body.into();
        let expected = image(&fixture.broker).offset;
        let cluster_id = cluster_id.clone();
        let request = ProposeRecordsRequest { cluster_id, broker_id: 2, expected, batch };
        let outcome = fixture.call(&request, 0).outcome;
        // Overtaken (1), where the leader's own record came in between.
        assert!([REFUSED, 1].contains(&outcome), "{outcome}");
    }
    let late = BrokerHeartbeatRequest { broker_id: 2, ..BrokerHeartbeatRequest::default() };
    let unknown = BrokerHeartbeatRequest { broker_id: 7, ..BrokerHeartbeatRequest::default() };
    for (request, error) in
        [(late, ErrorCode::StaleBrokerEpoch), (unknown, ErrorCode::BrokerIdNotRegistered)]
    {
        assert_eq!(fixture.call(&request, 0).error_code, error.code());
    }
    client::create_topic(&fixture.broker, "it-goes-on", 1, &[]);
    // A broker that never came is known, and no client is sent to it.
    let all = DescribeClusterRequest { include_fenced_brokers: true, ..Default::default() };
    let told =
        |brokers: &[kafkalite_protocol::messages::describe_cluster::DescribeClusterBroker]| {
            brokers.iter().map(|broker| (broker.broker_id, broker.is_fenced)).collect::<Vec<_>>()
        };
    assert_eq!(told(&fixture.call(&all, 2).brokers), [(1, false), (2, true)]);
    let some = DescribeClusterRequest::default();
    assert_eq!(told(&fixture.call(&some, 2).brokers), [(1, false)]);
}
