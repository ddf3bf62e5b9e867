//! What was fetched and is dropped: it makes room, is fetched again, and nothing is lost by that.

use super::*;

/// The least a buffer may hold: one fetch fills it.
const NO_ROOM: (&str, &str) = ("kafkalite.fetch.buffer.max.bytes", "1");

fn buffered(consumer: &Consumer) -> usize {
    let subscription = consumer.shared().subscription.lock();
    subscription.get(&x()).map_or(0, |state| state.cursor().buffered_bytes())
}

/// Waits until something was fetched for the cursor that `x` has now; whether it was.
fn is_fetched(consumer: &Consumer) -> bool {
    let end = soon();
    while buffered(consumer) == 0 && Instant::now() < end {
        std::thread::yield_now();
    }
    buffered(consumer) > 0
}

#[test]
fn what_a_seek_made_stale_takes_no_room() {
    let broker = broker(Log { start: 0, end: 10, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET, NO_ROOM]);
    assert!(is_fetched(&consumer));
    consumer.seek(&x(), Position::at(7)).expect("it is assigned");
    assert!(is_fetched(&consumer), "before a caller comes and looks");
    assert_eq!(read(&consumer, 3), Ok(vec![7, 8, 9]));
}

#[test]
fn what_is_paused_does_not_keep_others_from_being_fetched_and_is_fetched_again() {
    let broker = broker(Log { start: 0, end: 10, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET, NO_ROOM]);
    assert_eq!(read(&consumer, 3), Ok(vec![0, 1, 2]));
    consumer.set_paused(&[x()], true).expect("it is assigned");
    let y = TopicPartition::new("y", 0);
    consumer.assign(&BTreeSet::from([x(), y.clone()])).expect("nothing is subscribed to");
    assert_eq!(read(&consumer, 10), Ok((0..10).collect()), "of the other one");
    consumer.set_paused(&[x()], false).expect("it is assigned");
    assert_eq!(read(&consumer, 7), Ok((3..10).collect()));
}

#[test]
fn what_was_handed_out_before_a_damaged_batch_is_done_like_all_else() {
    let log = Log { start: 0, end: 4, epoch: 0 };
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        fetch(asked, |partition, offset| {
            let mut data = log.fetch(partition, offset);
            let mut bytes = data.records.take().unwrap_or_default().into_bytes().to_vec();
            if let Some(last) = bytes.last_mut() {
                *last ^= 1;
            }
            data.records = Some(Records::Bytes(bytes.into()));
            data
        })
    });
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    let Ok(Next::Records(taken)) = consumer.next(ALL, soon()) else { panic!("no records") };
    assert_eq!(values(&taken), [0, 1]);
    consumer.next(ALL, soon()).expect_err("the second batch is damaged");
    assert_eq!(consumer.shared().subscription.lock().to_commit()[&x()].offset, 2);
}
