//! Requests that are well formed and mean harm: small to send, large to answer or to keep.
#![allow(clippy::unwrap_used)]

mod client;

use bytes::Bytes;
use client::{Client, awaited, batch, create_topic, start};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::metrics::Value;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use kafkalite_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsTopic,
};
use kafkalite_protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use kafkalite_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use kafkalite_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use kafkalite_protocol::messages::describe_groups::DescribeGroupsRequest;
use kafkalite_protocol::messages::describe_log_dirs::{
    DescribableLogDirTopic, DescribeLogDirsRequest,
};
use kafkalite_protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use kafkalite_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use kafkalite_protocol::messages::find_coordinator::FindCoordinatorRequest;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use kafkalite_protocol::messages::leave_group::LeaveGroupRequest;
use kafkalite_protocol::messages::list_groups::ListGroupsRequest;
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use kafkalite_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

const MANY: usize = 200_000;
const REFUSED: i16 = ErrorCode::PolicyViolation as i16;

/// A broker with the topic `t`, and a connection to it; its groups are loaded.
fn broker(settings: &[(&str, &str)]) -> (tempfile::TempDir, Broker, Client) {
    let directory = tempfile::tempdir().unwrap();
    let few = [("offsets.topic.num.partitions", "1"), ("group.initial.rebalance.delay.ms", "0")];
    let broker = start(directory.path(), &[&few[..], settings].concat());
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    let find = FindCoordinatorRequest {
        coordinator_keys: vec!["g".into()],
        ..FindCoordinatorRequest::default()
    };
    client.call(&find, 6);
    let list = ListGroupsRequest::default();
    awaited::until("the groups are loaded", || client.call(&list, 5).error_code == 0);
    (directory, broker, client)
}

#[test]
fn what_is_named_many_times_is_answered_once() {
    let (_directory, broker, mut client) = broker(&[]);
    client.produce("t", batch(&["v"], Some((7, 0, 0))), -1);

    let spellings = ["1", "01", "+1", "+001"].iter().cycle().take(MANY);
    let resource = |name: &&str| DescribeConfigsResource {
        resource_type: 4,
        resource_name: (*name).to_owned(),
        ..DescribeConfigsResource::default()
    };
    let request = DescribeConfigsRequest {
        resources: spellings.map(resource).collect(),
        ..DescribeConfigsRequest::default()
    };
    assert_eq!(client.call(&request, 4).results.len(), 1);

    let request = DescribeGroupsRequest {
        groups: vec!["g".into(); MANY],
        ..DescribeGroupsRequest::default()
    };
    assert_eq!(client.call(&request, 6).groups.len(), 1);

    let topic = OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: vec![0; MANY],
        ..OffsetFetchRequestTopics::default()
    };
    let group = |topics| OffsetFetchRequestGroup {
        group_id: "g".into(),
        topics,
        ..OffsetFetchRequestGroup::default()
    };
    let named = group(Some(vec![topic]));
    let other = OffsetFetchRequestGroup { group_id: "h".into(), ..group(None) };
    let groups = [vec![named.clone(), named], vec![group(None); 1_000], vec![other]].concat();
    let request = OffsetFetchRequest { groups, ..OffsetFetchRequest::default() };
    let answer = client.call(&request, 9);
    let told: Vec<usize> = (answer.groups.iter())
        .map(|group| group.topics.iter().map(|topic| topic.partitions.len()).sum())
        .collect();
    // As it was asked for, everything the group has (nothing), and another group.
    assert_eq!(told, [1, 0, 0, 0]);

    let topic = TopicRequest { name: "t".into(), partition_indexes: vec![0; MANY] };
    let request = DescribeProducersRequest { topics: vec![topic.clone(), topic] };
    let answer = client.call(&request, 0);
    assert_eq!(answer.topics[0].partitions.len() + answer.topics[1].partitions.len(), 1);

    let topic = DescribableLogDirTopic { topic: "t".into(), partitions: vec![0; MANY] };
    let answer = client.call(&DescribeLogDirsRequest { topics: Some(vec![topic]) }, 4);
    assert_eq!(answer.results[0].topics[0].partitions.len(), 1);
    broker.stop();
}

