//! A partition with much to read beside one of the same broker with nothing new.

use parking_lot::Mutex;

use super::*;

const RECORDS: i64 = 400;

/// The topics that each fetch named.
type Seen = Arc<Mutex<Vec<Vec<String>>>>;

/// Two records of topic `x` at a time, none of `y`. A fetch that finds nothing waits longer than
/// any test.
fn broker_with_an_idle_topic(seen: Seen) -> FakeBroker {
    let log = Log { start: 0, end: RECORDS, epoch: 0 };
    FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &Log { end: 0, ..log });
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        let topics = asked.read::<FetchRequest>().topics;
        seen.lock().push(topics.iter().map(|topic| topic.topic.clone()).collect());
        let offset = topics.iter().find(|topic| topic.topic == "x");
        let offset = offset.map_or(RECORDS, |topic| topic.partitions[0].fetch_offset);
        if offset >= RECORDS {
            return Answer::Silence;
        }
        let two = Log { end: (offset / 2 * 2 + 2).min(RECORDS), ..log };
        let responses = vec![FetchableTopicResponse {
            topic: "x".to_owned(),
            partitions: vec![two.fetch(0, offset)],
            ..FetchableTopicResponse::default()
        }];
        asked.answer::<FetchRequest>(&FetchResponse { responses, ..FetchResponse::default() })
    })
}

fn reading_both(broker: &FakeBroker) -> Consumer {
    let consumer = consumer(broker, &[EARLIEST_RESET, ("max.partition.fetch.bytes", "1")]);
    let both = BTreeSet::from([x(), TopicPartition::new("y", 0)]);
    consumer.assign(&both).expect("nothing is subscribed to");
    consumer
}

/// Each time that enough of it was buffered the reader waited for `fetch.max.wait.ms`.
#[test]
fn a_partition_is_read_without_pauses_beside_one_that_has_nothing() {
    let seen = Seen::default();
    let broker = broker_with_an_idle_topic(Arc::clone(&seen));
    let consumer = reading_both(&broker);
    assert_eq!(read(&consumer, RECORDS as usize), Ok((0..RECORDS).collect()));
    let alone = seen.lock().iter().filter(|named| **named == ["y"]).count();
    assert_eq!(alone, 0, "fetches of the idle topic alone");
}

/// What is paused and full is not handed out: the other partition would wait for it without end.
#[test]
fn a_full_partition_that_is_paused_does_not_keep_the_other_from_being_read() {
    let seen = Seen::default();
    let broker = broker_with_an_idle_topic(Arc::clone(&seen));
    let consumer = reading_both(&broker);
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
    consumer.set_paused(&[x()], true).expect("it is assigned");
    awaited::until("the idle topic is asked for alone", || {
        seen.lock().last().is_some_and(|named| *named == ["y"])
    });
}
