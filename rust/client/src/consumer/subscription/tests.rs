use super::*;
use std::time::Duration;

fn one(text: &str) -> TopicPartition {
    let (topic, number) = text.rsplit_once('-').expect("the tests write topic-partition");
    TopicPartition::new(topic, number.parse().expect("the tests write numbers"))
}

fn leader(node: i32, epoch: i32) -> LeaderAndEpoch {
    LeaderAndEpoch { node, epoch }
}

fn at(offset: i64, leader_epoch: i32) -> Position {
    Position { offset, leader_epoch }
}

/// `x-0`, read from 10, led by node 1 in epoch 3.
fn reading() -> (Subscription, TopicPartition, Instant) {
    let mut subscription = Subscription::new();
    subscription.add([one("x-0")], Status::Committed);
    subscription.see_leaders(|_| Some(leader(1, 3)));
    subscription.start_at_committed(&one("x-0"), Some(Position::at(10)), None);
    (subscription, one("x-0"), Instant::now())
}

fn wish(subscription: &Subscription, now: Instant) -> FetchWish {
    let wishes = subscription.fetchable(now, 1);
    assert_eq!(wishes.len(), 1);
    wishes[0].clone()
}

mod commits;

#[test]
fn a_partition_starts_at_its_committed_offset_or_where_the_policy_says() {
    for (committed, policy, expected) in [
        (Some(Position::at(7)), Some(EARLIEST), Status::Reading),
        (None, Some(EARLIEST), Status::Reset { timestamp: EARLIEST }),
        (None, None, Status::NoPosition),
    ] {
        let mut subscription = Subscription::new();
        subscription.add([one("x-0")], Status::Committed);
        assert_eq!(subscription.committed_due(Instant::now()), [one("x-0")]);
        subscription.start_at_committed(&one("x-0"), committed, policy);
        let state = subscription.get(&one("x-0")).expect("it was added");
        assert_eq!(state.status(), expected);
        assert_eq!(state.position(), committed);
        assert_eq!(subscription.without_position().is_empty(), expected != Status::NoPosition);
    }
}

#[test]
fn a_reset_is_answered_once_and_an_answer_to_an_older_wish_is_dropped() {
    let (mut subscription, x, now) = reading();
    subscription.seek_to(&x, LATEST);
    let old = subscription.resets_due(now).remove(0);
    subscription.seek_to(&x, EARLIEST);
    subscription.reset_done(&old, 99, 3);
    assert_eq!(subscription.get(&x).and_then(PartitionState::position), None);
    let wish = subscription.resets_due(now).remove(0);
    subscription.reset_done(&wish, 4, 2);
    assert_eq!(subscription.get(&x).and_then(PartitionState::position), Some(at(4, 2)));
    assert_eq!(subscription.validations_due(now), []);
}

/// Records that came between two seeks to the end were handed out: the answer to the first question
/// counted for the second.
#[test]
fn who_goes_to_the_end_twice_goes_to_the_end_of_the_second_time() {
    let (mut subscription, x, now) = reading();
    subscription.seek_to(&x, LATEST);
    let first = subscription.resets_due(now).remove(0);
    subscription.seek_to(&x, LATEST);
    let second = subscription.resets_due(now).remove(0);
    subscription.reset_done(&first, 78, 0);
    assert_eq!(subscription.get(&x).and_then(PartitionState::position), None);
    subscription.reset_done(&second, 79, 0);
    assert_eq!(subscription.get(&x).and_then(PartitionState::position), Some(at(79, 0)));
}

#[test]
fn a_seek_makes_what_was_fetched_before_stale() {
    let (mut subscription, x, now) = reading();
    let before = wish(&subscription, now);
    assert!(subscription.seek(&x, Position::at(5)));
    let state = subscription.get_mut(&x).expect("it is assigned");
    assert!(!state.fetched(&before.cursor, at(20, 3), Watermarks::default()));
    assert_eq!(state.position(), Some(Position::at(5)));
    assert!(before.cursor.is_retired());
    assert!(!subscription.seek(&one("y-0"), Position::at(5)));
}

