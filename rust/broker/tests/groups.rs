//! Groups and committed offsets through sockets, every room included.
#![allow(clippy::unwrap_used)]

mod client;

use bytes::Bytes;
use client::{Client, awaited, create_topic, start};
use kafkalite_broker::broker::Broker;
use kafkalite_protocol::messages::delete_groups::DeleteGroupsRequest;
use kafkalite_protocol::messages::describe_groups::DescribeGroupsRequest;
use kafkalite_protocol::messages::find_coordinator::FindCoordinatorRequest;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use kafkalite_protocol::messages::list_groups::ListGroupsRequest;
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};
use kafkalite_protocol::{ErrorCode, LeaderEpoch};
use std::path::Path;

const GROUP: &str = "g";

fn broker(directory: &Path) -> Broker {
    let few = [("group.initial.rebalance.delay.ms", "0"), ("offsets.topic.num.partitions", "3")];
    start(directory, &few)
}

/// A connection that knows who coordinates, once the groups are loaded.
fn connect(broker: &Broker) -> Client {
    let mut client = Client::connect(broker);
    let request = FindCoordinatorRequest {
        coordinator_keys: vec![GROUP.into()],
        ..FindCoordinatorRequest::default()
    };
    let found = client.call(&request, 6).coordinators.remove(0);
    assert_eq!((found.error_code, found.host.as_str()), (0, "127.0.0.1"));
    assert_eq!(found.port, i32::from(broker.listeners()[0].1.port()));
    client
}

fn join_request(member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: GROUP.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        member_id: member_id.into(),
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"),
        }],
        ..JoinGroupRequest::default()
    }
}

/// Gets an id, then joins with it; the answer must not have to wait for others.
fn join(client: &mut Client) -> JoinGroupResponse {
    let first = client.call(&join_request(""), 9);
    assert_eq!(first.error_code, ErrorCode::MemberIdRequired.code());
    assert!(first.member_id.starts_with("test-"), "{}", first.member_id);
    client.call(&join_request(&first.member_id), 9)
}

fn sync_request(joined: &JoinGroupResponse, to: &[(&str, &'static [u8])]) -> SyncGroupRequest {
    let assignment = |(member_id, bytes): &(&str, &'static [u8])| SyncGroupRequestAssignment {
        member_id: (*member_id).into(),
        assignment: Bytes::from_static(bytes),
    };
    SyncGroupRequest {
        group_id: GROUP.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        protocol_type: Some("consumer".into()),
        protocol_name: Some("range".into()),
        assignments: to.iter().map(assignment).collect(),
        ..SyncGroupRequest::default()
    }
}

fn heartbeat(client: &mut Client, joined: &JoinGroupResponse) -> i16 {
    let request = HeartbeatRequest {
        group_id: GROUP.into(),
        generation_id: joined.generation_id,
        member_id: joined.member_id.clone(),
        group_instance_id: None,
    };
    client.call(&request, 4).error_code
}

fn commit(
    client: &mut Client,
    group: &str,
    joined: Option<&JoinGroupResponse>,
    offset: i64,
) -> i16 {
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: joined.map_or(-1, |joined| joined.generation_id),
        member_id: joined.map_or_else(String::new, |joined| joined.member_id.clone()),
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: offset,
                committed_metadata: Some("note".into()),
                ..OffsetCommitRequestPartition::default()
            }],
            ..OffsetCommitRequestTopic::default()
        }],
        ..OffsetCommitRequest::default()
    };
    client.call(&request, 9).topics[0].partitions[0].error_code
}

fn committed(client: &mut Client, group: &str) -> (i64, Option<String>) {
    let topic = OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: vec![0],
        ..OffsetFetchRequestTopics::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: group.into(),
        topics: Some(vec![topic]),
        ..OffsetFetchRequestGroup::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
    let mut answer = client.call(&request, 9).groups.remove(0);
    // After a start groups are loaded beside the first requests, as in Kafka: clients ask again.
    awaited::until("the group is loaded", || {
        let is_loading = answer.error_code == ErrorCode::CoordinatorLoadInProgress.code();
        if is_loading {
            answer = client.call(&request, 9).groups.remove(0);
        }
        !is_loading
    });
    assert_eq!(answer.error_code, 0);
    let partition = answer.topics.remove(0).partitions.remove(0);
    (partition.committed_offset, partition.metadata)
}

#[test]
fn a_transactional_producer_gets_a_fatal_error_for_its_coordinator() {
    let directory = tempfile::tempdir().unwrap();
    let broker = broker(directory.path());
    let mut client = Client::connect(&broker);
    let request = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec!["transactional id".into()],
        ..FindCoordinatorRequest::default()
    };
    let found = client.call(&request, 6).coordinators.remove(0);
    assert_eq!(found.error_code, ErrorCode::TransactionalIdAuthorizationFailed.code());
    assert_eq!(found.node_id, -1);
    broker.stop();
}

