#![allow(clippy::unwrap_used)]

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::record_batch::{RecordBatch, write_header};
use proptest::prelude::*;

use super::*;

const LINGER: Duration = Duration::from_millis(5);

fn settings() -> Settings {
    Settings {
        batch_size: 1_000,
        buffer_memory: 100_000,
        max_request_size: 50_000,
        partitioner: PartitionerKind::Murmur2,
        ignore_keys: false,
    }
}

fn record(value: &[u8]) -> Record<'_> {
    Record { timestamp_ms: 1_000, key: None, value: Some(value), headers: (0, &[]) }
}

fn append<T>(accumulator: &Accumulator<T>, value: &[u8]) -> Result<Place<T>, NoRoom<T>> {
    let topic = accumulator.follow("t", Uuid::ZERO, 1);
    accumulator.append(&topic, 0, record(value), None, None)
}

fn queue<T>(accumulator: &Accumulator<T>) -> Arc<PartitionQueue<T>> {
    Arc::clone(&accumulator.follow("t", Uuid::ZERO, 1).queues()[0])
}

fn values(batch: &mut Batch<()>, memory: &Memory, codec: Codec) -> Vec<Vec<u8>> {
    let bytes = batch.to_send(codec, None, memory, 1_000).unwrap();
    let batch = RecordBatch::parse(&bytes).unwrap();
    batch.verify_crc().unwrap();
    let records = batch.records(1 << 24).unwrap();
    records.iter().map(|record| record.unwrap().value.unwrap().to_vec()).collect()
}

#[test]
fn a_batch_leaves_when_it_is_full_or_has_lingered() {
    let accumulator = Accumulator::<()>::new(settings(), 1);
    let queue = queue(&accumulator);
    append(&accumulator, b"one").ok().unwrap();
    let now = Instant::now();
    assert!(queue.take(now, LINGER, false).is_none(), "it lingers");
    assert!(matches!(queue.readiness(now, LINGER, false), Readiness::At(_)));
    assert_eq!(queue.readiness(now, LINGER, true), Readiness::Ready, "a caller flushes");
    let lingered = queue.take(now + LINGER, LINGER, false).unwrap();
    assert_eq!(lingered.count(), 1);
    for _ in 0..10 {
        append(&accumulator, &[7; 100]).ok().unwrap();
    }
    let full = queue.take(now, LINGER, false).unwrap();
    assert!(full.size() <= 1_000 && full.count() >= 6, "{} bytes", full.size());
    assert!(queue.take(now, LINGER, false).is_none(), "the rest lingers");
}

#[test]
fn a_record_larger_than_a_batch_has_one_for_itself() {
    let accumulator = Accumulator::<()>::new(settings(), 1);
    for size in [10, 5_000, 10] {
        append(&accumulator, &vec![1; size]).ok().unwrap();
    }
    let queue = queue(&accumulator);
    let counts: Vec<_> =
        std::iter::from_fn(|| queue.take(Instant::now(), LINGER, true).map(|b| b.count()))
            .collect();
    assert_eq!(counts, [1, 1, 1]);
}

#[test]
fn memory_is_counted_until_the_fate_of_a_batch_is_known() {
    let accumulator = Accumulator::<()>::new(settings(), 1);
    let mut appended = 0;
    while append(&accumulator, &[0; 500]).is_ok() {
        appended += 1;
    }
    let memory = accumulator.memory();
    assert!(memory.used() <= 100_000);
    assert!((95..=200).contains(&appended), "{appended} records");
    let batch = queue(&accumulator).take(Instant::now(), LINGER, true).unwrap();
    assert!(append(&accumulator, &[0; 500]).is_err(), "what is on its way takes memory too");
    let landed = Landed { base_offset: Some(0), log_append_time_ms: None };
    let (report, all) = batch.complete(Ok(landed), &BTreeMap::new(), memory, 1_000);
    assert!(report.is_none() && all);
    assert!(append(&accumulator, &[0; 500]).is_ok());
}

#[test]
fn who_waits_first_is_served_first() {
    let memory = Memory::new(100);
    let taken = memory.try_reserve(90, None).unwrap();
    let (large, small) = (memory.enter(), memory.enter());
    assert!(memory.exhausted());
    assert!(memory.try_reserve(5, Some(small)).is_none(), "the large one came first");
    assert!(memory.try_reserve(5, None).is_none(), "newcomers wait too");
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    memory.subscribe(large, 80, Box::new(move || count.store(1, Ordering::SeqCst)));
    assert_eq!(told.load(Ordering::SeqCst), 0);
    drop(taken);
    assert_eq!(told.load(Ordering::SeqCst), 1);
    let large_share = memory.try_reserve(80, Some(large)).unwrap();
    memory.leave(large);
    assert!(memory.try_reserve(5, Some(small)).is_some());
    memory.leave(small);
    drop(large_share);
    assert_eq!((memory.used(), memory.exhausted()), (0, false));
}

