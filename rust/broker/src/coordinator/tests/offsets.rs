//! Commits: when they are answered, when they are seen, when they go.

use super::groups::stable;
use super::*;

#[test]
fn a_commit_is_answered_and_seen_when_it_is_committed() {
    let broker = Broker::new();
    broker.topic.inner.lock().holds = true;
    let got = broker.commit("g", "t", 5);
    assert!(got.lock().is_none());
    assert_eq!(broker.committed("g", "t"), None);
    broker.topic.commit();
    assert_eq!(taken(&got), [ErrorCode::None]);
    assert_eq!(broker.committed("g", "t"), Some(5));
}

#[test]
fn a_commit_that_cannot_be_stored_is_refused() {
    let broker = Broker::new();
    for (log, told) in [
        (ErrorCode::KafkaStorageError, ErrorCode::NotCoordinator),
        (ErrorCode::NotEnoughReplicas, ErrorCode::CoordinatorNotAvailable),
        (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
    ] {
        broker.topic.inner.lock().fails = Some(log);
        assert_eq!(taken(&broker.commit("g", "t", 5)), [told]);
        assert_eq!(broker.committed("g", "t"), None);
    }
}

/// Its record is in the log, so a restart finds it. Once such a commit stayed invisible until the
/// restart: a consumer read the older offset, committed less, and jumped ahead when the broker
/// started again.
#[test]
fn a_commit_that_takes_too_long_is_refused_and_seen_when_it_is_committed() {
    let broker = Broker::new();
    broker.commit("g", "t", 5);
    broker.topic.inner.lock().holds = true;
    let got = broker.commit("g", "t", 6);
    broker.pass(5_000);
    assert_eq!(taken(&got), [ErrorCode::CoordinatorNotAvailable]);
    assert_eq!(broker.committed("g", "t"), Some(5));
    broker.topic.commit();
    assert!(got.lock().is_none(), "it is answered once");
    assert_eq!(broker.committed("g", "t"), Some(6));
    assert_eq!(broker.restarted().committed("g", "t"), Some(6));
}

#[test]
fn a_commit_that_was_late_and_then_lost_is_never_seen() {
    let broker = Broker::new();
    broker.topic.inner.lock().holds = true;
    let got = broker.commit("g", "t", 6);
    broker.pass(5_000);
    broker.topic.depose();
    assert_eq!(taken(&got), [ErrorCode::CoordinatorNotAvailable]);
    assert_eq!(broker.groups.fetch("g", None), Err(ErrorCode::NotCoordinator));
}

#[test]
fn what_is_deleted_too_slowly_is_gone_when_that_is_committed() {
    let broker = Broker::new();
    broker.commit("g", "t", 5);
    broker.commit("h", "t", 5);
    broker.topic.inner.lock().holds = true;
    let (answer, offsets_deleted) = slot();
    broker.groups.delete_offsets("g", vec![("t".to_owned(), 0)], answer);
    let (answer, group_deleted) = slot();
    broker.groups.delete_groups(&["h".to_owned()], answer);
    broker.pass(5_000);
    let late = ErrorCode::CoordinatorNotAvailable;
    assert_eq!(taken(&offsets_deleted), Err(late));
    assert_eq!(taken(&group_deleted), [("h".to_owned(), late)]);
    assert_eq!(broker.committed("g", "t"), Some(5));
    broker.topic.commit();
    for broker in [&broker, &broker.restarted()] {
        assert_eq!((broker.committed("g", "t"), broker.committed("h", "t")), (None, None));
    }
}

#[test]
fn commits_are_judged_by_group_generation_and_metadata() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    let inside = Committer { group_id: "g".into(), generation: 1, member_id: member, ..outsider() };
    let in_group =
        |group: &str, version| Committer { group_id: group.into(), version, ..inside.clone() };
    let table = [
        (inside.clone(), ErrorCode::None),
        (Committer { generation: 2, ..inside.clone() }, ErrorCode::IllegalGeneration),
        (Committer { member_id: "x".into(), ..inside.clone() }, ErrorCode::UnknownMemberId),
        (Committer { group_id: "g".into(), ..outsider() }, ErrorCode::UnknownMemberId),
        (in_group("nope", 8), ErrorCode::IllegalGeneration),
        (in_group("nope", 9), ErrorCode::GroupIdNotFound),
        (Committer { group_id: String::new(), ..outsider() }, ErrorCode::None),
    ];
    for (who, error) in table {
        let (answer, got) = slot();
        broker.groups.commit(who.clone(), vec![one("t", 1)], answer);
        assert_eq!(taken(&got), [error], "{who:?}");
    }
    let long = Commit { metadata: Some("x".repeat(4_097)), ..one("long", 1) };
    let (answer, got) = slot();
    broker.groups.commit(inside, vec![long, one("short", 2)], answer);
    assert_eq!(taken(&got), [ErrorCode::OffsetMetadataTooLarge, ErrorCode::None]);
    assert_eq!(broker.committed("g", "short"), Some(2));
}

