//! Requests that change metadata wait for the disk without a thread.
#![allow(clippy::unwrap_used)]

mod client;

use client::storage::{Asking, Use};
use client::{Client, awaited, batch, config};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::{Clock, ManualClock, SystemClock};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::alter_partition_reassignments::{
    AlterPartitionReassignmentsRequest, ReassignablePartition, ReassignableTopic,
};
use kafkalite_protocol::messages::create_topics::{
    CreatableTopic, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use kafkalite_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use kafkalite_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use kafkalite_protocol::messages::find_coordinator::FindCoordinatorRequest;
use kafkalite_protocol::messages::init_producer_id::InitProducerIdRequest;
use kafkalite_protocol::messages::list_groups::ListGroupsRequest;
use kafkalite_protocol::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use kafkalite_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use kafkalite_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, MutexGuard};

/// A broker with one I/O thread whose metadata log waits at a gate.
struct House {
    broker: Broker,
    /// A message for each change of the metadata log that came to the gate.
    came: Receiver<()>,
    gate: Arc<Mutex<()>>,
    closed: Arc<AtomicBool>,
    _directory: tempfile::TempDir,
}

impl House {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self::with_budget(clock, "33554432")
    }

    /// A house with this `kafkalite.memory.budget.bytes`.
    fn with_budget(clock: Arc<dyn Clock>, bytes: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (gate, closed) = (Arc::new(Mutex::new(())), Arc::new(AtomicBool::new(false)));
        let (passed, is_closed) = (gate.clone(), closed.clone());
        let (told, came) = mpsc::channel();
        let told = Mutex::new(told);
        let storage = Asking::new(move |what, path| {
            let is_metadata = path.to_string_lossy().contains("__cluster_metadata");
            if is_closed.load(Ordering::SeqCst) && what == Use::Change && is_metadata {
                let _ = told.lock().unwrap().send(());
                drop(passed.lock().unwrap());
            }
            Ok(())
        });
        let settings = [
            ("num.io.threads", "1"),
            ("kafkalite.request.inline", "never"),
            ("kafkalite.memory.budget.bytes", bytes),
        ];
        let config = config(directory.path(), &settings);
        let broker = Broker::start_with(config, clock, storage).unwrap();
        Self { broker, came, gate, closed, _directory: directory }
    }

    /// From now on the metadata log waits, until what is returned is dropped.
    fn close(&self) -> MutexGuard<'_, ()> {
        let guard = self.gate.lock().unwrap();
        self.closed.store(true, Ordering::SeqCst);
        guard
    }

    fn wait_at_the_gate(&self) {
        awaited::received("a change of metadata comes to the disk", &self.came);
    }

    /// The one I/O thread is free.
    fn serves_others(&self) {
        let mut other = Client::connect(&self.broker);
        assert_eq!(other.call(&ListGroupsRequest::default(), 4).error_code, 0);
    }
}

fn create(name: &str, timeout_ms: i32) -> CreateTopicsRequest {
    let topic = CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..CreatableTopic::default()
    };
    CreateTopicsRequest { topics: vec![topic], timeout_ms, validate_only: false }
}

/// Forty topics with the longest names there are: more than 16 KiB of memory.
fn create_many(first: char, timeout_ms: i32) -> CreateTopicsRequest {
    let name = |number: i32| format!("{first}{number:0>248}");
    let topics = (0..40).flat_map(|number| create(&name(number), timeout_ms).topics);
    CreateTopicsRequest { topics: topics.collect(), timeout_ms, validate_only: false }
}

fn codes(response: &CreateTopicsResponse) -> HashSet<ErrorCode> {
    response.topics.iter().map(|topic| ErrorCode::from_code(topic.error_code)).collect()
}

fn only(response: CreateTopicsResponse) -> CreatableTopicResult {
    response.topics.into_iter().next().unwrap()
}

#[test]
fn an_io_thread_serves_others_while_a_new_topic_waits_for_the_disk() {
    let house = House::new(Arc::new(SystemClock::new()));
    let closed = house.close();
    let mut client = Client::connect(&house.broker);
    client.send(&create("t", 60_000), 7);
    house.wait_at_the_gate();
    house.serves_others();
    assert!(house.broker.rooms().controller.image().topic("t").is_none());
    drop(closed);
    let (_, response) = client.receive::<CreateTopicsRequest>(7).unwrap();
    assert_eq!(only(response).error_code, 0);
    assert_eq!(client.produce("t", batch(&["v"], None), -1).error_code, 0, "it can be written to");
    house.broker.stop();
}

