//! What a member of a group may still commit.

use kafkalite_connection::Wanted;
use kafkalite_connection::testing::metadata;
use kafkalite_protocol::Uuid;
use kafkalite_protocol::messages::metadata::MetadataRequest;

use super::commits::at_three;
use super::*;
use crate::consumer::assignors::protocol::encode_assignment;
use crate::consumer::cursor::NO_TENURE;
use crate::consumer::group_state::Joined;

fn y() -> TopicPartition {
    TopicPartition::new("y", 0)
}

/// What a member shares that wants `x` and has joined.
fn member_of_x(broker: &FakeBroker) -> Arc<Shared> {
    let config = consumer(broker, &[("group.id", "g")]).config().clone();
    let member = member_config(&config).map(|config| GroupMember::new(config, Instant::now()));
    let shared = Shared::new(config, member);
    shared.subscription.lock().set_wish(Wish::Topics(BTreeSet::from([Arc::from("x")])));
    join(&shared);
    shared
}

fn join(shared: &Shared) {
    let now = Instant::now();
    let mut member = shared.member.as_ref().expect("it has a group").lock();
    member.want(BTreeSet::from([Arc::from("x")]), now);
    while !matches!(member.next(now), Action::Join { .. }) {
        member.coordinator_found(now);
    }
    let joined = Joined {
        generation: 1,
        member_id: "me".to_owned(),
        protocol: "range".to_owned(),
        leader: "other".to_owned(),
        skip_assignment: false,
        members: Vec::new(),
    };
    member.joined(joined, now);
}

fn refusal(shared: &Shared, partition: TopicPartition, tenure: u64) -> Option<ErrorCode> {
    Due::given(shared, vec![at_three(partition, tenure)]).err()?.code()
}

/// A member that had lost a partition committed what it had read: that took back the commits of the
/// partition's next owner.
#[test]
fn what_is_not_held_any_more_is_not_committed() {
    let broker = broker(Log { start: 0, end: 4, epoch: 0 });
    let shared = member_of_x(&broker);
    let held = |tenure| {
        shared.subscription.lock().add_held([(x(), tenure)], Status::NoPosition);
    };
    let refused = Some(ErrorCode::IllegalGeneration);
    held(7);
    assert_eq!(refusal(&shared, x(), 7), None);
    assert_eq!(refusal(&shared, x(), NO_TENURE), None);
    shared.subscription.lock().remove(&[x()]);
    assert_eq!(refusal(&shared, x(), 7), refused);
    assert_eq!(refusal(&shared, x(), NO_TENURE), refused);
    held(8);
    assert_eq!(refusal(&shared, x(), 7), refused, "others may have had it in between");
    assert_eq!(refusal(&shared, x(), 8), None);
    assert_eq!(refusal(&shared, x(), NO_TENURE), None);
    assert_eq!(refusal(&shared, y(), NO_TENURE), None, "it never had it: the coordinator decides");
}

/// After max.poll.interval.ms the partitions were gone, nothing was left to be committed, and
/// `commit()` returned as if all were well.
#[test]
fn a_removed_member_gets_an_error_when_it_commits_what_it_read() {
    let broker = broker(Log { start: 0, end: 4, epoch: 0 });
    let shared = member_of_x(&broker);
    let member = shared.member.as_ref().expect("it has a group");
    shared.subscription.lock().add_held([(x(), 7)], Status::NoPosition);
    shared.subscription.lock().seek(&x(), Position::at(3));
    let due = |shared: &Shared| Due::handed_out(shared).map(|due| due.offsets.len());
    let code = |shared: &Shared| due(shared).err().and_then(|error| error.code());
    assert_eq!(due(&shared), Ok(1));
    member.lock().leave("max.poll.interval.ms is over");
    assert_eq!(code(&shared), Some(ErrorCode::UnknownMemberId), "before it was noticed");
    shared.apply(&GroupEvent::Lost(vec![x()]), &member.lock());
    assert_eq!(code(&shared), Some(ErrorCode::UnknownMemberId), "the partition is gone");
    join(&shared);
    assert_eq!(code(&shared), Some(ErrorCode::UnknownMemberId), "a new member commits nothing old");
    shared.reads_on();
    assert_eq!(due(&shared), Ok(0), "the next call that reads ends that");
}

