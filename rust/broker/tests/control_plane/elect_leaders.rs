use super::*;
use kafkalite_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};

fn ask(election_type: i8, partitions: Option<&[(&str, i32)]>) -> ElectLeadersRequest {
    let own = |(topic, index): &(&str, i32)| TopicPartitions {
        topic: (*topic).to_owned(),
        partitions: vec![*index],
    };
    ElectLeadersRequest {
        election_type,
        topic_partitions: partitions.map(|list| list.iter().map(own).collect()),
        ..ElectLeadersRequest::default()
    }
}

#[test]
fn the_one_replica_leads_already() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let unknown = ErrorCode::UnknownTopicOrPartition;
    for version in 0..=2 {
        for (topic, index, code, message) in [
            (
                "t",
                0,
                ErrorCode::ElectionNotNeeded,
                "Leader election not needed for topic partition.",
            ),
            ("t", 5, unknown, "No such partition as t-5"),
            ("nope", 0, unknown, "No such topic as nope"),
        ] {
            let response = fixture.call(&ask(0, Some(&[(topic, index)])), version);
            let result = &response.replica_election_results[0].partition_result[0];
            let told = (result.error_code, result.error_message.clone());
            assert_eq!(told, error(code, message), "v{version}");
        }
    }
}

#[test]
fn asked_for_all_nothing_was_needed_and_other_kinds_of_election_are_not_known() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let response = fixture.call(&ask(1, None), 2);
    let results = &response.replica_election_results;
    assert_eq!((results[0].topic.as_str(), results[0].partition_result.len()), ("t", 0));
    let refused = fixture.call(&ask(7, None), 2);
    let invalid = ErrorCode::InvalidRequest.code();
    assert_eq!((refused.error_code, refused.replica_election_results), (invalid, vec![]));
    let refused = fixture.call(&ask(7, Some(&[("t", 0)])), 2);
    let result = &refused.replica_election_results[0].partition_result[0];
    assert_eq!((refused.error_code, result.error_code), (invalid, invalid));
}

#[test]
fn no_leader_is_elected_with_a_timeout_of_zero() {
    let mut fixture = Fixture::with_topics(&[("t", 1)]);
    let timed_out = ErrorCode::RequestTimedOut.code();
    for (asked, code) in [
        (Some(&[("t", 0)][..]), timed_out),
        (None, timed_out),
        (Some(&[][..]), ErrorCode::None.code()),
    ] {
        let late = ElectLeadersRequest { timeout_ms: 0, ..ask(7, asked) };
        let response = fixture.call(&late, 2);
        let results = response.replica_election_results.iter();
        let mut partitions = results.flat_map(|topic| &topic.partition_result);
        assert_eq!(response.error_code, code);
        assert!(partitions.all(|partition| partition.error_code == timed_out));
    }
}
