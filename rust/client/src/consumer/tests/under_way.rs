//! Commits while a call has taken records that it has not handed out.
//!
//! A deserializer commits, a signal handler closes the consumer, or another thread does. The call
//! then failed, and its records were lost: they were committed, and no caller had seen them.

use super::automatic::reader;
use super::*;
use crate::consumer::subscription::EARLIEST;

const TWO: Limits = Limits { max_records: 2, ..ALL };

/// The offset that a caller would commit now.
fn handed_out(consumer: &Consumer) -> i64 {
    let due = Due::handed_out(consumer.shared()).expect("it has a group");
    due.offsets[&x()].position.offset
}

/// The offset that is to be committed by itself.
fn done(consumer: &Consumer) -> i64 {
    let due = Due::done(consumer.shared(), None).expect("it has a group");
    due.offsets[&x()].position.offset
}

fn position(consumer: &Consumer) -> Option<i64> {
    let subscription = consumer.shared().subscription.lock();
    subscription.get(&x())?.position().map(|at| at.offset)
}

#[test]
fn a_commit_counts_no_record_of_a_call_that_is_under_way() {
    let (_broker, consumer, _) = reader();
    assert_eq!(handed_out(&consumer), 4);
    let taken = lease(consumer.next(ALL, soon()));
    assert_eq!(values(&taken), [4, 5, 6, 7]);
    assert_eq!((handed_out(&consumer), position(&consumer)), (4, Some(8)));
    consumer.finish();
    assert_eq!(done(&consumer), 4);
    taken.keep_first(2);
    assert_eq!((handed_out(&consumer), position(&consumer)), (6, Some(6)));
    assert_eq!(read(&consumer, 1), Ok(vec![6]));
    let single = consumer.next_decoded(|_, record| Ok::<_, ()>(record.offset()));
    assert_eq!((handed_out(&consumer), position(&consumer)), (7, Some(8)));
    assert_eq!(kept(single), Some(Ok(7)));
    assert_eq!((handed_out(&consumer), done(&consumer)), (8, 7));
}

/// Callers commit that position, and it was behind records that no call had handed out.
#[test]
fn a_caller_gets_a_position_and_a_lag_without_what_is_under_way() {
    let (_broker, consumer, _) = reader();
    let told = || {
        let asked = calls::position(Arc::clone(consumer.shared()), x(), soon());
        let position = consumer.runtime().call(asked, soon()).expect("it is known");
        (position.offset, consumer.lag(&x()))
    };
    assert_eq!(told(), (4, Some(4)));
    let taken = lease(consumer.next(ALL, soon()));
    assert_eq!(values(&taken), [4, 5, 6, 7]);
    assert_eq!(told(), (4, Some(4)));
    taken.keep_first(2);
    assert_eq!(told(), (6, Some(2)));
    assert_eq!(read(&consumer, 1), Ok(vec![6]));
    let made = kept(consumer.next_decoded(|_, _| Ok::<_, ()>(told())));
    assert_eq!(made, Some(Ok((7, Some(1)))));
    assert_eq!(told(), (8, Some(0)));
}

/// The inner call waited for the outer one until its time was over.
#[test]
fn a_call_in_a_deserializer_reads_on_behind_its_record() {
    let (_broker, consumer, _) = reader();
    assert_eq!(read(&consumer, 1), Ok(vec![4]));
    let inner = |_: &Cursor, record: RecordView<'_>| {
        let long_way = values(&taken(consumer.next(Limits { max_records: 1, ..ALL }, soon())));
        Ok::<_, ()>((record.offset(), long_way, decoded(&consumer)))
    };
    assert_eq!(kept(consumer.next_decoded(inner)), Some(Ok((5, vec![6], Some(7)))));
    assert_eq!((handed_out(&consumer), done(&consumer)), (8, 5));
}

