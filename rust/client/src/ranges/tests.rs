//! Ranges against a broker that does what the test says.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::ApiKey;
use kafkalite_protocol::record_batch::RecordBatchBuilder;
use kafkalite_protocol::{LeaderEpoch, Offset, Records};

use super::*;
use crate::consumer::tests::{ALL, Log, broker, fetch, list_offsets, soon, values, x};
use crate::fake_broker::{Answer, FakeBroker};

fn reader(broker: &FakeBroker) -> RangeReader {
    reader_with_clock(broker, Box::new(Instant::now))
}

fn reader_with_clock(broker: &FakeBroker, clock: Clock) -> RangeReader {
    let pairs = [
        ("bootstrap.servers", broker.place.to_string()),
        ("retry.backoff.ms", "1".to_owned()),
        ("kafkalite.fetch.buffer.max.bytes", "1".to_owned()),
    ];
    let pairs: BTreeMap<_, _> = pairs.map(|(key, value)| (key.to_owned(), value)).into();
    let config = ConsumerConfig::from_pairs(&pairs).expect("a valid configuration");
    RangeReader::with_clock(config, clock).expect("a thread")
}

fn options(may_lose: bool) -> RangeOptions {
    RangeOptions { may_lose, stall_timeout: Duration::from_secs(10) }
}

fn range(start: i64, end: i64) -> OffsetRange {
    OffsetRange { partition: x(), start, end }
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
