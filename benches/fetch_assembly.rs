//! What does the broker's work on a fetch cost, from the request's bytes to the pieces of its
//! answer?
//!
//! The handler alone: decode, session, purgatory's first look, log look-up, residency, encode. No
//! socket is involved, so this is what stands beside the network's `sendfile`. `tail`: the newest
//! batch. `1MiB`: 64 batches from the log's start. `partitions`: a full fetch of so many of them,
//! one with news; the rest is the price of asking. `session`: an incremental fetch of 1,000
//! partitions, so many of which changed since the last one.
#![allow(missing_docs, reason = "criterion's macros")]

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use kafkalite_benches::frames;
use kafkalite_broker::broker::Broker;
use kafkalite_broker::config::{Sources, load};
use kafkalite_broker::handlers;
use kafkalite_broker::metadata::controller::{NewTopic, NoRules, TopicDefaults};
use kafkalite_broker::request_queue::{Audience, Lane, Request, RequestContext};
use kafkalite_broker::response_queue::{Piece, Responder, Response};
use kafkalite_protocol::header::RequestHeader;
use kafkalite_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use kafkalite_protocol::messages::produce::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use kafkalite_protocol::messages::{Request as Api, Wire};
use kafkalite_protocol::{Records, Writer};
use tempfile::TempDir;

const TOPIC: &str = "bench";
const PARTITIONS: i32 = 1000;
const PRODUCE_VERSION: i16 = 9;
const FETCH_VERSION: i16 = 12;
const BATCHES: i64 = 64;
const BATCH_BYTES: usize = 16 << 10;

struct Rig {
    broker: Broker,
    context: Arc<RequestContext>,
    _directory: TempDir,
}

impl Rig {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let data_dir = directory.path().display().to_string();
        let flags = [("listeners", "PLAINTEXT://127.0.0.1:0"), ("log.dirs", &data_dir)]
            .map(|(key, value)| (key.to_owned(), value.to_owned(), "--set".to_owned()));
        let config = load(&Sources { flags: flags.into(), ..Sources::default() });
        let broker = Broker::start(config.expect("the settings are valid")).expect("it starts");
        let topic = NewTopic {
            name: TOPIC.into(),
            num_partitions: PARTITIONS,
            replication_factor: 1,
            assignments: vec![],
            configs: vec![],
        };
        let defaults = TopicDefaults { num_partitions: 1, replication_factor: 1 };
        let controller = &broker.rooms().controller;
        let created = controller.blocking().create_topics(&[topic], defaults, &NoRules, false);
        assert!(created.iter().all(Result::is_ok), "the topic is created");
        let local = broker.listeners()[0].1;
        let (listener, clients) = ("PLAINTEXT".into(), Audience::Clients);
        let context = Arc::new(RequestContext::anonymous((local, local), listener, clients, 1));
        Self { broker, context, _directory: directory }
    }

    /// Runs one request on this thread, as a network thread does inline. Returns the length of its
    /// answer and the start of it.
    fn run<R: Api>(&self, body: Bytes, version: i16) -> (usize, Bytes) {
        let (answer, answered) = mpsc::sync_channel(1);
        let api_key = R::API_KEY as i16;
        let request = Request {
            header: RequestHeader {
                api_key,
                api_version: version,
                correlation_id: 1,
                client_id: Some("bench".to_owned()),
            },
            body,
            context: Arc::clone(&self.context),
            lane: Lane::Data,
            responder: Responder::to(api_key, version, move |response| {
                let Response::Pieces(pieces) = response else { panic!("it is answered") };
                let head = match pieces.first() {
                    Some(Piece::Mem(bytes)) => bytes.clone(),
                    _ => Bytes::new(),
                };
                let length = pieces.iter().map(Piece::len).sum();
                answer.send((length, head)).expect("it is waited for");
            }),
            received_ns: 0,
        };
        handlers::run(self.broker.rooms(), request).expect("the request is understood");
        answered.recv().expect("every request is answered")
    }

    fn fill(&self) -> i64 {
        (0..BATCHES).map(|_| self.produce(0, BATCH_BYTES)).last().unwrap_or(0)
    }

    /// Appends a batch to a partition. Returns how many records it has.
    fn produce(&self, partition: i32, bytes: usize) -> i64 {
        let now_ms = self.broker.rooms().clock.wall_ms();
        let (batch, records) = frames::record_batch(bytes, 1000, now_ms);
        let request = ProduceRequest {
            acks: 1,
            timeout_ms: 5_000,
            topic_data: vec![TopicProduceData {
                name: TOPIC.into(),
                partition_data: vec![PartitionProduceData {
                    index: partition,
                    records: Some(Records::Bytes(batch.into())),
                }],
                ..TopicProduceData::default()
            }],
            ..ProduceRequest::default()
        };
        self.run::<ProduceRequest>(encoded(&request, PRODUCE_VERSION), PRODUCE_VERSION);
        i64::from(records)
    }
}

