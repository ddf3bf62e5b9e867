use super::*;
use kafkalite_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use kafkalite_protocol::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;

fn ask(topic: &str, index: i32, replicas: Option<&[i32]>) -> AlterPartitionReassignmentsRequest {
    let partition =
        ReassignablePartition { partition_index: index, replicas: replicas.map(<[i32]>::to_vec) };
    AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic { name: topic.to_owned(), partitions: vec![partition] }],
        ..AlterPartitionReassignmentsRequest::default()
    }
}

#[test]
fn a_partition_may_move_to_where_it_is_and_nowhere_else() {
    let mut fixture = Fixture::with(&[("node.id", "1")]);
    client::create_topic(&fixture.broker, "t", 1, &[]);
    let said = |text: &str| Some(text.to_owned());
    for (request, code, message) in [
        (ask("t", 0, Some(&[1])), ErrorCode::None, None),
        (ask("t", 0, None), ErrorCode::NoReassignmentInProgress, None),
        (
            ask("t", 1, Some(&[1])),
            ErrorCode::UnknownTopicOrPartition,
            said("Unable to find partition t:1."),
        ),
        (
            ask("nope", 0, Some(&[1])),
            ErrorCode::UnknownTopicOrPartition,
            said("Unable to find a topic named nope."),
        ),
        (
            ask("t", 0, Some(&[2])),
            ErrorCode::InvalidReplicaAssignment,
            said(
                "The manual partition assignment includes broker 2, but no such broker is \
                 registered.",
            ),
        ),
        (
            ask("t", 0, Some(&[])),
            ErrorCode::InvalidReplicaAssignment,
            said("The manual partition assignment includes an empty replica list."),
        ),
    ] {
        for version in 0..=1 {
            let response = fixture.call(&request, version);
            let answer = &response.responses[0].partitions[0];
            assert_eq!(
                (answer.error_code, answer.error_message.clone()),
                (code.code(), message.clone())
            );
        }
    }
    let listed = fixture.call(&ListPartitionReassignmentsRequest::default(), 0);
    assert_eq!((listed.error_code, listed.topics), (0, vec![]));
}
