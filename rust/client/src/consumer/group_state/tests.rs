use super::*;
use crate::consumer::assignors::protocol::{
    decode_subscription, encode_assignment, encode_subscription,
};
use crate::consumer::cursor::NO_TENURE;

mod properties;

const MS: Duration = Duration::from_millis(1);

fn config(assignors: &[Assignor]) -> MemberConfig {
    MemberConfig {
        group_id: "g".to_owned(),
        instance_id: None,
        assignors: assignors.to_vec(),
        session_timeout: 45_000 * MS,
        heartbeat_interval: 3_000 * MS,
        max_poll_interval: 300_000 * MS,
        retry_backoff: Backoff { initial: 100 * MS, max: 1_000 * MS },
        rack: None,
    }
}

fn partitions(text: &str) -> Vec<TopicPartition> {
    text.split_whitespace()
        .map(|one| {
            let (topic, number) = one.rsplit_once('-').expect("the tests write topic-partition");
            TopicPartition::new(topic, number.parse().expect("the tests write numbers"))
        })
        .collect()
}

fn topics(names: &str) -> BTreeSet<Arc<str>> {
    names.split_whitespace().map(Arc::from).collect()
}

/// A member and the time it lives in.
struct Run {
    member: GroupMember,
    now: Instant,
}

impl Run {
    fn of(config: MemberConfig) -> Self {
        let now = Instant::now();
        let mut member = GroupMember::new(config, now);
        member.want(topics("x"), now);
        Self { member, now }
    }

    fn eager() -> Self {
        Self::of(config(&[Assignor::Range]))
    }

    fn cooperative() -> Self {
        Self::of(config(&[Assignor::CooperativeSticky]))
    }

    fn next(&mut self) -> Action {
        self.member.next(self.now)
    }

    fn pass(&mut self, ms: u32) {
        self.now += ms * MS;
    }

    /// Shows every event, and says what they were.
    fn see(&mut self) -> Vec<GroupEvent> {
        let mut seen = Vec::new();
        while let Some(event) = self.member.show_event() {
            seen.push(event);
            self.member.acknowledge();
        }
        seen
    }

    fn find(&mut self) {
        assert_eq!(self.next(), Action::FindCoordinator);
        self.member.coordinator_found(self.now);
    }

    /// Joins as a follower and gets `assigned`.
    fn join(&mut self, generation: i32, assigned: &str) {
        let Action::Join { .. } = self.next() else { panic!("it does not join") };
        self.member.joined(joined(generation, "other", Vec::new()), self.now);
        let Action::Sync { assignments, .. } = self.next() else { panic!("it does not sync") };
        assert_eq!(assignments, Vec::new());
        self.member.synced(encode_assignment(1, &partitions(assigned)), self.now);
    }

    fn heartbeat(&mut self, code: ErrorCode) {
        self.pass(3_000);
        assert_eq!(self.next(), Action::Heartbeat);
        self.member.heartbeat_answered(code, self.now);
    }
}

fn joined(generation: i32, leader: &str, members: Vec<JoinedMember>) -> Joined {
    Joined {
        generation,
        member_id: "me".to_owned(),
        protocol: "range".to_owned(),
        leader: leader.to_owned(),
        skip_assignment: false,
        members,
    }
}

/// A stable member of generation 1 that holds `assigned`.
fn stable(mut run: Run, assigned: &str) -> Run {
    run.find();
    run.join(1, assigned);
    assert_eq!(run.see(), [GroupEvent::Assign(partitions(assigned))]);
    assert!(run.member.is_settled());
    run
}

#[test]
fn a_new_member_finds_its_coordinator_joins_syncs_and_owns_what_it_has_seen() {
    let mut run = Run::eager();
    run.find();
    run.join(1, "x-0 x-2");
    assert!(run.member.owned().is_empty(), "no caller has seen it yet");
    assert_eq!(run.see(), [GroupEvent::Assign(partitions("x-0 x-2"))]);
    assert_eq!(run.member.owned().len(), 2);
    let due = run.now + 3_000 * MS;
    assert_eq!(run.next(), Action::Wait(Some(due)));
}