fn encoded<W: Wire>(request: &W, version: i16) -> Bytes {
    let mut writer = Writer::new();
    request.encode(&mut writer, version);
    writer.into_bytes()
}

/// A fetch of these partitions from these offsets, in a session.
fn fetch_of(partitions: impl Iterator<Item = (i32, i64)>, session: (i32, i32)) -> FetchRequest {
    let partitions = partitions.map(|(partition, fetch_offset)| FetchPartition {
        partition,
        fetch_offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    });
    let (session_id, session_epoch) = session;
    FetchRequest {
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_id,
        session_epoch,
        topics: vec![FetchTopic {
            topic: TOPIC.into(),
            partitions: partitions.collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    }
}

/// A full fetch of the first `partitions` from `offset`, outside of a session.
fn fetch(partitions: i32, offset: i64) -> Bytes {
    let offsets = (0..partitions).map(|index| (index, if index == 0 { offset } else { 0 }));
    encoded(&fetch_of(offsets, (0, -1)), FETCH_VERSION)
}

/// A consumer of all partitions that has everything, and goes on in its session.
struct Consumer {
    offsets: Vec<i64>,
    id: i32,
    epoch: i32,
}

impl Consumer {
    fn open(rig: &Rig, offset: i64) -> Self {
        let mut offsets = vec![0; PARTITIONS as usize];
        offsets[0] = offset;
        let full = FetchRequest { min_bytes: 0, ..fetch_of((0..).zip(offsets.clone()), (0, 0)) };
        let (_, head) = rig.run::<FetchRequest>(encoded(&full, FETCH_VERSION), FETCH_VERSION);
        // Size, correlation id, tags, throttle time, error; then the session's id.
        let id = head[15..19].try_into().map(i32::from_be_bytes).expect("four bytes");
        Self { offsets, id, epoch: 1 }
    }

    /// The next request, which names these partitions with their offsets.
    fn next(&mut self, moved: &[i32]) -> Bytes {
        let offsets = moved.iter().map(|index| (*index, self.offsets[*index as usize]));
        let request = FetchRequest { min_bytes: 0, ..fetch_of(offsets, (self.id, self.epoch)) };
        self.epoch += 1;
        encoded(&request, FETCH_VERSION)
    }
}

/// Incremental fetches of which each finds a record in `changed` other partitions.
fn session(criterion: &mut Criterion, rig: &Rig, end: i64) {
    let mut group = criterion.benchmark_group("fetch_assembly");
    let mut consumer = Consumer::open(rig, end);
    let mut last: Vec<i32> = Vec::new();
    for changed in [0, 3, 100] {
        group.bench_function(BenchmarkId::new("session", changed), |bencher| {
            bencher.iter_custom(|rounds| {
                let mut took = Duration::ZERO;
                for round in 0..rounds as i32 {
                    let first = round.wrapping_mul(changed).rem_euclid(PARTITIONS - 101);
                    let moved: Vec<i32> = (1 + first..).take(changed as usize).collect();
                    let records: Vec<i64> =
                        moved.iter().map(|index| rig.produce(*index, 100)).collect();
                    let body = consumer.next(&last);
                    let start = Instant::now();
                    rig.run::<FetchRequest>(body, FETCH_VERSION);
                    took += start.elapsed();
                    for (index, records) in moved.iter().zip(records) {
                        consumer.offsets[*index as usize] += records;
                    }
                    last = moved;
                }
                took
            });
        });
    }
    group.finish();
}

fn fetch_assembly(criterion: &mut Criterion) {
    let rig = Rig::new();
    let records = rig.fill();
    let tail = (BATCHES - 1) * records;
    let mut group = criterion.benchmark_group("fetch_assembly");
    for (name, offset, at_least) in [("tail", tail, BATCH_BYTES / 2), ("1MiB", 0, 900 << 10)] {
        let body = fetch(1, offset);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let (length, _) = rig.run::<FetchRequest>(body.clone(), FETCH_VERSION);
                assert!(length >= at_least, "{length} bytes");
            });
        });
    }
    for partitions in [10, 100, PARTITIONS] {
        let body = fetch(partitions, tail);
        group.bench_function(BenchmarkId::new("partitions", partitions), |bencher| {
            bencher.iter(|| rig.run::<FetchRequest>(body.clone(), FETCH_VERSION));
        });
    }
    group.finish();
    session(criterion, &rig, tail + records);
    rig.broker.stop();
}

criterion_group!(benches, fetch_assembly);
criterion_main!(benches);
