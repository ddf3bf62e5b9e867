//! Assignments: whole, stored first, of this generation.

use super::*;

fn joined_pair() -> (Sim, [String; 2]) {
    let mut sim = Sim::new(limits(3_000, 100));
    let tokens = [sim.join(&consumer(), 3), sim.join(&consumer(), 3)];
    sim.pass(6_000);
    let ids = tokens.map(|token| sim.joined(token).member_id.clone());
    (sim, ids)
}

#[test]
fn every_member_gets_its_own_assignment_once_it_is_stored() {
    let (mut sim, ids) = joined_pair();
    sim.auto_commit = false;
    let follower = sim.sync(&ids[1], 1, &[]);
    let leader = sim.sync(&ids[0], 1, &[(&ids[0], b"zero"), (&ids[1], b"one")]);
    assert!(sim.syncs.is_empty(), "no answer goes out before its record is stored");
    let (id, value) = sim.appends.last().unwrap().clone();
    assert_eq!(value.members.len(), 2);
    let now = sim.now();
    sim.group.append_result(now, id, None);
    sim.settle();
    assert_eq!(sim.synced(leader).assignment.as_ref(), b"zero");
    assert_eq!(sim.synced(follower).assignment.as_ref(), b"one");
    assert_eq!(sim.synced(follower).protocol_name.as_deref(), Some("range"));
    let late = sim.sync(&ids[1], 1, &[]);
    assert_eq!(sim.synced(late).assignment.as_ref(), b"one");
}

#[test]
fn members_that_the_leader_forgot_get_an_empty_assignment() {
    let (mut sim, ids) = joined_pair();
    let follower = sim.sync(&ids[1], 1, &[]);
    sim.sync(&ids[0], 1, &[(&ids[0], b"all")]);
    assert_eq!((sim.synced(follower).error_code, sim.synced(follower).assignment.len()), (0, 0));
}

#[test]
fn an_assignment_that_could_not_be_stored_sends_all_members_back() {
    for (append, told) in [
        (ErrorCode::NotLeaderOrFollower, ErrorCode::NotCoordinator),
        (ErrorCode::RequestTimedOut, ErrorCode::CoordinatorNotAvailable),
        (ErrorCode::MessageTooLarge, ErrorCode::UnknownServerError),
        (ErrorCode::InvalidRecord, ErrorCode::InvalidRecord),
    ] {
        let (mut sim, ids) = joined_pair();
        sim.auto_commit = false;
        let leader = sim.sync(&ids[0], 1, &[]);
        let id = sim.appends.last().unwrap().0;
        let now = sim.now();
        sim.group.append_result(now, id, Some(append));
        sim.settle();
        assert_eq!(sim.synced(leader).error_code, code(told));
        assert_eq!(sim.group.state(), State::PreparingRebalance);
    }
}

#[test]
fn a_rebalance_while_the_assignment_is_being_stored_wins() {
    let (mut sim, ids) = joined_pair();
    sim.auto_commit = false;
    let leader = sim.sync(&ids[0], 1, &[]);
    let id = sim.appends.last().unwrap().0;
    sim.leave(&ids[1], None);
    assert_eq!(sim.synced(leader).error_code, code(ErrorCode::RebalanceInProgress));
    let now = sim.now();
    sim.group.append_result(now, id, None);
    sim.settle();
    assert_eq!(sim.group.state(), State::PreparingRebalance);
}

#[test]
fn a_sync_is_judged_by_member_generation_protocol_and_state() {
    let (mut sim, ids) = joined_pair();
    let cases = [
        ((ids[1].as_str(), 2, None, None), ErrorCode::IllegalGeneration),
        (("stranger", 1, None, None), ErrorCode::UnknownMemberId),
        ((ids[1].as_str(), 1, Some("connect"), None), ErrorCode::InconsistentGroupProtocol),
        ((ids[1].as_str(), 1, None, Some("sticky")), ErrorCode::InconsistentGroupProtocol),
    ];
    for ((member, generation, protocol_type, protocol_name), error) in cases {
        let token = sim.token();
        let request = SyncGroupRequest {
            generation_id: generation,
            member_id: member.to_owned(),
            protocol_type: protocol_type.map(str::to_owned),
            protocol_name: protocol_name.map(str::to_owned),
            ..SyncGroupRequest::default()
        };
        sim.group.sync(token, &request);
        sim.settle();
        assert_eq!(sim.synced(token).error_code, code(error));
    }
    sim.join(&consumer(), 3);
    let token = sim.sync(&ids[1], 1, &[]);
    assert_eq!(sim.synced(token).error_code, code(ErrorCode::RebalanceInProgress));
}

#[test]
fn a_rebalance_during_the_sync_phase_sends_waiting_members_back() {
    let (mut sim, ids) = joined_pair();
    let follower = sim.sync(&ids[1], 1, &[]);
    sim.join(&consumer(), 3);
    assert_eq!(sim.synced(follower).error_code, code(ErrorCode::RebalanceInProgress));
}

#[test]
fn the_stored_record_brings_the_group_back_as_it_was() {
    let (mut sim, ids) = joined_pair();
    sim.sync(&ids[1], 1, &[]);
    sim.sync(&ids[0], 1, &[(&ids[0], b"zero"), (&ids[1], b"one")]);
    let stored = sim.appends.last().unwrap().1.clone();
    let now = sim.now();
    let loaded = GroupState::load(Arc::from("g"), limits(0, 10), now, &stored);
    assert_eq!(loaded.describe(), sim.group.describe());
    assert_eq!(loaded.leader, sim.group.leader);
}

#[test]
fn a_member_is_described_with_its_share_until_the_next_generation() {
    let (mut sim, ids) = joined_pair();
    sim.sync(&ids[1], 1, &[]);
    sim.sync(&ids[0], 1, &[(&ids[0], b"zero"), (&ids[1], b"one")]);
    let shares = |sim: &Sim| -> Vec<(String, Bytes)> {
        let members = sim.group.describe().members.into_iter();
        members.map(|member| (member.member_id, member.member_assignment)).collect()
    };
    let stable = shares(&sim);
    sim.join(&consumer(), 3);
    assert_eq!(sim.group.state(), State::PreparingRebalance);
    let preparing = shares(&sim);
    assert!(stable.iter().all(|share| preparing.contains(share)), "Kafka tells them as well");
    assert!(sim.group.describe().protocol_data.is_empty());
}
