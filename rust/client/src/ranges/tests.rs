//! Ranges against a broker that does what the test says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use kafkalite_connection::testing::{Answer, FakeBroker, metadata};
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::messages::list_offsets::ListOffsetsRequest;
use kafkalite_protocol::messages::metadata::{MetadataRequest, MetadataResponseTopic};
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{LeaderEpoch, Offset, Records};
use parking_lot::Mutex;

use super::*;
use crate::awaited;
use crate::consumer::tests::{ALL, Log, broker, fetch, list_offsets, soon, values, x};

fn reader(broker: &FakeBroker) -> RangeReader {
    reader_with_clock(broker, Box::new(Instant::now))
}

fn reader_with_clock(broker: &FakeBroker, clock: Clock) -> RangeReader {
    // A broker that is there answers, however long the machine takes.
    reader_of(&broker.place.to_string(), "20000", clock)
}

fn reader_of(servers: &str, bootstrap_ms: &str, clock: Clock) -> RangeReader {
    let pairs = [
        ("bootstrap.servers", servers),
        ("retry.backoff.ms", "1"),
        ("reconnect.backoff.ms", "1"),
        ("reconnect.backoff.max.ms", "1"),
        ("kafkalite.bootstrap.timeout.ms", bootstrap_ms),
        ("kafkalite.fetch.buffer.max.bytes", "1"),
        ("isolation.level", "read_committed"),
    ];
    let pairs: BTreeMap<_, _> = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let config = ConsumerConfig::from_pairs(&pairs).expect("a valid configuration");
    RangeReader::with_clock(config, clock).expect("a thread")
}

fn options(may_lose: bool) -> RangeOptions {
    RangeOptions { may_lose, stall_timeout: Duration::from_secs(10) }
}

fn range(start: i64, end: i64) -> OffsetRange {
    OffsetRange { partition: x(), start, end, topic_id: Uuid::ZERO }
}

fn read_all(reader: &mut RangeReader) -> Result<Vec<i64>, ClientError> {
    let mut all = Vec::new();
    loop {
        match reader.next(ALL, soon())? {
            Step::Records(slices) => all.extend(values(&slices)),
            Step::Nothing => panic!("it neither reads nor ends"),
            Step::End => return Ok(all),
        }
    }
}

#[test]
fn a_range_is_read_from_its_start_up_to_its_end_and_no_further() {
    let broker = broker(Log { start: 0, end: 100, epoch: 0 });
    let mut reader = reader(&broker);
    for (start, end) in [(0, 100), (3, 8), (7, 8), (5, 5), (9, 2)] {
        reader.start(&[range(start, end)], options(false)).expect("a range");
        assert_eq!(read_all(&mut reader), Ok((start..end).collect()), "{start}..{end}");
    }
}

#[test]
fn nothing_is_fetched_from_the_end_on() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let mut reader = reader(&broker);
    reader.start(&[range(0, 6)], options(false)).expect("a range");
    assert_eq!(read_all(&mut reader), Ok((0..6).collect()));
    assert_eq!(broker.count(ApiKey::Fetch), 1);
}

#[test]
fn a_partition_with_two_ranges_and_a_negative_offset_are_refused() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let mut reader = reader(&broker);
    for ranges in [vec![range(0, 2), range(2, 4)], vec![range(-2, 4)]] {
        let error = reader.start(&ranges, options(false)).expect_err("it cannot be");
        assert!(matches!(error, ClientError::InvalidArgument { .. }), "{error}");
    }
}

/// It neither read on nor ended: nothing was assigned any more, and half of the refused ranges were
/// waited for.
#[test]
fn ranges_that_are_refused_leave_those_before_as_they_are() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let mut reader = reader(&broker);
    reader.start(&[range(0, 6)], options(false)).expect("a range");
    let two = Limits { max_records: 2, ..ALL };
    let Ok(Step::Records(first)) = reader.next(two, soon()) else { panic!("records") };
    assert_eq!(values(&first), [0, 1]);
    for ranges in [vec![range(0, 2), range(2, 4)], vec![range(-2, 4)]] {
        reader.start(&ranges, options(true)).expect_err("it cannot be");
    }
    assert_eq!(read_all(&mut reader), Ok((2..6).collect()));
}

