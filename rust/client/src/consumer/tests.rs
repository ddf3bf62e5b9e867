//! A consumer against a broker that does what the test says.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use kafkalite_connection::testing::{Answer, Asked, FakeBroker};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::fetch::{
    FetchRequest, FetchResponse, FetchableTopicResponse, PartitionData,
};
use kafkalite_protocol::messages::list_offsets::{
    ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse, ListOffsetsTopicResponse,
};
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{ErrorCode, LeaderEpoch, Offset, Records};

use super::*;
use crate::awaited;
use crate::consumer::record_block::RecordSlice;

mod again;
mod automatic;
mod claims;
mod commits;
mod creation;
mod given_back;
mod gone;
mod goodbye;
mod idle;
mod last_commit;
mod late_refusal;
mod leaders;
mod leading;
mod missing;
mod silence;
mod truncation;
mod under_way;

/// A log of one partition: records from `start` to `end`, two in a batch.
#[derive(Clone)]
pub struct Log {
    pub start: i64,
    pub end: i64,
    pub epoch: i32,
}

impl Log {
    fn batches_from(&self, offset: i64) -> Bytes {
        let mut bytes = Vec::new();
        let mut base = self.start + (offset - self.start) / 2 * 2;
        while base < self.end {
            let mut builder = RecordBatchBuilder::new(Codec::None);
            for offset in base..(base + 2).min(self.end) {
                builder.append(offset, None, Some(offset.to_string().as_bytes()), &[]);
            }
            let batch = builder.build(Offset(base), LeaderEpoch(self.epoch)).expect("it builds");
            bytes.extend_from_slice(&batch);
            base += 2;
        }
        bytes.into()
    }

    /// What a broker with this log answers.
    pub fn serves(&self, asked: &Asked) -> Answer {
        if asked.is(ApiKey::Fetch) {
            fetch(asked, |partition, offset| self.fetch(partition, offset))
        } else if asked.is(ApiKey::ListOffsets) {
            list_offsets(asked, self)
        } else {
            Answer::Usual
        }
    }

    pub fn fetch(&self, partition: i32, offset: i64) -> PartitionData {
        let out_of_range = offset < self.start || offset > self.end;
        let code = if out_of_range { ErrorCode::OffsetOutOfRange } else { ErrorCode::None };
        let records = if out_of_range { Bytes::new() } else { self.batches_from(offset) };
        PartitionData {
            partition_index: partition,
            error_code: code as i16,
            high_watermark: self.end,
            log_start_offset: self.start,
            records: Some(Records::Bytes(records)),
            ..PartitionData::default()
        }
    }
}

/// Answers Fetch by `serve`, for every partition that the request lists.
pub fn fetch(asked: &Asked, serve: impl Fn(i32, i64) -> PartitionData) -> Answer {
    let request: FetchRequest = asked.read();
    let topics = request.topics.into_iter().map(|topic| FetchableTopicResponse {
        topic: topic.topic,
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .into_iter()
            .map(|one| serve(one.partition, one.fetch_offset))
            .filter(|data| {
                let has_records = data.records.as_ref().is_some_and(|r| !r.is_empty());
                data.error_code != 0 || data.preferred_read_replica >= 0 || has_records
            })
            .collect(),
    });
    let responses: Vec<_> = topics.filter(|topic| !topic.partitions.is_empty()).collect();
    asked.answer::<FetchRequest>(&FetchResponse { responses, ..FetchResponse::default() })
}

pub fn list_offsets(asked: &Asked, log: &Log) -> Answer {
    let request: ListOffsetsRequest = asked.read();
    let topics = request.topics.into_iter().map(|topic| ListOffsetsTopicResponse {
        name: topic.name,
        partitions: topic
            .partitions
            .into_iter()
            .map(|one| ListOffsetsPartitionResponse {
                partition_index: one.partition_index,
                offset: match one.timestamp {
                    -2 => log.start,
                    -1 => log.end,
                    time if time < log.end => time.max(log.start),
                    _ => -1,
                },
                leader_epoch: log.epoch,
                ..ListOffsetsPartitionResponse::default()
            })
            .collect(),
    });
    let response = ListOffsetsResponse { topics: topics.collect(), ..Default::default() };
    asked.answer::<ListOffsetsRequest>(&response)
}

pub fn broker(log: Log) -> FakeBroker {
    FakeBroker::start(move |asked| log.serves(asked))
}

