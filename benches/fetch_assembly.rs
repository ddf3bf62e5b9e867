//! What does the broker's work on a fetch cost, from the request's bytes to the pieces of its
//! answer?
//!
//! The handler alone: decode, session, purgatory's first look, log look-up, residency, encode. No
//! socket is involved, so this is what stands beside the network's `sendfile`. `tail`: the newest
//! batch. `1MiB`: 64 batches from the log's start. `partitions`: a full fetch of so many of them,
//! one with news; the rest is the price of asking.
#![allow(missing_docs, reason = "criterion's macros")]

use std::sync::mpsc;

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use kafkalite_benches::frames;
use kafkalite_broker::broker::Broker;
use kafkalite_broker::config::{Sources, load};
use kafkalite_broker::handlers;
use kafkalite_broker::metadata::controller::{NewTopic, NoRules, TopicDefaults};
use kafkalite_broker::request_queue::{Request, RequestContext};
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
    context: RequestContext,
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
        let created = controller.create_topics(&[topic], defaults, &NoRules, false);
        assert!(created.iter().all(Result::is_ok), "the topic is created");
        let local = broker.listeners()[0].1;
        let context =
            RequestContext { peer: local, local, listener: "PLAINTEXT".into(), connection_id: 1 };
        Self { broker, context, _directory: directory }
    }

    /// Runs one request on this thread, as a network thread does inline.
    fn run<R: Api>(&self, body: Bytes, version: i16) -> usize {
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
            context: self.context.clone(),
            responder: Responder::to(api_key, version, move |response| {
                let length = match response {
                    Response::Pieces(pieces) => pieces.iter().map(Piece::len).sum(),
                    Response::NoResponse | Response::Close => 0,
                };
                answer.send(length).expect("it is waited for");
            }),
            received_ns: 0,
        };
        handlers::run(self.broker.rooms(), request).expect("the request is understood");
        answered.recv().expect("every request is answered")
    }

    fn fill(&self) -> i64 {
        let now_ms = self.broker.rooms().clock.wall_ms();
        let (batch, records) = frames::record_batch(BATCH_BYTES, 1000, now_ms);
        let request = ProduceRequest {
            acks: 1,
            timeout_ms: 5_000,
            topic_data: vec![TopicProduceData {
                name: TOPIC.into(),
                partition_data: vec![PartitionProduceData {
                    index: 0,
                    records: Some(Records::Bytes(batch.into())),
                }],
                ..TopicProduceData::default()
            }],
            ..ProduceRequest::default()
        };
        let body = encoded(&request, PRODUCE_VERSION);
        for _ in 0..BATCHES {
            self.run::<ProduceRequest>(body.clone(), PRODUCE_VERSION);
        }
        i64::from(records)
    }
}

fn encoded<W: Wire>(request: &W, version: i16) -> Bytes {
    let mut writer = Writer::new();
    request.encode(&mut writer, version);
    writer.into_bytes()
}

/// A full fetch of the first `partitions` from `offset`, outside of a session.
fn fetch(partitions: i32, offset: i64) -> Bytes {
    let partitions = (0..partitions).map(|partition| FetchPartition {
        partition,
        fetch_offset: if partition == 0 { offset } else { 0 },
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    });
    let request = FetchRequest {
        replica_id: -1,
        max_wait_ms: 500,
        min_bytes: 1,
        max_bytes: 1 << 20,
        session_epoch: -1,
        topics: vec![FetchTopic {
            topic: TOPIC.into(),
            partitions: partitions.collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    };
    encoded(&request, FETCH_VERSION)
}

fn fetch_assembly(criterion: &mut Criterion) {
    let rig = Rig::new();
    let tail = (BATCHES - 1) * rig.fill();
    let mut group = criterion.benchmark_group("fetch_assembly");
    for (name, offset, at_least) in [("tail", tail, BATCH_BYTES / 2), ("1MiB", 0, 900 << 10)] {
        let body = fetch(1, offset);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let length = rig.run::<FetchRequest>(body.clone(), FETCH_VERSION);
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
    rig.broker.stop();
}

criterion_group!(benches, fetch_assembly);
criterion_main!(benches);
