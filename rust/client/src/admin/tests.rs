mod controllers;
mod doubtful;
mod features;

use super::*;
use crate::config::ClientKind;
use crate::runtime::Runtime;
use crate::topic_partition::TopicPartition;
use kafkalite_connection::testing::{
    Answer, Asked, FakeBroker, NODE, OTHER, coordinator, coordinator_is,
};
use kafkalite_connection::{CoordinatorKind, Wanted};
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::create_topics::{
    CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use kafkalite_protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup,
};
use kafkalite_protocol::messages::elect_leaders::{ElectLeadersRequest, ElectLeadersResponse};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup,
};

/// A configuration that leads to `broker` and waits for little.
fn config(broker: &FakeBroker, more: &[(&str, &str)]) -> ClientConfig {
    let servers = broker.place.to_string();
    let pairs = [
        ("bootstrap.servers", servers.as_str()),
        ("retry.backoff.ms", "1"),
        ("retry.backoff.max.ms", "2"),
    ];
    let pairs = pairs.iter().chain(more).map(|(key, value)| (key.to_string(), value.to_string()));
    ClientConfig::from_pairs(ClientKind::Admin, &pairs.collect()).expect("a valid configuration")
}

/// Runs `what` with an admin client of `broker`.
fn run<F, T>(broker: &FakeBroker, what: impl FnOnce(Admin) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    run_with(&config(broker, &[]), what)
}

/// The same with a configuration.
fn run_with<F, T>(config: &ClientConfig, what: impl FnOnce(Admin) -> F) -> T
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let runtime = Runtime::start("test").expect("a thread");
    let result = what(Admin::new(config));
    let deadline = Instant::now() + Duration::from_secs(60);
    runtime.call(async move { Ok(result.await) }, deadline).expect("it ends")
}

fn topic(name: &str) -> NewTopic {
    NewTopic { name: name.into(), partitions: 1, replication_factor: 1, ..NewTopic::default() }
}

fn created(asked: &Asked, code: impl Fn(&str) -> ErrorCode) -> Answer {
    let request: CreateTopicsRequest = asked.read();
    let result = |name: String| CreatableTopicResult {
        error_code: code(&name) as i16,
        name,
        ..CreatableTopicResult::default()
    };
    let topics = request.topics.into_iter().map(|topic| result(topic.name)).collect();
    asked.answer::<CreateTopicsRequest>(&CreateTopicsResponse { topics, throttle_time_ms: 0 })
}

/// The answer that group `g` has committed nothing.
fn no_offsets(asked: &Asked) -> Answer {
    let group = OffsetFetchResponseGroup { group_id: "g".into(), ..Default::default() };
    let told = OffsetFetchResponse { groups: vec![group], ..Default::default() };
    asked.answer::<OffsetFetchRequest>(&told)
}

#[test]
fn of_several_things_those_that_failed_in_passing_are_tried_again() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::CreateTopics) {
            return Answer::Usual;
        }
        let request: CreateTopicsRequest = asked.read();
        let names: Vec<_> = request.topics.iter().map(|topic| topic.name.as_str()).collect();
        assert_eq!(names, if asked.before == 0 { vec!["a", "b", "c"] } else { vec!["b"] });
        let first = asked.before == 0;
        created(asked, |name| match name {
            "b" if first => ErrorCode::NotController,
            "c" => ErrorCode::InvalidTopicException,
            _ => ErrorCode::None,
        })
    });
    let each = run(&broker, |admin| async move {
        admin.create_topics(["a", "b", "c"].map(topic).into(), true, None).await
    });
    let each = each.expect("the way there is good");
    let outcome = |(name, result): &(String, Result<_, ClientError>)| {
        (name.clone(), result.as_ref().err().and_then(ClientError::code))
    };
    let refused = Some(ErrorCode::InvalidTopicException);
    let expected = [("a".to_owned(), None), ("b".to_owned(), None), ("c".to_owned(), refused)];
    assert_eq!(each.iter().map(outcome).collect::<Vec<_>>(), expected);
    // Who the controller is was asked again.
    assert!(broker.count(ApiKey::Metadata) >= 2);
}

#[test]
fn a_call_whose_connection_breaks_is_made_again() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::CreateTopics) {
        true if asked.before == 0 => Answer::Close,
        true => created(asked, |_| ErrorCode::None),
        false => Answer::Usual,
    });
    let each =
        run(
            &broker,
            |admin| async move { admin.create_topics(vec![topic("a")], true, None).await },
        );
    assert!(each.is_ok_and(|each| each[0].1.is_ok()));
}

#[test]
fn an_answer_that_leaves_something_out_is_malformed() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::CreateTopics) {
        true => asked.answer::<CreateTopicsRequest>(&CreateTopicsResponse::default()),
        false => Answer::Usual,
    });
    let each =
        run(
            &broker,
            |admin| async move { admin.create_topics(vec![topic("a")], true, None).await },
        );
    let (_, result) = each.expect("the way there is good").remove(0);
    assert!(matches!(result, Err(ClientError::MalformedResponse { .. })), "{result:?}");
}