#[test]
fn a_partition_that_is_asked_in_two_topics_of_a_request_is_looked_up_for_neither() {
    let (_directory, broker, mut client) = broker(&[]);
    let partition = ListOffsetsPartition { timestamp: 1, ..ListOffsetsPartition::default() };
    let topic = ListOffsetsTopic { name: "t".into(), partitions: vec![partition] };
    let request = ListOffsetsRequest {
        replica_id: -1,
        topics: vec![topic; 10_000],
        ..ListOffsetsRequest::default()
    };
    let answer = client.call(&request, 7);
    let told: Vec<_> = answer.topics.iter().flat_map(|topic| &topic.partitions).collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].error_code, ErrorCode::InvalidRequest.code());
    broker.stop();
}

#[test]
fn records_deleted_many_times_in_one_request_wait_for_the_disk_once() {
    let (_directory, broker, mut client) = broker(&[]);
    client.produce("t", batch(&["a", "b"], None), -1);
    let partition = DeleteRecordsPartition { partition_index: 0, offset: 1 };
    let topic = DeleteRecordsTopic { name: "t".into(), partitions: vec![partition; 20_000] };
    let answer = client.call(&DeleteRecordsRequest { topics: vec![topic], timeout_ms: 1_000 }, 2);
    let told = &answer.topics[0].partitions;
    assert!(told.iter().all(|one| (one.error_code, one.low_watermark) == (0, 1)));
    broker.stop();
}

