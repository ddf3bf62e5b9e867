//! The shell, against a broker that does what a test says.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use kafkalite_connection::testing::{self, Answer, Asked, FakeBroker, metadata};
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::init_producer_id::{
    InitProducerIdRequest, InitProducerIdResponse,
};
use kafkalite_protocol::messages::metadata::MetadataRequest;
use kafkalite_protocol::messages::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use kafkalite_protocol::record_batch::RecordBatch;
use kafkalite_protocol::{ErrorCode, Records};
use parking_lot::Mutex;

use super::bulk::{Columns, Each, Patience};
use super::*;
use crate::awaited;
use crate::producer::accumulator::{RecordMetadata, Refusal, Report};

mod life;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

fn config(broker: &FakeBroker, settings: &[(&str, &str)]) -> ProducerConfig {
    let servers = broker.place.to_string();
    let common =
        [("bootstrap.servers", servers.as_str()), ("linger.ms", "0"), ("retry.backoff.ms", "1")];
    let pairs: BTreeMap<_, _> = common
        .iter()
        .chain(settings)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    ProducerConfig::from_pairs(&pairs).unwrap()
}

fn identity(asked: &Asked) -> Answer {
    asked.answer::<InitProducerIdRequest>(&InitProducerIdResponse {
        producer_id: 7,
        ..InitProducerIdResponse::default()
    })
}

/// The batches of a produce request: topic, partition, values.
fn batches(asked: &Asked) -> Vec<(String, i32, Vec<Vec<u8>>)> {
    let request: ProduceRequest = asked.read();
    let mut all = Vec::new();
    for topic in request.topic_data {
        for partition in topic.partition_data {
            let Some(Records::Bytes(bytes)) = partition.records else { continue };
            let batch = RecordBatch::parse(&bytes).unwrap();
            let records = batch.records(1 << 24).unwrap();
            let values = records.iter().map(|r| r.unwrap().value.unwrap().to_vec()).collect();
            all.push((topic.name.clone(), partition.index, values));
        }
    }
    all
}

fn answer(asked: &Asked, code: ErrorCode, base_offset: i64) -> Answer {
    let request: ProduceRequest = asked.read();
    let responses = request.topic_data.iter().map(|topic| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic
            .partition_data
            .iter()
            .map(|partition| PartitionProduceResponse {
                index: partition.index,
                error_code: code.code(),
                base_offset,
                ..PartitionProduceResponse::default()
            })
            .collect(),
    });
    let response = ProduceResponse { responses: responses.collect(), ..ProduceResponse::default() };
    asked.answer::<ProduceRequest>(&response)
}

fn usual(asked: &Asked) -> Answer {
    if asked.is(ApiKey::InitProducerId) {
        identity(asked)
    } else if asked.is(ApiKey::Produce) {
        answer(asked, ErrorCode::None, 40)
    } else {
        Answer::Usual
    }
}

fn start(config: ProducerConfig) -> Producer<()> {
    Producer::start(config, Arc::new(())).unwrap()
}

fn topic<T: Send + 'static>(producer: &Producer<T>) -> Arc<TopicQueues<T>> {
    producer
        .look_up("t", Ask::IfUnknown, soon())
        .unwrap()
        .wait(Duration::from_secs(20))
        .unwrap()
        .unwrap()
}

fn send<T: Send + 'static>(producer: &Producer<T>, value: &[u8], token: Option<T>) -> Place<T> {
    let topic = topic(producer);
    let record = Record { timestamp_ms: 5, key: None, value: Some(value), headers: (0, &[]) };
    producer.append(&topic, 0, record, token, None).ok().unwrap()
}

fn fate<T>(place: &Place<T>) -> Result<RecordMetadata, ClientError> {
    let fate = place.handle.wait(place.index, 5, soon()).expect("its fate is known in time");
    fate.map_err(|error| (*error).clone())
}

#[test]
fn a_record_is_delivered_with_its_offset() {
    let broker = FakeBroker::start(usual);
    let producer = start(config(&broker, &[]));
    let metadata = fate(&send(&producer, b"v", None)).unwrap();
    assert_eq!((metadata.partition, metadata.offset, metadata.timestamp_ms), (0, 40, 5));
    assert_eq!(&*metadata.topic, "t");
    assert!(producer.metrics().contains(&("record-send-total", 1.0)));
}