#[test]
fn deleting_offsets_spares_topics_that_are_read() {
    let broker = Broker::new();
    broker.commit("g", "orders", 1);
    broker.commit("g", "other", 1);
    stable(&broker, "g");
    let (answer, got) = slot();
    let partitions = ["orders", "other", "nothing"].map(|topic| (topic.to_owned(), 0)).to_vec();
    broker.groups.delete_offsets("g", partitions, answer);
    let expected = [ErrorCode::GroupSubscribedToTopic, ErrorCode::None, ErrorCode::None];
    assert_eq!(taken(&got).unwrap(), expected);
    assert_eq!((broker.committed("g", "orders"), broker.committed("g", "other")), (Some(1), None));
    for (group, error) in [("nope", ErrorCode::GroupIdNotFound), ("", ErrorCode::InvalidGroupId)] {
        let (answer, got) = slot();
        broker.groups.delete_offsets(group, Vec::new(), answer);
        assert_eq!(taken(&got), Err(error));
    }
}

#[test]
fn only_empty_groups_are_deleted_and_stay_deleted() {
    let broker = Broker::new();
    stable(&broker, "busy");
    broker.commit("idle", "t", 1);
    let (answer, got) = slot();
    let ids = ["busy", "idle", "nope"].map(str::to_owned);
    broker.groups.delete_groups(&ids, answer);
    let mut results = taken(&got);
    results.sort_by(|a, b| a.0.cmp(&b.0));
    let expected = [ErrorCode::NonEmptyGroup, ErrorCode::None, ErrorCode::GroupIdNotFound];
    assert_eq!(results.iter().map(|(_, error)| *error).collect::<Vec<_>>(), expected);
    assert_eq!(broker.committed("idle", "t"), None);
    assert_eq!(broker.restarted().committed("idle", "t"), None);
}

#[test]
fn a_group_whose_end_cannot_be_stored_lives_on() {
    let broker = Broker::new();
    broker.commit("g", "t", 1);
    broker.topic.inner.lock().fails = Some(ErrorCode::KafkaStorageError);
    let (answer, got) = slot();
    broker.groups.delete_groups(&["g".to_owned()], answer);
    assert_eq!(taken(&got), [("g".to_owned(), ErrorCode::NotCoordinator)]);
    assert_eq!(broker.committed("g", "t"), Some(1));
    assert_eq!(broker.groups.describe("g", 6).group_state, "Empty");
}

#[test]
fn a_group_is_dead_until_its_end_is_stored() {
    let broker = Broker::new();
    broker.commit("g", "t", 1);
    broker.topic.inner.lock().holds = true;
    let (answer, got) = slot();
    broker.groups.delete_groups(&["g".to_owned()], answer);
    let refused = broker.commit("g", "t", 2);
    assert_eq!(taken(&refused), [ErrorCode::CoordinatorNotAvailable]);
    broker.topic.commit();
    assert_eq!(taken(&got), [("g".to_owned(), ErrorCode::None)]);
    let accepted = broker.commit("g", "t", 3);
    broker.topic.commit();
    assert_eq!(taken(&accepted), [ErrorCode::None]);
}

