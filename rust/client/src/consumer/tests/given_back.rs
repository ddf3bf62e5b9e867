//! Records that a caller took and did not keep, as its deserializer failed.

use super::*;

/// Six records in batches of two; `hurt` replaces the answer from offset 4 on.
fn broken(hurt: impl Fn(&mut PartitionData) + Send + Sync + 'static) -> FakeBroker {
    let log = Log { start: 0, end: 6, epoch: 0 };
    FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        fetch(asked, |partition, offset| {
            let whole = Log { end: if offset < 4 { 4 } else { 6 }, ..log };
            let mut data = whole.fetch(partition, offset);
            if offset >= 4 {
                hurt(&mut data);
            }
            data
        })
    })
}

fn damage(data: &mut PartitionData) {
    let mut bytes = data.records.take().unwrap_or_default().into_bytes().to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    data.records = Some(Records::Bytes(bytes.into()));
}

fn cut_short(data: &mut PartitionData) {
    data.records = Some(Records::Bytes(Bytes::from_static(&[0; 20])));
}

fn refuse(data: &mut PartitionData) {
    data.error_code = ErrorCode::OffsetOutOfRange as i16;
    data.records = None;
}

/// Waits until something of `x` was fetched from `offset` on, or a refusal.
fn wait_for_fetch(broker: &FakeBroker, consumer: &Consumer, offset: i64) {
    let end = soon();
    let reached = || {
        let subscription = consumer.shared().subscription.lock();
        let state = subscription.get(&x()).expect("it is assigned");
        state.is_stalled() || state.next_fetch().offset > offset
    };
    while !reached() {
        let fetches = broker.count(ApiKey::Fetch);
        assert!(Instant::now() < end, "nothing came from {offset} on in {fetches} fetches");
        std::thread::yield_now();
    }
}

/// What stood behind the records had moved the partition when they were given back: that did
/// nothing, and the records were never handed out.
#[test]
fn records_in_front_of_an_obstacle_that_go_back_are_handed_out_again() {
    type Hurt = fn(&mut PartitionData);
    let cases: [(&str, &str, Hurt); 5] = [
        ("a damaged batch", "none", damage),
        ("what is no batch", "none", cut_short),
        ("a refusal", "none", refuse),
        ("a refusal", "earliest", refuse),
        ("a refusal", "latest", refuse),
    ];
    for (what, policy, hurt) in cases {
        let broker = broken(hurt);
        let consumer = reading(&broker, &[("auto.offset.reset", policy)]);
        consumer.seek(&x(), Position::at(0)).expect("it is assigned");
        assert_eq!(read(&consumer, 1), Ok(vec![0]));
        wait_for_fetch(&broker, &consumer, 4);
        let rest = lease(consumer.next(ALL, soon()));
        assert_eq!(values(&rest), [1, 2, 3], "in front of {what}, {policy}");
        rest.keep_first(1);
        let position = || consumer.shared().subscription.lock().handed_out().get(&x()).copied();
        assert_eq!(position().map(|at| at.offset), Some(2), "{what}, {policy}");
        assert_eq!(read(&consumer, 2), Ok(vec![2, 3]), "{what}, {policy}");
    }
}

/// The leader had said meanwhile that its log was cut behind the records. The partition stood at
/// the cut, and the records before the cut were never handed out.
#[test]
fn records_that_go_back_after_a_cut_behind_them_are_handed_out_again() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    let mut taken = Vec::new();
    while taken.len() < 6 {
        taken.push(lease(consumer.next(Limits { max_records: 1, ..ALL }, soon())));
    }
    consumer.shared().subscription.lock().go_back_to(&x(), Position { offset: 4, leader_epoch: 0 });
    drop(taken.split_off(2));
    taken.into_iter().for_each(|kept| drop(kept.keep()));
    assert_eq!(read(&consumer, 4), Ok(vec![2, 3, 4, 5]));
}

/// What was read elsewhere went back to where the caller had gone.
#[test]
fn records_do_not_go_back_to_a_partition_that_was_sought_elsewhere() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    let rest = lease(consumer.next(ALL, soon()));
    consumer.seek(&x(), Position::at(5)).expect("it is assigned");
    drop(rest);
    assert_eq!(read(&consumer, 1), Ok(vec![5]));
}

/// A rewind between the look at the cursor and its advance fetched the record again.
#[test]
fn a_record_is_handed_out_once_though_its_partition_is_rewound_meanwhile() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
    let mut seen = Vec::new();
    let first = kept(consumer.next_decoded(|_, record| {
        let mut subscription = consumer.shared().subscription.lock();
        subscription.get_mut(&x()).expect("it is assigned").rewind();
        consumer.shared().fetch.notify_one();
        Ok::<_, ()>(record.offset())
    }));
    seen.extend(first.and_then(Result::ok));
    seen.extend(read(&consumer, 5 - seen.len()).expect("nothing stands in the way"));
    assert_eq!(seen, [1, 2, 3, 4, 5]);
}

/// A deserializer that called back waited without end for its own call.
#[test]
fn a_deserializer_may_mark_earlier_records_as_processed() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
    let made = kept(consumer.next_decoded(|_, record| {
        consumer.finish();
        Ok::<_, ()>(record.offset())
    }));
    assert_eq!(made, Some(Ok(1)));
}

/// Ctrl-C came between the taking of a record and its use: a close committed what no caller saw.
#[test]
fn a_decoded_record_that_is_not_kept_goes_back() {
    let broker = broker(Log { start: 0, end: 6, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
    assert_eq!(decoded(&consumer), Some(1));
    drop(consumer.next_decoded(|_, record| Ok::<_, ()>(record.offset())));
    let subscription = consumer.shared().subscription.lock();
    assert_eq!(subscription.handed_out()[&x()].offset, 2);
    drop(subscription);
    assert_eq!(read(&consumer, 4), Ok(vec![2, 3, 4, 5]));
}
