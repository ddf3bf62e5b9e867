//! A panic leaves a line with its backtrace, and a broker that goes on.
#![allow(clippy::unwrap_used)]

mod client;

use client::{Client, batch, config, create_topic, start};
use kafkalite_broker::broker::Broker;
use kafkalite_broker::clock::{Clock, SystemClock};
use kafkalite_broker::handlers;
use kafkalite_broker::io_threads::IoThreads;
use kafkalite_broker::metrics::Metrics;
use kafkalite_broker::network::{Network, NetworkConfig, NetworkParts};
use kafkalite_broker::request_queue::{LaneBounds, RequestQueue};
use kafkalite_log::storage::RealStorage;
use kafkalite_protocol::messages::describe_quorum::DescribeQuorumRequest;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::leave_group::LeaveGroupRequest;
use kafkalite_protocol::messages::list_groups::ListGroupsRequest;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

const LEAVE_GROUP: i16 = 13;
const UNKNOWN_SERVER_ERROR: i16 = -1;

/// The log of this process, as its JSON lines.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Takes this process's log lines, as `serve` does.
fn lines() -> &'static Lines {
    static LINES: OnceLock<Lines> = OnceLock::new();
    LINES.get_or_init(|| {
        let lines = Lines::default();
        let written = lines.clone();
        let log = tracing_subscriber::fmt().json().with_writer(move || written.clone());
        log.init();
        lines
    })
}

/// The lines of a panic with the message `text`.
fn told(text: &str) -> Vec<String> {
    let bytes = lines().0.lock().unwrap().clone();
    let all = String::from_utf8(bytes).unwrap();
    all.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
}

/// Not an assertion: its panic would go to the log, and only there.
fn contain_one_with(lines: &[String], parts: &[&str]) -> Result<(), String> {
    let is_it = |line: &&String| parts.iter().all(|part| line.contains(part));
    lines.iter().find(is_it).map(|_| ()).ok_or_else(|| format!("no {parts:?} in {lines:#?}"))
}

/// A clock at which every handler panics that wants to know the date.
struct NoDate(SystemClock);

impl Clock for NoDate {
    fn wall_ms(&self) -> i64 {
        let thread = std::thread::current();
        let is_handling = thread.name().is_some_and(|name| name.starts_with("kafkalite-io"));
        assert!(!is_handling, "a handler's panic on purpose");
        self.0.wall_ms()
    }

    fn monotonic_ns(&self) -> u64 {
        self.0.monotonic_ns()
    }
}

#[test]
fn a_panic_in_a_handler_ends_one_request_and_is_logged_with_its_backtrace() -> Result<(), String> {
    lines();
    let directory = tempfile::tempdir().unwrap();
    let (clock, storage) = (NoDate(SystemClock::new()), RealStorage);
    let config = config(directory.path(), &[]);
    let broker = Broker::start_with(config, Arc::new(clock), Arc::new(storage)).unwrap();
    let mut client = Client::connect(&broker);
    let answer = client.call(&DescribeQuorumRequest::default(), 2);
    assert_eq!(answer.error_code, UNKNOWN_SERVER_ERROR);
    assert_eq!(client.call(&ListGroupsRequest::default(), 4).error_code, 0);
    let told = told("a handler's panic on purpose");
    broker.stop();
    let whole = ["\"backtrace\"", "\"thread\":\"kafkalite-", "handlers/describe_quorum.rs"];
    contain_one_with(&told, &whole)?;
    contain_one_with(&told, &["a handler of API 55 panicked"])
}

/// The change is committed and in the image, whatever becomes of those who follow it.
#[test]
fn a_panic_of_an_image_follower_is_logged_and_costs_no_client_its_answer() -> Result<(), String> {
    lines();
    let directory = tempfile::tempdir().unwrap();
    let broker = start(directory.path(), &[]);
    broker.rooms().controller.watch(Box::new(|_, after| {
        assert!(after.topic("boom").is_none(), "a follower's panic on purpose");
    }));
    for name in ["boom", "next"] {
        create_topic(&broker, name, 1, &[]);
        let mut client = Client::connect(&broker);
        assert_eq!(client.produce(name, batch(&["it is there"], None), -1).error_code, 0);
    }
    let told = told("a follower's panic on purpose");
    broker.stop();
    contain_one_with(&told, &["\"backtrace\"", "metadata-publisher"])?;
    contain_one_with(&told, &["a follower of the metadata image panicked"])
}

#[test]
fn a_panic_on_a_network_thread_costs_one_connection() -> Result<(), String> {
    kafkalite_broker::error::panics::log_them();
    lines();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let metrics = Arc::new(Metrics::new());
    let bounds = LaneBounds { max_requests: 100, max_bytes: 1 << 20 };
    let run = Arc::new(|_| panic!("answered as an error"));
    let policy_of = |api_key| {
        assert_ne!(api_key, LEAVE_GROUP, "a network thread's panic on purpose");
        handlers::policy(api_key)
    };
    let queue = RequestQueue::new(bounds, bounds, run, policy_of, clock.clone(), metrics.clone());
    let _io_threads = IoThreads::start(1, queue.clone(), &clock, &metrics).unwrap();
    let config = NetworkConfig { network_threads: 1, ..NetworkConfig::default() };
    let listeners = Network::bind(&config).unwrap();
    let parts = NetworkParts { queue, on_panic: handlers::on_panic, clock, metrics };
    let network = Network::start(config, listeners, parts).unwrap();
    let address = network.addresses()[0].1;
    let mut other = Client::connect_to(address);
    for _ in 0..3 {
        let mut client = Client::connect_to(address);
        client.send(&LeaveGroupRequest::default(), 4);
        assert!(client.receive::<LeaveGroupRequest>(4).is_none());
        let beat = other.call(&HeartbeatRequest::default(), 4);
        assert_eq!(beat.error_code, UNKNOWN_SERVER_ERROR);
    }
    contain_one_with(&told("a network thread's panic on purpose"), &["\"backtrace\""])
}