#[test]
fn offsets_that_are_gone_are_an_error_or_counted_and_passed_over() {
    let gone = [
        // What is wanted, what is read, how many are lost.
        ((2, 9), 5..9, 3),
        ((0, 4), 0..0, 4),
        ((20, 24), 0..0, 4),
    ];
    for ((start, end), read, lost) in gone {
        let broker = broker(Log { start: 5, end: 9, epoch: 0 });
        let mut reader = reader(&broker);
        reader.start(&[range(start, end)], options(false)).expect("a range");
        let error = read_all(&mut reader).expect_err("offsets are gone");
        assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange), "{error}");
        assert!(error.to_string().contains("its log has 5 to 9"), "{error}");
        reader.start(&[range(start, end)], options(true)).expect("a range");
        assert_eq!(read_all(&mut reader), Ok(read.collect()), "{start}..{end}");
        assert_eq!(reader.lost(), lost, "{start}..{end}");
    }
}

#[test]
fn a_log_that_never_sends_what_it_has_ends_with_an_error() {
    let log = Log { start: 0, end: 9, epoch: 0 };
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        let nothing = Log { start: 0, end: 0, epoch: 0 };
        fetch(asked, |partition, _| nothing.fetch(partition, 0))
    });
    let mut reader = reader(&broker);
    let soon_over = RangeOptions { may_lose: false, stall_timeout: Duration::from_millis(50) };
    reader.start(&[range(0, 9)], soon_over).expect("a range");
    let error = read_all(&mut reader).expect_err("nothing comes");
    assert_eq!(error.code(), Some(ErrorCode::RequestTimedOut), "{error}");
}

#[test]
fn a_broker_that_went_away_is_not_asked_for_longer_than_the_stall_timeout() {
    // Each look asked for 30 s. So a task with a stall timeout of 2 s ended after 127 s.
    let log = Log { start: 0, end: 9, epoch: 0 };
    let broker = FakeBroker::start(move |asked| match asked.header.api_key {
        key if key == ApiKey::Fetch as i16 => Answer::Silence,
        key if key == ApiKey::ListOffsets as i16 => list_offsets(asked, &log),
        _ => Answer::Usual,
    });
    let mut reader = reader_of(&broker.place.to_string(), "3000", Box::new(Instant::now));
    let options = RangeOptions { may_lose: false, stall_timeout: Duration::from_millis(200) };
    reader.start(&[range(0, 9)], options).expect("a range");
    assert!(matches!(reader.next(ALL, Instant::now()), Ok(Step::Nothing)));
    broker.stop();
    let began = Instant::now();
    read_all(&mut reader).expect_err("its broker is gone");
    assert!(began.elapsed() < Duration::from_secs(15), "it took {:?}", began.elapsed());
}

/// So many fetches take several looks.
const MARKERS: i64 = 2_000;

#[test]
fn markers_without_a_record_for_longer_than_the_stall_timeout_are_no_stall() {
    // A task over hours of aborted transactions failed after `kafkaConsumer.pollTimeoutMs`, though
    // fetches brought one after the other.
    let log = Log { start: 0, end: MARKERS, epoch: 0 };
    let elapsed = Arc::new(AtomicU64::new(0));
    let told = Arc::clone(&elapsed);
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        told.fetch_add(1, Ordering::SeqCst);
        fetch(asked, |partition, offset| {
            let mut marker = RecordBatchBuilder::new(Codec::None).control();
            marker.append(0, Some(&[0, 0, 0, 0]), None, &[]);
            let batch = marker.build(Offset(offset), LeaderEpoch(0)).expect("it builds");
            let mut data = log.fetch(partition, offset);
            data.records = Some(Records::Bytes(batch));
            data
        })
    });
    let began = Instant::now();
    let clock = move || began + Duration::from_secs(elapsed.load(Ordering::SeqCst));
    let mut reader = reader_with_clock(&broker, Box::new(clock));
    // A second passes with every fetch, of which one or two are under way while it looks.
    let options = RangeOptions { may_lose: false, stall_timeout: Duration::from_secs(4) };
    reader.start(&[range(0, MARKERS)], options).expect("a range");
    assert_eq!(read_all(&mut reader), Ok(Vec::new()));
    assert_eq!(broker.count(ApiKey::Fetch), MARKERS as usize);
}

