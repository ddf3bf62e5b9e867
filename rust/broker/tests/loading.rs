//! While `__consumer_offsets` is being read: groups are called loading, and nothing is invented.
#![allow(clippy::unwrap_used)]

mod client;

use bytes::Bytes;
use client::storage::{Asking, Use};
use client::{Client, awaited, config, create_topic, start};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::{ManualClock, SystemClock};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::delete_groups::DeleteGroupsRequest;
use kafkalite_protocol::messages::describe_groups::DescribeGroupsRequest;
use kafkalite_protocol::messages::find_coordinator::FindCoordinatorRequest;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use kafkalite_protocol::messages::leave_group::LeaveGroupRequest;
use kafkalite_protocol::messages::list_groups::ListGroupsRequest;
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafkalite_protocol::messages::offset_delete::OffsetDeleteRequest;
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafkalite_protocol::messages::sync_group::SyncGroupRequest;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

const GROUP: &str = "g";
const LOADING: i16 = ErrorCode::CoordinatorLoadInProgress as i16;
const FEW_PARTITIONS: [(&str, &str); 1] = [("offsets.topic.num.partitions", "3")];

#[derive(Debug, Default)]
struct Stands {
    is_reached: bool,
    is_open: bool,
}

/// Holds the thread that loads groups up until it is open.
#[derive(Clone, Debug, Default)]
struct Gate {
    stands: Arc<(Mutex<Stands>, Condvar)>,
}

impl Gate {
    fn open(&self) {
        self.stands.0.lock().unwrap().is_open = true;
        self.stands.1.notify_all();
    }

    fn pass(&self) {
        let mut stands = self.stands.0.lock().unwrap();
        stands.is_reached = true;
        self.stands.1.notify_all();
        let closed = |stands: &mut Stands| !stands.is_open;
        let waited = self.stands.1.wait_timeout_while(stands, awaited::LIMIT, closed).unwrap();
        assert!(!waited.1.timed_out(), "the test opens the gate");
    }

    /// A broker whose groups are loaded when this is open; the loading thread waits at the gate.
    /// Before that a request for a coordinator might load them.
    fn start(&self, directory: &Path) -> Broker {
        let gate = self.clone();
        let storage = Asking::new(move |what, _| {
            if what == Use::Read && std::thread::current().name() == Some("group-loader") {
                gate.pass();
            }
            Ok(())
        });
        let clock = Arc::new(SystemClock::new());
        let broker =
            Broker::start_with(config(directory, &FEW_PARTITIONS), clock, storage).unwrap();
        let stands = self.stands.0.lock().unwrap();
        let away = |stands: &mut Stands| !stands.is_reached;
        let waited = self.stands.1.wait_timeout_while(stands, awaited::LIMIT, away).unwrap();
        assert!(!waited.1.timed_out(), "the loader comes to the gate");
        broker
    }
}

fn commit_request() -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition {
        committed_offset: 7,
        ..OffsetCommitRequestPartition::default()
    };
    let topic = OffsetCommitRequestTopic {
        name: "t".into(),
        partitions: vec![partition],
        ..OffsetCommitRequestTopic::default()
    };
    OffsetCommitRequest {
        group_id: GROUP.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![topic],
        ..OffsetCommitRequest::default()
    }
}

fn fetch_request() -> OffsetFetchRequest {
    let topic = OffsetFetchRequestTopics {
        name: "t".into(),
        partition_indexes: vec![0],
        ..OffsetFetchRequestTopics::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: GROUP.into(),
        topics: Some(vec![topic]),
        ..OffsetFetchRequestGroup::default()
    };
    OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() }
}

/// Waits by asking: groups are loaded beside the first requests, as in Kafka. A log that opened
/// late has no coordinator before its load begins.
fn committed(client: &mut Client) -> i64 {
    let mut answer = None;
    awaited::until("the group is loaded", || {
        let group = client.call(&fetch_request(), 9).groups.remove(0);
        let is_loaded = ![LOADING, ErrorCode::NotCoordinator.code()].contains(&group.error_code);
        answer = Some(group);
        is_loaded
    });
    let mut answer = answer.expect("it was asked for");
    assert_eq!(answer.error_code, 0);
    answer.topics.remove(0).partitions[0].committed_offset
}

/// A broker with one committed offset, stopped.
fn stopped_with_a_commit(directory: &Path) {
    let broker = start(directory, &FEW_PARTITIONS);
    create_topic(&broker, "t", 1, &[]);
    let mut client = Client::connect(&broker);
    find_coordinator(&mut client);
    assert_eq!(committed(&mut client), -1);
    let answer = client.call(&commit_request(), 9);
    assert_eq!(answer.topics[0].partitions[0].error_code, 0);
    broker.stop();
}

