//! What a producer owes when it ends, and when a topic of its ends and begins again.

use std::sync::atomic::{AtomicBool, Ordering};

use kafkalite_connection::testing::{AutoCreated, auto_creating};
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::metadata::MetadataResponse;

use super::*;

/// The ids of a topic and of the one that is made after it.
const FIRST: Uuid = Uuid([1; 16]);
const SECOND: Uuid = Uuid([2; 16]);

fn silent(asked: &Asked) -> Answer {
    if asked.is(ApiKey::Produce) { Answer::Silence } else { usual(asked) }
}

/// The client's thread had half a second to fail what was left. If it did not run in that time, on
/// a busy machine, the batches were dropped. Callers that waited for one never got an answer.
#[test]
fn what_is_left_at_the_end_fails_although_the_thread_of_the_client_is_busy() {
    let broker = FakeBroker::start(silent);
    let producer = start(config(&broker, &[]));
    let flying = send(&producer, b"on its way", None);
    broker.wait_for(ApiKey::Produce, 1);
    let topic = topic(&producer);
    let _busy = occupy(&producer);
    let record = Record { timestamp_ms: 5, key: None, value: Some(b"v"), headers: (0, &[]) };
    let waiting = producer.append(&topic, 0, record, None, None).ok().unwrap();
    producer.begin_close();
    producer.end();
    for place in [flying, waiting] {
        let fate = place.handle.result(place.index, 5);
        assert!(matches!(fate, Some(Err(_))), "its fate is known: {fate:?}");
    }
    assert_eq!(producer.memory().used(), 0);
}

/// The same for a producer that is never closed: its sender is dropped with it.
#[test]
fn what_is_left_fails_when_the_producer_is_dropped() {
    let broker = FakeBroker::start(silent);
    let producer = start(config(&broker, &[]));
    let place = send(&producer, b"v", None);
    broker.wait_for(ApiKey::Produce, 1);
    drop(producer);
    assert!(matches!(fate(&place), Err(ClientError::Closed { .. })));
}

/// A caller that looked a topic up in an event loop was never called when the producer ended.
#[test]
fn a_caller_that_waits_for_a_topic_learns_that_the_producer_ends() {
    let broker = FakeBroker::start(|asked| match asked.is(ApiKey::Metadata) {
        true => Answer::Silence,
        false => usual(asked),
    });
    let producer = start(config(&broker, &[]));
    let (tell, told) = std::sync::mpsc::channel();
    let done = move |result: Result<_, _>| tell.send(result.map(|_| ())).expect("it listens");
    producer.look_up_then("t", Ask::IfUnknown, soon(), done).unwrap();
    producer.begin_close();
    producer.end();
    let told = awaited::received("the end of the look-up", &told);
    assert!(matches!(told, Err(ClientError::Closed { .. })), "{told:?}");
}

/// A topic of six partitions that is made again with two once the test says so.
struct Life {
    broker: FakeBroker,
    is_second: Arc<AtomicBool>,
}

impl Life {
    fn first() -> Self {
        let is_second = Arc::new(AtomicBool::new(false));
        let second = Arc::clone(&is_second);
        let broker = FakeBroker::start(move |asked| {
            let life = usize::from(second.load(Ordering::SeqCst));
            let (id, count) = [(FIRST, 6), (SECOND, 2)][life];
            if asked.is(ApiKey::Metadata) {
                return asked.answer::<MetadataRequest>(&topic_of(asked, id, count));
            }
            let is_old = asked.is(ApiKey::Produce)
                && asked.read::<ProduceRequest>().topic_data.iter().any(|one| one.topic_id != id);
            if is_old { answer(asked, ErrorCode::UnknownTopicId, -1) } else { usual(asked) }
        });
        Self { broker, is_second }
    }
}

fn topic_of(asked: &Asked, topic_id: Uuid, partitions: i32) -> MetadataResponse {
    let mut told = metadata(&asked.place, std::iter::empty());
    let topic = testing::topic("t", partitions, 0);
    told.topics =
        vec![kafkalite_protocol::messages::metadata::MetadataResponseTopic { topic_id, ..topic }];
    told
}

fn send_keyed(producer: &Producer<()>, key: &[u8]) -> Place<()> {
    let topic = topic(producer);
    let record = Record { timestamp_ms: 5, key: Some(key), value: None, headers: (0, &[]) };
    loop {
        let partition = producer.partition(&topic, None, Some(key)).unwrap();
        match producer.append(&topic, partition, record, None, None) {
            Ok(place) => return place,
            Err(refused) => assert_eq!(refused.why, Refusal::Gone),
        }
    }
}