#[test]
fn more_partitions_than_kafka_makes_are_refused_before_they_are_counted_out() {
    let (_directory, broker, mut client) = broker(&[]);
    for name in ["a", "b", "c"] {
        create_topic(&broker, name, 1, &[]);
    }
    let more = |name: &str, count| CreatePartitionsTopic {
        name: name.into(),
        count,
        ..CreatePartitionsTopic::default()
    };
    for topics in [
        vec![more("a", i32::MAX)],
        vec![more("a", i32::MAX), more("b", i32::MAX), more("c", i32::MAX)],
        vec![more("a", 5_002), more("b", 5_001)],
    ] {
        let request = CreatePartitionsRequest { topics, timeout_ms: 1_000, validate_only: false };
        let errors: Vec<_> =
            client.call(&request, 3).results.iter().map(|one| one.error_code).collect();
        assert!(errors.iter().all(|error| *error == REFUSED), "{errors:?}");
    }
    let topic = |name: &str| CreatableTopic {
        name: name.into(),
        num_partitions: i32::MAX,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    let topics = vec![topic("d"), topic("e")];
    let request = CreateTopicsRequest { topics, ..CreateTopicsRequest::default() };
    assert!(client.call(&request, 7).topics.iter().all(|one| one.error_code == REFUSED));
    broker.stop();
}

#[test]
fn a_client_that_asks_for_ten_thousand_topics_too_many_makes_none() {
    let (_directory, broker, mut client) = broker(&[]);
    let topic = |i| MetadataRequestTopic {
        name: Some(format!("made.by_{i}")),
        ..MetadataRequestTopic::default()
    };
    let request = MetadataRequest {
        topics: Some((0..10_001).map(topic).collect()),
        allow_auto_topic_creation: true,
        ..MetadataRequest::default()
    };
    let answer = client.call(&request, 12);
    let missing = ErrorCode::UnknownTopicOrPartition.code();
    assert!(answer.topics.iter().all(|topic| topic.error_code == missing));
    assert_eq!(broker.rooms().controller.image().topics.len(), 2, "t and the offsets");
    broker.stop();
}

#[test]
fn a_request_of_more_than_a_million_elements_ends_its_connection_alone() {
    let (_directory, broker, mut client) = broker(&[]);
    let mut other = Client::connect(&broker);
    for (count, answered) in [(1_000_000 - 1, true), (1_000_000, false)] {
        let partitions = vec![7; count];
        let topic = DescribableLogDirTopic { topic: "none".into(), partitions };
        client.send(&DescribeLogDirsRequest { topics: Some(vec![topic]) }, 4);
        let answer = client.receive::<DescribeLogDirsRequest>(4);
        assert_eq!(answer.is_some(), answered, "{count} and the topic");
    }
    assert_eq!(other.produce("t", batch(&["v"], None), -1).error_code, 0);
    broker.stop();
}

fn join(group: &str, member: &str, protocols: usize, bytes: usize) -> JoinGroupRequest {
    let protocol = |i| JoinGroupRequestProtocol {
        name: format!("p{i}"),
        metadata: Bytes::from(vec![0; bytes]),
    };
    JoinGroupRequest {
        group_id: group.into(),
        member_id: member.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: (0..protocols).map(protocol).collect(),
        ..JoinGroupRequest::default()
    }
}

#[test]
fn the_members_of_all_groups_together_have_bounded_memory() {
    let (_directory, broker, mut client) = broker(&[("kafkalite.group.memory.bytes", "1000000")]);
    let full = ErrorCode::GroupMaxSizeReached.code();
    let large = join("a", "", 1, 600_000);
    let first = client.call(&large, 3);
    assert_eq!(first.error_code, 0);
    // Another group, whose first member would be too much, also with an id that it was given.
    assert_eq!(client.call(&join("b", "", 1, 600_000), 3).error_code, full);
    let given = client.call(&join("b", "", 1, 1), 4);
    assert_eq!(given.error_code, ErrorCode::MemberIdRequired.code());
    let again = join("b", &given.member_id, 3, 200_000);
    assert_eq!(client.call(&again, 4).error_code, full);
    // Who is a member may come back with what it has.
    let back = join("a", &first.member_id, 1, 600_000);
    assert_eq!(client.call(&back, 3).error_code, 0);
    let leave = LeaveGroupRequest {
        group_id: "a".into(),
        member_id: first.member_id,
        ..LeaveGroupRequest::default()
    };
    assert_eq!(client.call(&leave, 2).error_code, 0);
    assert_eq!(client.call(&join("c", "", 1, 600_000), 3).error_code, 0);
    broker.stop();
}

/// Their protocols alone were weighed: ids of 30 KiB, kept four times each, cost nothing.
#[test]
fn the_names_of_members_are_weighed_as_well() {
    let (_directory, broker, mut client) = broker(&[("kafkalite.group.memory.bytes", "1000000")]);
    let named = |i: usize| JoinGroupRequest {
        group_instance_id: Some(format!("{i}{}", "x".repeat(30_000))),
        ..join(&format!("g{i}"), "", 1, 1)
    };
    let full = ErrorCode::GroupMaxSizeReached.code();
    let joined = (0..20).take_while(|i| client.call(&named(*i), 5).error_code != full).count();
    assert!((1..10).contains(&joined), "{joined} members of 120 KiB and more have 1 MB");
    broker.stop();
}

/// What leaders assign was kept beside what members joined with, and weighed nothing.
#[test]
fn assignments_are_weighed_as_well() {
    let (_directory, broker, mut client) = broker(&[("kafkalite.group.memory.bytes", "1000000")]);
    let mut assign = |group: &str, bytes: usize| {
        let joined = client.call(&join(group, "", 1, 1), 3);
        let assignment = SyncGroupRequestAssignment {
            member_id: joined.member_id.clone(),
            assignment: Bytes::from(vec![0; bytes]),
        };
        let request = SyncGroupRequest {
            group_id: group.into(),
            generation_id: joined.generation_id,
            member_id: joined.member_id,
            assignments: vec![assignment],
            ..SyncGroupRequest::default()
        };
        client.call(&request, 3).error_code
    };
    assert_eq!(assign("a", 600_000), 0);
    assert_eq!(assign("b", 600_000), ErrorCode::UnknownServerError.code());
    assert_eq!(assign("c", 100_000), 0);
    broker.stop();
}

#[test]
fn a_member_that_knows_very_many_protocols_delays_no_other_member() {
    let (_directory, broker, mut client) = broker(&[]);
    let joined = client.call(&join("g", "", MANY, 0), 3);
    assert_eq!(joined.error_code, 0);
    let beat = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id,
        ..HeartbeatRequest::default()
    };
    assert_eq!(client.call(&beat, 3).error_code, 0);
    let request = ListGroupsRequest {
        states_filter: (0..MANY).map(|i| format!("state {i}")).collect(),
        ..ListGroupsRequest::default()
    };
    assert!(client.call(&request, 5).groups.is_empty());
    broker.stop();
}

fn fetch_request(partitions: Vec<FetchPartition>, min_bytes: i32) -> FetchRequest {
    let topic = FetchTopic { topic: "t".into(), partitions, ..FetchTopic::default() };
    FetchRequest {
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes,
        session_epoch: -1,
        topics: vec![topic],
        ..FetchRequest::default()
    }
}