#[test]
fn what_is_given_up_for_a_rebalance_may_be_committed_if_it_comes_back() {
    let broker = broker(Log { start: 0, end: 4, epoch: 0 });
    let shared = member_of_x(&broker);
    let tenure = {
        let mut member = shared.member.as_ref().expect("it has a group").lock();
        let now = Instant::now();
        assert!(matches!(member.next(now), Action::Sync { .. }));
        member.synced(encode_assignment(1, &[x()]), now);
        let event = member.show_event().expect("it was assigned");
        shared.apply(&event, &member);
        member.acknowledge();
        member.tenure(&x())
    };
    assert_eq!(refusal(&shared, x(), tenure), None);
    shared.subscription.lock().remove(&[x()]);
    for known in [tenure, NO_TENURE] {
        assert_eq!(refusal(&shared, x(), known), Some(ErrorCode::RebalanceInProgress));
    }
    assert_eq!(refusal(&shared, x(), tenure + 1), Some(ErrorCode::IllegalGeneration));
}

/// Between the end of a rebalance and the next metadata a record of the former topic could be
/// committed for the new one.
#[test]
fn of_a_topic_that_was_made_again_during_a_rebalance_nothing_that_was_read_is_committed() {
    let broker = FakeBroker::start(|asked| {
        if !asked.is(ApiKey::Metadata) {
            return Answer::Usual;
        }
        let mut response = metadata(&asked.place, ["x".to_owned()].into_iter());
        response.topics[0].topic_id = Uuid([1 + asked.before as u8; 16]);
        asked.answer::<MetadataRequest>(&response)
    });
    let shared = member_of_x(&broker);
    let runtime = Runtime::start("test").expect("a thread");
    let hear = || {
        let cluster = shared.cluster.clone();
        let names = vec!["x".to_owned()];
        let heard = async move { Ok(cluster.refresh(Wanted::Topics(names)).await.map(drop)?) };
        assert_eq!(runtime.call(heard, soon()), Ok(()));
    };
    hear();
    let mut member = shared.member.as_ref().expect("it has a group").lock();
    let now = Instant::now();
    assert!(matches!(member.next(now), Action::Sync { .. }));
    member.synced(encode_assignment(1, &[x()]), now);
    let event = member.show_event().expect("it was assigned");
    shared.apply(&event, &member);
    member.acknowledge();
    let tenure = member.tenure(&x());
    drop(member);
    assert_eq!(refusal(&shared, x(), tenure), None);
    let again = |is_made_again: bool| {
        let member = shared.member.as_ref().expect("it has a group").lock();
        shared.apply(&GroupEvent::Revoke(vec![x()]), &member);
        if is_made_again {
            hear();
        }
        shared.apply(&GroupEvent::Assign(vec![x()]), &member);
    };
    again(false);
    assert_eq!(refusal(&shared, x(), tenure), None, "it is the same topic");
    again(true);
    assert_eq!(refusal(&shared, x(), tenure), Some(ErrorCode::IllegalGeneration));
}

/// It was committed for the next topic of the name, whose first records were then skipped.
#[test]
fn of_a_former_topic_nothing_that_was_read_by_hand_is_committed() {
    let broker = broker(Log { start: 0, end: 4, epoch: 0 });
    let shared = Shared::new(consumer(&broker, &[("group.id", "g")]).config().clone(), None);
    let tenure = || shared.subscription.lock().get(&x()).map(|state| state.cursor().tenure());
    let assign = |partitions: &[TopicPartition]| {
        let partitions = partitions.iter().cloned().collect();
        shared.subscription.lock().keep_only(&partitions, Status::Committed);
    };
    let hear = |id: u8| {
        shared.subscription.lock().see_topics(|_| Some(Uuid([id; 16])), Status::Committed);
    };
    shared.subscription.lock().set_wish(Wish::Assigned);
    assign(&[x()]);
    hear(1);
    let of_first = tenure().expect("it is assigned");
    assign(&[]);
    assign(&[x()]);
    hear(1);
    for known in [of_first, NO_TENURE] {
        assert_eq!(refusal(&shared, x(), known), None, "it is the same topic");
    }
    hear(2);
    let of_second = tenure().expect("it is assigned");
    assert_eq!(refusal(&shared, x(), of_first), Some(ErrorCode::UnknownTopicId));
    assert_eq!(refusal(&shared, x(), of_second), None);
    assign(&[]);
    assign(&[x()]);
    hear(3);
    assert_eq!(refusal(&shared, x(), of_second), Some(ErrorCode::UnknownTopicId));
}

#[test]
fn a_member_that_has_not_joined_yet_has_nothing_to_commit() {
    let broker = broker(Log { start: 0, end: 4, epoch: 0 });
    let shared = member_of_x(&broker);
    shared.member.as_ref().expect("it has a group").lock().leave("as before its first join");
    assert_eq!(Due::handed_out(&shared).map(|due| due.offsets.len()), Ok(0));
}