/// A new producer waited for `request.timeout.ms`, 30 s, if the broker that it asked for a producer
/// id was cut off from its cluster.
#[test]
fn another_broker_gives_the_producer_id_that_a_broker_which_is_cut_off_cannot_give() {
    let cut_off = |asked: &Asked| match asked.is(ApiKey::InitProducerId) {
        true => Answer::Silence,
        false => usual(asked),
    };
    let [first, second] = testing::two(cut_off, usual);
    let producer = start(config(&first, &[]));
    assert_eq!(fate(&send(&producer, b"v", None)).unwrap().offset, 40);
    assert_eq!((first.count(ApiKey::InitProducerId), second.count(ApiKey::InitProducerId)), (1, 1));
}

#[test]
fn without_acks_nothing_is_waited_for() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&seen);
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Produce) {
            log.lock().extend(batches(asked));
            return Answer::Silence;
        }
        usual(asked)
    });
    let producer = start(config(&broker, &[("acks", "0")]));
    assert_eq!(fate(&send(&producer, b"v", None)).unwrap().offset, -1);
    producer.begin_close();
    producer.end();
    assert_eq!(broker.count(ApiKey::InitProducerId), 0);
    awaited::until("the batch arrives", || !seen.lock().is_empty());
    assert_eq!(*seen.lock(), [("t".to_owned(), 0, vec![b"v".to_vec()])]);
}

#[test]
fn a_broker_that_hangs_up_is_sent_the_batch_again() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::Produce) && asked.before == 0 {
        true => Answer::Close,
        false => usual(asked),
    });
    let producer = start(config(&broker, &[("reconnect.backoff.ms", "1")]));
    assert_eq!(fate(&send(&producer, b"v", None)).unwrap().offset, 40);
    assert_eq!(broker.count(ApiKey::Produce), 2);
}

#[test]
fn a_retriable_refusal_is_tried_again_and_another_one_is_not() {
    let broker = FakeBroker::start(|asked| match (asked.is(ApiKey::Produce), asked.before) {
        (true, 0) => answer(asked, ErrorCode::NotEnoughReplicas, -1),
        (true, 2) => answer(asked, ErrorCode::TopicAuthorizationFailed, -1),
        _ => usual(asked),
    });
    let producer = start(config(&broker, &[]));
    assert_eq!(fate(&send(&producer, b"v", None)).unwrap().offset, 40);
    let error = fate(&send(&producer, b"v", None)).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::TopicAuthorizationFailed));
    assert_eq!(fate(&send(&producer, b"v", None)).unwrap().offset, 40);
}

#[test]
fn a_refused_producer_id_ends_the_producer() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::InitProducerId) {
        true => asked.answer::<InitProducerIdRequest>(&InitProducerIdResponse {
            error_code: ErrorCode::ClusterAuthorizationFailed.code(),
            ..InitProducerIdResponse::default()
        }),
        false => usual(asked),
    });
    let producer = start(config(&broker, &[]));
    let error = fate(&send(&producer, b"v", None)).unwrap_err();
    assert_eq!(error.code(), Some(ErrorCode::ClusterAuthorizationFailed));
    assert_eq!(producer.check().unwrap_err(), error);
}

#[test]
fn a_flush_sends_what_lingers() {
    let broker = FakeBroker::start(usual);
    let producer =
        start(config(&broker, &[("linger.ms", "60000"), ("delivery.timeout.ms", "200000")]));
    let place = send(&producer, b"v", None);
    assert!(place.handle.result(place.index, 5).is_none());
    assert!(producer.flush().unwrap().wait(soon()));
    assert_eq!(fate(&place).unwrap().offset, 40);
}

#[test]
fn closing_delivers_what_it_can_and_fails_the_rest() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::Produce) {
        true => Answer::Silence,
        false => usual(asked),
    });
    let producer = start(config(&broker, &[]));
    let place = send(&producer, b"v", None);
    producer.begin_close();
    assert!(matches!(producer.check(), Err(ClientError::Closed { .. })));
    producer.end();
    assert!(matches!(fate(&place), Err(ClientError::Closed { .. })));
    assert_eq!(producer.memory().used(), 0);
}