#[test]
fn a_change_that_outlasts_its_request_is_answered_with_a_timeout_and_made_later() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let house = House::new(clock.clone());
    let closed = house.close();
    let mut client = Client::connect(&house.broker);
    client.send(&create("t", 1_000), 7);
    house.wait_at_the_gate();
    let changes = &house.broker.rooms().changes;
    awaited::until("the request is parked", || changes.len() == 1);
    awaited::until("its time is over", || {
        clock.advance_ms(1_001);
        changes.is_empty()
    });
    let (_, response) = client.receive::<CreateTopicsRequest>(7).unwrap();
    assert_eq!(only(response).error_code, ErrorCode::RequestTimedOut.code());
    drop(closed);
    let image = || house.broker.rooms().controller.image();
    awaited::until("the topic is made", || image().topic("t").is_some());
    // The stop gives a connection some time on this clock, which stands still.
    drop(client);
    house.broker.stop();
}

/// Its client got the answer that the time is over, and may rely on it.
#[test]
fn a_change_that_waits_behind_others_beyond_its_time_is_never_made() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let house = House::new(clock.clone());
    let closed = house.close();
    let mut clients: Vec<_> = (0..2).map(|_| Client::connect(&house.broker)).collect();
    clients[0].send(&create("first", 3_600_000), 7);
    house.wait_at_the_gate();
    clients[1].send(&create("late", 1_000), 7);
    let changes = &house.broker.rooms().changes;
    awaited::until("both are parked", || changes.len() == 2);
    awaited::until("the time of one is over", || {
        clock.advance_ms(1_001);
        changes.len() == 1
    });
    let (_, response) = clients[1].receive::<CreateTopicsRequest>(7).unwrap();
    assert_eq!(only(response).error_code, ErrorCode::RequestTimedOut.code());
    drop(closed);
    let (_, response) = clients[0].receive::<CreateTopicsRequest>(7).unwrap();
    assert_eq!(only(response).error_code, 0);
    assert_eq!(only(clients[1].call(&create("after", 3_600_000), 7)).error_code, 0);
    let image = house.broker.rooms().controller.image();
    let names: Vec<_> = image.topics.iter().map(|topic| topic.name.to_string()).collect();
    assert_eq!(names, ["after", "first"]);
    // The stop gives a connection some time on this clock, which stands still.
    drop(clients);
    house.broker.stop();
}

/// Two thousand of them were allowed to wait, of up to 64 MiB each.
#[test]
fn a_large_change_is_refused_while_others_that_wait_hold_the_memory() {
    let house = House::with_budget(Arc::new(SystemClock::new()), "16384");
    let closed = house.close();
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(&house.broker)).collect();
    clients[0].send(&create_many('a', 60_000), 7);
    house.wait_at_the_gate();
    let refused = clients[1].call(&create_many('b', 60_000), 7);
    assert_eq!(codes(&refused), HashSet::from([ErrorCode::ThrottlingQuotaExceeded]));
    clients[2].send(&create("small", 60_000), 7);
    awaited::until("the small one waits", || house.broker.rooms().changes.len() == 2);
    drop(closed);
    let made = HashSet::from([ErrorCode::None]);
    for client in [0, 2] {
        let (_, response) = clients[client].receive::<CreateTopicsRequest>(7).unwrap();
        assert_eq!(codes(&response), made);
    }
    assert_eq!(codes(&clients[1].call(&create_many('b', 60_000), 7)), made, "there is room again");
    house.broker.stop();
}

#[test]
fn a_change_that_outlasts_its_request_keeps_its_memory_until_it_is_made() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let house = House::with_budget(clock.clone(), "16384");
    let closed = house.close();
    let mut client = Client::connect(&house.broker);
    client.send(&create_many('a', 1_000), 7);
    house.wait_at_the_gate();
    let changes = &house.broker.rooms().changes;
    awaited::until("the request is parked", || changes.len() == 1);
    awaited::until("its time is over", || {
        clock.advance_ms(1_001);
        changes.is_empty()
    });
    let (_, response) = client.receive::<CreateTopicsRequest>(7).unwrap();
    assert_eq!(codes(&response), HashSet::from([ErrorCode::RequestTimedOut]));
    let refused = client.call(&create_many('b', 60_000), 7);
    assert_eq!(codes(&refused), HashSet::from([ErrorCode::ThrottlingQuotaExceeded]));
    drop(closed);
    let image = || house.broker.rooms().controller.image();
    awaited::until("the topics are made", || image().topics.len() == 40);
    // The stop gives a connection some time on this clock, which stands still.
    drop(client);
    house.broker.stop();
}