/// Four records, whose last byte is not what it was in those fetches that `hurt` picks by how many
/// came before.
fn damaged(hurt: impl Fn(usize) -> bool + Send + Sync + 'static) -> FakeBroker {
    let log = Log { start: 0, end: 4, epoch: 0 };
    FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        let hurt = hurt(asked.before);
        fetch(asked, |partition, offset| {
            let mut data = log.fetch(partition, offset);
            let mut bytes = data.records.take().unwrap_or_default().into_bytes().to_vec();
            if hurt && let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            data.records = Some(Records::Bytes(bytes.into()));
            data
        })
    })
}

fn consumer(broker: &FakeBroker, settings: &[(&str, &str)]) -> Consumer {
    let servers = broker.place.to_string();
    let all = [("bootstrap.servers", servers.as_str()), ("retry.backoff.ms", "1")];
    let pairs: BTreeMap<_, _> = all
        .iter()
        .chain(settings)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    let config = ConsumerConfig::from_pairs(&pairs).expect("a valid configuration");
    Consumer::new(config).expect("a thread")
}

fn reading(broker: &FakeBroker, settings: &[(&str, &str)]) -> Consumer {
    let consumer = consumer(broker, settings);
    consumer.assign(&BTreeSet::from([x()])).expect("nothing is subscribed to");
    consumer
}

pub fn x() -> TopicPartition {
    TopicPartition::new("x", 0)
}

pub const ALL: Limits = Limits { max_records: usize::MAX, max_bytes: usize::MAX };

pub fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

pub fn values(slices: &[RecordSlice]) -> Vec<i64> {
    let number = |record: RecordView<'_>| {
        let text = std::str::from_utf8(record.value().expect("tests write values"));
        text.expect("tests write text").parse().expect("tests write numbers")
    };
    slices.iter().flat_map(|slice| slice.iter().map(number).collect::<Vec<_>>()).collect()
}

/// Reads until there are `count` records.
fn read(consumer: &Consumer, count: usize) -> Result<Vec<i64>, ClientError> {
    let mut all = Vec::new();
    while all.len() < count {
        match consumer.next(Limits { max_records: count - all.len(), ..ALL }, soon())? {
            Next::Records(taken) => all.extend(values(&taken.keep())),
            other => panic!("no records but {other:?}"),
        }
    }
    Ok(all)
}

/// The records that a call brought, which are not kept yet.
fn lease(next: Result<Next<'_>, ClientError>) -> Lease<'_> {
    match next {
        Ok(Next::Records(lease)) => lease,
        other => panic!("no records but {other:?}"),
    }
}

/// The records that a call brought.
fn taken(next: Result<Next<'_>, ClientError>) -> Vec<RecordSlice> {
    lease(next).keep()
}

/// The offset of the next record that is decoded already.
fn decoded(consumer: &Consumer) -> Option<i64> {
    kept(consumer.next_decoded(|_, record| Ok::<_, ()>(record.offset())))?.ok()
}

/// What was made of the next record, which is kept.
fn kept<T, E>(made: Option<Result<(T, Single<'_>), E>>) -> Option<Result<T, E>> {
    let keep = |(made, single): (T, Single<'_>)| {
        single.keep();
        made
    };
    made.map(|made| made.map(keep))
}

const EARLIEST_RESET: (&str, &str) = ("auto.offset.reset", "earliest");

#[test]
fn an_assigned_partition_is_read_from_its_start_to_its_end() {
    let broker = broker(Log { start: 3, end: 10, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 7), Ok((3..10).collect()));
    assert_eq!(consumer.lag(&x()), Some(0));
    // It asks again if the leader becomes known while the first question is under way.
    assert!((1..=2).contains(&broker.count(ApiKey::ListOffsets)));
}

#[test]
fn a_call_gets_no_more_than_it_asks_for_and_the_next_call_the_rest() {
    let broker = broker(Log { start: 0, end: 10, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    let three = Limits { max_records: 3, max_bytes: usize::MAX };
    let first = taken(consumer.next(three, soon()));
    assert_eq!(values(&first), [0, 1, 2]);
    assert_eq!(consumer.lag(&x()), Some(7));
    let two_bytes = Limits { max_records: usize::MAX, max_bytes: 2 };
    let next = taken(consumer.next(two_bytes, soon()));
    assert_eq!(values(&next), [3, 4]);
}

#[test]
fn what_was_handed_out_is_done_when_the_caller_comes_back() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 2), Ok(vec![0, 1]));
    let done = || consumer.shared().subscription.lock().to_commit()[&x()].offset;
    assert_eq!(done(), 0);
    assert_eq!(read(&consumer, 1), Ok(vec![2]));
    assert_eq!(done(), 2);
    assert_eq!(decoded(&consumer), Some(3));
    assert_eq!(done(), 3);
    assert_eq!(decoded(&consumer), Some(4));
    let handed_out = || consumer.shared().subscription.lock().handed_out()[&x()].offset;
    assert_eq!((done(), handed_out()), (4, 5));
    // It was processed once more where the consumer was closed for this failure.
    assert_eq!(kept(consumer.next_decoded(|_, _| Err::<(), _>("no"))), Some(Err("no")));
    assert_eq!((done(), handed_out()), (5, 5));
}

#[test]
fn a_record_that_cannot_be_made_stays_the_next_one() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
    assert_eq!(kept(consumer.next_decoded(|_, _| Err::<(), _>("no"))), Some(Err("no")));
    assert_eq!(decoded(&consumer), Some(1));
    lease(consumer.next(ALL, soon())).keep_first(1);
    assert_eq!(read(&consumer, 3), Ok(vec![3, 4, 5]));
}