#[test]
fn the_next_fetch_runs_ahead_of_the_position() {
    let (mut subscription, x, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    let state = subscription.get_mut(&x).expect("it is assigned");
    assert!(state.fetched(&cursor, at(30, 3), Watermarks::default()));
    assert_eq!(wish(&subscription, now).from, at(30, 3));
    assert_eq!(subscription.handed_out()[&x], Position::at(10));
    assert!(cursor.advance(at(12, 3)).is_some());
    assert_eq!(subscription.handed_out()[&x], at(12, 3));
}

#[test]
fn what_holds_a_partition_back_from_being_fetched() {
    type HoldBack = fn(&mut Subscription, Instant);
    let cases: [(&str, HoldBack); 6] = [
        ("paused", |s, _| assert!(s.set_paused(&one("x-0"), true))),
        ("about to be given up", |s, _| s.hold(&[one("x-0")])),
        ("waiting after a failure", |s, now| {
            s.retry_later(&one("x-0"), now + Duration::from_millis(1));
        }),
        ("enough of it waits to be decoded", |s, now| {
            s.fetchable(now, 1)[0].cursor.add_buffered(1);
        }),
        ("behind an error", |s, now| {
            let cursor = s.fetchable(now, 1)[0].cursor.clone();
            assert!(s.get_mut(&one("x-0")).is_some_and(|state| state.stall(&cursor)));
        }),
        ("given up", |s, _| s.remove(&[one("x-0")])),
    ];
    for (why, hold_back) in cases {
        let (mut subscription, _, now) = reading();
        hold_back(&mut subscription, now);
        assert_eq!(subscription.fetchable(now, 1).len(), 0, "{why}");
    }
}

/// A fetch of the idle partitions alone waited at the broker for `fetch.max.wait.ms`. The full one
/// was handed out meanwhile, and not asked for.
#[test]
fn a_node_is_not_asked_for_the_rest_while_it_has_a_full_partition_that_is_read() {
    let (mut subscription, x, now) = reading();
    let (idle, elsewhere) = (one("x-1"), one("x-2"));
    subscription.add([idle.clone(), elsewhere.clone()], Status::Committed);
    subscription.see_leaders(|each| Some(leader(if *each == elsewhere { 2 } else { 1 }, 3)));
    for each in [&idle, &elsewhere] {
        subscription.start_at_committed(each, Some(Position::at(0)), None);
    }
    let asked = |subscription: &Subscription| -> Vec<TopicPartition> {
        let wishes = subscription.fetchable(now, 4);
        wishes.iter().map(|wish| wish.cursor.partition().clone()).collect()
    };
    let cursor = Arc::clone(subscription.get(&x).expect("it is assigned").cursor());
    cursor.add_buffered(3);
    assert_eq!(asked(&subscription), [x.clone(), idle.clone(), elsewhere.clone()]);
    cursor.add_buffered(1);
    assert_eq!(asked(&subscription), std::slice::from_ref(&elsewhere));
    // It is not handed out now: the others go on.
    subscription.set_paused(&x, true);
    assert_eq!(asked(&subscription), [idle.clone(), elsewhere.clone()]);
    subscription.set_paused(&x, false);
    cursor.remove_buffered(1);
    assert_eq!(asked(&subscription), [x, idle, elsewhere]);
}

#[test]
fn a_topic_that_is_not_asked_for_any_more_is_neither_fetched_nor_handed_out_until_it_is_again() {
    let topics = |name: &str| Wish::Topics(BTreeSet::from([name.into()]));
    let (mut subscription, _, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    subscription.set_wish(topics("y"));
    assert_eq!(subscription.fetchable(now, 1).len(), 0);
    assert!(!cursor.is_open());
    subscription.set_wish(topics("x"));
    assert!(wish(&subscription, now).cursor.is_open());
}

#[test]
fn a_pause_outlives_a_seek_and_ends_with_a_resume() {
    let (mut subscription, x, now) = reading();
    subscription.set_paused(&x, true);
    subscription.seek(&x, Position::at(1));
    assert_eq!(subscription.paused(), std::slice::from_ref(&x));
    assert_eq!(subscription.fetchable(now, 1).len(), 0);
    subscription.set_paused(&x, false);
    assert!(wish(&subscription, now).cursor.is_open());
}

#[test]
fn a_new_leader_epoch_is_validated_before_more_is_fetched() {
    let (mut subscription, x, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    let state = subscription.get_mut(&x).expect("it is assigned");
    state.fetched(&cursor, at(30, 3), Watermarks::default());
    subscription.see_leaders(|_| Some(leader(2, 4)));
    assert_eq!(subscription.fetchable(now, 1).len(), 0);
    assert_eq!(subscription.validations_due(now), [(x.clone(), at(30, 3))]);
    assert!(subscription.validation_done(&x, at(30, 3), at(30, 3)).is_none());
    assert_eq!(wish(&subscription, now).leader, leader(2, 4));
}

#[test]
fn a_leader_that_has_other_records_than_were_read_is_reported_with_the_place_where_they_part() {
    let unknown = None;
    let cases = [
        (at(25, 2), Some(at(25, 2))),
        (at(-1, -1), unknown),
        (at(-1, 2), unknown),
        (at(40, -1), unknown),
    ];
    for (end, parted) in cases {
        let (mut subscription, x, now) = reading();
        subscription.seek(&x, at(30, 2));
        assert_eq!(subscription.validations_due(now).len(), 1);
        let lost = subscription.validation_done(&x, at(30, 2), end);
        assert_eq!(lost.map(|lost| (lost.position, lost.parted)), Some((at(30, 2), parted)));
        let older = subscription.validation_done(&x, at(31, 2), end);
        assert!(older.is_none(), "an older question");
        assert_eq!(subscription.fetchable(now, 1).len(), 0);
    }
}

#[test]
fn what_was_fetched_of_a_log_that_was_cut_is_dropped_and_what_was_handed_out_asked_about() {
    let (mut subscription, x, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    let state = subscription.get_mut(&x).expect("it is assigned");
    state.fetched(&cursor, at(30, 3), Watermarks::default());
    assert!(cursor.advance(at(20, 3)).is_some());
    subscription.see_leaders(|_| Some(leader(2, 4)));
    assert!(subscription.validation_done(&x, at(30, 3), at(25, 3)).is_none());
    assert!(cursor.is_retired());
    assert_eq!(subscription.validations_due(now), [(x.clone(), at(20, 3))]);
    assert!(subscription.validation_done(&x, at(20, 3), at(25, 3)).is_none());
    assert_eq!(wish(&subscription, now).from, at(20, 3));
}

#[test]
fn a_leader_is_not_asked_again_while_its_answer_waits_for_the_caller() {
    let (mut subscription, x, now) = reading();
    subscription.seek(&x, at(30, 2));
    let lost = subscription.validation_done(&x, at(30, 2), at(-1, -1)).expect("it is lost");
    assert!(subscription.get_mut(&x).is_some_and(|state| state.stall(&lost.cursor)));
    assert_eq!(subscription.validations_due(now), []);
    subscription.get_mut(&x).expect("it is assigned").rewind();
    assert_eq!(subscription.validations_due(now), [(x, at(30, 2))]);
}

/// A caller may make an epoch up.
#[test]
fn an_epoch_that_no_leader_reaches_is_asked_about_after_a_while() {
    let (mut subscription, x, now) = reading();
    subscription.seek(&x, at(30, 9));
    assert_eq!(subscription.fetchable(now, 1).len(), 0);
    let only = std::slice::from_ref(&x);
    assert_eq!(subscription.old_leaders_due(now), only);
    let late = now + Duration::from_secs(30);
    let soon = late - Duration::from_millis(1);
    assert_eq!(subscription.validations_due(soon), []);
    assert_eq!(subscription.old_leaders_due(soon), only);
    assert_eq!(subscription.validations_due(late), [(x.clone(), at(30, 9))]);
    assert_eq!(subscription.old_leaders_due(late), []);
    subscription.see_leaders(|_| Some(leader(2, 8)));
    assert_eq!(subscription.old_leaders_due(late), only, "another leader, another wait");
}

#[test]
fn a_position_without_an_epoch_needs_no_validation() {
    let (mut subscription, _, now) = reading();
    subscription.see_leaders(|_| Some(leader(2, 9)));
    assert_eq!(wish(&subscription, now).leader, leader(2, 9));
}

#[test]
fn a_topic_that_was_made_again_has_its_leader_though_its_epoch_is_lower() {
    let (mut subscription, _, now) = reading();
    subscription.see_leaders(|_| Some(leader(1, 0)));
    assert_eq!(wish(&subscription, now).leader, leader(1, 0));
}

#[test]
fn only_what_earlier_calls_handed_out_is_to_be_committed() {
    let (mut subscription, x, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    assert_eq!(subscription.to_commit(), BTreeMap::new(), "it is committed already");
    assert!(cursor.finish_and_advance(at(11, 3)).is_some());
    assert_eq!(subscription.to_commit(), BTreeMap::new());
    assert!(cursor.finish_and_advance(at(15, 3)).is_some());
    assert_eq!(subscription.to_commit(), BTreeMap::from([(x.clone(), at(11, 3))]));
    cursor.finish();
    let done = subscription.to_commit();
    assert_eq!(done, BTreeMap::from([(x.clone(), at(15, 3))]));
    let made = subscription.made(&x, 15).expect("it is assigned");
    let mut older = made.clone();
    older.life -= 1;
    subscription.committed(&x, done[&x], &older);
    assert_eq!(subscription.to_commit(), done, "it was committed for what had the name before");
    subscription.committed(&x, done[&x], &made);
    assert_eq!(subscription.to_commit(), BTreeMap::new());
}

#[test]
fn a_rewind_fetches_again_what_was_not_handed_out() {
    let (mut subscription, x, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    let state = subscription.get_mut(&x).expect("it is assigned");
    state.fetched(&cursor, at(30, 3), Watermarks::default());
    assert!(cursor.finish_and_advance(at(12, 3)).is_some());
    state.rewind();
    assert_eq!(wish(&subscription, now).from, at(12, 3));
    assert_eq!(subscription.to_commit(), BTreeMap::new());
}

#[test]
fn keeping_only_some_partitions_leaves_their_places_alone() {
    let (mut subscription, x, now) = reading();
    let cursor = wish(&subscription, now).cursor;
    let next = BTreeSet::from([x.clone(), one("y-1")]);
    subscription.keep_only(&next, Status::Reset { timestamp: LATEST });
    assert!(!cursor.is_retired());
    assert_eq!(subscription.assigned(), [x, one("y-1")]);
    subscription.keep_only(&BTreeSet::new(), Status::Committed);
    assert!(cursor.is_retired());
    assert!(subscription.is_empty());
}

#[test]
fn the_next_thing_due_is_the_first_that_waits() {
    let (mut subscription, x, now) = reading();
    let later = now + Duration::from_millis(50);
    assert_eq!(subscription.next_due(now), None);
    subscription.retry_later(&x, later);
    assert_eq!(subscription.next_due(now), Some(later));
    assert_eq!(subscription.next_due(later), None);
}

/// What was committed of the former topic was taken for a commit of the new one: 10 was 10, and
/// nothing was committed. Its position was one of the new topic, too.
#[test]
fn of_a_topic_that_was_made_again_nothing_is_known() {
    let id = |number: u8| Some(Uuid::from_random([number; 16]));
    let (mut subscription, x, now) = reading();
    let reset = Status::Reset { timestamp: EARLIEST };
    subscription.see_topics(|_| id(1), reset);
    let cursor = wish(&subscription, now).cursor;
    let made = subscription.made(&x, 10).expect("it is assigned");
    subscription.see_topics(|_| id(1), reset);
    subscription.see_topics(|_| Some(Uuid::ZERO), reset);
    subscription.see_topics(|_| None, reset);
    assert!(!cursor.is_retired(), "the same topic, or a broker that tells no ids");
    subscription.see_topics(|_| id(2), reset);
    assert!(cursor.is_retired());
    assert_eq!(subscription.fetchable(now, 1).len(), 0, "it is not known where to begin");
    let wish = subscription.resets_due(now).remove(0);
    subscription.reset_done(&ResetWish { number: 0, ..wish.clone() }, 7, 0);
    assert_eq!(subscription.fetchable(now, 1).len(), 0, "that was the start of the former one");
    subscription.reset_done(&wish, 0, 0);
    subscription.get(&x).expect("it is assigned").cursor().pass(at(10, 0));
    subscription.committed(&x, at(10, 0), &made);
    assert_eq!(subscription.to_commit(), BTreeMap::from([(x, at(10, 0))]));
}

/// A record of the former topic could be committed for the new one, so later readers skipped its
/// first records.
#[test]
fn records_of_the_former_topic_of_a_name_are_not_committed_for_the_new_one() {
    let id = |number: u8| Some(Uuid::from_random([number; 16]));
    let x = TopicPartition::new("x", 0);
    let mut subscription = Subscription::new();
    subscription.add_held([(x.clone(), 7)], Status::Committed);
    subscription.see_topics(|_| id(1), Status::Committed);
    subscription.start_at_committed(&x, None, Some(EARLIEST));
    assert!(subscription.may_commit(&x, 7));
    subscription.see_topics(|_| id(2), Status::Committed);
    assert!(!subscription.may_commit(&x, 7), "that was another topic");
    let tenure = subscription.get(&x).expect("it is assigned").cursor().tenure();
    assert!(subscription.may_commit(&x, tenure));
    assert!(subscription.may_commit(&x, NO_TENURE), "an offset without a record");
    subscription.seek(&x, at(3, 0));
    assert_eq!(subscription.get(&x).expect("it is assigned").cursor().tenure(), tenure);
    subscription.remove([&x]);
    subscription.add_held([(x.clone(), 7)], Status::Committed);
    assert!(!subscription.may_commit(&x, 7), "a rebalance does not bring the former topic back");
    assert!(subscription.may_commit(&x, tenure), "it was held all the time");
    subscription.see_topics(|_| id(2), Status::Committed);
    subscription.see_topics(|_| id(3), Status::Committed);
    subscription.remove([&x]);
    subscription.add_held([(x.clone(), 7)], Status::Committed);
    assert!(!subscription.may_commit(&x, 7) && !subscription.may_commit(&x, tenure));
    subscription.remove([&x]);
    subscription.add_held([(x.clone(), 9)], Status::Committed);
    assert!(subscription.may_commit(&x, 9), "the group gave it once more");
    subscription.see_topics(|_| id(3), Status::Committed);
    subscription.remove([&x]);
    subscription.add_held([(x.clone(), 9)], Status::Committed);
    subscription.see_topics(|_| id(3), Status::Committed);
    assert!(subscription.may_commit(&x, 9), "it is the same topic");
    subscription.remove([&x]);
    subscription.add_held([(x.clone(), 9)], Status::Committed);
    subscription.see_topics(|_| id(4), Status::Committed);
    assert!(!subscription.may_commit(&x, 9), "it was created again while no member held it");
}

#[test]
fn of_a_topic_that_was_made_again_the_position_stays_where_no_policy_says_how_to_begin() {
    let id = |number: u8| Some(Uuid::from_random([number; 16]));
    let (mut subscription, x, now) = reading();
    subscription.see_topics(|_| id(1), Status::NoPosition);
    let made = subscription.made(&x, 30).expect("it is assigned");
    subscription.committed(&x, at(30, 0), &made);
    subscription.see_topics(|_| id(2), Status::NoPosition);
    subscription.committed(&x, at(30, 0), &made);
    assert_eq!(wish(&subscription, now).from, Position::at(10));
    assert_eq!(subscription.to_commit().get(&x), Some(&Position::at(10)), "it is not committed");
}