#[test]
fn a_closed_producer_ends_all_waits() {
    let memory = Memory::new(10);
    let _all = memory.try_reserve(10, None);
    let ticket = memory.enter();
    memory.close();
    assert!(memory.wait(ticket, 5, Instant::now() + Duration::from_secs(60)));
}

#[test]
fn a_record_that_no_request_can_carry_is_refused_with_the_key_that_limits_it() {
    let large = vec![0; 50_001];
    let accumulator = Accumulator::<()>::new(settings(), 1);
    let refused = accumulator.check_size(&record(&large)).unwrap_err();
    assert!(refused.to_string().contains("max.request.size is 50000"), "{refused}");
    let small = Settings { buffer_memory: 2_000, ..settings() };
    let refused = Accumulator::<()>::new(small, 1).check_size(&record(&[0; 1_990])).unwrap_err();
    assert!(refused.to_string().contains("buffer.memory is 2000"), "{refused}");
}

#[test]
fn tokens_come_back_in_order_with_the_fate_of_their_records() {
    let accumulator = Accumulator::<char>::new(settings(), 1);
    let topic = accumulator.follow("t", Uuid::ZERO, 1);
    let place = accumulator.append(&topic, 0, record(b"0"), Some('a'), None).ok().unwrap();
    accumulator.append(&topic, 0, record(b"1"), None, None).ok().unwrap();
    accumulator.append(&topic, 0, record(b"2"), Some('c'), None).ok().unwrap();
    let late = |index, value| Token { index, timestamp_ms: 1_000, value };
    place.handle.watch(late(1, 'b')).unwrap();
    let batch = queue(&accumulator).take(Instant::now(), LINGER, true).unwrap();
    let landed = Landed { base_offset: Some(40), log_append_time_ms: None };
    let bad = Arc::new(ClientError::Closed { what: "x".to_owned() });
    let own = BTreeMap::from([(1, Arc::clone(&bad))]);
    let (report, all) = batch.complete(Ok(landed), &own, accumulator.memory(), 1_000);
    let report = report.unwrap();
    let fates: Vec<_> = report
        .tokens
        .iter()
        .map(|token| {
            let fate = report.handle.result(token.index, token.timestamp_ms).unwrap();
            (token.value, fate.map(|metadata| metadata.offset).ok())
        })
        .collect();
    assert_eq!(fates, [('a', Some(40)), ('c', Some(42)), ('b', None)]);
    assert!(all);
    assert_eq!(place.handle.watch(late(2, 'd')).unwrap_err().value, 'd', "it is known already");
}

#[test]
fn a_split_batch_keeps_the_names_and_sequences_of_its_records() {
    for codec in Codec::ALL {
        let accumulator = Accumulator::<u32>::new(settings(), 1);
        let topic = accumulator.follow("t", Uuid::ZERO, 1);
        let mut places = Vec::new();
        for index in 0..7_u32 {
            let value = [index as u8; 50];
            let token = Some(index);
            places.push(accumulator.append(&topic, 0, record(&value), token, None).ok().unwrap());
        }
        let memory = accumulator.memory();
        let mut batch = queue(&accumulator).take(Instant::now(), LINGER, true).unwrap();
        let stamp = Stamp { producer_id: 9, epoch: 1, base_sequence: i32::MAX - 1 };
        batch.set_stamp(stamp);
        batch.to_send(codec, None, memory, 1_000).unwrap();
        let [first, second] = batch.split().ok().unwrap();
        assert_eq!((first.count(), second.count()), (3, 4), "{codec:?}");
        assert_eq!(first.stamp(), Some(stamp));
        assert_eq!(second.stamp(), Some(Stamp { base_sequence: 1, ..stamp }));
        let landed = |base| Landed { base_offset: Some(base), log_append_time_ms: None };
        let none = BTreeMap::new();
        let (report, all) = second.complete(Ok(landed(103)), &none, memory, 1_000);
        assert_eq!(report.unwrap().tokens.len(), 4);
        assert!(!all && !places[0].handle.wait_all(Instant::now()));
        let (report, all) = first.complete(Ok(landed(90)), &none, memory, 1_000);
        assert_eq!(report.unwrap().tokens.len(), 3);
        assert!(all);
        let offsets: Vec<_> = places
            .iter()
            .map(|place| place.handle.result(place.index, 0).unwrap().unwrap().offset)
            .collect();
        assert_eq!(offsets, [90, 91, 92, 103, 104, 105, 106]);
        assert_eq!(memory.used(), 0);
    }
}

