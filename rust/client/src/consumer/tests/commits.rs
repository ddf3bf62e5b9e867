//! Commits of a group's member.

use kafkalite_connection::testing::{NODE, OTHER, coordinator, coordinator_is};
use kafkalite_connection::{CoordinatorKind, Wanted};
use kafkalite_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use kafkalite_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};

use super::*;
use crate::consumer::commits::Committed;
use crate::consumer::cursor::NO_TENURE;
use crate::consumer::group_state::Joined;

/// A broker that is every group's coordinator, and else does what `script` says.
pub fn coordinated(script: impl Fn(&Asked) -> Answer + Send + Sync + 'static) -> FakeBroker {
    FakeBroker::start(move |asked| match asked.is(ApiKey::FindCoordinator) {
        true => coordinator(asked),
        false => script(asked),
    })
}

/// That a caller wants to commit the offset 3 of a partition, which it read in `tenure`.
pub fn at_three(partition: TopicPartition, tenure: u64) -> Claim {
    let committed = Committed { position: Position::at(3), metadata: String::new() };
    Claim { partition, committed, tenure }
}

/// Commits the offset 3 in `partitions`, without a tenure.
pub async fn commit_three(
    shared: Arc<Shared>,
    partitions: Vec<TopicPartition>,
    deadline: Instant,
) -> Result<(), ClientError> {
    let wanted = partitions.into_iter().map(|one| at_three(one, NO_TENURE)).collect();
    let due = Due::given(&shared, wanted)?;
    calls::commit(shared, due, deadline).await
}

/// The answer that the only partition's offset is committed.
pub fn committed(asked: &Asked) -> Answer {
    told(asked, ErrorCode::None)
}

/// The answer to the commit of the only partition's offset.
pub fn told(asked: &Asked, code: ErrorCode) -> Answer {
    let error_code = code as i16;
    let partitions = vec![OffsetCommitResponsePartition { error_code, ..Default::default() }];
    let topic =
        OffsetCommitResponseTopic { name: "x".to_owned(), partitions, ..Default::default() };
    let told = OffsetCommitResponse { topics: vec![topic], ..Default::default() };
    asked.answer::<OffsetCommitRequest>(&told)
}

/// The answer that the group has read `topics`.
pub fn fetched(asked: &Asked, topics: Vec<OffsetFetchResponseTopics>) -> Answer {
    let group_id = "g".to_owned();
    let group = OffsetFetchResponseGroup { group_id, topics, ..Default::default() };
    let told = OffsetFetchResponse { groups: vec![group], ..Default::default() };
    asked.answer::<OffsetFetchRequest>(&told)
}

#[test]
fn a_commit_that_an_answer_leaves_out_is_made_again() {
    let broker = coordinated(|asked| match asked.is(ApiKey::OffsetCommit) {
        true if asked.before == 0 => {
            asked.answer::<OffsetCommitRequest>(&OffsetCommitResponse::default())
        }
        true => committed(asked),
        false => Answer::Usual,
    });
    let consumer = consumer(&broker, &[("group.id", "g")]);
    let commit = commit_three(Arc::clone(consumer.shared()), vec![x()], soon());
    assert_eq!(consumer.runtime().call(commit, soon()), Ok(()));
    assert_eq!(broker.count(ApiKey::OffsetCommit), 2);
}

#[test]
fn a_commit_that_every_answer_leaves_out_fails() {
    let broker = coordinated(|asked| match asked.is(ApiKey::OffsetCommit) {
        true => asked.answer::<OffsetCommitRequest>(&OffsetCommitResponse::default()),
        false => Answer::Usual,
    });
    // There is no time for another try, which may be under way when the time is over.
    let late = [("retry.backoff.ms", "60000"), ("retry.backoff.max.ms", "60000")];
    let consumer = consumer(&broker, &[("group.id", "g"), late[0], late[1]]);
    let deadline = soon();
    let commit = commit_three(Arc::clone(consumer.shared()), vec![x()], deadline);
    let result = consumer.runtime().call(commit, soon());
    assert!(matches!(result, Err(ClientError::MalformedResponse { .. })), "{result:?}");
}

/// It was taken for "nothing is committed", and the partition was read from its start.
#[test]
fn a_committed_offset_that_an_answer_leaves_out_is_asked_for_again() {
    let broker = coordinated(|asked| {
        if !asked.is(ApiKey::OffsetFetch) {
            return Answer::Usual;
        }
        if asked.before == 0 {
            return fetched(asked, Vec::new());
        }
        let three = OffsetFetchResponsePartitions { committed_offset: 3, ..Default::default() };
        let name = "x".to_owned();
        let partitions = vec![three];
        fetched(asked, vec![OffsetFetchResponseTopics { name, partitions, ..Default::default() }])
    });
    let consumer = consumer(&broker, &[("group.id", "g")]);
    let ask = calls::committed(Arc::clone(consumer.shared()), vec![x()], soon());
    let told = consumer.runtime().call(ask, soon()).expect("the second answer is whole");
    assert_eq!(told[&x()].as_ref().map(|one| one.position.offset), Some(3));
}