#[test]
fn producers_that_wait_for_one_block_of_ids_get_an_id_each() {
    let house = House::new(Arc::new(SystemClock::new()));
    let closed = house.close();
    let request = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..InitProducerIdRequest::default()
    };
    let mut clients: Vec<_> = (0..3).map(|_| Client::connect(&house.broker)).collect();
    for client in &mut clients {
        client.send(&request, 4);
    }
    house.wait_at_the_gate();
    awaited::until("all of them wait", || house.broker.rooms().changes.len() == 3);
    house.serves_others();
    drop(closed);
    let id = |client: &mut Client| {
        let (_, response) = client.receive::<InitProducerIdRequest>(4).unwrap();
        assert_eq!(response.error_code, 0);
        response.producer_id
    };
    let mut ids: Vec<i64> = clients.iter_mut().map(id).collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2], "of one block");
    house.broker.stop();
}

/// As before: who asks again finds the topic.
#[test]
fn a_metadata_request_that_makes_a_topic_is_answered_when_the_topic_is_there() {
    let house = House::new(Arc::new(SystemClock::new()));
    let closed = house.close();
    let topic = MetadataRequestTopic { name: Some("t".into()), ..MetadataRequestTopic::default() };
    let request = MetadataRequest {
        topics: Some(vec![topic]),
        allow_auto_topic_creation: true,
        ..MetadataRequest::default()
    };
    let mut client = Client::connect(&house.broker);
    client.send(&request, 9);
    house.wait_at_the_gate();
    house.serves_others();
    drop(closed);
    let (_, response) = client.receive::<MetadataRequest>(9).unwrap();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(response.topics[0].error_code, unknown, "as of before it was made");
    assert_eq!(client.call(&request, 9).topics[0].error_code, 0);
    assert_eq!(client.produce("t", batch(&["v"], None), -1).error_code, 0, "it can be written to");
    house.broker.stop();
}

/// They were refused on the image of before: UNKNOWN_TOPIC_OR_PARTITION, and the topic stayed. In a
/// cluster a broker whose image is behind said so as well.
#[test]
fn what_is_asked_of_a_topic_that_is_being_made_is_decided_when_it_is_there() {
    let house = House::new(Arc::new(SystemClock::new()));
    let closed = house.close();
    let mut clients: Vec<_> = (0..5).map(|_| Client::connect(&house.broker)).collect();
    clients[0].send(&create("t", 60_000), 7);
    house.wait_at_the_gate();
    let partitions = vec![TopicPartitions { topic: "t".into(), partitions: vec![0] }];
    let elect = ElectLeadersRequest {
        topic_partitions: Some(partitions),
        timeout_ms: 60_000,
        ..ElectLeadersRequest::default()
    };
    clients[1].send(&elect, 2);
    let replicas = Some(vec![1]);
    let partitions = vec![ReassignablePartition { partition_index: 0, replicas }];
    let reassign = AlterPartitionReassignmentsRequest {
        topics: vec![ReassignableTopic { name: "t".into(), partitions }],
        timeout_ms: 60_000,
        ..AlterPartitionReassignmentsRequest::default()
    };
    clients[2].send(&reassign, 0);
    let waiting =
        |count| awaited::until("they wait", || house.broker.rooms().changes.len() == count);
    waiting(3);
    let topic = DeleteTopicState { name: Some("t".into()), ..DeleteTopicState::default() };
    let delete = DeleteTopicsRequest { topics: vec![topic], timeout_ms: 60_000, ..<_>::default() };
    clients[3].send(&delete, 6);
    waiting(4);
    clients[4].send(&ListPartitionReassignmentsRequest::default(), 0);
    waiting(5);
    drop(closed);
    let (_, made) = clients[0].receive::<CreateTopicsRequest>(7).unwrap();
    assert_eq!(only(made).error_code, 0);
    let (_, elected) = clients[1].receive::<ElectLeadersRequest>(2).unwrap();
    let elected = &elected.replica_election_results[0].partition_result[0];
    assert_eq!(elected.error_code, ErrorCode::ElectionNotNeeded.code());
    let (_, moved) = clients[2].receive::<AlterPartitionReassignmentsRequest>(0).unwrap();
    assert_eq!(moved.responses[0].partitions[0].error_code, 0);
    let (_, gone) = clients[3].receive::<DeleteTopicsRequest>(6).unwrap();
    assert_eq!(gone.responses[0].error_code, 0);
    let (_, listed) = clients[4].receive::<ListPartitionReassignmentsRequest>(0).unwrap();
    assert_eq!((listed.error_code, listed.topics.len()), (0, 0), "it is not moving");
    assert!(house.broker.rooms().controller.image().topic("t").is_none());
}

