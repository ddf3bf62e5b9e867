//! What a broker leaves in its process when it is gone: nothing. A test binary of its own, because
//! it counts the descriptors and the threads of the whole process.
#![allow(clippy::unwrap_used)]

mod client;

use bytes::Bytes;
use client::{Client, batch, create_topic, start};
use kafkalite_broker::broker::Broker;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupRequestProtocol};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// How long a detached thread of the broker may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the descriptors of this process are: files, `anon_inode:[eventfd]`, `socket:[1234]`.
fn descriptors() -> BTreeSet<String> {
    let listed = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let told = listed.filter_map(|entry| {
        // The descriptor of this listing itself is gone when it is read.
        let target = std::fs::read_link(entry.path()).ok()?;
        let number = entry.file_name().into_string().unwrap();
        (!target.starts_with("/proc")).then(|| format!("{number} {}", target.display()))
    });
    told.collect()
}

/// Names of the threads of this process.
fn threads() -> Vec<String> {
    let listed = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let names = listed.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok());
    let mut names: Vec<String> = names.map(|name| name.trim().to_owned()).collect();
    names.sort();
    names
}

/// A fetch that opens a session and waits for more than there is.
fn parked_fetch() -> FetchRequest {
    let partition = FetchPartition { partition_max_bytes: 1 << 20, ..FetchPartition::default() };
    let topic =
        FetchTopic { topic: "t".into(), partitions: vec![partition], ..FetchTopic::default() };
    FetchRequest {
        max_wait_ms: 60_000,
        min_bytes: 1 << 20,
        max_bytes: 1 << 20,
        session_id: 0,
        session_epoch: 0,
        topics: vec![topic],
        ..FetchRequest::default()
    }
}

fn join() -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t\xff\xff\xff\xff"),
        }],
        ..JoinGroupRequest::default()
    }
}

/// Uses every room: records, a session whose fetch waits, a large half-sent frame, a group.
fn use_rooms(broker: &Broker) -> [Client; 3] {
    create_topic(broker, "t", 1, &[]);
    let mut producer = Client::connect(broker);
    assert_eq!(producer.produce("t", batch(&["a"], None), -1).error_code, 0);
    let mut reader = Client::connect(broker);
    reader.send(&parked_fetch(), 12);
    let mut member = Client::connect(broker);
    member.call(&join(), 4);
    [producer, reader, member]
}

/// A name, and how many hold what it names.
type Holders = (&'static str, Box<dyn Fn() -> usize>);

/// The rooms and what they share, without keeping them.
fn rooms(broker: &Broker) -> Vec<Holders> {
    fn told<T: 'static>(name: &'static str, of: &Arc<T>) -> Holders {
        let weak: Weak<T> = Arc::downgrade(of);
        (name, Box::new(move || weak.strong_count()))
    }
    let rooms = broker.rooms();
    vec![
        told("rooms", rooms),
        told("metrics", &rooms.metrics),
        told("controller", &rooms.controller),
        told("partitions", &rooms.partitions),
        told("groups", &rooms.groups),
        told("fetches", &rooms.fetches),
        told("produces", &rooms.produces),
        told("cold reads", &rooms.cold_reads),
        told("config", &rooms.config),
    ]
}

/// A life of a broker; afterwards nothing holds its rooms.
fn life(directory: &Path, how: &str, end: fn(&Broker)) {
    let broker = start(directory, &[("offsets.topic.num.partitions", "3")]);
    let clients = use_rooms(&broker);
    let rooms = rooms(&broker);
    end(&broker);
    drop(broker);
    drop(clients);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let held: Vec<_> = rooms.iter().map(|(name, holders)| (*name, holders())).collect();
        if held.iter().all(|(_, holders)| *holders == 0) {
            return;
        }
        assert!(Instant::now() < deadline, "{how}: still held, by so many: {held:?}");
        std::thread::yield_now();
    }
}

/// Waits until `now` is what it was `before`: threads that nothing joins end a little later.
fn wait_until_as_before<T: PartialEq + std::fmt::Debug>(what: &str, before: &T, now: fn() -> T) {
    let deadline = Instant::now() + PATIENCE;
    while now() != *before {
        assert!(Instant::now() < deadline, "{what}: {:?}, not {before:?}", now());
        std::thread::yield_now();
    }
}

/// The metrics kept their sources, and the cold reads kept the metrics. So every broker left its
/// wakers (two eventfds and more), its read buffers and its fetch sessions behind.
#[test]
fn nothing_outlives_a_closed_broker() {
    let directory = tempfile::tempdir().unwrap();
    let (descriptors_before, threads_before) = (descriptors(), threads());
    let ends: [fn(&Broker); 3] = [Broker::stop, Broker::kill, |_| {}];
    for (how, end) in ["stopped", "killed", "dropped"].into_iter().zip(ends) {
        life(directory.path(), how, end);
        std::fs::remove_dir_all(directory.path()).unwrap();
        wait_until_as_before("threads", &threads_before, threads);
        wait_until_as_before("descriptors", &descriptors_before, descriptors);
    }
}