#[test]
fn a_member_without_an_id_joins_again_with_the_one_it_was_given() {
    let mut run = Run::eager();
    run.find();
    assert!(matches!(run.next(), Action::Join { member_id, .. } if member_id.is_empty()));
    run.member.join_failed(ErrorCode::MemberIdRequired, "given", run.now);
    assert!(matches!(run.next(), Action::Join { member_id, .. } if member_id == "given"));
}

#[test]
fn a_leader_counts_deals_and_syncs_for_all() {
    let mut run = Run::eager();
    run.find();
    let Action::Join { protocols, .. } = run.next() else { panic!("it does not join") };
    let metadata = protocols[0].1.clone();
    let other = |id: &str| JoinedMember {
        member_id: id.to_owned(),
        instance_id: None,
        metadata: metadata.clone(),
    };
    let answer = joined(3, "me", vec![other("me"), other("you")]);
    assert_eq!(run.member.joined(answer, run.now), Action::CountPartitions(topics("x")));
    run.member.counted([(Arc::from("x"), 3)].into());
    let Action::Sync { protocol, assignments } = run.next() else { panic!("it does not sync") };
    assert_eq!(protocol, "range");
    let dealt = |part: &str| encode_assignment(3, &partitions(part));
    let expected = vec![("me".to_owned(), dealt("x-0 x-1")), ("you".to_owned(), dealt("x-2"))];
    assert_eq!(assignments, expected);
}

#[test]
fn a_leader_told_to_skip_the_assignment_hands_in_none() {
    let mut run = Run::eager();
    run.find();
    run.next();
    let answer = Joined { skip_assignment: true, ..joined(3, "me", Vec::new()) };
    run.member.joined(answer, run.now);
    run.member.counted([(Arc::from("x"), 3)].into());
    assert!(matches!(run.next(), Action::Sync { assignments, .. } if assignments.is_empty()));
}

#[test]
fn an_eager_member_gives_everything_up_before_it_joins_again() {
    let mut run = stable(Run::eager(), "x-0 x-1");
    run.heartbeat(ErrorCode::RebalanceInProgress);
    assert!(!matches!(run.next(), Action::Join { .. }), "no caller has seen the revocation");
    assert_eq!(run.see(), [GroupEvent::Revoke(partitions("x-0 x-1"))]);
    run.join(2, "x-1");
    assert_eq!(run.see(), [GroupEvent::Assign(partitions("x-1"))]);
}

#[test]
fn heartbeats_go_on_while_the_user_has_not_seen_the_revocation() {
    let mut run = stable(Run::eager(), "x-0");
    run.heartbeat(ErrorCode::RebalanceInProgress);
    assert!(run.member.has_event() || matches!(run.next(), Action::Wait(_)));
    for _ in 0..5 {
        run.heartbeat(ErrorCode::RebalanceInProgress);
    }
    assert_eq!(run.see(), [GroupEvent::Revoke(partitions("x-0"))]);
    assert!(matches!(run.next(), Action::Join { .. }));
}

#[test]
fn a_cooperative_member_keeps_reading_while_it_joins_and_joins_once_more_without_what_moved() {
    let mut run = stable(Run::cooperative(), "x-0 x-1 x-2");
    run.heartbeat(ErrorCode::RebalanceInProgress);
    let Action::Join { protocols, .. } = run.next() else { panic!("it does not join") };
    let told = decode_subscription("me", None, protocols[0].1.clone()).expect("we wrote it");
    assert_eq!((told.owned, told.generation), (partitions("x-0 x-1 x-2"), 1));
    run.member.joined(joined(2, "other", Vec::new()), run.now);
    run.next();
    run.member.synced(encode_assignment(1, &partitions("x-0 x-1")), run.now);
    let seen = run.see();
    assert_eq!(seen, [GroupEvent::Revoke(partitions("x-2")), GroupEvent::Assign(Vec::new())]);
    assert_eq!(run.member.owned().len(), 2);
    run.join(3, "x-0 x-1");
    assert_eq!(run.see(), [GroupEvent::Assign(Vec::new())]);
    assert!(run.member.is_settled());
}