#[test]
fn what_an_answer_leaves_out_of_a_list_that_was_asked_for_is_an_error() {
    let broker = FakeBroker::start(|asked| {
        if asked.is(ApiKey::ElectLeaders) {
            asked.answer::<ElectLeadersRequest>(&ElectLeadersResponse::default())
        } else if asked.is(ApiKey::FindCoordinator) {
            coordinator(asked)
        } else if asked.is(ApiKey::OffsetFetch) {
            no_offsets(asked)
        } else {
            Answer::Usual
        }
    });
    let x = || Some(vec![TopicPartition::new("x", 0)]);
    let elected = run(&broker, |admin| async move { admin.elect_leaders(false, x(), None).await });
    let told = run(&broker, |admin| async move { admin.list_group_offsets("g", x(), None).await });
    let elected = elected.expect("the way there is good").remove(0).1;
    let told = told.expect("the way there is good").remove(0).1;
    assert!(matches!(elected, Err(ClientError::MalformedResponse { .. })), "{elected:?}");
    assert!(matches!(told, Err(ClientError::MalformedResponse { .. })), "{told:?}");
}

#[test]
fn a_call_without_an_answer_ends_with_its_time() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::CreateTopics) {
        true => Answer::Silence,
        false => Answer::Usual,
    });
    let each = run(&broker, |admin| async move {
        let limit = Some(Duration::from_millis(500));
        admin.create_topics(vec![topic("a")], true, limit).await
    });
    let (_, result) = each.expect("the way there is good").remove(0);
    assert!(matches!(result, Err(ClientError::Timeout { .. })), "{result:?}");
}

#[test]
fn a_group_whose_coordinator_moved_is_asked_for_at_the_new_one() {
    let broker = FakeBroker::start(|asked| {
        if asked.is(ApiKey::FindCoordinator) {
            return coordinator(asked);
        }
        if !asked.is(ApiKey::DescribeGroups) {
            return Answer::Usual;
        }
        let request: DescribeGroupsRequest = asked.read();
        let moved = ErrorCode::NotCoordinator;
        let code = if asked.before == 0 { moved } else { ErrorCode::None };
        let group = |group_id: String| DescribedGroup {
            group_id,
            error_code: code as i16,
            group_state: "Empty".into(),
            ..DescribedGroup::default()
        };
        let groups = request.groups.into_iter().map(group).collect();
        let response = DescribeGroupsResponse { groups, ..Default::default() };
        asked.answer::<DescribeGroupsRequest>(&response)
    });
    let each =
        run(&broker, |admin| async move { admin.describe_groups(vec!["g".into()], None).await });
    let (_, group) = each.expect("the way there is good").remove(0);
    assert_eq!(group.map(|group| group.state), Ok("Empty".to_owned()));
    assert_eq!(broker.count(ApiKey::FindCoordinator), 2);
}

#[test]
fn a_partition_whose_leader_moves_is_looked_up_again() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::ListOffsets) {
            return Answer::Usual;
        }
        let request: ListOffsetsRequest = asked.read();
        let moved = ErrorCode::NotLeaderOrFollower;
        let code = if asked.before == 0 { moved } else { ErrorCode::None };
        let topics = request.topics.into_iter().map(|topic| ListOffsetsTopicResponse {
            name: topic.name,
            partitions: vec![ListOffsetsPartitionResponse {
                partition_index: 0,
                error_code: code as i16,
                offset: 42,
                ..ListOffsetsPartitionResponse::default()
            }],
        });
        let response = ListOffsetsResponse { topics: topics.collect(), throttle_time_ms: 0 };
        asked.answer::<ListOffsetsRequest>(&response)
    });
    let each = run(&broker, |admin| async move {
        let times =
            vec![(TopicPartition::new("t", 0), LATEST), (TopicPartition::new("t", 9), LATEST)];
        let isolation = crate::config::IsolationLevel::ReadUncommitted;
        admin.list_offsets(times, isolation, None).await
    });
    let each = each.expect("the way there is good");
    assert_eq!(each[0].1.as_ref().map(|listed| listed.offset), Ok(42));
    let missing = each[1].1.as_ref().expect_err("there is no such partition");
    assert_eq!(missing.code(), Some(ErrorCode::UnknownTopicOrPartition));
    assert_eq!(broker.count(ApiKey::ListOffsets), 2);
}

/// The way to it failed before anything was asked, and it was asked for as long as there was time.
#[test]
fn a_group_whose_coordinator_is_gone_is_asked_for_at_the_new_one() {
    let broker = FakeBroker::start(|asked| {
        if asked.is(ApiKey::FindCoordinator) {
            coordinator_is(asked, if asked.before == 0 { OTHER } else { NODE })
        } else if asked.is(ApiKey::OffsetFetch) {
            no_offsets(asked)
        } else {
            Answer::Usual
        }
    });
    let told = run(&broker, |admin| async move {
        admin.cluster().coordinator(CoordinatorKind::Group, "g").await?;
        // By now the cluster has another broker alone.
        admin.cluster().refresh(Wanted::Brokers).await?;
        admin.list_group_offsets("g", None, Some(Duration::from_secs(10))).await
    });
    assert_eq!(told, Ok(Vec::new()));
}