#[test]
fn a_batch_that_gets_another_stamp_is_right_again() {
    for codec in [Codec::None, Codec::Zstd] {
        let accumulator = Accumulator::<()>::new(settings(), 1);
        append(&accumulator, b"value").ok().unwrap();
        let mut batch = queue(&accumulator).take(Instant::now(), LINGER, true).unwrap();
        for base_sequence in [5, 0] {
            batch.set_stamp(Stamp { producer_id: 9, epoch: 1, base_sequence });
            let sent = batch.to_send(codec, None, accumulator.memory(), 1_000).unwrap();
            let view = RecordBatch::parse(&sent).unwrap();
            view.verify_crc().unwrap();
            assert_eq!(view.header().base_sequence, base_sequence);
            assert_eq!(values(&mut batch, accumulator.memory(), codec), [b"value"]);
        }
    }
}

/// A thread that adds to another thread's batch may flush or close before the other thread goes on.
#[test]
fn a_batch_is_waited_for_before_others_can_add_to_it() {
    let slot = Arc::new(OnceLock::<std::sync::Weak<Accumulator<()>>>::new());
    let (seen, idle) = (Arc::clone(&slot), Arc::new(AtomicBool::new(true)));
    let told = Arc::clone(&idle);
    // The clock is asked while the batch is begun, its queue locked.
    let clock = move || {
        let accumulator = seen.get().and_then(std::sync::Weak::upgrade).unwrap();
        told.store(accumulator.is_idle(), Ordering::SeqCst);
        Instant::now()
    };
    let accumulator = Accumulator::<()>::with_clock(settings(), 1, Box::new(clock));
    slot.set(Arc::downgrade(&accumulator)).unwrap();
    append(&accumulator, b"x").ok().unwrap();
    assert!(!idle.load(Ordering::SeqCst));
}

#[test]
fn a_closed_batch_is_taken_while_a_caller_copies_into_the_next() {
    let accumulator = Accumulator::<()>::new(settings(), 1);
    append(&accumulator, &[0; 5_000]).ok().unwrap();
    let (topic, closed) = (accumulator.follow("t", Uuid::ZERO, 1), queue(&accumulator));
    let copied = std::iter::once_with(|| {
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            tell.send(closed.take(Instant::now(), LINGER, false).map(|batch| batch.count()))
        });
        assert_eq!(told.recv_timeout(Duration::from_secs(10)), Ok(Some(1)));
        record(b"x")
    });
    accumulator.append_run(&topic, 0, &mut copied.peekable(), None, None).ok().unwrap();
}

#[test]
fn nothing_is_appended_after_the_sender_ended() {
    let accumulator = Accumulator::<()>::new(settings(), 1);
    append(&accumulator, b"x").ok().unwrap();
    assert_eq!(accumulator.shut().len(), 1);
    assert_eq!(append(&accumulator, b"x").err().unwrap().why, Refusal::Closed);
    let other = accumulator.follow("other", Uuid::ZERO, 3);
    let refused = accumulator.append(&other, 2, record(b"x"), None, None).err().unwrap();
    assert_eq!(refused.why, Refusal::Closed, "topics that come later are closed too");
}

#[test]
fn the_sender_is_woken_once_for_a_queue_that_got_records() {
    let accumulator = Accumulator::<()>::new(settings(), 1);
    for _ in 0..3 {
        append(&accumulator, b"x").ok().unwrap();
    }
    assert_eq!(accumulator.take_roused().len(), 1);
    let queue = queue(&accumulator);
    let now = Instant::now();
    while queue.take(now, LINGER, true).is_some() {}
    assert_eq!(queue.readiness(now, LINGER, true), Readiness::Empty);
    append(&accumulator, b"x").ok().unwrap();
    assert_eq!(accumulator.take_roused().len(), 1);
}

type Sample = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Vec<(String, Option<Vec<u8>>)>);