/// The first FindCoordinator kept the one I/O thread until `__consumer_offsets` was made. A second
/// one that came meanwhile is answered when the partitions are there, too.
#[test]
fn the_first_find_coordinator_waits_for_its_topic_without_a_thread() {
    let house = House::new(Arc::new(SystemClock::new()));
    let closed = house.close();
    let request = FindCoordinatorRequest {
        coordinator_keys: vec!["g".into()],
        ..FindCoordinatorRequest::default()
    };
    let mut clients: Vec<_> = (0..2).map(|_| Client::connect(&house.broker)).collect();
    for client in &mut clients {
        client.send(&request, 6);
    }
    house.wait_at_the_gate();
    awaited::until("both of them wait", || house.broker.rooms().changes.len() == 2);
    house.serves_others();
    drop(closed);
    for client in &mut clients {
        let (_, found) = client.receive::<FindCoordinatorRequest>(6).unwrap();
        assert_eq!(found.coordinators[0].error_code, 0);
        let group =
            OffsetFetchRequestGroup { group_id: "g".into(), ..OffsetFetchRequestGroup::default() };
        let request = OffsetFetchRequest { groups: vec![group], ..OffsetFetchRequest::default() };
        assert_eq!(client.call(&request, 9).groups[0].error_code, 0, "the group is here");
    }
    house.broker.stop();
}

fn failing(directory: &Path) -> (Broker, Arc<AtomicBool>) {
    let fails = Arc::new(AtomicBool::new(false));
    let (asked, changes) = (fails.clone(), std::sync::atomic::AtomicU32::new(0));
    let storage = Asking::new(move |what, path| {
        let is_metadata = path.to_string_lossy().contains("__cluster_metadata");
        if !asked.load(Ordering::SeqCst) || what != Use::Change || !is_metadata {
            return Ok(());
        }
        // The write passes, and its fsync does not.
        match changes.fetch_add(1, Ordering::SeqCst) {
            1 => Err(std::io::Error::from_raw_os_error(5)),
            _ => Ok(()),
        }
    });
    let clock = Arc::new(SystemClock::new());
    (Broker::start_with(config(directory, &[]), clock, storage).unwrap(), fails)
}

#[test]
fn a_failed_fsync_is_answered_as_unknown_and_the_topic_is_there_once_or_never() {
    let directory = tempfile::tempdir().unwrap();
    let (broker, fails) = failing(directory.path());
    let mut client = Client::connect(&broker);
    fails.store(true, Ordering::SeqCst);
    let unknown = only(client.call(&create("t", 60_000), 7));
    assert_eq!(unknown.error_code, ErrorCode::RequestTimedOut.code());
    let words = unknown.error_message.unwrap();
    assert!(words.starts_with("It is not known whether the change was made"), "{words}");
    assert!(broker.rooms().controller.image().topic("t").is_none(), "no client sees it");
    let refused = only(client.call(&create("t", 60_000), 7));
    assert_eq!(refused.error_code, ErrorCode::KafkaStorageError.code(), "not tried again");
    broker.stop();
    drop(broker);
    let broker = Broker::start(config(directory.path(), &[])).unwrap();
    let known = broker.rooms().controller.image().topics.len();
    assert!(known <= 1, "{known} topics");
    let mut client = Client::connect(&broker);
    let again = only(client.call(&create("t", 60_000), 7)).error_code;
    let expected = [ErrorCode::None, ErrorCode::TopicAlreadyExists][known].code();
    assert_eq!(again, expected);
    assert_eq!(broker.rooms().controller.image().topics.len(), 1);
    broker.stop();
}