#[test]
fn a_member_that_is_not_known_any_more_loses_what_it_held_and_joins_as_a_new_one() {
    let mut run = stable(Run::cooperative(), "x-0");
    run.heartbeat(ErrorCode::UnknownMemberId);
    assert_eq!(run.see(), [GroupEvent::Lost(partitions("x-0"))]);
    assert!(matches!(run.next(), Action::Join { member_id, .. } if member_id.is_empty()));
    assert_eq!(run.member.membership(), None);
}

#[test]
fn a_lost_generation_keeps_the_members_id() {
    let mut run = stable(Run::eager(), "x-0");
    run.heartbeat(ErrorCode::IllegalGeneration);
    assert_eq!(run.see(), [GroupEvent::Lost(partitions("x-0"))]);
    assert!(matches!(run.next(), Action::Join { member_id, .. } if member_id == "me"));
}

#[test]
fn partitions_that_were_lost_while_their_assignment_was_looked_at_are_lost_after_it() {
    let mut run = Run::eager();
    run.find();
    run.join(1, "x-0");
    assert_eq!(run.member.show_event(), Some(GroupEvent::Assign(partitions("x-0"))));
    run.heartbeat(ErrorCode::UnknownMemberId);
    assert!(!matches!(run.next(), Action::Join { .. }), "the user still looks at it");
    run.member.acknowledge();
    assert_eq!(run.see(), [GroupEvent::Lost(partitions("x-0"))]);
    assert!(matches!(run.next(), Action::Join { .. }));
}

#[test]
fn partitions_that_were_lost_while_their_revocation_was_looked_at_are_shown_once() {
    let mut run = stable(Run::eager(), "x-0");
    run.heartbeat(ErrorCode::RebalanceInProgress);
    run.next();
    assert_eq!(run.member.show_event(), Some(GroupEvent::Revoke(partitions("x-0"))));
    run.heartbeat(ErrorCode::UnknownMemberId);
    run.member.acknowledge();
    assert_eq!(run.see(), []);
    assert!(matches!(run.next(), Action::Join { .. }));
}

#[test]
fn a_member_whose_user_does_not_come_back_leaves_and_returns_with_the_next_call() {
    let mut run = stable(Run::eager(), "x-0");
    for _ in 0..99 {
        run.heartbeat(ErrorCode::None);
    }
    run.pass(3_000);
    let expected = Action::Leave {
        member_id: "me".to_owned(),
        reason: "no call for max.poll.interval.ms".to_owned(),
    };
    assert_eq!(run.next(), expected);
    assert_eq!(run.next(), Action::Wait(None));
    run.member.user_called(run.now);
    assert_eq!(run.see(), [GroupEvent::Lost(partitions("x-0"))]);
    assert!(matches!(run.next(), Action::Join { member_id, .. } if member_id.is_empty()));
}

#[test]
fn a_static_member_never_says_goodbye() {
    let instance = MemberConfig { instance_id: Some("i".to_owned()), ..config(&[Assignor::Range]) };
    let mut run = stable(Run::of(instance), "x-0");
    assert_eq!(run.member.leave("close"), None);
    let mut dynamic = stable(Run::eager(), "x-0");
    assert!(matches!(dynamic.member.leave("close"), Some(Action::Leave { .. })));
    assert_eq!(dynamic.next(), Action::Wait(None));
}

#[test]
fn a_fenced_member_fails_finally() {
    let mut run = stable(Run::eager(), "x-0");
    run.heartbeat(ErrorCode::FencedInstanceId);
    assert_eq!(run.member.failure(), Some(ErrorCode::FencedInstanceId));
    assert_eq!(run.see(), [GroupEvent::Lost(partitions("x-0"))]);
    run.member.user_called(run.now);
    assert_eq!(run.next(), Action::Wait(None));
    run.member.leave("unsubscribed");
    assert_eq!(run.member.failure(), None);
}