fn join(member: &Mutex<GroupMember>, generation: i32) {
    let (mut member, now) = (member.lock(), Instant::now());
    member.want(BTreeSet::from([Arc::from("x")]), now);
    loop {
        match member.next(now) {
            Action::FindCoordinator => member.coordinator_found(now),
            Action::Join { .. } => break,
            other => panic!("it does not join: {other:?}"),
        }
    }
    let joined = Joined {
        generation,
        member_id: "me".to_owned(),
        protocol: "range".to_owned(),
        leader: "other".to_owned(),
        skip_assignment: false,
        members: Vec::new(),
    };
    member.joined(joined, now);
}

/// By the time of its turn another member may have the partitions, and have committed more.
#[test]
fn a_commit_that_waits_for_its_turn_is_of_the_generation_it_was_made_in() {
    let generations = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&generations);
    let broker = coordinated(move |asked| match asked.is(ApiKey::OffsetCommit) {
        true => {
            let request: OffsetCommitRequest = asked.read();
            told.lock().push(request.generation_id_or_member_epoch);
            committed(asked)
        }
        false => Answer::Usual,
    });
    let config = consumer(&broker, &[("group.id", "g")]).config().clone();
    let member = member_config(&config).map(|config| GroupMember::new(config, Instant::now()));
    let shared = Shared::new(config, member);
    shared.subscription.lock().set_wish(Wish::Topics(BTreeSet::from([Arc::from("x")])));
    let member = shared.member.as_ref().expect("it has a group");
    join(member, 1);
    let runtime = Runtime::start("commits").expect("a thread");
    let turn = shared.commits.try_lock().expect("no caller commits");
    let commit = runtime.begin(commit_three(Arc::clone(&shared), vec![x()], soon()));
    let commit = commit.expect("it runs");
    // Tasks run in their order: when this one is done the commit waits.
    runtime.call(async { Ok(()) }, soon()).expect("it runs");
    member.lock().leave("a rebalance");
    join(member, 2);
    drop(turn);
    assert_eq!(commit.wait(Duration::from_secs(10)), Some(Ok(())));
    assert_eq!(*generations.lock(), [1]);
}

/// The first answer to "who coordinates" leads to a broker that is gone by then: it was asked for
/// as long as there was time.
#[test]
fn a_coordinator_that_is_no_broker_any_more_is_looked_for_again() {
    let broker = FakeBroker::start(|asked| {
        if asked.is(ApiKey::OffsetCommit) {
            return committed(asked);
        } else if !asked.is(ApiKey::FindCoordinator) {
            return Answer::Usual;
        }
        coordinator_is(asked, if asked.before == 0 { OTHER } else { NODE })
    });
    let consumer = consumer(&broker, &[("group.id", "g")]);
    let cluster = consumer.shared().cluster.clone();
    let learn = async move {
        cluster.coordinator(CoordinatorKind::Group, "g").await?;
        let image = cluster.refresh(Wanted::Brokers).await?;
        Ok(image.broker(OTHER).is_some())
    };
    assert_eq!(consumer.runtime().call(learn, soon()), Ok(false));
    let commit = commit_three(Arc::clone(consumer.shared()), vec![x()], soon());
    assert_eq!(consumer.runtime().call(commit, soon()), Ok(()));
}

/// Each waited for `request.timeout.ms`, whatever time its caller gave it.
#[test]
fn calls_end_in_time_while_the_broker_is_silent() {
    let broker = coordinated(|asked| {
        let is_known = asked.is(ApiKey::ApiVersions) || asked.is(ApiKey::Metadata);
        if is_known { Answer::Usual } else { Answer::Silence }
    });
    let consumer = consumer(&broker, &[("group.id", "g")]);
    let shared = || Arc::clone(consumer.shared());
    let is_late = |error: &ClientError| matches!(error, ClientError::Timeout { .. });
    let at_once = || Instant::now() + Duration::from_millis(50);
    let commit = commit_three(shared(), vec![x()], at_once());
    let told = consumer.runtime().call(commit, soon());
    assert!(told.as_ref().is_err_and(is_late), "{told:?}");
    let asked = calls::committed(shared(), vec![x()], at_once());
    let told = consumer.runtime().call(asked, soon());
    assert!(told.as_ref().is_err_and(is_late), "{told:?}");
    let asked = calls::offsets(shared(), BTreeMap::from([(x(), -1)]), at_once());
    let told = consumer.runtime().call(asked, soon());
    assert!(told.as_ref().is_err_and(is_late), "{told:?}");
    assert_eq!(broker.count(ApiKey::ListOffsets), 1);
}