#[test]
fn two_members_share_a_group_and_a_restart_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let running = broker(directory.path());
    create_topic(&running, "t", 1, &[]);
    let (mut one, mut two) = (connect(&running), connect(&running));
    let first = join(&mut one);
    assert_eq!((first.error_code, first.generation_id), (0, 1));
    let alone = sync_request(&first, &[(&first.member_id, b"all")]);
    assert_eq!(one.call(&alone, 5).assignment.as_ref(), b"all");

    let id = two.call(&join_request(""), 9).member_id;
    two.send(&join_request(&id), 9);
    awaited::until("the rebalance begins", || heartbeat(&mut one, &first) != 0);
    let leader = one.call(&join_request(&first.member_id), 9);
    let (_, follower) = two.receive::<JoinGroupRequest>(9).unwrap();
    assert_eq!((leader.members.len(), follower.members.len()), (2, 0));
    assert_eq!(follower.leader, leader.member_id);
    two.send(&sync_request(&follower, &[]), 5);
    let shares = [(leader.member_id.as_str(), &b"half"[..]), (&follower.member_id, b"other half")];
    assert_eq!(one.call(&sync_request(&leader, &shares), 5).assignment.as_ref(), b"half");
    let (_, synced) = two.receive::<SyncGroupRequest>(5).unwrap();
    assert_eq!(synced.assignment.as_ref(), b"other half");
    assert_eq!(commit(&mut one, GROUP, Some(&leader), 41), 0);
    assert_eq!(commit(&mut one, GROUP, Some(&leader), 42), 0);
    running.stop();

    let running = broker(directory.path());
    let mut client = connect(&running);
    assert_eq!(committed(&mut client, GROUP), (42, Some("note".into())));
    assert_eq!(heartbeat(&mut client, &follower), 0);
    let request =
        DescribeGroupsRequest { groups: vec![GROUP.into()], ..DescribeGroupsRequest::default() };
    let described = client.call(&request, 6).groups.remove(0);
    assert_eq!((described.group_state.as_str(), described.members.len()), ("Stable", 2));
    assert_eq!(described.members[0].client_host, "/127.0.0.1");
    running.stop();
}

#[test]
fn a_group_without_members_is_listed_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let running = broker(directory.path());
    create_topic(&running, "t", 1, &[]);
    let mut client = connect(&running);
    assert_eq!(commit(&mut client, "simple", None, 7), 0);
    assert_eq!(committed(&mut client, "simple"), (7, Some("note".into())));
    assert_eq!(committed(&mut client, "nobody"), (-1, Some(String::new())));
    let listed = client.call(&ListGroupsRequest::default(), 5).groups;
    assert_eq!((listed.len(), listed[0].group_state.as_str()), (1, "Empty"));
    let request = DeleteGroupsRequest { groups_names: vec!["simple".into()] };
    assert_eq!(client.call(&request, 2).results[0].error_code, 0);
    let again = client.call(&request, 2).results[0].error_code;
    assert_eq!(again, ErrorCode::GroupIdNotFound.code());
    assert_eq!(committed(&mut client, "simple"), (-1, Some(String::new())));
    running.stop();
}

/// With `flush.messages=1` a commit waits for the disk. One that waited too long was in the log and
/// not in memory: consumers saw the older offset until the broker started again.
#[test]
fn a_commit_that_the_disk_kept_too_long_is_seen_once_it_is_on_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let slow = [
        ("offsets.topic.num.partitions", "3"),
        ("log.flush.interval.messages", "1"),
        ("offsets.commit.timeout.ms", "1"),
    ];
    let running = start(directory.path(), &slow);
    create_topic(&running, "t", 1, &[]);
    let mut client = connect(&running);
    assert_eq!(committed(&mut client, GROUP).0, -1);
    // From now on only this test flushes.
    let partitions = &running.rooms().partitions;
    partitions.committer().stop();
    let late = ErrorCode::CoordinatorNotAvailable.code();
    assert_eq!(commit(&mut client, GROUP, None, 7), late);
    assert_eq!(committed(&mut client, GROUP).0, -1);
    for partition in partitions.all() {
        partition.flush().unwrap();
    }
    // The wait for the disk is renewed every millisecond: it may be between two of them.
    awaited::until("the commit is on the disk", || committed(&mut client, GROUP).0 != -1);
    assert_eq!(committed(&mut client, GROUP).0, 7);
    running.stop();
}

/// The coordinator appended in whatever epoch its broker led.
#[test]
fn a_coordinator_writes_in_the_leader_epoch_that_it_was_loaded_in_and_in_no_other() {
    let directory = tempfile::tempdir().unwrap();
    let running = start(directory.path(), &[("offsets.topic.num.partitions", "1")]);
    create_topic(&running, "t", 1, &[]);
    let mut client = connect(&running);
    assert_eq!(commit(&mut client, GROUP, None, 7), 0);
    let rooms = running.rooms();
    let partition = rooms.partitions.find_by_name("__consumer_offsets", 0).unwrap();
    let end = partition.log_end_offset();
    // The partition gets its next epoch, and the coordinator does not.
    let mut image = rooms.controller.image().partition("__consumer_offsets", 0).unwrap().clone();
    (image.leader_epoch, image.partition_epoch) =
        (LeaderEpoch(image.leader_epoch.0 + 1), image.partition_epoch + 1);
    partition.follow_image(&image);
    assert_eq!(commit(&mut client, GROUP, None, 8), ErrorCode::NotCoordinator.code());
    assert_eq!(partition.log_end_offset(), end);
    running.stop();
}