#[test]
fn a_seek_drops_what_was_fetched_and_reads_from_there() {
    let broker = broker(Log { start: 0, end: 10, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
    consumer.seek(&x(), Position::at(7)).expect("it is assigned");
    assert_eq!(decoded(&consumer), None);
    assert_eq!(read(&consumer, 3), Ok(vec![7, 8, 9]));
    let stranger = TopicPartition::new("y", 0);
    assert!(matches!(
        consumer.seek(&stranger, Position::at(7)),
        Err(ClientError::IllegalState { .. })
    ));
}

#[test]
fn a_paused_partition_keeps_its_place_until_it_is_resumed() {
    let broker = broker(Log { start: 0, end: 10, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 2), Ok(vec![0, 1]));
    consumer.set_paused(&[x()], true).expect("it is assigned");
    assert!(matches!(consumer.next(ALL, Instant::now()), Ok(Next::Nothing)));
    assert_eq!(consumer.paused(), [x()]);
    consumer.set_paused(&[x()], false).expect("it is assigned");
    assert_eq!(read(&consumer, 8), Ok((2..10).collect()));
}

#[test]
fn an_offset_out_of_range_goes_where_the_policy_says() {
    for (policy, first) in [("earliest", Some(5)), ("latest", None)] {
        let broker = broker(Log { start: 5, end: 9, epoch: 0 });
        let consumer = reading(&broker, &[("auto.offset.reset", policy)]);
        consumer.seek(&x(), Position::at(2)).expect("it is assigned");
        let position = || {
            let asked = calls::position(Arc::clone(consumer.shared()), x(), soon());
            consumer.runtime().call(asked, soon()).expect("it is known").offset
        };
        let (end, mut seen) = (soon(), None);
        while seen.is_none() && position() != 9 {
            assert!(Instant::now() < end, "{policy}: still at {}", position());
            let next = consumer.next(ALL, Instant::now() + Duration::from_millis(10));
            if let Next::Records(taken) = next.expect("there is a policy") {
                seen = values(&taken.keep()).first().copied();
            }
        }
        assert_eq!(seen, first, "{policy}");
    }
}

#[test]
fn without_a_policy_an_offset_out_of_range_is_an_error_until_a_seek() {
    let broker = broker(Log { start: 5, end: 9, epoch: 0 });
    let consumer = reading(&broker, &[("auto.offset.reset", "none")]);
    assert!(matches!(consumer.next(ALL, soon()), Err(ClientError::NoOffset { .. })));
    consumer.seek(&x(), Position::at(2)).expect("it is assigned");
    for _ in 0..2 {
        let error = read(&consumer, 1).expect_err("it is out of range");
        assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange));
    }
    consumer.seek(&x(), Position::at(5)).expect("it is assigned");
    assert_eq!(read(&consumer, 4), Ok((5..9).collect()));
}

#[test]
fn a_time_leads_to_its_first_record_and_one_to_come_to_the_end() {
    for (time, expected) in [(6, 6), (99, 9)] {
        let broker = broker(Log { start: 5, end: 9, epoch: 0 });
        let consumer = reading(&broker, &[EARLIEST_RESET]);
        consumer.seek_to(&[x()], time).expect("it is assigned");
        let position = calls::position(Arc::clone(consumer.shared()), x(), soon());
        let position = consumer.runtime().call(position, soon()).expect("it is known");
        assert_eq!(position.offset, expected);
    }
}

#[test]
fn a_batch_that_was_damaged_on_its_way_is_an_error_and_fetched_again() {
    let broker = damaged(|fetches| fetches == 0);
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 2), Ok(vec![0, 1]));
    let error = read(&consumer, 1).expect_err("the second batch is damaged");
    assert!(matches!(error, ClientError::CorruptBatch { offset: 2, .. }), "{error:?}");
    assert_eq!(read(&consumer, 2), Ok(vec![2, 3]));
}