/// The producer never forgot a partition. If a topic came back with fewer partitions, keyed records
/// went to removed ones, and always failed `delivery.timeout.ms` later.
#[test]
fn keyed_records_go_to_the_partitions_that_a_topic_has_when_it_was_made_again() {
    let life = Life::first();
    let producer = start(config(&life.broker, &[]));
    let keys: Vec<_> = (0..30).map(|number: i32| number.to_be_bytes()).collect();
    for key in &keys {
        fate(&send_keyed(&producer, key)).unwrap();
    }
    life.is_second.store(true, Ordering::SeqCst);
    let places: Vec<_> = keys.iter().map(|key| send_keyed(&producer, key)).collect();
    for place in &places {
        // Well before delivery.timeout.ms, which is two minutes.
        match (fate(place), place.handle.partition()) {
            (Ok(_), 0..2) => {}
            (Err(ClientError::NoPartition { count: 2, partition, .. }), gone @ 2..) => {
                assert_eq!(partition, gone);
            }
            (fate, partition) => panic!("{fate:?} in partition {partition}"),
        }
    }
    for key in &keys {
        let metadata = fate(&send_keyed(&producer, key)).unwrap();
        assert!(metadata.partition < 2, "partition {}", metadata.partition);
    }
}

/// The same for records that one call sends, some of them sorted by partition already.
#[test]
fn a_bulk_that_is_under_way_chooses_among_the_partitions_that_there_are() {
    let broker = FakeBroker::start(usual);
    let settings = [("linger.ms", "60000"), ("delivery.timeout.ms", "200000")];
    let producer = start(config(&broker, &settings));
    let topic = producer.accumulator.follow("made again", FIRST, 6);
    let texts: Vec<String> = (0..100).map(|number| format!("key {number}")).collect();
    let values: Vec<_> = texts.iter().map(|text| Some(text.as_bytes())).collect();
    let columns = Columns { keys: Each::Own(&values), ..keyless(&values) };
    let mut bulk = producer.begin_bulk(&topic, &columns).unwrap();
    producer.append_bucket(&topic, &columns, &mut bulk, None).ok().unwrap();
    let first = bulk.appended();
    assert!((1..100).contains(&first), "the records of one partition, not {first}");
    producer.accumulator.follow("made again", SECOND, 2);
    producer.go_on(&topic, &columns, &mut bulk, None).ok().unwrap();
    let mut seen: Vec<_> = (0..100).map(|at| bulk.position(at)).collect();
    let late = bulk.runs.iter().filter(|run| run.at >= first);
    assert!(late.clone().all(|run| run.handle.partition() < 2));
    for run in late {
        for (offset, _) in run.indices.clone().enumerate() {
            let key = values[bulk.position(run.at + offset)];
            let partition = run.handle.partition() as u32;
            assert_eq!(producer.partition(&topic, None, key), Ok(partition));
        }
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

#[test]
fn a_bulk_that_names_a_partition_that_is_gone_is_refused() {
    let (_broker, producer, topic) = four();
    producer.accumulator.follow("four", FIRST, 4);
    let values = [Some(&b"v"[..]); 3];
    let columns = Columns { partitions: Each::Own(&[Some(0), Some(3), None]), ..keyless(&values) };
    let mut bulk = producer.begin_bulk(&topic, &columns).unwrap();
    producer.accumulator.follow("four", SECOND, 1);
    let refused = producer.go_on(&topic, &columns, &mut bulk, None).err().unwrap();
    assert_eq!(refused.why, Refusal::Gone);
    let error = producer.gone(&topic, &columns, &bulk);
    assert!(error.to_string().contains("four has 1 partition, there is no 3"), "{error}");
}

/// `max.block.ms` was for a whole call: one with more records than `buffer.memory` holds failed
/// although every record found room in time.
#[test]
fn each_record_of_a_bulk_may_wait_for_as_long_as_a_record_that_is_sent_alone() {
    let began = Instant::now();
    let after = |seconds| began + Duration::from_secs(seconds);
    let mut patience = Patience::new(Duration::from_secs(60));
    for (appended, now, until) in
        [(0, 0, 60), (0, 50, 60), (7, 55, 115), (7, 110, 115), (8, 115, 175)]
    {
        assert_eq!(patience.until(appended, after(now)), after(until), "after {appended}");
    }
}

/// An idle producer that asked whether a topic is as it was brought it back after its deletion.
#[test]
fn a_producer_brings_a_deleted_topic_back_when_it_sends_and_not_before() {
    let topics = Arc::new(Mutex::new(AutoCreated::default()));
    let there = Arc::clone(&topics);
    let broker = FakeBroker::start(move |asked| match asked.is(ApiKey::Metadata) {
        true => auto_creating(asked, &there),
        false => usual(asked),
    });
    let producer = start(config(&broker, &[("metadata.max.age.ms", "5")]));
    fate(&send(&producer, b"v", None)).unwrap();
    topics.lock().there.clear();
    broker.wait_for(ApiKey::Metadata, broker.count(ApiKey::Metadata) + 6);
    assert_eq!(topics.lock().created, 1, "it asked for it again and again");
    fate(&send(&producer, b"v", None)).unwrap();
    assert_eq!(topics.lock().created, 2);
}
