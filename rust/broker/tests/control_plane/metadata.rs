use super::*;
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse,
};

fn ask(names: &[&str], allow_auto_topic_creation: bool) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic {
        name: Some((*name).to_owned()),
        ..MetadataRequestTopic::default()
    };
    MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation,
        ..MetadataRequest::default()
    }
}

fn all() -> MetadataRequest {
    MetadataRequest { topics: None, allow_auto_topic_creation: false, ..MetadataRequest::default() }
}

fn by_ids(ids: &[Uuid]) -> MetadataRequest {
    let topic = |id: &Uuid| MetadataRequestTopic { topic_id: *id, name: None };
    MetadataRequest { topics: Some(ids.iter().map(topic).collect()), ..MetadataRequest::default() }
}

fn names(response: &MetadataResponse) -> Vec<(&str, i16)> {
    let topics = response.topics.iter();
    topics.map(|topic| (topic.name.as_deref().unwrap_or("-"), topic.error_code)).collect()
}

const UNKNOWN: i16 = ErrorCode::UnknownTopicOrPartition.code();
const INVALID_NAME: i16 = ErrorCode::InvalidTopicException.code();

#[test]
fn every_version_lists_the_broker_that_was_reached() {
    let mut fixture = Fixture::with_topics(&[("t", 2)]);
    let port = fixture.broker.listeners()[0].1.port();
    for version in 0..=13 {
        let response = fixture.call(&ask(&["t"], false), version);
        let broker = &response.brokers[0];
        assert_eq!((broker.host.as_str(), broker.port), ("127.0.0.1", i32::from(port)));
        assert_eq!(names(&response), [("t", 0)], "v{version}");
        let partitions = &response.topics[0].partitions;
        let leaders: Vec<_> = partitions.iter().map(|p| (p.partition_index, p.leader_id)).collect();
        assert_eq!(leaders, [(0, broker.node_id), (1, broker.node_id)], "v{version}");
    }
}

#[test]
fn an_advertised_listener_takes_the_place_of_the_address_that_was_reached() {
    let advertised = [("advertised.listeners", "PLAINTEXT://kafka.example:19092")];
    let mut fixture = Fixture::with(&advertised);
    let response = fixture.call(&all(), 9);
    let broker = &response.brokers[0];
    assert_eq!((broker.host.as_str(), broker.port), ("kafka.example", 19_092));
}

#[test]
fn all_topics_are_asked_for_by_null_and_in_version_0_by_nothing() {
    let mut fixture = Fixture::with_topics(&[("b", 1), ("a", 1)]);
    let nothing = ask(&[], true);
    for (request, version, expected) in [
        (&nothing, 0, vec![("a", 0), ("b", 0)]),
        (&nothing, 1, vec![]),
        (&nothing, 12, vec![]),
        (&all(), 1, vec![("a", 0), ("b", 0)]),
        (&all(), 13, vec![("a", 0), ("b", 0)]),
    ] {
        assert_eq!(names(&fixture.call(request, version)), expected, "v{version}");
    }
}

#[test]
fn a_topic_is_made_when_request_and_broker_allow_it() {
    let mut fixture = Fixture::new();
    assert_eq!(names(&fixture.call(&ask(&["made"], false), 9)), [("made", UNKNOWN)]);
    // As Kafka's, the answer to the request that makes it does not have it yet.
    assert_eq!(names(&fixture.call(&ask(&["made", "made"], true), 9)), [("made", UNKNOWN)]);
    assert_eq!(names(&fixture.call(&ask(&["made"], false), 9)), [("made", 0)]);
    // Before version 4 a client could not say, and meant yes.
    assert_eq!(names(&fixture.call(&ask(&["old"], true), 3)), [("old", UNKNOWN)]);
    assert_eq!(names(&fixture.call(&ask(&["old"], true), 3)), [("old", 0)]);

    let mut closed = Fixture::with(&[("auto.create.topics.enable", "false")]);
    assert_eq!(names(&closed.call(&ask(&["t"], true), 9)), [("t", UNKNOWN)]);
}

#[test]
fn names_that_no_topic_can_have_are_invalid() {
    let mut fixture = Fixture::with_topics(&[("a.b", 1)]);
    let long = "x".repeat(250);
    for name in ["", ".", "..", "a b", "ä", &long] {
        assert_eq!(names(&fixture.call(&ask(&[name], true), 9)), [(name, INVALID_NAME)]);
    }
    // As Kafka: what keeps a topic from being made is not told here.
    assert_eq!(names(&fixture.call(&ask(&["a_b"], true), 9)), [("a_b", UNKNOWN)]);
    assert_eq!(names(&fixture.call(&ask(&["a_b"], true), 9)), [("a_b", UNKNOWN)]);
}

#[test]
fn the_offsets_topic_is_made_compacted_and_internal() {
    let mut fixture = Fixture::with(&[("offsets.topic.num.partitions", "3")]);
    let response = fixture.call(&ask(&["__consumer_offsets"], true), 9);
    let topic = &response.topics[0];
    assert_eq!((topic.error_code, topic.is_internal, topic.partitions.len()), (UNKNOWN, true, 0));
    let response = fixture.call(&ask(&["__consumer_offsets"], true), 9);
    let topic = &response.topics[0];
    assert_eq!((topic.error_code, topic.is_internal, topic.partitions.len()), (0, true, 3));
    let image = fixture.broker.rooms().controller.image();
    let configs = &image.topic("__consumer_offsets").unwrap().configs;
    assert_eq!(configs["cleanup.policy"], "compact");
    let response = fixture.call(&ask(&["__transaction_state"], true), 9);
    assert_eq!(names(&response), [("__transaction_state", UNKNOWN)]);
}

#[test]
fn ids_are_known_from_version_12_on_and_win_over_names() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let id = fixture.broker.rooms().controller.image().topic("t").unwrap().id;
    let stranger = Uuid([9; 16]);
    let unknown = ErrorCode::UnknownTopicId.code();
    let invalid = ErrorCode::InvalidRequest.code();
    for (ids, version, expected) in [
        (vec![id], 12, vec![("t", 0)]),
        (vec![stranger, id], 13, vec![("-", unknown), ("t", 0)]),
        (vec![Uuid::ZERO], 12, vec![("", invalid)]),
        (vec![id], 10, vec![("", invalid)]),
        (vec![id], 11, vec![("", invalid)]),
    ] {
        let response = fixture.call(&by_ids(&ids), version);
        assert_eq!(names(&response), expected, "v{version} {ids:?}");
    }
}

#[test]
fn operations_are_listed_when_asked_for() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    for (asked, cluster, topic) in [(true, 8_096, 3_576), (false, i32::MIN, i32::MIN)] {
        let request = MetadataRequest {
            include_cluster_authorized_operations: asked,
            include_topic_authorized_operations: asked,
            ..ask(&["t"], false)
        };
        let response = fixture.call(&request, 9);
        assert_eq!(response.cluster_authorized_operations, cluster);
        assert_eq!(response.topics[0].topic_authorized_operations, topic);
    }
}
