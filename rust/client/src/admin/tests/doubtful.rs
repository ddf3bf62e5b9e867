//! Changes that an attempt without an answer may have made.

use super::*;
use kafkalite_connection::testing::two;
use kafkalite_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafkalite_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopicResult,
};
use kafkalite_protocol::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};
use kafkalite_protocol::messages::delete_topics::{
    DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse,
};
use kafkalite_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a broker says after an earlier attempt went through; topics have `k=v`.
fn is_done(asked: &Asked) -> Answer {
    if asked.is(ApiKey::CreateTopics) {
        return created(asked, |_| ErrorCode::TopicAlreadyExists);
    } else if asked.is(ApiKey::DeleteTopics) {
        let result = DeletableTopicResult {
            name: Some("a".to_owned()),
            error_code: ErrorCode::UnknownTopicOrPartition as i16,
            ..DeletableTopicResult::default()
        };
        let told = DeleteTopicsResponse { responses: vec![result], ..Default::default() };
        return asked.answer::<DeleteTopicsRequest>(&told);
    } else if asked.is(ApiKey::CreatePartitions) {
        let result = CreatePartitionsTopicResult {
            name: "a".to_owned(),
            error_code: ErrorCode::InvalidPartitions as i16,
            ..CreatePartitionsTopicResult::default()
        };
        let told = CreatePartitionsResponse { results: vec![result], ..Default::default() };
        return asked.answer::<CreatePartitionsRequest>(&told);
    } else if asked.is(ApiKey::DescribeConfigs) {
        let value = Some("v".to_owned());
        let entry =
            DescribeConfigsResourceResult { name: "k".to_owned(), value, ..Default::default() };
        let result = DescribeConfigsResult {
            resource_type: 2,
            resource_name: "a".to_owned(),
            configs: vec![entry],
            ..DescribeConfigsResult::default()
        };
        let told = DescribeConfigsResponse { results: vec![result], ..Default::default() };
        return asked.answer::<DescribeConfigsRequest>(&told);
    } else if !asked.is(ApiKey::DeleteGroups) {
        return Answer::Usual;
    }
    let error_code = ErrorCode::GroupIdNotFound as i16;
    let result = DeletableGroupResult { group_id: "g".to_owned(), error_code };
    let told = DeleteGroupsResponse { results: vec![result], ..Default::default() };
    asked.answer::<DeleteGroupsRequest>(&told)
}

/// Two brokers: the controller takes requests without an answer, if it gets any; its connections
/// end. The other one finds all of them done.
fn done_without_an_answer() -> [FakeBroker; 2] {
    let dies = |asked: &Asked| match asked.is(ApiKey::ApiVersions) {
        true => Answer::Usual,
        false => Answer::Close,
    };
    two(dies, is_done)
}

async fn create(admin: &Admin, topic: NewTopic, validate_only: bool) -> Option<ErrorCode> {
    let limit = Some(Duration::from_secs(20));
    let mut each = admin.create_topics(vec![topic], validate_only, limit).await.expect("answers");
    each.remove(0).1.err().and_then(|error| error.code())
}

fn with_config(value: &str) -> NewTopic {
    NewTopic { configs: vec![("k".to_owned(), Some(value.to_owned()))], ..topic("a") }
}

/// The call failed, though it had made the topic.
#[test]
fn a_topic_that_was_made_without_an_answer_is_made_if_it_is_as_asked_for() {
    let exists = Some(ErrorCode::TopicAlreadyExists);
    let of_two = NewTopic { partitions: 2, ..topic("a") };
    let replicated = NewTopic { replication_factor: 2, ..topic("a") };
    let assigned = |node| NewTopic { assignments: vec![(0, vec![node])], ..topic("a") };
    for (topic, validate_only, code) in [
        (topic("a"), false, None),
        (NewTopic { partitions: -1, replication_factor: -1, ..topic("a") }, false, None),
        (with_config("v"), false, None),
        (with_config(" v "), false, None),
        (assigned(NODE), false, None),
        (topic("a"), true, exists),
        (of_two, false, exists),
        (replicated, false, exists),
        (with_config("w"), false, exists),
        (assigned(OTHER), false, exists),
    ] {
        let [first, _second] = done_without_an_answer();
        let asked = topic.clone();
        let told = run(&first, |admin| async move { create(&admin, asked, validate_only).await });
        assert_eq!(told, code, "{topic:?}");
        assert_eq!(first.count(ApiKey::CreateTopics), 1);
    }
}