/// A request of half a megabyte made a batch of 960 MB: each record has the group's id.
#[test]
fn what_is_larger_than_a_batch_may_be_is_refused_or_written_in_parts() {
    for holds in [false, true] {
        let broker = Broker::new();
        let settle = || broker.topic.commit();
        {
            let mut inner = broker.topic.inner.lock();
            (inner.max_batch_bytes, inner.holds) = (1_000, holds);
        }
        let commit = |group: &str, partitions: std::ops::Range<i32>| {
            let who = Committer { group_id: group.to_owned(), ..outsider() };
            let commits = partitions.map(|partition| Commit { partition, ..one("t", 7) });
            let (answer, got) = slot();
            broker.groups.commit(who, commits.collect(), answer);
            settle();
            taken(&got)
        };
        let long = "g".repeat(100);
        assert_eq!(commit(&long, 0..5), [ErrorCode::None; 5]);
        assert_eq!(commit(&long, 5..10), [ErrorCode::None; 5]);
        assert_eq!(commit(&long, 0..10), [ErrorCode::UnknownServerError; 10]);
        let before = broker.topic.batches();
        let (answer, got) = slot();
        let all = (0..10).chain(0..10).map(|partition| ("t".to_owned(), partition)).collect();
        broker.groups.delete_offsets(&long, all, answer);
        settle();
        assert_eq!(taken(&got), Ok(vec![ErrorCode::None; 20]));
        assert!(broker.topic.batches() > before + 1);
        assert_eq!(commit(&long, 0..5), [ErrorCode::None; 5]);
        assert_eq!(commit(&long, 5..10), [ErrorCode::None; 5]);
        let (answer, got) = slot();
        broker.groups.delete_groups(std::slice::from_ref(&long), answer);
        settle();
        assert_eq!(taken(&got), [(long.clone(), ErrorCode::None)]);
        let again = broker.restarted();
        assert!(again.groups.fetch(&long, None).unwrap().is_empty());
        assert!(again.groups.list(&[], &[]).1.is_empty());
    }
}

#[test]
fn a_deletion_that_fails_halfway_is_an_error_and_leaves_a_group_that_can_be_deleted() {
    let broker = Broker::new();
    broker.topic.inner.lock().max_batch_bytes = 150;
    for partition in 0..4 {
        let who = Committer { group_id: "g".to_owned(), ..outsider() };
        let (answer, got) = slot();
        broker.groups.commit(who, vec![Commit { partition, ..one("t", 7) }], answer);
        assert_eq!(taken(&got), [ErrorCode::None]);
    }
    let topic = Arc::clone(&broker.topic);
    let fail_the_second = move || {
        let inside = Arc::clone(&topic);
        let fail = move || inside.inner.lock().fails = Some(ErrorCode::KafkaStorageError);
        topic.inner.lock().on_append = Some(Box::new(fail));
    };
    broker.topic.inner.lock().on_append = Some(Box::new(fail_the_second));
    let before = broker.topic.batches();
    let (answer, got) = slot();
    broker.groups.delete_groups(&["g".to_owned()], answer);
    assert_eq!(taken(&got), [("g".to_owned(), ErrorCode::NotCoordinator)]);
    assert_eq!(broker.topic.batches(), before + 1);
    broker.topic.inner.lock().fails = None;
    let (answer, got) = slot();
    broker.groups.delete_groups(&["g".to_owned()], answer);
    assert_eq!(taken(&got), [("g".to_owned(), ErrorCode::None)]);
    assert!(broker.restarted().groups.list(&[], &[]).1.is_empty());
}

#[test]
fn offsets_expire_at_the_check_after_their_time() {
    let broker = Broker::new();
    broker.commit("g", "t", 1);
    broker.groups.start_expiry();
    broker.pass(600_000);
    assert_eq!(broker.committed("g", "t"), Some(1));
    broker.clock.advance_ms(604_800_000);
    broker.pass(600_000);
    assert_eq!(broker.committed("g", "t"), None);
    assert_eq!(broker.groups.list(&[], &[]).1.len(), 0);
    assert_eq!(broker.restarted().groups.list(&[], &[]).1.len(), 0);
}