#[test]
fn partitions_that_were_not_asked_for_are_not_believed() {
    let log = Log { start: 0, end: 4, epoch: 0 };
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        let request: FetchRequest = asked.read();
        let Some(offset) = request.topics.first().map(|t| t.partitions[0].fetch_offset) else {
            return fetch(asked, |_, _| unreachable!("it lists nothing"));
        };
        let strange = |partition| log.fetch(partition, 0);
        let of = |topic: &str, partitions| FetchableTopicResponse {
            topic: topic.to_owned(),
            partitions,
            ..FetchableTopicResponse::default()
        };
        let responses = vec![
            of("y", vec![strange(0)]),
            of("x", vec![strange(5), strange(-1), log.fetch(0, offset)]),
        ];
        if offset == log.end {
            return Answer::Silence;
        }
        asked.answer::<FetchRequest>(&FetchResponse { responses, ..FetchResponse::default() })
    });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    assert!(matches!(consumer.next(ALL, Instant::now()), Ok(Next::Nothing)));
}

#[test]
fn batches_that_lead_nowhere_are_an_error_and_not_a_loop() {
    let log = Log { start: 0, end: 4, epoch: 0 };
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Fetch) {
            // Whatever is asked for, the first records come.
            return fetch(asked, |partition, _| log.fetch(partition, 0));
        }
        Answer::Usual
    });
    let consumer = reading(&broker, &[]);
    consumer.seek(&x(), Position::at(100)).expect("it is assigned");
    let error = read(&consumer, 1).expect_err("nothing at 100 came");
    assert!(matches!(error, ClientError::CorruptBatch { offset: 100, .. }), "{error:?}");
}

#[test]
fn an_offset_that_an_answer_leaves_out_is_asked_for_again() {
    let log = Log { start: 3, end: 5, epoch: 0 };
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Fetch) {
            return fetch(asked, |partition, offset| log.fetch(partition, offset));
        }
        match asked.is(ApiKey::ListOffsets) {
            true if asked.before == 0 => {
                asked.answer::<ListOffsetsRequest>(&ListOffsetsResponse::default())
            }
            true => list_offsets(asked, &log),
            false => Answer::Usual,
        }
    });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 2), Ok(vec![3, 4]));
}

#[test]
fn topics_without_a_group_are_read_whole() {
    let broker = broker(Log { start: 0, end: 2, epoch: 0 });
    let consumer = consumer(&broker, &[EARLIEST_RESET]);
    let topics = BTreeSet::from([Arc::from("x"), Arc::from("y")]);
    consumer.subscribe(Wish::Topics(topics)).expect("nothing is assigned");
    let mut all = read(&consumer, 4).expect("they are there");
    all.sort_unstable();
    assert_eq!(all, [0, 0, 1, 1]);
    assert!(consumer.assign(&BTreeSet::new()).is_err());
    consumer.unsubscribe().expect("it is open");
    assert_eq!(consumer.assignment(), []);
}

#[test]
fn a_closed_consumer_says_so_and_a_waiting_caller_is_woken() {
    let broker = broker(Log { start: 0, end: 0, epoch: 0 });
    let consumer = Arc::new(reading(&broker, &[EARLIEST_RESET]));
    let waiting = Arc::clone(&consumer);
    let waiter = std::thread::spawn(move || waiting.next(ALL, soon()).map(|_| ()));
    assert_eq!(consumer.close(Duration::from_secs(5), false), Ok(()));
    let _ends = awaited::within("a caller of a closed consumer is woken");
    let told = waiter.join().expect("it does not panic");
    assert!(matches!(told, Err(ClientError::Closed { .. })), "{told:?}");
    assert!(matches!(consumer.next(ALL, soon()), Err(ClientError::Closed { .. })));
    assert_eq!(consumer.close(Duration::from_secs(5), false), Ok(()));
}

#[test]
fn an_absent_broker_is_an_error_of_the_next_call() {
    let broker = broker(Log { start: 0, end: 0, epoch: 0 });
    let place = broker.place.to_string();
    drop(broker);
    let pairs = [("bootstrap.servers", place.as_str()), ("kafkalite.bootstrap.timeout.ms", "50")];
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let config = ConsumerConfig::from_pairs(&pairs.into()).expect("a valid configuration");
    let consumer = Consumer::new(config).expect("a thread");
    consumer.assign(&BTreeSet::from([x()])).expect("nothing is subscribed to");
    let error = consumer.next(ALL, soon()).map(|_| ());
    assert!(matches!(error, Err(ClientError::NoBrokerReachable { .. })), "{error:?}");
}