fn sample() -> impl Strategy<Value = Sample> {
    let bytes = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..300));
    let headers = proptest::collection::vec(("[a-z]{0,9}", bytes()), 0..4);
    (0..4_102_444_800_000_i64, bytes(), bytes(), headers)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_record_is_read_as_it_was_appended(
        samples in proptest::collection::vec(sample(), 1..40),
        codec in proptest::sample::select(Codec::ALL.to_vec())
    ) {
        let accumulator = Accumulator::<()>::new(settings(), 1);
        let topic = accumulator.follow("t", Uuid::ZERO, 1);
        for (timestamp_ms, key, value, headers) in &samples {
            let mut raw = Vec::new();
            for (name, value) in headers {
                write_header(&mut raw, name, value.as_deref());
            }
            let headers = (headers.len() as i32, raw.as_slice());
            let (key, value) = (key.as_deref(), value.as_deref());
            let record = Record { timestamp_ms: *timestamp_ms, key, value, headers };
            prop_assert!(accumulator.append(&topic, 0, record, None, None).is_ok());
        }
        let mut seen: Vec<Sample> = Vec::new();
        while let Some(mut batch) = queue(&accumulator).take(Instant::now(), LINGER, true) {
            let bytes = batch.to_send(codec, None, accumulator.memory(), 1_000).unwrap();
            let batch = RecordBatch::parse(&bytes).unwrap();
            batch.verify_crc().unwrap();
            for record in &batch.records(1 << 24).unwrap() {
                let record = record.unwrap();
                let owned = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
                let headers = record.headers().map(|(name, value)| {
                    (String::from_utf8(name.to_vec()).unwrap(), owned(value))
                });
                let headers = headers.collect();
                seen.push((record.timestamp_ms, owned(record.key), owned(record.value), headers));
            }
        }
        prop_assert_eq!(seen, samples);
    }
}

#[test]
fn a_topic_that_is_made_again_has_the_partitions_that_brokers_tell() {
    let [first, second] = [[1; 16], [2; 16]].map(Uuid);
    // What brokers told before, what they tell, how many there are then, how many were retired.
    let cases = [
        ((first, 6), (first, 8), 8, 0),
        ((first, 6), (first, 2), 6, 0),
        ((first, 6), (second, 2), 2, 1),
        ((first, 6), (second, 9), 9, 0),
        ((Uuid::ZERO, 6), (Uuid::ZERO, 2), 2, 0),
        ((Uuid::ZERO, 6), (first, 2), 2, 0),
    ];
    for ((old, before), (new, told), count, retired) in cases {
        let accumulator = Accumulator::<()>::new(settings(), 1);
        let topic = accumulator.follow("t", old, before);
        accumulator.append(&topic, 5, record(b"v"), None, None).ok().unwrap();
        let again = accumulator.follow("t", new, told);
        assert!(Arc::ptr_eq(&topic, &again), "callers may hold it");
        assert_eq!(topic.partition_count(), count, "{before} {told}");
        assert_eq!(accumulator.take_retired().len(), usize::from(retired > 0) * 4, "{told}");
        let late = accumulator.append(&topic, 5, record(b"v"), None, None);
        assert_eq!(late.err().map(|refused| refused.why), (count <= 5).then_some(Refusal::Gone));
    }
}

/// With a sequence that started again, a broker that lagged behind would have taken its batches for
/// repeated ones.
#[test]
fn a_partition_that_comes_back_keeps_its_queue() {
    let [first, second] = [[1; 16], [2; 16]].map(Uuid);
    let accumulator = Accumulator::<()>::new(settings(), 1);
    let topic = accumulator.follow("t", first, 2);
    let queue = Arc::clone(&topic.queues()[1]);
    accumulator.follow("t", second, 1);
    assert!(queue.is_gone());
    accumulator.follow("t", first, 2);
    assert!(Arc::ptr_eq(&queue, &topic.queues()[1]) && !queue.is_gone());
    assert!(accumulator.append(&topic, 1, record(b"v"), None, None).is_ok());
}

/// Any free memory woke all waiting callers, and all except the first went back to sleep.
#[test]
fn memory_that_becomes_free_wakes_the_first_in_line_alone_once_it_is_enough() {
    let memory = Memory::new(100);
    let mut taken = memory.try_reserve(100, None).unwrap();
    let (first, second) = (memory.enter(), memory.enter());
    let told = Arc::new(Mutex::new(Vec::new()));
    for (ticket, name) in [(second, "second"), (first, "first")] {
        let told = Arc::clone(&told);
        memory.subscribe(ticket, 50, Box::new(move || told.lock().push(name)));
    }
    drop(taken.take(40));
    assert!(told.lock().is_empty());
    drop(taken.take(20));
    assert_eq!(*told.lock(), ["first"]);
    // It was cancelled, or failed: the next one is woken.
    memory.leave(first);
    assert_eq!(*told.lock(), ["first", "second"]);
}