const FORMER: Uuid = Uuid([1; 16]);
const LATER: Uuid = Uuid([2; 16]);

impl Broker {
    /// The name belongs to the topic with this id from now on, or to none.
    fn gives(&self, topic: &str, id: Option<Uuid>) {
        let ids = &mut self.topic.inner.lock().ids;
        ids.remove(topic);
        ids.extend(id.map(|id| (topic.to_owned(), id)));
    }

    fn commit_for(&self, id: Uuid, version: i16, offset: i64) -> ErrorCode {
        let who = Committer { group_id: "g".into(), version, ..outsider() };
        let (answer, got) = slot();
        self.groups.commit(who, vec![Commit { topic_id: id, ..one("t", offset) }], answer);
        taken(&got)[0]
    }
}

/// Topic ids were stored with offsets and never compared. Without a tombstone, as after a power
/// cut, a new topic of the name had the offset of the former topic.
#[test]
fn an_offset_is_not_one_of_the_next_topic_of_its_name() {
    let broker = Broker::new();
    broker.gives("t", Some(FORMER));
    assert_eq!(broker.commit_for(FORMER, 9, 5), ErrorCode::None);
    assert_eq!(broker.committed("g", "t"), Some(5));
    assert_eq!(broker.restarted().committed("g", "t"), Some(5));
    for id in [None, Some(LATER)] {
        broker.gives("t", id);
        for broker in [&broker, &broker.restarted()] {
            assert_eq!(broker.committed("g", "t"), None, "{id:?}");
            assert_eq!(broker.groups.fetch("g", None).unwrap(), [], "{id:?}");
        }
    }
    assert_eq!(broker.commit_for(LATER, 9, 0), ErrorCode::None);
    assert_eq!(broker.restarted().committed("g", "t"), Some(0));
}

/// The check for offsets of former topics found the old offset while a commit for the next topic of
/// the name was in flight. The tombstone followed that commit, and the acknowledged commit was
/// lost.
#[test]
fn a_commit_on_its_way_outlives_the_offset_of_the_former_topic() {
    let broker = Broker::new();
    broker.gives("t", Some(FORMER));
    assert_eq!(broker.commit_for(FORMER, 9, 5), ErrorCode::None);
    broker.gives("t", Some(LATER));
    broker.topic.inner.lock().holds = true;
    let (answer, got) = slot();
    let commit = Commit { topic_id: LATER, ..one("t", 7) };
    let who = Committer { group_id: "g".to_owned(), ..outsider() };
    broker.groups.commit(who, vec![commit], answer);
    broker.groups.expire();
    broker.topic.commit();
    broker.topic.inner.lock().holds = false;
    assert_eq!(taken(&got), [ErrorCode::None]);
    assert_eq!(broker.committed("g", "t"), Some(7));
    assert_eq!(broker.restarted().committed("g", "t"), Some(7));
}

/// The tombstone that the deletion could not store is stored by the next start.
#[test]
fn offsets_of_a_topic_that_is_gone_are_removed_when_they_are_loaded() {
    let broker = Broker::new();
    broker.gives("t", Some(FORMER));
    broker.commit_for(FORMER, 9, 5);
    broker.gives("t", None);
    let before = broker.topic.batches();
    drop(broker.restarted());
    assert_eq!(broker.topic.batches(), before + 1);
    drop(broker.restarted());
    assert_eq!(broker.topic.batches(), before + 1, "once");
}

/// A commit was accepted while its topic existed, and was stored after one for the next topic of
/// the name. The offset of the next topic was lost.
#[test]
fn a_commit_for_a_topic_that_is_gone_is_refused() {
    let broker = Broker::new();
    broker.gives("t", Some(LATER));
    assert_eq!(broker.commit_for(LATER, 9, 3), ErrorCode::None);
    for (version, error) in
        [(9, ErrorCode::UnknownTopicOrPartition), (10, ErrorCode::UnknownTopicId)]
    {
        assert_eq!(broker.commit_for(FORMER, version, 9), error);
    }
    for broker in [&broker, &broker.restarted()] {
        assert_eq!(broker.committed("g", "t"), Some(3));
    }
}
