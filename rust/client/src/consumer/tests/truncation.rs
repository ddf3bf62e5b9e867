//! A leader whose log is not the one that was read (KIP-320).

use std::sync::atomic::AtomicBool;

use kafkalite_connection::testing::{NODE, metadata, topic};
use kafkalite_protocol::messages::fetch::LeaderIdAndEpoch;
use kafkalite_protocol::messages::metadata::MetadataRequest;
use kafkalite_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
};

use super::*;

/// A leader epoch and where it ended.
type End = (i32, i64);

/// What a leader says that knows nothing of an epoch.
const UNKNOWN: End = (-1, -1);

/// Six records of epoch 0. Once the epoch is `over`, a client that has fetched them meets a leader
/// of epoch 1 with eight records. The leader says that epoch 0 ended at `end`.
fn cut(end: End, over: &Arc<AtomicBool>) -> FakeBroker {
    let (now, over) = (AtomicUsize::new(0), Arc::clone(over));
    FakeBroker::start(move |asked| {
        let epoch = now.load(Ordering::Relaxed) as i32;
        let log = Log { start: 0, end: if epoch == 0 { 6 } else { 8 }, epoch };
        if asked.is(ApiKey::Metadata) {
            let mut told = metadata(&asked.place, std::iter::empty());
            told.topics = vec![topic("x", 1, epoch)];
            return asked.answer::<MetadataRequest>(&told);
        } else if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if asked.is(ApiKey::OffsetForLeaderEpoch) {
            return ended(asked, end);
        } else if !asked.is(ApiKey::Fetch) {
            return Answer::Usual;
        }
        let request: FetchRequest = asked.read();
        let told = request.topics.first().map(|t| t.partitions[0].clone());
        let Some(told) = told else { return fetch(asked, |_, _| unreachable!("nothing listed")) };
        if epoch == 0 && told.fetch_offset == 6 && over.load(Ordering::SeqCst) {
            // The leader is gone before it had more to tell.
            now.store(1, Ordering::Relaxed);
            return refused(asked, ErrorCode::NotLeaderOrFollower, -1);
        }
        if told.current_leader_epoch != epoch {
            return refused(asked, ErrorCode::FencedLeaderEpoch, epoch);
        }
        fetch(asked, |partition, offset| log.fetch(partition, offset))
    })
}

fn ended(asked: &Asked, (leader_epoch, end_offset): End) -> Answer {
    let end = EpochEndOffset { partition: 0, leader_epoch, end_offset, error_code: 0 };
    let topics = vec![OffsetForLeaderTopicResult { topic: "x".to_owned(), partitions: vec![end] }];
    let told = OffsetForLeaderEpochResponse { topics, ..Default::default() };
    asked.answer::<OffsetForLeaderEpochRequest>(&told)
}

fn refused(asked: &Asked, code: ErrorCode, leader_epoch: i32) -> Answer {
    let leader_id = if leader_epoch < 0 { -1 } else { NODE };
    fetch(asked, |partition_index, _| PartitionData {
        partition_index,
        error_code: code as i16,
        current_leader: LeaderIdAndEpoch { leader_id, leader_epoch },
        ..PartitionData::default()
    })
}

#[test]
fn a_log_that_was_cut_is_read_on_from_where_it_parts() {
    let over = Arc::new(AtomicBool::new(false));
    let broker = cut((0, 4), &over);
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 6), Ok((0..6).collect()));
    over.store(true, Ordering::SeqCst);
    assert_eq!(read(&consumer, 4), Ok((4..8).collect()), "what replaced the lost records");
    assert_eq!(broker.count(ApiKey::OffsetForLeaderEpoch), 1);
}

#[test]
fn a_log_that_was_not_cut_is_read_on() {
    let broker = cut((0, 6), &Arc::new(AtomicBool::new(true)));
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 8), Ok((0..8).collect()));
}

/// It was taken for one that agrees.
#[test]
fn a_leader_that_knows_nothing_of_the_epoch_leads_to_where_the_policy_says() {
    let over = Arc::new(AtomicBool::new(false));
    let broker = cut(UNKNOWN, &over);
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 6), Ok((0..6).collect()));
    over.store(true, Ordering::SeqCst);
    assert_eq!(read(&consumer, 8), Ok((0..8).collect()));
}

/// A leader that was cut off still answered, and knew nothing of the later epoch. All records were
/// read once more.
#[test]
fn a_leader_of_an_earlier_epoch_than_the_position_moves_it_nowhere() {
    const OLD: i32 = 1;
    let log = Log { start: 0, end: 6, epoch: OLD + 1 };
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::Metadata) {
            let epoch = if asked.before < 4 { OLD } else { log.epoch };
            let mut told = metadata(&asked.place, std::iter::empty());
            told.topics = vec![topic("x", 1, epoch)];
            return asked.answer::<MetadataRequest>(&told);
        } else if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &log);
        } else if asked.is(ApiKey::OffsetForLeaderEpoch) {
            let request: OffsetForLeaderEpochRequest = asked.read();
            let is_old = request.topics[0].partitions[0].current_leader_epoch == OLD;
            return ended(asked, if is_old { UNKNOWN } else { (log.epoch, log.end) });
        }
        match asked.is(ApiKey::Fetch) {
            true => fetch(asked, |partition, offset| log.fetch(partition, offset)),
            false => Answer::Usual,
        }
    });
    let consumer = reading(&broker, &[EARLIEST_RESET, ("retry.backoff.max.ms", "1")]);
    let position = Position { offset: 4, leader_epoch: OLD + 1 };
    consumer.seek(&x(), position).expect("it is assigned");
    assert_eq!(read(&consumer, 2), Ok(vec![4, 5]));
}

#[test]
fn without_a_policy_a_cut_is_an_error_until_a_seek() {
    for (end, told) in [((0, 4), "from offset 4 on"), (UNKNOWN, "lost records before offset 6")] {
        let over = Arc::new(AtomicBool::new(false));
        let broker = cut(end, &over);
        let consumer = reading(&broker, &[("auto.offset.reset", "none")]);
        consumer.seek(&x(), Position::at(0)).expect("it is assigned");
        assert_eq!(read(&consumer, 6), Ok((0..6).collect()));
        over.store(true, Ordering::SeqCst);
        for _ in 0..2 {
            let error = read(&consumer, 1).expect_err("records are lost");
            assert_eq!(error.code(), Some(ErrorCode::OffsetOutOfRange));
            assert!(error.to_string().contains(told), "{error}");
        }
        consumer.seek(&x(), Position::at(3)).expect("it is assigned");
        assert_eq!(read(&consumer, 5), Ok((3..8).collect()));
    }
}

/// Records that were fetched and not handed out lay between: they were skipped. Later they were
/// dropped, and the question about those before waited for the next metadata.
#[test]
fn a_cut_behind_what_was_handed_out_costs_no_record() {
    let over = Arc::new(AtomicBool::new(false));
    let broker = cut((0, 4), &over);
    let consumer = reading(&broker, &[EARLIEST_RESET]);
    assert_eq!(read(&consumer, 2), Ok(vec![0, 1]));
    over.store(true, Ordering::SeqCst);
    broker.wait_for(ApiKey::OffsetForLeaderEpoch, 2);
    assert_eq!(read(&consumer, 6), Ok((2..8).collect()));
}
