//! Partitions that change their leader, and leaders that send a reader elsewhere.

use std::sync::atomic::AtomicBool;

use super::commits::coordinated;
use super::last_commit::nothing_committed;
use super::*;
use crate::consumer::subscription::EARLIEST;
use kafkalite_connection::LeaderNews;
use kafkalite_connection::testing::{Held, NODE, OTHER, hold, release, two, wait_held};
use kafkalite_protocol::Uuid;

/// Four records of unknown epochs in every partition: positions are not validated.
const LOG: Log = Log { start: 0, end: 4, epoch: -1 };

fn fetch_of_log(asked: &Asked) -> Answer {
    fetch(asked, |partition, offset| LOG.fetch(partition, offset))
}

fn second_leads(topic: &str) -> LeaderNews<'_> {
    let (leader, leader_epoch) = (OTHER, LeaderEpoch(1));
    LeaderNews { topic, topic_id: Uuid::ZERO, partition: 0, leader, leader_epoch, endpoint: None }
}

/// It was handed out a second time: nothing but the cursor was compared.
#[test]
fn what_the_leader_before_answers_late_is_not_handed_out_again() {
    let held = Arc::new(Held::default());
    let of_first = Arc::clone(&held);
    let [first, second] = two(
        move |asked| match (asked.is(ApiKey::Fetch), asked.before) {
            (true, 0) => hold(&of_first, fetch_of_log(asked)),
            (true, _) => Answer::Silence,
            (false, _) if asked.is(ApiKey::ListOffsets) => list_offsets(asked, &LOG),
            _ => Answer::Usual,
        },
        |asked| match asked.is(ApiKey::Fetch) {
            true => fetch_of_log(asked),
            false => Answer::Usual,
        },
    );
    let consumer = consumer(&first, &[EARLIEST_RESET]);
    let y = TopicPartition::new("y", 0);
    consumer.assign(&BTreeSet::from([y.clone()])).expect("nothing is subscribed to");
    let position = calls::position(Arc::clone(consumer.shared()), y.clone(), soon());
    consumer.runtime().call(position, soon()).expect("it is known");
    wait_held(&held);
    consumer.shared().cluster.learn_leader(&second_leads("y"));
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()), "of the second");
    // The first broker is asked for this one when its late answer was taken.
    consumer.assign(&BTreeSet::from([x(), y])).expect("nothing is subscribed to");
    let position = calls::position(Arc::clone(consumer.shared()), x(), soon());
    consumer.runtime().call(position, soon()).expect("it is known");
    release(&held);
    first.wait_for(ApiKey::Fetch, 2);
    let again = consumer.next(ALL, Instant::now());
    assert!(matches!(again, Ok(Next::Nothing)), "{again:?}");
    drop(second);
}

/// A leader that sends readers with a rack to the second broker (KIP-392), for records below `to`.
fn sends_away_below(asked: &Asked, to: i64, log: &Log) -> Answer {
    if asked.is(ApiKey::ListOffsets) {
        return list_offsets(asked, log);
    } else if !asked.is(ApiKey::Fetch) {
        return Answer::Usual;
    }
    let request: FetchRequest = asked.read();
    let elsewhere = |partition_index| PartitionData {
        partition_index,
        preferred_read_replica: OTHER,
        records: Some(Records::Bytes(Bytes::new())),
        ..PartitionData::default()
    };
    fetch(asked, |partition, offset| match request.rack_id == "here" && offset < to {
        true => elsewhere(partition),
        false => log.fetch(partition, offset),
    })
}

const RACK: (&str, &str) = ("client.rack", "here");

#[test]
fn a_consumer_with_a_rack_reads_where_its_leader_sends_it() {
    let longer = Log { end: 6, ..LOG };
    let [first, second] = two(
        move |asked| sends_away_below(asked, 4, &longer),
        |asked| if asked.is(ApiKey::Fetch) { fetch_of_log(asked) } else { Answer::Usual },
    );
    let consumer = reading(&first, &[EARLIEST_RESET, RACK]);
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    second.wait_for(ApiKey::Fetch, 2);
    assert_eq!(first.count(ApiKey::Fetch), 1, "it goes on where it was sent");
}