/// All of them go back, because they come in their order.
#[test]
fn a_record_that_fails_after_a_call_in_its_deserializer_is_the_next_one() {
    let (_broker, consumer, _) = reader();
    assert_eq!(read(&consumer, 1), Ok(vec![4]));
    let inner = |_: &Cursor, _: RecordView<'_>| Err::<(), _>(decoded(&consumer));
    assert_eq!(kept(consumer.next_decoded(inner)), Some(Err(Some(6))));
    assert_eq!((handed_out(&consumer), position(&consumer)), (5, Some(5)));
    assert_eq!(read(&consumer, 3), Ok(vec![5, 6, 7]));
}

#[test]
fn a_record_is_not_handed_out_after_its_deserializer_went_elsewhere() {
    let (_broker, consumer, _) = reader();
    assert_eq!(read(&consumer, 1), Ok(vec![4]));
    let seeks = |_: &Cursor, _: RecordView<'_>| consumer.seek(&x(), Position::at(2));
    assert_eq!(kept(consumer.next_decoded(seeks)), None);
    assert_eq!(read(&consumer, 1), Ok(vec![2]));
    let rest = read(&consumer, 1);
    assert_eq!(rest, Ok(vec![3]));
    let resets = |_: &Cursor, _: RecordView<'_>| consumer.seek_to(&[x()], EARLIEST);
    assert_eq!(kept(consumer.next_decoded(resets)), None);
    assert_eq!(read(&consumer, 1), Ok(vec![0]));
}

#[test]
fn a_close_commits_no_record_of_a_call_that_is_under_way() {
    let (_broker, consumer, told) = reader();
    let taken = lease(consumer.next(ALL, soon()));
    assert_eq!(consumer.close(Duration::from_secs(10), false), Ok(()));
    assert_eq!(*told.lock(), [4]);
    drop(taken);
}

/// It waited for the call around it until its time was over, and then it committed nothing.
#[test]
fn a_close_in_a_call_commits_what_came_before_and_waits_for_no_call() {
    let (_broker, consumer, told) = reader();
    assert_eq!(read(&consumer, 1), Ok(vec![4]));
    let closes = |_: &Cursor, _: RecordView<'_>| consumer.close(Duration::from_secs(60), false);
    let began = Instant::now();
    assert!(consumer.next_decoded(closes).is_none(), "the record is not handed out any more");
    assert!(began.elapsed() < Duration::from_secs(50));
    assert_eq!(*told.lock(), [5]);
}

/// What the inner call hands out stands behind records that may still go back.
#[test]
fn a_call_within_a_call_hands_out_nothing_of_the_outer_one() {
    let (_broker, consumer, _) = reader();
    let outer = lease(consumer.next(TWO, soon()));
    let inner = Limits { max_records: 1, ..ALL };
    assert_eq!(values(&taken(consumer.next(inner, soon()))), [6]);
    assert_eq!((handed_out(&consumer), done(&consumer)), (4, 4));
    drop(outer);
    assert_eq!((handed_out(&consumer), position(&consumer)), (4, Some(4)));
    let outer = lease(consumer.next(TWO, soon()));
    assert_eq!(values(&taken(consumer.next(inner, soon()))), [6]);
    assert_eq!(values(&outer.keep()), [4, 5]);
    assert_eq!((handed_out(&consumer), done(&consumer)), (7, 4));
    assert_eq!(read(&consumer, 1), Ok(vec![7]));
    assert_eq!((handed_out(&consumer), done(&consumer)), (8, 7));
}

/// The log was cut while a call had records of both sides of the cut.
#[test]
fn records_that_were_cut_off_under_way_count_no_more() {
    for goes_back in [false, true] {
        let (_broker, consumer, _) = reader();
        let taken = lease(consumer.next(ALL, soon()));
        let cut = Position { offset: 6, leader_epoch: 0 };
        consumer.shared().subscription.lock().go_back_to(&x(), cut);
        assert_eq!(handed_out(&consumer), 4);
        if goes_back {
            drop(taken);
        } else {
            drop(taken.keep());
        }
        assert_eq!(handed_out(&consumer), if goes_back { 4 } else { 6 });
    }
}