#[test]
fn dropping_a_producer_ends_all_waits() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::Produce) {
        true => Answer::Silence,
        false => usual(asked),
    });
    let producer = start(config(&broker, &[]));
    let place = send(&producer, b"v", None);
    producer.end();
    drop(producer);
    assert!(fate(&place).is_err());
}

#[derive(Default)]
struct Collected(Mutex<Vec<(&'static str, i64)>>);

impl Sink<&'static str> for Collected {
    fn reports(&self, reports: Vec<Report<&'static str>>) {
        for report in reports {
            for token in &report.tokens {
                let fate = report.handle.result(token.index, token.timestamp_ms).unwrap();
                self.0.lock().push((token.value, fate.unwrap().offset));
            }
        }
    }
}

#[test]
fn the_sink_gets_every_token() {
    let broker = FakeBroker::start(usual);
    let sink = Arc::new(Collected::default());
    // All in one batch, however long it takes: only the flush sends it.
    let linger = [("linger.ms", "60000"), ("delivery.timeout.ms", "200000")];
    let producer = Producer::start(config(&broker, &linger), sink.clone()).unwrap();
    for token in [Some("a"), None, Some("c")] {
        send(&producer, b"v", token);
    }
    assert!(producer.flush().unwrap().wait(soon()));
    producer.begin_close();
    producer.end();
    assert_eq!(*sink.0.lock(), [("a", 40), ("c", 42)]);
}

#[test]
fn a_partition_that_is_not_there_is_refused() {
    let broker = FakeBroker::start(usual);
    let producer = start(config(&broker, &[]));
    let topic = topic(&producer);
    let refused = [(-1, "partition: -1 is negative"), (1, "t has 1 partition, there is no 1")];
    for (named, text) in refused {
        let error = producer.partition(&topic, Some(named), None).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    assert_eq!(producer.partition(&topic, Some(0), None), Ok(0));
}

/// A producer that knows a topic of four partitions, and sends nothing.
fn four() -> (FakeBroker, Producer<()>, Arc<TopicQueues<()>>) {
    // The sender may ask for it before the test is over.
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::Metadata) {
        true => {
            let mut told = metadata(&asked.place, std::iter::empty());
            told.topics = vec![testing::topic("four", 4, 0)];
            asked.answer::<MetadataRequest>(&told)
        }
        false => usual(asked),
    });
    let settings = [("linger.ms", "60000"), ("delivery.timeout.ms", "200000")];
    let producer = start(config(&broker, &settings));
    let topic = producer.accumulator.follow("four", Uuid::ZERO, 4);
    (broker, producer, topic)
}

