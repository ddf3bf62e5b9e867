use super::*;
use kafkalite_protocol::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};

fn more(name: &str, count: i32, assignments: Option<&[&[i32]]>) -> CreatePartitionsTopic {
    let own = |brokers: &&[i32]| CreatePartitionsAssignment { broker_ids: brokers.to_vec() };
    let assignments = assignments.map(|list| list.iter().map(own).collect());
    CreatePartitionsTopic { name: name.to_owned(), count, assignments }
}

fn request(topics: Vec<CreatePartitionsTopic>) -> CreatePartitionsRequest {
    CreatePartitionsRequest { topics, timeout_ms: 1_000, validate_only: false }
}

#[test]
fn every_version_adds_partitions_that_can_be_written_to() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    for version in 0..=3 {
        let count = i32::from(version) + 2;
        let response = fixture.call(&request(vec![more("t", count, None)]), version);
        assert_eq!((response.results[0].name.as_str(), response.results[0].error_code), ("t", 0));
        let image = fixture.broker.rooms().controller.image();
        assert_eq!(image.topic("t").unwrap().partition_count(), count);
    }
}

#[test]
fn a_topic_does_not_grow_in_no_time() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let late = CreatePartitionsRequest { timeout_ms: 0, ..request(vec![more("t", 2, None)]) };
    let code = fixture.call(&late, 3).results[0].error_code;
    assert_eq!(code, ErrorCode::RequestTimedOut.code());
    let image = fixture.broker.rooms().controller.image();
    assert_eq!(image.topic("t").unwrap().partition_count(), 1);
}

#[test]
fn refusals_are_those_of_kafka_word_for_word() {
    let mut fixture = Fixture::with_topics(&[("t", 3)]);
    let partitions = ErrorCode::InvalidPartitions;
    let assignment = ErrorCode::InvalidReplicaAssignment;
    for (asked, code, message) in [
        (more("t", 3, None), partitions, "Topic already has 3 partition(s)."),
        (
            more("t", 2, None),
            partitions,
            "The topic t currently has 3 partition(s); 2 would not be an increase.",
        ),
        (
            more("t", 4, Some(&[])),
            assignment,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            more("t", 4, Some(&[&[]])),
            assignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            more("t", 4, Some(&[&[1, 1]])),
            assignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            more("t", 4, Some(&[&[7]])),
            assignment,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
    ] {
        let response = fixture.call(&request(vec![asked]), 3);
        let answer = &response.results[0];
        assert_eq!((answer.error_code, answer.error_message.clone()), error(code, message));
    }
    let response = fixture.call(&request(vec![more("nope", 1, None)]), 3);
    assert_eq!(response.results[0].error_code, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn a_name_that_comes_twice_is_refused_once() {
    let mut fixture = Fixture::with_topics(&[("d", 1), ("e", 1)]);
    let asked = vec![more("d", 2, None), more("e", 2, None), more("d", 3, None)];
    let response = fixture.call(&request(asked), 3);
    let names: Vec<_> = response.results.iter().map(|r| (r.name.as_str(), r.error_code)).collect();
    assert_eq!(names, [("e", 0), ("d", ErrorCode::InvalidRequest.code())]);
}
