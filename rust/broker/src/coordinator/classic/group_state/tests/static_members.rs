//! Static members: they come back, they are replaced, old ones are fenced (KIP-345, KIP-814).

use super::*;

fn stable_pair() -> (Sim, [String; 2]) {
    let mut sim = Sim::new(limits(3_000, 100));
    let tokens = [sim.join(&with_instance("a", ""), 9), sim.join(&with_instance("b", ""), 9)];
    sim.pass(6_000);
    let ids = tokens.map(|token| sim.joined(token).member_id.clone());
    sim.sync(&ids[1], 1, &[]);
    sim.sync(&ids[0], 1, &[(&ids[0], b"zero"), (&ids[1], b"one")]);
    (sim, ids)
}

#[test]
fn a_static_member_needs_no_second_join() {
    let (_, ids) = stable_pair();
    assert_eq!(ids, ["a-1", "b-2"]);
}

#[test]
fn a_restarted_static_member_takes_its_place_without_a_rebalance() {
    for (instance, version, leader, skip) in
        [("b", 9, "a-1", false), ("b", 5, "a-1", false), ("a", 5, "a-1", false)]
    {
        let (mut sim, _) = stable_pair();
        let token = sim.join(&with_instance(instance, ""), version);
        let answer = sim.joined(token).clone();
        assert_eq!((answer.error_code, answer.generation_id), (0, 1));
        assert_eq!(answer.leader, leader, "{instance} v{version}");
        assert_eq!(answer.skip_assignment, skip);
        assert_eq!(sim.group.state(), State::Stable);
        let synced = sim.sync(&answer.member_id, 1, &[]);
        assert_eq!(sim.synced(synced).error_code, 0);
        assert!(!sim.synced(synced).assignment.is_empty(), "it keeps its assignment");
    }
}

#[test]
fn a_restarted_leader_may_skip_the_assignment_from_version_9_on() {
    let (mut sim, _) = stable_pair();
    let token = sim.join(&with_instance("a", ""), 9);
    let answer = sim.joined(token);
    assert!(answer.skip_assignment);
    assert_eq!(answer.leader, answer.member_id);
    assert_eq!(answer.members.len(), 2);
}

#[test]
fn the_old_member_id_is_fenced() {
    let (mut sim, ids) = stable_pair();
    sim.join(&with_instance("b", ""), 9);
    let now = sim.now();
    let error = sim.group.heartbeat(now, &ids[1], Some("b"), 1);
    assert_eq!(error, ErrorCode::FencedInstanceId);
    assert_eq!(sim.leave(&ids[1], Some("b")), code(ErrorCode::FencedInstanceId));
    let token = sim.join(&with_instance("b", &ids[1]), 9);
    assert_eq!(sim.joined(token).error_code, code(ErrorCode::FencedInstanceId));
}

#[test]
fn a_parked_join_of_the_old_member_id_is_fenced() {
    let (mut sim, ids) = stable_pair();
    let parked = sim.join(&with_instance("a", &ids[0]), 9);
    let again = sim.join(&with_instance("a", ""), 9);
    assert_eq!(sim.joined(parked).error_code, code(ErrorCode::FencedInstanceId));
    sim.join(&with_instance("b", &ids[1]), 9);
    assert_eq!(sim.joined(again).generation_id, 2);
}

#[test]
fn a_replacement_that_could_not_be_stored_is_taken_back() {
    let (mut sim, ids) = stable_pair();
    sim.auto_commit = false;
    let token = sim.join(&with_instance("b", ""), 9);
    let id = sim.appends.last().unwrap().0;
    let now = sim.now();
    sim.group.append_result(now, id, Some(ErrorCode::KafkaStorageError));
    sim.settle();
    assert_eq!(sim.joined(token).error_code, code(ErrorCode::NotCoordinator));
    assert_eq!(sim.group.heartbeat(now, &ids[1], Some("b"), 1), ErrorCode::None);
}

#[test]
fn an_administrator_removes_a_static_member_by_its_instance_id() {
    let (mut sim, _) = stable_pair();
    assert_eq!(sim.leave("", Some("a")), 0);
    assert_eq!(sim.group.members.len(), 1);
    assert_eq!(sim.group.state(), State::PreparingRebalance);
}

#[test]
fn a_static_member_outlives_a_rebalance_it_did_not_join() {
    let (mut sim, ids) = stable_pair();
    let slow = JoinGroupRequest { session_timeout_ms: 600_000, ..with_instance("b", &ids[1]) };
    let changed = JoinGroupRequest { protocols: protocols(&[("range", b"x")]), ..slow };
    sim.join(&changed, 9);
    let back = sim.join(&with_instance("a", &ids[0]), 9);
    let generation = sim.joined(back).generation_id;
    sim.sync(&ids[1], generation, &[]);
    sim.sync(&ids[0], generation, &[]);
    let leader = sim.join(&with_instance("a", &ids[0]), 9);
    sim.pass(i64::from(REBALANCE_MS));
    assert_eq!(sim.joined(leader).generation_id, generation + 1);
    assert_eq!(sim.group.members.len(), 2, "the silent static member stays until its session ends");
}