/// A clock that a test moves: it shows so many seconds after the start.
fn clock_of(seconds: &Arc<AtomicU64>) -> Clock {
    let (began, seconds) = (Instant::now(), Arc::clone(seconds));
    Box::new(move || began + Duration::from_secs(seconds.load(Ordering::SeqCst)))
}

#[test]
fn records_of_an_open_transaction_are_waited_for_and_not_taken_for_gone() {
    // The end of the log was taken for the end of its stable part. Records behind an open
    // transaction failed the reader, or were skipped.
    for may_lose in [false, true] {
        let (stable, all) =
            (Log { start: 0, end: 4, epoch: 0 }, Log { start: 0, end: 9, epoch: 0 });
        let seconds = Arc::new(AtomicU64::new(0));
        let (passed, doubts) = (Arc::clone(&seconds), AtomicU64::new(0));
        let broker = FakeBroker::start(move |asked| {
            // A second passes with every fetch. The transaction ends once the reader, which may be
            // slower than twenty fetches, had its doubts.
            let open = passed.load(Ordering::SeqCst) < 20 || doubts.load(Ordering::SeqCst) < 2;
            if asked.is(ApiKey::ListOffsets) {
                doubts.fetch_add(1, Ordering::SeqCst);
                let seen = asked.read::<ListOffsetsRequest>().isolation_level;
                return list_offsets(asked, if open && seen == 1 { &stable } else { &all });
            } else if !asked.is(ApiKey::Fetch) {
                return Answer::Usual;
            }
            passed.fetch_add(1, Ordering::SeqCst);
            fetch(asked, |partition, offset| {
                let log = if open { &stable } else { &all };
                log.fetch(partition, offset)
            })
        });
        let mut reader = reader_with_clock(&broker, clock_of(&seconds));
        let options = RangeOptions { may_lose, stall_timeout: Duration::from_secs(1_000_000) };
        reader.start(&[range(0, 9)], options).expect("a range");
        assert_eq!(read_all(&mut reader), Ok((0..9).collect()), "may lose: {may_lose}");
        assert!(broker.count(ApiKey::ListOffsets) >= 2);
        assert_eq!(reader.lost(), 0);
    }
}

#[test]
fn a_broker_that_was_never_reached_is_waited_for_until_the_stall_timeout() {
    // A reader in a fresh process gave up when its first search ended, after 3 s.
    let broker = FakeBroker::start(|_| Answer::Close);
    let place = broker.stop().to_string();
    let seconds = Arc::new(AtomicU64::new(0));
    let mut reader = reader_of(&place, "20", clock_of(&seconds));
    let options = RangeOptions { may_lose: false, stall_timeout: Duration::from_secs(120) };
    reader.start(&[range(0, 9)], options).expect("a range");
    let several_searches = || Instant::now() + Duration::from_millis(100);
    seconds.store(119, Ordering::SeqCst);
    let step = reader.next(ALL, several_searches());
    assert!(matches!(step, Ok(Step::Nothing)), "{step:?}");
    let log = Log { start: 0, end: 9, epoch: 0 };
    let broker = FakeBroker::start_at(&place, move |asked| match asked.header.api_key {
        key if key == ApiKey::Fetch as i16 => fetch(asked, |one, offset| log.fetch(one, offset)),
        key if key == ApiKey::ListOffsets as i16 => list_offsets(asked, &log),
        _ => Answer::Usual,
    });
    assert_eq!(read_all(&mut reader), Ok((0..9).collect()));
    broker.stop();
    let mut reader = reader_of(&place, "20", clock_of(&seconds));
    reader.start(&[range(0, 9)], options).expect("a range");
    assert!(matches!(reader.next(ALL, several_searches()), Ok(Step::Nothing)));
    seconds.store(300, Ordering::SeqCst);
    let error = reader.next(ALL, soon()).expect_err("it waited long enough");
    assert!(matches!(error, ClientError::NoBrokerReachable { .. }), "{error}");
}

