use super::*;

fn wanted(name: &str, topic_id: u8, offset: i64) -> Wanted {
    let (topic, number) = name.rsplit_once('-').expect("the tests write topic-partition");
    let partition = TopicPartition::new(topic, number.parse().expect("the tests write numbers"));
    let from = Position::at(offset);
    Wanted {
        cursor: Arc::new(Cursor::new(partition, from)),
        topic_id: Uuid([topic_id; 16]),
        from,
        leader_epoch: 3,
        at_leader: true,
        may_be_sent_away: true,
        is_new: false,
    }
}

fn listed(request: &SessionRequest) -> Vec<String> {
    let name = |topic: &FetchTopic| {
        let numbers = topic.partitions.iter().map(|one| (one.partition, one.fetch_offset));
        format!("{}{:?}", topic.topic, numbers.collect::<Vec<_>>())
    };
    request.topics.iter().map(name).collect()
}

fn forgotten(request: &SessionRequest) -> Vec<String> {
    let name = |topic: &ForgottenTopic| format!("{}{:?}", topic.topic, topic.partitions);
    request.forgotten.iter().map(name).collect()
}

/// A session 7 that knows `x-0` at 10 and `y-1` at 20.
fn begun() -> FetchSession {
    let mut session = FetchSession::default();
    let first = session.next(vec![wanted("x-0", 1, 10), wanted("y-1", 2, 20)], true, 100);
    assert_eq!((first.session_id, first.session_epoch, first.by_id), (0, 0, true));
    assert_eq!(listed(&first), ["x[(0, 10)]", "y[(1, 20)]"]);
    session.answered(7);
    session
}

#[test]
fn a_fetch_in_a_session_lists_only_what_changed_and_what_is_not_wanted_any_more() {
    let mut session = begun();
    let next = session.next(vec![wanted("x-0", 1, 15), wanted("z-2", 3, 0)], true, 100);
    assert_eq!((next.session_id, next.session_epoch), (7, 1));
    assert_eq!(listed(&next), ["x[(0, 15)]", "z[(2, 0)]"]);
    assert_eq!(forgotten(&next), ["y[1]"]);
    session.answered(7);
    let same = session.next(vec![wanted("x-0", 1, 15), wanted("z-2", 3, 0)], true, 100);
    assert_eq!((same.session_epoch, same.topics.len(), same.forgotten.len()), (2, 0, 0));
}

/// What had no room in one answer had none in any, for as long as the first partitions had records.
#[test]
fn a_broker_that_keeps_no_session_is_asked_for_each_partition_first_in_its_turn() {
    let mut session = FetchSession::default();
    let mut next = || {
        let all = [("x-0", 1), ("x-1", 1), ("y-0", 2)].map(|(name, id)| wanted(name, id, 10));
        let request = session.next(all.to_vec(), true, 100);
        session.answered(0);
        listed(&request).join(" ")
    };
    assert_eq!(next(), "x[(0, 10), (1, 10)] y[(0, 10)]");
    assert_eq!(next(), "x[(1, 10)] y[(0, 10)] x[(0, 10)]");
    assert_eq!(next(), "y[(0, 10)] x[(0, 10), (1, 10)]");
    assert_eq!(next(), "x[(0, 10), (1, 10)] y[(0, 10)]");
}

#[test]
fn a_broker_that_keeps_no_session_gets_everything_every_time() {
    let mut session = FetchSession::default();
    for _ in 0..3 {
        let request = session.next(vec![wanted("x-0", 1, 10)], true, 100);
        assert_eq!((request.session_id, request.session_epoch), (0, 0));
        assert_eq!(listed(&request), ["x[(0, 10)]"]);
        session.answered(0);
    }
}

#[test]
fn a_lost_session_starts_again_with_everything() {
    let mut session = begun();
    session.restart();
    let request = session.next(vec![wanted("x-0", 1, 10)], true, 100);
    assert_eq!((request.session_id, request.session_epoch), (0, 0));
    assert_eq!((listed(&request).len(), request.forgotten.len()), (1, 0));
}

#[test]
fn a_topic_with_a_new_id_is_forgotten_by_its_old_one() {
    let mut session = begun();
    let next = session.next(vec![wanted("x-0", 9, 10), wanted("y-1", 2, 20)], true, 100);
    assert_eq!(listed(&next), ["x[(0, 10)]"]);
    assert_eq!(next.topics[0].topic_id, Uuid([9; 16]));
    assert_eq!(next.forgotten[0].topic_id, Uuid([1; 16]));
}

#[test]
fn one_topic_without_an_id_makes_a_session_by_name() {
    let mut session = begun();
    let next = session.next(vec![wanted("x-0", 0, 10), wanted("y-1", 2, 20)], true, 100);
    assert_eq!((next.session_epoch, next.by_id), (0, false));
    assert!(session.told("x", Uuid::ZERO, 0).is_some());
    assert!(!FetchSession::default().next(vec![wanted("x-0", 1, 0)], false, 1).by_id);
}

#[test]
fn answers_are_matched_with_what_was_asked_and_unknown_partitions_with_nothing() {
    let session = begun();
    assert!(session.told("", Uuid([1; 16]), 0).is_some_and(|one| one.from.offset == 10));
    assert!(session.told("", Uuid([1; 16]), 1).is_none());
    assert!(session.told("x", Uuid([8; 16]), 0).is_none());
}

/// The lag of a partition that was assigned again stayed unknown until a record came.
#[test]
fn a_partition_that_is_new_to_us_and_not_to_the_broker_begins_another_session() {
    let mut session = begun();
    let (x, y) = (wanted("x-0", 1, 10), wanted("y-1", 2, 20));
    let new = Wanted { is_new: true, ..x };
    let again = session.next(vec![new.clone(), y.clone()], true, 100);
    assert_eq!((again.session_id, again.session_epoch), (7, 0), "session 7 is closed");
    assert_eq!(listed(&again), ["x[(0, 10)]", "y[(1, 20)]"]);
    assert_eq!(again.forgotten, []);
    session.answered(8);
    // Also where the answer said nothing of it, once is enough.
    let next =
        session.next(vec![new, y, Wanted { is_new: true, ..wanted("z-0", 3, 0) }], true, 100);
    assert_eq!((next.session_id, next.session_epoch), (8, 1));
    assert_eq!(listed(&next), ["z[(0, 0)]"]);
}
