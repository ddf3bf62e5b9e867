//! What was fetched and is dropped: it makes room, is fetched again, and nothing is lost by that.

use super::*;
use crate::consumer::fetched::buffer::Content;

/// The least a buffer may hold: one fetch fills it.
const NO_ROOM: (&str, &str) = ("kafkalite.fetch.buffer.max.bytes", "1");

fn buffered(consumer: &Consumer) -> usize {
    let subscription = consumer.shared().subscription.lock();
    subscription.get(&x()).map_or(0, |state| state.cursor().buffered_bytes())
}

/// Waits until something was fetched for the cursor that `x` has now.
#[track_caller]
fn wait_fetched(consumer: &Consumer) {
    awaited::until("records of x are buffered", || buffered(consumer) > 0);
}

#[test]
fn what_a_seek_made_stale_takes_no_room() {
    let broker = broker(Log { start: 0, end: 10, epoch: 0 });
    let consumer = reading(&broker, &[EARLIEST_RESET, NO_ROOM]);
    wait_fetched(&consumer);
    consumer.seek(&x(), Position::at(7)).expect("it is assigned");
    // before a caller comes and looks.
    wait_fetched(&consumer);
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
    let broker = damaged(|_| true);
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    let taken = taken(consumer.next(ALL, soon()));
    assert_eq!(values(&taken), [0, 1]);
    consumer.next(ALL, soon()).expect_err("the second batch is damaged");
    assert_eq!(consumer.shared().subscription.lock().to_commit()[&x()].offset, 2);
}

/// The error of a place that a caller has left must not reach where it went.
#[test]
fn a_refusal_for_a_place_that_was_left_is_forgotten() {
    let places = [("earliest", Content::Refused(ErrorCode::OffsetOutOfRange))];
    let others = [
        ("none", Content::Refused(ErrorCode::OffsetOutOfRange)),
        ("none", Content::Truncated(Some(1))),
        ("none", Content::Unreadable("cut short".to_owned())),
    ];
    for (policy, content) in places.into_iter().chain(others) {
        let broker = FakeBroker::start(|asked| match asked.is(ApiKey::Fetch) {
            true => Answer::Silence,
            false => Answer::Usual,
        });
        let consumer = reading(&broker, &[("auto.offset.reset", policy)]);
        consumer.seek(&x(), Position::at(3)).expect("it is assigned");
        let (shared, told) = (consumer.shared(), format!("{content:?}"));
        let left = shared.subscription.lock().get(&x()).map(|state| Arc::clone(state.cursor()));
        let left = left.expect("it is assigned");
        shared.buffer.push_all(vec![(left, Position::at(3), content)]);
        let fetched = shared.buffer.pop(|_| false).expect("nothing else was fetched");
        consumer.seek(&x(), Position::at(7)).expect("it is assigned");
        assert!(handout::begin(shared, fetched).is_ok_and(|open| open.is_none()), "{told}");
        let position = shared.subscription.lock().get(&x()).and_then(|state| state.position());
        assert_eq!(position, Some(Position::at(7)), "{told}");
    }
}

#[test]
fn an_error_that_waits_behind_records_is_forgotten_by_a_seek() {
    let broker = damaged(|_| true);
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    let taken = taken(consumer.next(ALL, soon()));
    assert_eq!(values(&taken), [0, 1]);
    consumer.seek(&x(), Position::at(0)).expect("it is assigned");
    assert_eq!(read(&consumer, 2), Ok(vec![0, 1]));
}
