use super::*;
use kafkalite_protocol::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicRequest,
};

fn ask(names: &[&str], limit: i32, cursor: Option<(&str, i32)>) -> DescribeTopicPartitionsRequest {
    let topic = |name: &&str| TopicRequest { name: (*name).to_owned() };
    DescribeTopicPartitionsRequest {
        topics: names.iter().map(topic).collect(),
        response_partition_limit: limit,
        cursor: cursor.map(|(topic_name, partition_index)| Cursor {
            topic_name: topic_name.to_owned(),
            partition_index,
        }),
    }
}

/// Name, code, first and last partition of each topic; and the cursor.
type Told<'a> = (Vec<(&'a str, i16, Vec<i32>)>, Option<(&'a str, i32)>);

fn told(response: &DescribeTopicPartitionsResponse) -> Told<'_> {
    let topics = response.topics.iter().map(|topic| {
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        (topic.name.as_deref().unwrap(), topic.error_code, indexes.collect())
    });
    let cursor = response.next_cursor.as_ref();
    (topics.collect(), cursor.map(|next| (next.topic_name.as_str(), next.partition_index)))
}

#[test]
fn pages_follow_each_other_by_name_and_partition() {
    let mut fixture = Fixture::with_topics(&[("a", 1), ("b", 3), ("c", 1)]);
    let invalid = ErrorCode::InvalidRequest.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let bad_name = ErrorCode::InvalidTopicException.code();
    for (request, expected) in [
        (
            ask(&[], 2_000, None),
            (vec![("a", 0, vec![0]), ("b", 0, vec![0, 1, 2]), ("c", 0, vec![0])], None),
        ),
        (ask(&[], 2, None), (vec![("a", 0, vec![0]), ("b", 0, vec![0])], Some(("b", 1)))),
        (ask(&[], 2, Some(("b", 1))), (vec![("b", 0, vec![1, 2])], Some(("c", 0)))),
        (ask(&[], 2, Some(("c", 0))), (vec![("c", 0, vec![0])], None)),
        (ask(&[], 2, Some(("bb", 0))), (vec![("c", 0, vec![0])], None)),
        (ask(&[], 0, None), (vec![("a", 0, vec![0])], Some(("b", 0)))),
        (ask(&["c", "a", "a"], 9, None), (vec![("a", 0, vec![0]), ("c", 0, vec![0])], None)),
        (ask(&["c", "a"], 1, None), (vec![("a", 0, vec![0])], Some(("c", 0)))),
        (ask(&["b"], 9, Some(("b", 100))), (vec![("b", 0, vec![])], None)),
        (
            ask(&["nope", "a", "x y"], 9, None),
            (vec![("a", 0, vec![0]), ("nope", unknown, vec![]), ("x y", bad_name, vec![])], None),
        ),
        // One that is not there stands where its name does, and behind a full page not at all.
        (ask(&["a", "A"], 9, None), (vec![("A", unknown, vec![]), ("a", 0, vec![0])], None)),
        (ask(&["a", "nope"], 1, None), (vec![("a", 0, vec![0])], Some(("nope", 0)))),
        (ask(&["a"], 9, Some(("b", 0))), (vec![("a", invalid, vec![])], None)),
        (ask(&[], 9, Some(("a", -1))), (vec![], None)),
    ] {
        assert_eq!(told(&fixture.call(&request, 0)), expected, "{request:?}");
    }
}