/// Each refusal is of a kind of its own: the first passes, and the leader alone knows the second.
#[test]
fn a_consumer_goes_back_to_its_leader_when_the_replica_nearby_refuses() {
    for refusal in [ErrorCode::NotLeaderOrFollower, ErrorCode::OffsetOutOfRange] {
        let sent = AtomicBool::new(false);
        let [first, _second] = two(
            move |asked| {
                let is_first = asked.is(ApiKey::Fetch) && !sent.swap(true, Ordering::Relaxed);
                sends_away_below(asked, if is_first { 4 } else { 0 }, &LOG)
            },
            move |asked| match asked.is(ApiKey::Fetch) {
                true => fetch(asked, |partition_index, _| PartitionData {
                    partition_index,
                    error_code: refusal.code(),
                    ..PartitionData::default()
                }),
                false => Answer::Usual,
            },
        );
        let consumer = reading(&first, &[EARLIEST_RESET, RACK]);
        assert_eq!(read(&consumer, 4), Ok((0..4).collect()), "{refusal:?}");
    }
}

#[test]
fn a_consumer_goes_back_to_its_leader_when_the_replica_nearby_is_gone() {
    let sent = AtomicBool::new(false);
    let [first, _second] = two(
        move |asked| {
            let is_first = asked.is(ApiKey::Fetch) && !sent.swap(true, Ordering::Relaxed);
            sends_away_below(asked, if is_first { 4 } else { 0 }, &LOG)
        },
        |asked| if asked.is(ApiKey::Fetch) { Answer::Close } else { Answer::Usual },
    );
    let consumer = reading(&first, &[EARLIEST_RESET, RACK]);
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
}

/// The leader named the replica again each time, and no record was read.
#[test]
fn a_consumer_that_does_not_reach_the_replica_nearby_reads_from_its_leader() {
    let [first, second] = two(
        |asked| sends_away_below(asked, 4, &LOG),
        |asked| if asked.is(ApiKey::Fetch) { Answer::Close } else { Answer::Usual },
    );
    let consumer = reading(&first, &[EARLIEST_RESET, RACK]);
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    assert_eq!(second.count(ApiKey::Fetch), 1, "it is not asked again soon");
}

/// The leader was asked again at once, without end.
#[test]
fn a_consumer_whose_metadata_count_without_end_reads_from_the_replica_nearby() {
    let [first, _second] = two(
        |asked| sends_away_below(asked, 4, &LOG),
        |asked| if asked.is(ApiKey::Fetch) { fetch_of_log(asked) } else { Answer::Usual },
    );
    let consumer = reading(&first, &[EARLIEST_RESET, RACK, ("metadata.max.age.ms", "0")]);
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    assert_eq!(first.count(ApiKey::Fetch), 1);
}

/// It was taken for the leader's own word, and all records were handed out a second time.
#[test]
fn what_a_replica_nearby_refuses_after_a_change_of_leaders_resets_no_position() {
    let held = Arc::new(Held::default());
    let of_second = Arc::clone(&held);
    let longer = Log { end: 6, ..LOG };
    let [first, _second] = two(
        move |asked| match asked.is(ApiKey::Fetch) && asked.before > 0 {
            true if asked.before == 1 => Answer::Silence,
            true => fetch(asked, |partition, offset| longer.fetch(partition, offset)),
            false => sends_away_below(asked, 4, &LOG),
        },
        move |asked| match (asked.is(ApiKey::Fetch), asked.before) {
            (true, 0) => fetch_of_log(asked),
            (true, 1) => hold(&of_second, fetch(asked, |partition, _| LOG.fetch(partition, 9))),
            (true, _) => Answer::Silence,
            _ => Answer::Usual,
        },
    );
    let consumer = reading(&first, &[EARLIEST_RESET, RACK]);
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    wait_held(&held);
    // The same broker leads on in another epoch, and is silent for now.
    let news = LeaderNews { leader: NODE, ..second_leads("x") };
    consumer.shared().cluster.learn_leader(&news);
    first.wait_for(ApiKey::Fetch, 2);
    release(&held);
    let next = consumer.next(ALL, Instant::now() + Duration::from_millis(300));
    assert!(matches!(next, Ok(Next::Nothing)), "{next:?}");
    let position = calls::position(Arc::clone(consumer.shared()), x(), soon());
    let position = consumer.runtime().call(position, soon()).expect("it is known");
    assert_eq!(position.offset, 4);
}

