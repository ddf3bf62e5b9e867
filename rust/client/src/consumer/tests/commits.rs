//! Commits of a group's member.

use kafkalite_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use kafkalite_protocol::messages::offset_commit::{OffsetCommitRequest, OffsetCommitResponse};

use super::*;
use crate::commits::{Committed, Offsets};
use crate::group_state::Joined;

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
    let broker = FakeBroker::start(move |asked| {
        if asked.is(ApiKey::FindCoordinator) {
            let here = Coordinator {
                key: "g".to_owned(),
                node_id: NODE,
                host: asked.place.host.clone(),
                port: asked.place.port.into(),
                ..Coordinator::default()
            };
            let coordinators = vec![here];
            let told = FindCoordinatorResponse { coordinators, ..Default::default() };
            asked.answer::<FindCoordinatorRequest>(&told)
        } else if asked.is(ApiKey::OffsetCommit) {
            let request: OffsetCommitRequest = asked.read();
            told.lock().push(request.generation_id_or_member_epoch);
            asked.answer::<OffsetCommitRequest>(&OffsetCommitResponse::default())
        } else {
            Answer::Usual
        }
    });
    let config = consumer(&broker, &[("group.id", "g")]).config().clone();
    let member = member_config(&config).map(|config| GroupMember::new(config, Instant::now()));
    let shared = Shared::new(config, member);
    shared.subscription.lock().set_wish(Wish::Topics(BTreeSet::from([Arc::from("x")])));
    let member = shared.member.as_ref().expect("it has a group");
    join(member, 1);
    let runtime = Runtime::start("commits").expect("a thread");
    let turn = shared.commits.try_lock().expect("nobody commits");
    let committed = Committed { position: Position::at(3), metadata: String::new() };
    let offsets = Offsets::from([(x(), committed)]);
    let commit = runtime.begin(calls::commit(Arc::clone(&shared), offsets, soon()));
    let commit = commit.expect("it runs");
    // Tasks run in their order: when this one is done the commit waits.
    runtime.call(async { Ok(()) }, soon()).expect("it runs");
    member.lock().leave("a rebalance");
    join(member, 2);
    drop(turn);
    assert_eq!(commit.wait(Duration::from_secs(10)), Some(Ok(())));
    assert_eq!(*generations.lock(), [1]);
}