/// Another client made the topic: no request of this call left.
#[test]
fn a_topic_that_was_there_before_any_request_left_exists_already() {
    // Which of the two tells the client the brokers is open, so the end is not told by a count.
    let is_dead = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&is_dead);
    let dies = move |_: &Asked| match seen.load(Ordering::SeqCst) {
        false => Answer::Usual,
        true => Answer::Close,
    };
    let [first, second] = two(dies, is_done);
    let servers = format!("{},{}", first.place, second.place);
    let config = config(&second, &[("bootstrap.servers", &servers)]);
    let told = run_with(&config, |admin| async move {
        admin.cluster().refresh(Wanted::Brokers).await.expect("one answers");
        admin.cluster().disconnect();
        is_dead.store(true, Ordering::SeqCst);
        create(&admin, topic("a"), false).await
    });
    assert_eq!(told, Some(ErrorCode::TopicAlreadyExists));
    assert_eq!(first.count(ApiKey::CreateTopics), 0);
}

#[test]
fn removals_and_partitions_that_were_made_without_an_answer_are_made() {
    let limit = || Some(Duration::from_secs(20));
    let [first, _second] = done_without_an_answer();
    let gone = run(&first, |admin| async move {
        admin.delete_topics(vec!["a".to_owned()], limit()).await.expect("answers")
    });
    assert_eq!(gone, [("a".to_owned(), Ok(()))]);
    for (total, is_made) in [(1, true), (2, false)] {
        let [first, _second] = done_without_an_answer();
        let grown = run(&first, |admin| async move {
            let totals = vec![("a".to_owned(), total)];
            admin.create_partitions(totals, false, limit()).await.expect("answers")
        });
        assert_eq!(grown[0].1.is_ok(), is_made, "{grown:?}");
    }
    let times = |asked: &Asked| match asked.is(ApiKey::DeleteGroups) && asked.before == 0 {
        true => Answer::Close,
        false if asked.is(ApiKey::FindCoordinator) => coordinator(asked),
        false => is_done(asked),
    };
    let broker = FakeBroker::start(times);
    let gone = run(&broker, |admin| async move {
        admin.delete_groups(vec!["g".to_owned()], limit()).await.expect("answers")
    });
    assert_eq!(gone, [("g".to_owned(), Ok(()))]);
}

/// A broker passes a change on to a controller that freezes, and says that it does not know what
/// came of it. The second attempt is refused, as the change was made.
fn done_by_a_frozen_controller() -> FakeBroker {
    FakeBroker::start(|asked| {
        let code = |done: ErrorCode| match asked.before {
            0 => ErrorCode::RequestTimedOut,
            _ => done,
        };
        if asked.is(ApiKey::CreateTopics) {
            return created(asked, |_| code(ErrorCode::TopicAlreadyExists));
        } else if !asked.is(ApiKey::AlterPartitionReassignments) {
            return is_done(asked);
        }
        let error_code = code(ErrorCode::NoReassignmentInProgress) as i16;
        let result = ReassignablePartitionResponse { error_code, ..Default::default() };
        let topic = ReassignableTopicResponse { name: "a".to_owned(), partitions: vec![result] };
        let told =
            AlterPartitionReassignmentsResponse { responses: vec![topic], ..Default::default() };
        asked.answer::<AlterPartitionReassignmentsRequest>(&told)
    })
}

/// The call failed after 2 s, although it had more time.
#[test]
fn what_a_broker_cannot_tell_the_outcome_of_is_asked_for_again() {
    let broker = done_by_a_frozen_controller();
    let told = run(&broker, |admin| async move { create(&admin, topic("a"), false).await });
    assert_eq!(told, None);
    assert_eq!(broker.count(ApiKey::CreateTopics), 2);
    let at = TopicPartition::new("a", 0);
    let ended = vec![(at, None)];
    let told = run(&broker, |admin| async move { admin.alter_reassignments(ended, None).await });
    assert_eq!(told, Ok(vec![(TopicPartition::new("a", 0), Ok(()))]));
}

/// A refusal of the first attempt is the caller's.
#[test]
fn what_was_done_before_the_call_is_refused() {
    let broker = FakeBroker::start(is_done);
    let told = run(&broker, |admin| async move {
        let gone = admin.delete_topics(vec!["a".to_owned()], None).await.expect("answers");
        (create(&admin, topic("a"), false).await, gone[0].1.as_ref().err().and_then(|e| e.code()))
    });
    let codes = (ErrorCode::TopicAlreadyExists, ErrorCode::UnknownTopicOrPartition);
    assert_eq!(told, (Some(codes.0), Some(codes.1)));
}