/// After `metadata.max.age.ms` the leader is asked again, whatever the replica answers.
#[test]
fn a_consumer_asks_its_leader_again_from_time_to_time() {
    let [first, _second] = two(
        move |asked| sends_away_below(asked, 4, &LOG),
        |asked| match asked.is(ApiKey::Fetch) {
            true => fetch(asked, |partition, _| LOG.fetch(partition, LOG.end)),
            false => Answer::Usual,
        },
    );
    let age = ("metadata.max.age.ms", "20");
    let consumer = reading(&first, &[EARLIEST_RESET, RACK, age, ("fetch.max.wait.ms", "5")]);
    let _reads = consumer.next(ALL, Instant::now());
    first.wait_for(ApiKey::Fetch, 3);
}

/// All positions waited for the slowest leader's answer, which may be none.
#[test]
fn a_leader_that_does_not_say_where_to_begin_holds_up_its_own_partitions_alone() {
    let [first, _second] = two(
        |asked| match asked.is(ApiKey::ListOffsets) {
            true => list_offsets(asked, &LOG),
            false if asked.is(ApiKey::Fetch) => fetch_of_log(asked),
            false => Answer::Usual,
        },
        |asked| match asked.is(ApiKey::ListOffsets) {
            true => Answer::Silence,
            false => Answer::Usual,
        },
    );
    let consumer = consumer(&first, &[EARLIEST_RESET]);
    let cluster = consumer.shared().cluster.clone();
    let learn = async move { Ok(cluster.look_up(&["x", "y"]).await.map(drop)?) };
    assert_eq!(consumer.runtime().call(learn, soon()), Ok(()));
    consumer.shared().cluster.learn_leader(&second_leads("y"));
    let both = BTreeSet::from([x(), TopicPartition::new("y", 0)]);
    consumer.assign(&both).expect("nothing is subscribed to");
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
}

/// Metadata was not looked at before the silent leader's time was over.
#[test]
fn a_leader_that_changes_is_followed_while_another_leader_is_silent() {
    let longer = Log { end: 6, ..LOG };
    let [first, second] = two(
        |asked| match asked.is(ApiKey::ListOffsets) {
            true => list_offsets(asked, &LOG),
            false if asked.is(ApiKey::Fetch) => fetch_of_log(asked),
            false => Answer::Usual,
        },
        move |asked| match asked.is(ApiKey::ListOffsets) {
            true => Answer::Silence,
            false if asked.is(ApiKey::Fetch) => {
                fetch(asked, |partition, offset| longer.fetch(partition, offset))
            }
            false => Answer::Usual,
        },
    );
    let consumer = consumer(&first, &[EARLIEST_RESET]);
    let cluster = consumer.shared().cluster.clone();
    let learn = async move { Ok(cluster.look_up(&["x", "y"]).await.map(drop)?) };
    assert_eq!(consumer.runtime().call(learn, soon()), Ok(()));
    consumer.shared().cluster.learn_leader(&second_leads("y"));
    let both = BTreeSet::from([x(), TopicPartition::new("y", 0)]);
    consumer.assign(&both).expect("nothing is subscribed to");
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    second.wait_for(ApiKey::ListOffsets, 1);
    consumer.shared().cluster.learn_leader(&second_leads("x"));
    assert_eq!(read(&consumer, 2), Ok(vec![4, 5]));
}

/// Nothing else was asked before the coordinator's time was over.
#[test]
fn a_seek_finds_its_place_while_the_coordinator_is_silent() {
    let broker = coordinated(|asked| {
        if asked.is(ApiKey::OffsetFetch) {
            let is_first = asked.before == 0;
            return if is_first { nothing_committed(asked) } else { Answer::Silence };
        } else if asked.is(ApiKey::ListOffsets) {
            return list_offsets(asked, &LOG);
        }
        if asked.is(ApiKey::Fetch) { fetch_of_log(asked) } else { Answer::Usual }
    });
    let consumer = reading(&broker, &[EARLIEST_RESET, ("group.id", "g")]);
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
    let both = BTreeSet::from([x(), TopicPartition::new("y", 0)]);
    consumer.assign(&both).expect("nothing is subscribed to");
    broker.wait_for(ApiKey::OffsetFetch, 2);
    consumer.seek_to(&[x()], EARLIEST).expect("it is assigned");
    assert_eq!(read(&consumer, 4), Ok((0..4).collect()));
}