fn find_coordinator(client: &mut Client) -> i16 {
    let request = FindCoordinatorRequest {
        coordinator_keys: vec![GROUP.into()],
        ..FindCoordinatorRequest::default()
    };
    client.call(&request, 6).coordinators[0].error_code
}

/// What each API that needs the group says, by its name.
fn errors(client: &mut Client) -> Vec<(&'static str, i16)> {
    let group = || GROUP.to_owned();
    let join = JoinGroupRequest {
        group_id: group(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"),
        }],
        ..JoinGroupRequest::default()
    };
    let sync = SyncGroupRequest {
        group_id: group(),
        generation_id: 1,
        member_id: "m".into(),
        ..SyncGroupRequest::default()
    };
    let leave = LeaveGroupRequest {
        group_id: group(),
        member_id: "m".into(),
        ..LeaveGroupRequest::default()
    };
    let describe =
        DescribeGroupsRequest { groups: vec![group()], ..DescribeGroupsRequest::default() };
    let delete = DeleteGroupsRequest { groups_names: vec![group()] };
    let forget = OffsetDeleteRequest { group_id: group(), ..OffsetDeleteRequest::default() };
    vec![
        ("JoinGroup", client.call(&join, 9).error_code),
        ("SyncGroup", client.call(&sync, 4).error_code),
        ("LeaveGroup", client.call(&leave, 2).error_code),
        ("OffsetCommit", client.call(&commit_request(), 9).topics[0].partitions[0].error_code),
        ("OffsetFetch", client.call(&fetch_request(), 9).groups[0].error_code),
        ("DescribeGroups", client.call(&describe, 6).groups[0].error_code),
        ("ListGroups", client.call(&ListGroupsRequest::default(), 5).error_code),
        ("DeleteGroups", client.call(&delete, 2).results[0].error_code),
        ("OffsetDelete", client.call(&forget, 0).error_code),
    ]
}

#[test]
fn a_group_is_loading_until_its_partition_was_read() {
    let directory = tempfile::tempdir().unwrap();
    stopped_with_a_commit(directory.path());
    let gate = Gate::default();
    let broker = gate.start(directory.path());
    let mut client = Client::connect(&broker);
    assert_eq!(find_coordinator(&mut client), 0, "it is here, whatever it knows");
    for (api, error) in errors(&mut client) {
        assert_eq!(error, LOADING, "{api}");
    }
    // A member that beats goes on living: its session begins when its group is here.
    let beat = HeartbeatRequest {
        group_id: GROUP.into(),
        generation_id: 1,
        member_id: "m".into(),
        ..HeartbeatRequest::default()
    };
    assert_eq!(client.call(&beat, 4).error_code, 0);
    gate.open();
    assert_eq!(committed(&mut client), 7);
    assert_eq!(client.call(&beat, 4).error_code, ErrorCode::UnknownMemberId.code());
    broker.stop();
}

#[test]
fn a_broker_that_is_still_loading_stops() {
    let directory = tempfile::tempdir().unwrap();
    stopped_with_a_commit(directory.path());
    let gate = Gate::default();
    let broker = gate.start(directory.path());
    broker.stop();
    gate.open();
    let broker = start(directory.path(), &FEW_PARTITIONS);
    assert_eq!(committed(&mut Client::connect(&broker)), 7);
    broker.stop();
}

/// The groups of a log that opened late were loaded when a client looked for their coordinator.
/// Clients that described or listed groups before that got an empty answer.
#[test]
fn groups_of_a_log_that_opens_late_are_loaded_then() {
    let directory = tempfile::tempdir().unwrap();
    stopped_with_a_commit(directory.path());
    let refuses = Arc::new(AtomicBool::new(true));
    let asked = refuses.clone();
    let storage = Asking::new(move |what, path| {
        let is_groups = path.to_string_lossy().contains("__consumer_offsets-");
        match what == Use::Open && is_groups && asked.load(Ordering::SeqCst) {
            // Out of descriptors: that passes.
            true => Err(std::io::Error::from_raw_os_error(24)),
            false => Ok(()),
        }
    });
    let clock = Arc::new(ManualClock::new(1_000_000));
    let settings = config(directory.path(), &FEW_PARTITIONS);
    let broker = Broker::start_with(settings, clock.clone(), storage).unwrap();
    let mut client = Client::connect(&broker);
    assert_eq!(find_coordinator(&mut client), ErrorCode::CoordinatorNotAvailable.code());
    let error = client.call(&fetch_request(), 9).groups[0].error_code;
    assert_eq!(error, ErrorCode::NotCoordinator.code());
    refuses.store(false, Ordering::SeqCst);
    clock.advance_ms(1_000);
    broker.rooms().partitions.retry_unopened();
    assert_eq!(committed(&mut client), 7);
    assert_eq!(client.call(&ListGroupsRequest::default(), 5).groups[0].group_id, GROUP);
    // The broker gives its clients time to leave, and the clock stands still.
    drop(client);
    broker.stop();
}