/// A Fetch that named one partition 20,000 times looked at the partition and answered it as often.
/// While it waited, each produce to that partition took half a minute.
#[test]
fn a_fetch_that_names_one_partition_many_times_waits_there_once() {
    let (_directory, broker, mut client) = broker(&[]);
    let partition = |fetch_offset| FetchPartition {
        fetch_offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let mut named = vec![partition(7); 20_000];
    named.push(partition(0));
    client.send(&fetch_request(named, i32::MAX), 11);
    let mut other = Client::connect(&broker);
    let begun = std::time::Instant::now();
    assert_eq!(other.produce("t", batch(&["v"], None), -1).error_code, 0);
    let took = begun.elapsed();
    assert!(took < std::time::Duration::from_secs(5), "the produce took {took:?}");
    let (_, answer) = client.receive::<FetchRequest>(11).expect("an answer");
    let told: Vec<_> = answer.responses.iter().flat_map(|topic| &topic.partitions).collect();
    assert_eq!(told.len(), 1);
    // As in Kafka the last wish counts: offset 0, where there is a record. Offset 7 is an error.
    assert_eq!(told[0].error_code, 0);
    broker.stop();
}

/// Fetches that waited were in no account: 300 of them, 56 KB each, held 80 MiB as long as their
/// `max_wait_ms` said.
#[test]
fn fetches_that_wait_hold_no_more_than_the_budget_together() {
    const BUDGET: i64 = 200_000;
    let settings = [("kafkalite.memory.budget.bytes", "200000"), ("num.partitions", "1")];
    let (_directory, broker, mut client) = broker(&settings);
    create_topic(&broker, "wide", 500, &[]);
    let partition = |partition| FetchPartition {
        partition,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    let mut request = fetch_request((0..500).map(partition).collect(), i32::MAX);
    request.topics[0].topic = "wide".into();
    let mut clients: Vec<Client> = (0..30).map(|_| Client::connect(&broker)).collect();
    for client in &mut clients {
        client.send(&request, 11);
    }
    // 30 fetches of 32,000 bytes take five rounds of half a second.
    let answered = std::thread::spawn(move || {
        let answers = clients.iter_mut().filter_map(|client| client.receive::<FetchRequest>(11));
        answers.count()
    });
    let mut most = 0;
    while !answered.is_finished() {
        most = most.max(held_by_fetches(&broker));
        assert_eq!(client.produce("t", batch(&["v"], None), -1).error_code, 0);
    }
    assert_eq!(answered.join().unwrap(), 30);
    assert!((1..2 * BUDGET).contains(&most), "{most} bytes were held at once");
    // The last of them gives its bytes back behind its answer.
    let begun = std::time::Instant::now();
    while held_by_fetches(&broker) != 0 {
        assert!(begun.elapsed() < std::time::Duration::from_secs(10), "bytes are held");
        std::thread::yield_now();
    }
    broker.stop();
}

fn held_by_fetches(broker: &Broker) -> i64 {
    let mut held = 0;
    broker.metrics().for_each_scalar(|name, _, labels, value| {
        let is_fetch = labels.iter().any(|(_, value)| value == "Fetch");
        if let (true, true, Value::Gauge(bytes)) =
            (name == "kafkalite_purgatory_bytes", is_fetch, value)
        {
            held = bytes;
        }
    });
    held
}

/// A refusal named its topic for each partition: 4 MB of such a request were answered by 32 GB.
#[test]
fn a_long_name_with_many_partitions_is_not_told_with_each_of_them() {
    let (_directory, broker, mut client) = broker(&[]);
    let name = "n".repeat(30_000);
    let count = 20_000;
    let topic = TopicPartitions { topic: name.clone(), partitions: (0..count).collect() };
    let request = ElectLeadersRequest {
        topic_partitions: Some(vec![topic]),
        timeout_ms: 1_000,
        ..ElectLeadersRequest::default()
    };
    let told = &client.call(&request, 2).replica_election_results[0].partition_result;
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(told.iter().filter(|one| one.error_code == unknown).count(), count as usize);
    let said = told.iter().filter_map(|one| one.error_message.as_ref());
    let bytes: usize = said.clone().map(String::len).sum();
    assert!(said.count() > 0 && bytes <= 16 << 20, "{bytes} bytes of words");

    let partition = |partition_index| ReassignablePartition { partition_index, replicas: None };
    let partitions = (0..count).map(partition).collect();
    let request = AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic { name, partitions }],
        timeout_ms: 1_000,
        ..AlterPartitionReassignmentsRequest::default()
    };
    let told = &client.call(&request, 0).responses[0].partitions;
    assert_eq!(told.iter().filter(|one| one.error_code == unknown).count(), count as usize);
    let bytes: usize = told.iter().filter_map(|one| Some(one.error_message.as_ref()?.len())).sum();
    assert!(bytes <= 16 << 20, "{bytes} bytes of words");
    broker.stop();
}