#[test]
fn partitions_that_are_gone_are_an_error_or_counted_and_passed_over() {
    // A reader that may lose records failed when a partition was gone, and a topic that was gone
    // was made again by asking for it.
    let unknown = ErrorCode::UnknownTopicOrPartition;
    let gone = TopicPartition::new("gone", 0);
    let beyond = TopicPartition::new("x", 3);
    for (partition, may_lose) in [(&gone, false), (&gone, true), (&beyond, false), (&beyond, true)]
    {
        let log = Log { start: 0, end: 9, epoch: 0 };
        let broker = FakeBroker::start(move |asked| {
            if asked.is(ApiKey::ListOffsets) {
                return list_offsets(asked, &log);
            } else if asked.is(ApiKey::Fetch) {
                return fetch(asked, |partition, offset| log.fetch(partition, offset));
            } else if !asked.is(ApiKey::Metadata) {
                return Answer::Usual;
            }
            let request: MetadataRequest = asked.read();
            assert!(!request.allow_auto_topic_creation, "it would come back");
            let names = request.topics.unwrap_or_default().into_iter();
            let mut told = metadata(&asked.place, names.filter_map(|topic| topic.name));
            for topic in told.topics.iter_mut().filter(|one| one.name.as_deref() == Some("gone")) {
                *topic = MetadataResponseTopic {
                    name: topic.name.take(),
                    error_code: unknown as i16,
                    ..MetadataResponseTopic::default()
                };
            }
            asked.answer::<MetadataRequest>(&told)
        });
        // A tenth of a second passes whenever it looks.
        let (began, looks) = (Instant::now(), AtomicU64::new(0));
        let look =
            move || began + Duration::from_millis(100 * looks.fetch_add(1, Ordering::SeqCst));
        let mut reader = reader_with_clock(&broker, Box::new(look));
        let lost = OffsetRange { partition: partition.clone(), ..range(2, 6) };
        let options = RangeOptions { may_lose, stall_timeout: Duration::from_secs(1_000_000) };
        reader.start(&[range(0, 9), lost], options).expect("ranges");
        if may_lose {
            assert_eq!(read_all(&mut reader), Ok((0..9).collect()), "{partition}");
            assert_eq!(reader.lost(), 4, "{partition}");
        } else {
            let error = read_all(&mut reader).expect_err("a partition is gone");
            assert_eq!(error.code(), Some(unknown), "{error}");
        }
    }
}

/// Each of two partitions that are not there was an error. The second one was raised for the ranges
/// that the reader got next.
#[test]
fn what_is_wrong_with_earlier_ranges_is_no_error_of_later_ones() {
    let broker = broker(Log { start: 0, end: 9, epoch: 0 });
    let mut reader = reader(&broker);
    let beyond =
        |partition| OffsetRange { partition: TopicPartition::new("x", partition), ..range(0, 9) };
    reader.start(&[beyond(7), beyond(8)], options(false)).expect("ranges");
    let error = read_all(&mut reader).expect_err("no such partitions");
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicOrPartition), "{error}");
    reader.start(&[range(0, 9)], options(false)).expect("a range");
    assert_eq!(read_all(&mut reader), Ok((0..9).collect()));
}

/// The answer came when the reader had other ranges already, and its error was raised for them.
#[test]
fn what_is_learnt_late_of_earlier_ranges_is_no_error_of_later_ones() {
    let log = Log { start: 0, end: 9, epoch: 0 };
    let (asks, asked) = mpsc::channel();
    let (answer, answered) = mpsc::channel();
    let (asks, answered) = (Mutex::new(asks), Mutex::new(answered));
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Fetch) {
            return fetch(asked, |partition, offset| log.fetch(partition, offset));
        } else if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let names = asked.read::<MetadataRequest>().topics.unwrap_or_default().into_iter();
        let mut told = metadata(&asked.place, names.filter_map(|topic| topic.name));
        for topic in told.topics.iter_mut().filter(|one| one.name.as_deref() == Some("secret")) {
            let _ = asks.lock().send(());
            awaited::received("leave to answer", &answered.lock());
            *topic = MetadataResponseTopic {
                name: topic.name.take(),
                error_code: ErrorCode::TopicAuthorizationFailed as i16,
                ..MetadataResponseTopic::default()
            };
        }
        asked.answer::<MetadataRequest>(&told)
    });
    let mut reader = reader(&broker);
    let secret = OffsetRange { partition: TopicPartition::new("secret", 0), ..range(0, 9) };
    reader.start(&[secret], options(false)).expect("a range");
    awaited::received("the question", &asked);
    reader.start(&[range(0, 9)], options(false)).expect("a range");
    answer.send(()).expect("the broker waits");
    assert_eq!(read_all(&mut reader), Ok((0..9).collect()));
}