#[test]
fn records_in_bulk_go_where_they_would_go_one_by_one() {
    let (_broker, producer, topic) = four();
    let texts: Vec<String> = (0..100).map(|index| format!("k{}", index % 7)).collect();
    let values: Vec<_> = texts.iter().map(|text| Some(text.as_bytes())).collect();
    let keys: Vec<_> = values.iter().enumerate().map(|(i, v)| v.filter(|_| i % 5 > 0)).collect();
    let columns = Columns {
        values: &values,
        keys: Each::Own(&keys),
        partitions: Each::Same(None),
        timestamps: Each::Same(1),
        headers: Each::Same((0, &[])),
    };
    let mut bulk = producer.begin_bulk(&topic, &columns).unwrap();
    producer.go_on(&topic, &columns, &mut bulk, None).ok().unwrap();
    let mut seen = Vec::new();
    let mut last = BTreeMap::new();
    for run in &bulk.runs {
        for (offset, _) in run.indices.clone().enumerate() {
            let index = bulk.position(run.at + offset);
            let partition = run.handle.partition();
            if let Some(key) = keys[index] {
                assert_eq!(producer.partition(&topic, None, Some(key)), Ok(partition as u32));
                assert!(last.insert((partition, key), index).is_none_or(|before| before < index));
            }
            seen.push(index);
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

/// Values, and nothing else of each.
fn keyless<'a>(values: &'a [Option<&'a [u8]>]) -> Columns<'a> {
    Columns {
        values,
        keys: Each::Same(None),
        partitions: Each::Same(None),
        timestamps: Each::Same(1),
        headers: Each::Same((0, &[])),
    }
}

#[test]
fn a_bulk_without_keys_reaches_every_partition() {
    let (_broker, producer, topic) = four();
    let values = vec![Some(&[0_u8; 100][..]); 100_000];
    let columns = keyless(&values);
    let mut bulk = producer.begin_bulk(&topic, &columns).unwrap();
    producer.go_on(&topic, &columns, &mut bulk, None).ok().unwrap();
    let reached: BTreeSet<_> = bulk.runs.iter().map(|run| run.handle.partition()).collect();
    assert_eq!(reached.len(), 4);
}

#[test]
fn in_a_topic_of_one_partition_a_bulk_keeps_its_order() {
    let broker = FakeBroker::start(usual);
    let producer = start(config(&broker, &[("linger.ms", "100")]));
    let topic = topic(&producer);
    let keys: Vec<_> = (0..5_000).map(|i| (i % 3 > 0).then_some(&b"key"[..])).collect();
    let columns = Columns {
        values: &keys,
        keys: Each::Own(&keys),
        partitions: Each::Same(None),
        timestamps: Each::Same(1),
        headers: Each::Same((0, &[])),
    };
    let mut bulk = producer.begin_bulk(&topic, &columns).unwrap();
    producer.go_on(&topic, &columns, &mut bulk, None).ok().unwrap();
    assert!((0..5_000).all(|at| bulk.position(at) == at));
    assert_eq!(bulk.runs.iter().map(|run| run.indices.len()).sum::<usize>(), 5_000);
}

#[test]
fn a_bulk_with_one_wrong_record_appends_nothing() {
    let (_broker, producer, topic) = four();
    let values = [Some(&b"v"[..]), Some(&b"v"[..])];
    let columns = Columns {
        values: &values,
        keys: Each::Same(None),
        partitions: Each::Own(&[Some(0), Some(4)]),
        timestamps: Each::Same(1),
        headers: Each::Same((0, &[])),
    };
    assert!(producer.begin_bulk(&topic, &columns).is_err());
    let large = vec![0; 2 << 20];
    let values = [Some(&b"v"[..]), Some(&large)];
    let columns = Columns { values: &values, partitions: Each::Same(None), ..columns };
    assert!(matches!(
        producer.begin_bulk(&topic, &columns),
        Err(ClientError::MessageTooLarge { .. })
    ));
    assert_eq!(producer.memory().used(), 0);
}

#[test]
fn a_bulk_larger_than_memory_goes_on_where_it_stopped() {
    let broker = FakeBroker::start(usual);
    let producer = start(config(&broker, &[("buffer.memory", "40000"), ("batch.size", "1000")]));
    let topic = topic(&producer);
    let texts: Vec<String> = (0..2_000).map(|index| format!("value {index:0>90}")).collect();
    let values: Vec<_> = texts.iter().map(|text| Some(text.as_bytes())).collect();
    let columns = keyless(&values);
    let mut bulk = producer.begin_bulk(&topic, &columns).unwrap();
    let mut stops = 0;
    let mut line = None;
    while let Err(no_room) = producer.go_on(&topic, &columns, &mut bulk, line) {
        stops += 1;
        let ticket = *line.get_or_insert_with(|| producer.wait_for_memory());
        assert!(producer.memory().wait(ticket, no_room.needed, soon()));
    }
    if let Some(ticket) = line {
        producer.memory().leave(ticket);
    }
    assert!(stops > 0);
    assert!(bulk.runs.iter().all(|run| run.handle.wait_all(soon())));
    assert_eq!(bulk.runs.iter().map(|run| run.indices.len()).sum::<usize>(), 2_000);
}

/// Keeps the client's own thread from doing anything until what is returned is dropped.
fn occupy(producer: &Producer<()>) -> std::sync::mpsc::Sender<()> {
    let (begin, began) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel();
    let busy = async move {
        let _ = begin.send(());
        let _ = ended.recv_timeout(awaited::LIMIT);
    };
    producer.runtime.spawn(busy).unwrap();
    awaited::received("the client's thread is busy", &began);
    end
}
