use super::*;
use kafkalite_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
    CreateTopicsResponse,
};

fn topic(name: &str) -> CreatableTopic {
    CreatableTopic {
        name: name.to_owned(),
        num_partitions: -1,
        replication_factor: -1,
        ..CreatableTopic::default()
    }
}

fn sized(name: &str, num_partitions: i32, replication_factor: i16) -> CreatableTopic {
    CreatableTopic { num_partitions, replication_factor, ..topic(name) }
}

fn configured(name: &str, key: &str, value: Option<&str>) -> CreatableTopic {
    let value = value.map(str::to_owned);
    let configs = vec![CreatableTopicConfig { name: key.to_owned(), value }];
    CreatableTopic { configs, ..topic(name) }
}

fn assigned(name: &str, assignments: &[(i32, &[i32])]) -> CreatableTopic {
    let own = |(partition_index, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index: *partition_index,
        broker_ids: brokers.to_vec(),
    };
    CreatableTopic { assignments: assignments.iter().map(own).collect(), ..topic(name) }
}

fn request(topics: Vec<CreatableTopic>) -> CreateTopicsRequest {
    CreateTopicsRequest { topics, ..CreateTopicsRequest::default() }
}

fn outcomes(response: &CreateTopicsResponse) -> Vec<(&str, i16)> {
    response.topics.iter().map(|topic| (topic.name.as_str(), topic.error_code)).collect()
}

#[test]
fn every_version_makes_a_topic() {
    let mut fixture = Fixture::new();
    for version in 2..=7 {
        let name = format!("t{version}");
        let response = fixture.call(&request(vec![sized(&name, 3, 1)]), version);
        assert_eq!(outcomes(&response), [(name.as_str(), 0)]);
        let image = fixture.broker.rooms().controller.image();
        assert_eq!(image.topic(&name).unwrap().partition_count(), 3);
    }
}

#[test]
fn a_new_topic_is_described_from_version_5_on() {
    let mut fixture = Fixture::new();
    let response = fixture.call(&request(vec![configured("t", "retention.ms", Some("1000"))]), 7);
    let topic = &response.topics[0];
    assert_eq!((topic.num_partitions, topic.replication_factor), (1, 1));
    assert!(!topic.topic_id.is_zero());
    let configs = topic.configs.as_ref().unwrap();
    let of = |name: &str| {
        let found = configs.iter().find(|config| config.name == name).unwrap();
        (found.value.as_deref().unwrap(), found.config_source)
    };
    assert_eq!(of("retention.ms"), ("1000", 1));
    assert_eq!(of("cleanup.policy"), ("delete", 5));
}

#[test]
fn refusals_are_those_of_kafka_word_for_word() {
    let mut fixture = Fixture::with_topics(&[("here", 1), ("q.r", 1)]);
    let by_hand = |num_partitions, replication_factor| CreatableTopic {
        num_partitions,
        replication_factor,
        ..assigned("t", &[(0, &[1])])
    };
    for (asked, code, message) in [
        (
            topic(""),
            ErrorCode::InvalidTopicException,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            topic(".."),
            ErrorCode::InvalidTopicException,
            "Topic name is invalid: '..' is not allowed",
        ),
        (
            topic("b c"),
            ErrorCode::InvalidTopicException,
            "Topic name is invalid: 'b c' contains one or more characters other than ASCII \
             alphanumerics, '.', '_' and '-'",
        ),
        (topic("here"), ErrorCode::TopicAlreadyExists, "Topic 'here' already exists."),
        (
            topic("q_r"),
            ErrorCode::InvalidTopicException,
            "Topic 'q_r' collides with existing topic: q.r",
        ),
        (
            sized("t", 0, 1),
            ErrorCode::InvalidPartitions,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (
            sized("t", -5, -5),
            ErrorCode::InvalidReplicationFactor,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            sized("t", 1, 3),
            ErrorCode::InvalidReplicationFactor,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 \
             cannot be reached because only 1 broker(s) are registered or some brokers have all \
             their log directories cordoned.",
        ),
        (
            sized("t", 20_000, 1),
            ErrorCode::PolicyViolation,
            "Excessively large number of partitions per request.",
        ),
        (
            by_hand(1, -1),
            ErrorCode::InvalidRequest,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            by_hand(-1, 1),
            ErrorCode::InvalidRequest,
            "A manual partition assignment was specified, but replication factor was not set to \
             -1.",
        ),
        (
            assigned("t", &[(7, &[1])]),
            ErrorCode::InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            assigned("t", &[(0, &[])]),
            ErrorCode::InvalidReplicaAssignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            assigned("t", &[(0, &[9])]),
            ErrorCode::InvalidReplicaAssignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            assigned("t", &[(0, &[1]), (0, &[1])]),
            ErrorCode::InvalidReplicaAssignment,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            configured("t", "bogus", Some("1")),
            ErrorCode::InvalidConfig,
            "Unknown topic config name: bogus",
        ),
        (
            configured("t", "retention.ms", Some("x")),
            ErrorCode::InvalidConfig,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            configured("t", "retention.ms", None),
            ErrorCode::InvalidConfig,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            topic("__cluster_metadata"),
            ErrorCode::InvalidRequest,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
    ] {
        let response = fixture.call(&request(vec![asked.clone()]), 7);
        let answer = &response.topics[0];
        assert_eq!((answer.error_code, answer.error_message.clone()), error(code, message));
        assert_eq!(answer.num_partitions, -1);
    }
    assert_eq!(fixture.broker.rooms().controller.image().topics.len(), 2);
}

#[test]
fn a_name_that_comes_twice_is_refused_once_and_the_others_are_made() {
    let mut fixture = Fixture::new();
    let response = fixture.call(&request(vec![topic("d"), topic("e"), topic("d")]), 7);
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!(outcomes(&response), [("e", 0), ("d", invalid)]);
    assert_eq!(response.topics[1].error_message.as_deref(), Some("Duplicate topic name."));
}

#[test]
fn validate_only_makes_nothing() {
    let mut fixture = Fixture::new();
    let asked = CreateTopicsRequest { validate_only: true, ..request(vec![topic("t")]) };
    assert_eq!(outcomes(&fixture.call(&asked, 7)), [("t", 0)]);
    assert!(fixture.broker.rooms().controller.image().topics.is_empty());
}

#[test]
fn a_new_topic_can_be_written_to_at_once() {
    let mut fixture = Fixture::new();
    fixture.call(&request(vec![topic("t")]), 7);
    let answer = fixture.client.produce("t", client::batch(&["one"], None), -1);
    assert_eq!((answer.error_code, answer.base_offset), (0, 0));
}