/// A broker that tells these ids of topic `x` one after the other. The last one stays.
fn broker_of(ids: &'static [u8]) -> FakeBroker {
    let log = Log { start: 0, end: 9, epoch: 0 };
    let asked_before = AtomicU64::new(0);
    FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Fetch) {
            return fetch(asked, |partition, offset| log.fetch(partition, offset));
        } else if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let names = asked.read::<MetadataRequest>().topics.unwrap_or_default().into_iter();
        let mut told = metadata(&asked.place, names.filter_map(|topic| topic.name));
        for topic in &mut told.topics {
            let at = asked_before.fetch_add(1, Ordering::SeqCst) as usize;
            topic.topic_id = Uuid([ids[at.min(ids.len() - 1)]; 16]);
        }
        asked.answer::<MetadataRequest>(&told)
    })
}

/// A task read records of a topic that was made again since its range was planned. They were read
/// once more when the query began the new topic.
#[test]
fn nothing_is_read_of_another_topic_of_the_name() {
    let planned = OffsetRange { topic_id: Uuid([1; 16]), ..range(2, 6) };
    let of_another = broker_of(&[2]);
    let mut reader = reader(&of_another);
    reader.start(std::slice::from_ref(&planned), options(false)).expect("a range");
    let error = read_all(&mut reader).expect_err("the topic is another one");
    assert_eq!(error.code(), Some(ErrorCode::UnknownTopicId), "{error}");
    reader.start(&[planned], options(true)).expect("a range");
    assert_eq!(read_all(&mut reader), Ok(Vec::new()));
    assert_eq!(reader.lost(), 4);
}

#[test]
fn a_reader_that_knows_an_earlier_topic_of_the_name_begins_again() {
    let planned = OffsetRange { topic_id: Uuid([2; 16]), ..range(2, 6) };
    let renewed = broker_of(&[1, 2]);
    let mut reader = reader(&renewed);
    reader.start(&[planned], options(false)).expect("a range");
    assert_eq!(read_all(&mut reader), Ok((2..6).collect()));
    assert_eq!(reader.lost(), 0);
}

/// A broker that lagged behind answered with the former topic, in the middle of a range. What was
/// handed out came once more.
#[test]
fn a_range_that_begins_again_repeats_no_record() {
    let planned = OffsetRange { topic_id: Uuid([2; 16]), ..range(2, 6) };
    let lags = broker_of(&[2, 1, 2]);
    let mut reader = reader(&lags);
    reader.start(&[planned], options(false)).expect("a range");
    let two = Limits { max_records: 2, ..ALL };
    let Ok(Step::Records(first)) = reader.next(two, soon()) else { panic!("records") };
    assert_eq!(values(&first), [2, 3]);
    let cluster = reader.consumer.shared().cluster.clone();
    let asked = async move { Ok(cluster.refresh(Wanted::Known).await?) };
    reader.consumer.runtime().call(asked, soon()).expect("an answer");
    awaited::until("the former topic is seen", || {
        let subscription = reader.consumer.shared().subscription.lock();
        subscription.get(&x()).is_some_and(|state| state.topic_id() == Uuid([1; 16]))
    });
    assert_eq!(read_all(&mut reader), Ok(vec![4, 5]));
}

#[test]
fn headers_count_towards_the_bytes_that_a_caller_takes() {
    // A batch of records with large headers had as many as its count allowed: 171 MB of them.
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        fetch(asked, |partition, _| {
            let mut builder = RecordBatchBuilder::new(Codec::None);
            for time in 0..10 {
                let header = ("name", Some([0; 996].as_slice()));
                builder.append(time, None, None, &[header]);
            }
            let mut data = Log { start: 0, end: 10, epoch: 0 }.fetch(partition, 0);
            let batch = builder.build(Offset(0), LeaderEpoch(0)).expect("it builds");
            data.records = Some(Records::Bytes(batch));
            data
        })
    });
    let mut reader = reader(&broker);
    reader.start(&[range(0, 10)], options(false)).expect("a range");
    let limits = Limits { max_records: 100, max_bytes: 3_500 };
    let mut counts = Vec::new();
    while let Step::Records(slices) = reader.next(limits, soon()).expect("records") {
        counts.push(slices.iter().map(RecordSlice::len).sum::<usize>());
    }
    assert_eq!(counts, [3, 3, 3, 1]);
}