#[test]
fn another_coordinator_is_looked_for_after_a_wait_and_the_member_goes_on() {
    let mut run = stable(Run::eager(), "x-0");
    run.heartbeat(ErrorCode::NotCoordinator);
    assert!(matches!(run.next(), Action::Wait(Some(at)) if at > run.now));
    run.pass(150);
    run.find();
    assert_eq!(run.see(), []);
    run.heartbeat(ErrorCode::None);
    assert!(run.member.is_settled());
}

#[test]
fn a_coordinator_lost_during_a_rebalance_is_found_again_and_joined_again() {
    for lost_in_sync in [false, true] {
        let mut run = Run::eager();
        run.find();
        run.next();
        if lost_in_sync {
            run.member.joined(joined(1, "other", Vec::new()), run.now);
            assert!(matches!(run.next(), Action::Sync { .. }));
        }
        run.member.coordinator_lost(run.now);
        run.pass(150);
        run.find();
        assert!(matches!(run.next(), Action::Join { .. }), "{lost_in_sync}");
    }
}

#[test]
fn a_sync_that_is_refused_leads_to_another_join() {
    for code in [ErrorCode::RebalanceInProgress, ErrorCode::CoordinatorLoadInProgress] {
        let mut run = Run::eager();
        run.find();
        run.next();
        run.member.joined(joined(1, "other", Vec::new()), run.now);
        assert!(matches!(run.next(), Action::Sync { .. }));
        run.member.sync_failed(code, run.now);
        run.pass(150);
        assert!(matches!(run.next(), Action::Join { .. }), "{code:?}");
    }
}

#[test]
fn a_change_of_wishes_joins_again_and_gives_up_what_is_not_wanted() {
    let mut run = stable(Run::cooperative(), "x-0");
    run.member.want(topics("y"), run.now);
    run.next();
    assert_eq!(run.see(), [GroupEvent::Revoke(partitions("x-0"))]);
    let Action::Join { protocols, .. } = run.next() else { panic!("it does not join") };
    let told = decode_subscription("me", None, protocols[0].1.clone()).expect("we wrote it");
    assert_eq!((told.topics, told.owned), (topics("y"), Vec::new()));
}

/// Has this member lead a generation of its own: `x`, of which it is assigned `assigned`.
fn lead(run: &mut Run, generation: i32, counts: PartitionCounts, assigned: &str) {
    let metadata = encode_subscription(&MemberSubscription {
        topics: topics("x"),
        ..MemberSubscription::default()
    });
    let me = JoinedMember { member_id: "me".to_owned(), instance_id: None, metadata };
    run.next();
    run.member.joined(joined(generation, "me", vec![me]), run.now);
    run.member.counted(counts);
    run.next();
    run.member.synced(encode_assignment(1, &partitions(assigned)), run.now);
    run.see();
}

#[test]
fn a_leader_joins_again_when_a_topic_grew_and_a_follower_does_not() {
    let mut run = Run::eager();
    run.find();
    lead(&mut run, 1, [(Arc::from("x"), 1)].into(), "x-0");
    run.member.see_counts(|_| Some(1));
    assert!(run.member.is_settled());
    run.member.see_counts(|_| Some(2));
    run.next();
    assert_eq!(run.see(), [GroupEvent::Revoke(partitions("x-0"))]);

    let mut follower = stable(Run::eager(), "x-0");
    follower.member.see_counts(|_| Some(2));
    assert!(follower.member.is_settled());
}

#[test]
fn a_leader_joins_again_when_a_topic_is_deleted_and_not_while_it_stays_away() {
    let mut run = Run::eager();
    run.find();
    lead(&mut run, 1, [(Arc::from("x"), 1)].into(), "x-0");
    run.member.see_counts(|_| None);
    assert!(run.member.is_settled(), "no answer said that it is gone");
    run.member.see_counts(|_| Some(0));
    run.next();
    assert_eq!(run.see(), [GroupEvent::Revoke(partitions("x-0"))]);

    lead(&mut run, 2, [].into(), "");
    run.member.see_counts(|_| Some(0));
    assert!(run.member.is_settled());
}

#[test]
fn a_sticky_member_tells_what_it_had_though_it_gave_it_up() {
    let mut run = stable(Run::of(config(&[Assignor::Sticky])), "x-0 x-3");
    run.heartbeat(ErrorCode::RebalanceInProgress);
    run.next();
    run.see();
    let Action::Join { protocols, .. } = run.next() else { panic!("it does not join") };
    let told = decode_subscription("me", None, protocols[0].1.clone()).expect("we wrote it");
    let data = crate::consumer::assignors::protocol::read_sticky_data(told.user_data.as_ref());
    assert_eq!(data, (partitions("x-0 x-3"), 1));
    assert_eq!(told.owned, Vec::new());
}

#[test]
fn a_refused_commit_counts_as_a_refused_heartbeat_of_the_same_generation_only() {
    let mut run = stable(Run::eager(), "x-0");
    run.member.commit_refused(ErrorCode::UnknownMemberId, 0, run.now);
    run.member.commit_refused(ErrorCode::RebalanceInProgress, 1, run.now);
    assert!(run.member.is_settled());
    run.member.commit_refused(ErrorCode::UnknownMemberId, 1, run.now);
    assert_eq!(run.see(), [GroupEvent::Lost(partitions("x-0"))]);
}

#[test]
fn an_assignment_of_topics_that_are_not_wanted_any_more_is_taken_without_them() {
    let mut run = Run::eager();
    run.find();
    run.join(1, "x-0 gone-0");
    assert_eq!(run.see(), [GroupEvent::Assign(partitions("x-0"))]);
    run.next();
    assert_eq!(run.see(), [GroupEvent::Revoke(partitions("x-0"))], "and it joins again");
}

#[test]
fn an_assignment_that_cannot_be_read_is_asked_for_again() {
    let mut run = Run::eager();
    run.find();
    run.next();
    run.member.joined(joined(1, "other", Vec::new()), run.now);
    run.next();
    run.member.synced(Bytes::from_static(&[0, 1, 2]), run.now);
    assert_eq!(run.see(), []);
    run.pass(150);
    assert!(matches!(run.next(), Action::Join { .. }));
}

/// Others may have committed for a partition between two times of holding it.
#[test]
fn a_tenure_lasts_as_long_as_no_other_member_can_have_had_the_partition() {
    let x0 = &partitions("x-0")[0];
    type Interlude = fn(&mut Run);
    let cases: [(&str, bool, Interlude); 4] = [
        ("the next generation", true, |run| run.join(2, "x-0")),
        ("a generation that it took no part in", false, |run| run.join(3, "x-0")),
        ("a generation in which another had it", false, |run| {
            run.join(2, "x-1");
            run.see();
            run.heartbeat(ErrorCode::RebalanceInProgress);
            assert!(matches!(run.next(), Action::Heartbeat | Action::Wait(_)));
            run.see();
            run.join(3, "x-0");
        }),
        ("it was thrown out", false, |run| {
            run.member.lose_generation();
            run.see();
            run.join(2, "x-0");
        }),
    ];
    for (what, lasts, interlude) in cases {
        let mut run = stable(Run::eager(), "x-0");
        let first = run.member.tenure(x0);
        run.heartbeat(ErrorCode::RebalanceInProgress);
        assert!(matches!(run.next(), Action::Wait(_)), "it gives up what it holds");
        assert_eq!(run.see(), [GroupEvent::Revoke(partitions("x-0"))]);
        interlude(&mut run);
        assert_eq!(run.member.tenure(x0) == first, lasts, "{what}");
        assert_ne!(run.member.tenure(x0), NO_TENURE, "{what}");
    }
}

/// A topic that the member may not commit for ended its membership; a removed topic delayed its
/// heartbeats.
#[test]
fn a_commit_that_is_refused_for_one_partition_tells_nothing_of_the_membership() {
    for code in [ErrorCode::TopicAuthorizationFailed, ErrorCode::UnknownTopicOrPartition] {
        let mut run = stable(Run::eager(), "x-0");
        run.member.commit_refused(code, 1, run.now);
        assert!(run.member.is_settled(), "{code:?}");
        assert_eq!(run.member.failure(), None, "{code:?}");
        run.heartbeat(ErrorCode::None);
    }
}
