//! Deadlines, heartbeats, leaving, coming back after a restart.

use super::*;

#[test]
fn a_silent_member_is_removed_when_its_session_is_over() {
    let (mut sim, ids) = Sim::stable(2);
    for _ in 0..5 {
        sim.pass(3_000);
        sim.heartbeat(&ids[0], 1);
    }
    assert_eq!(sim.group.state(), State::PreparingRebalance);
    assert_eq!(sim.heartbeat(&ids[1], 1), ErrorCode::UnknownMemberId);
    let token = sim.join(&with_id(&ids[0]), 3);
    assert_eq!(sim.joined(token).generation_id, 2);
}

#[test]
fn heartbeats_ask_for_no_wake_up_of_their_own() {
    let (mut sim, ids) = Sim::stable(2);
    sim.group.take_actions();
    for _ in 0..3 {
        sim.now_ms += 1_000;
        assert_eq!(sim.group.heartbeat(sim.now(), &ids[0], None, 1), ErrorCode::None);
        assert_eq!(sim.group.take_actions(), Vec::new());
    }
}

#[test]
fn a_parked_request_stands_for_heartbeats() {
    let (mut sim, ids) = Sim::stable(2);
    let parked = sim.join(&with_id(&ids[0]), 3);
    for _ in 0..6 {
        sim.pass(5_000);
        sim.heartbeat(&ids[1], 1);
    }
    sim.join(&with_id(&ids[1]), 3);
    assert_eq!(sim.joined(parked).generation_id, 2);
    let waiting = sim.sync(&ids[1], 2, &[]);
    for _ in 0..6 {
        sim.pass(5_000);
        sim.heartbeat(&ids[0], 2);
    }
    sim.sync(&ids[0], 2, &[]);
    assert_eq!(sim.synced(waiting).error_code, 0);
}

#[test]
fn a_new_member_that_waits_longer_than_five_minutes_is_given_up() {
    let (mut sim, ids) = Sim::stable(1);
    let slow = JoinGroupRequest { rebalance_timeout_ms: 900_000, ..with_id(&ids[0]) };
    sim.join(&slow, 3);
    sim.sync(&ids[0], 2, &[]);
    let newcomer = sim.join(&consumer(), 3);
    for _ in 0..100 {
        sim.pass(3_000);
        sim.heartbeat(&ids[0], 2);
    }
    assert_eq!(sim.joined(newcomer).error_code, code(ErrorCode::UnknownMemberId));
}

#[test]
fn heartbeats_are_judged_by_member_instance_and_generation() {
    let (mut sim, ids) = Sim::stable(1);
    assert_eq!(sim.heartbeat(&ids[0], 1), ErrorCode::None);
    assert_eq!(sim.heartbeat(&ids[0], 0), ErrorCode::IllegalGeneration);
    assert_eq!(sim.heartbeat("stranger", 1), ErrorCode::UnknownMemberId);
    let now = sim.now();
    let error = sim.group.heartbeat(now, &ids[0], Some("i"), 1);
    assert_eq!(error, ErrorCode::UnknownMemberId);
}

#[test]
fn the_last_member_to_leave_leaves_an_empty_generation_that_is_stored() {
    let (mut sim, ids) = Sim::stable(1);
    assert_eq!(sim.leave(&ids[0], None), 0);
    assert_eq!((sim.group.state(), sim.group.generation()), (State::Empty, 2));
    let value = &sim.appends.last().unwrap().1;
    assert_eq!((value.generation, value.members.len()), (2, 0));
    assert_eq!(value.protocol_type, "consumer");
    assert_eq!((&value.protocol, &value.leader), (&None, &None));
}

#[test]
fn leaving_answers_each_member_on_its_own() {
    let (mut sim, ids) = Sim::stable(2);
    let identity = |member_id: &str, instance: Option<&str>| MemberIdentity {
        member_id: member_id.to_owned(),
        group_instance_id: instance.map(str::to_owned),
        ..MemberIdentity::default()
    };
    let members = [
        identity(&ids[0], None),
        identity("stranger", None),
        identity("", Some("i")),
        identity("", None),
    ];
    let now = sim.now();
    let answers = sim.group.leave(now, &members).unwrap();
    let unknown = code(ErrorCode::UnknownMemberId);
    let errors: Vec<i16> = answers.iter().map(|answer| answer.error_code).collect();
    assert_eq!(errors, [0, unknown, unknown, unknown]);
    assert_eq!(sim.group.leader.as_deref(), Some(ids[1].as_str()));
}

#[test]
fn a_pending_id_can_leave() {
    let mut sim = Sim::new(limits(0, 100));
    sim.join(&consumer(), 4);
    assert_eq!(sim.leave("c-1", None), 0);
    assert_eq!(sim.leave("c-1", None), code(ErrorCode::UnknownMemberId));
}

#[test]
fn members_that_never_sync_are_removed_after_the_rebalance_timeout() {
    let mut sim = Sim::new(limits(3_000, 100));
    let tokens = [sim.join(&consumer(), 3), sim.join(&consumer(), 3)];
    sim.pass(6_000);
    let ids = tokens.map(|token| sim.joined(token).member_id.clone());
    sim.sync(&ids[0], 1, &[]);
    for _ in 0..30 {
        sim.pass(3_000);
        sim.heartbeat(&ids[0], 1);
        sim.heartbeat(&ids[1], 1);
    }
    assert_eq!(sim.heartbeat(&ids[1], 1), ErrorCode::UnknownMemberId);
    assert_eq!(sim.heartbeat(&ids[0], 1), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_group_loaded_with_members_is_stable_and_its_sessions_start_again() {
    let (sim, ids) = Sim::stable(2);
    let stored = sim.appends.last().unwrap().1.clone();
    let now = Now { ms: 500_000, wall_ms: 2_000_000 };
    let mut group = GroupState::load(Arc::from("g"), limits(3_000, 100), now, &stored);
    group.loaded(now);
    let mut sim = Sim::of(group);
    sim.now_ms = now.ms;
    sim.settle();
    assert_eq!((sim.group.state(), sim.group.generation()), (State::Stable, 1));
    sim.pass(9_000);
    assert_eq!(sim.heartbeat(&ids[0], 1), ErrorCode::None);
    sim.pass(2_000);
    assert_eq!(sim.heartbeat(&ids[0], 1), ErrorCode::RebalanceInProgress);
    assert_eq!(sim.group.members.len(), 1);
}

#[test]
fn killing_a_group_answers_all_waiting_requests() {
    let (mut sim, ids) = Sim::stable(2);
    let parked = sim.join(&with_id(&ids[0]), 3);
    let now = sim.now();
    sim.group.kill(now, ErrorCode::NotCoordinator);
    sim.settle();
    assert_eq!(sim.joined(parked).error_code, code(ErrorCode::NotCoordinator));
    let late = sim.join(&with_id(&ids[1]), 3);
    assert_eq!(sim.joined(late).error_code, code(ErrorCode::CoordinatorNotAvailable));
}

#[test]
fn a_commit_must_fit_member_generation_and_state() {
    let (mut sim, ids) = Sim::stable(1);
    let now = sim.now();
    let table = [
        ((ids[0].as_str(), None, 1), Ok(())),
        ((ids[0].as_str(), None, 2), Err(ErrorCode::IllegalGeneration)),
        (("stranger", None, 1), Err(ErrorCode::UnknownMemberId)),
        (("", None, -1), Err(ErrorCode::UnknownMemberId)),
        ((ids[0].as_str(), Some("i"), 1), Err(ErrorCode::UnknownMemberId)),
    ];
    for ((member, instance, generation), expected) in table {
        assert_eq!(sim.group.offset_commit(now, member, instance, generation), expected);
    }
    sim.join(&with_id(&ids[0]), 3);
    let answer = sim.group.offset_commit(now, &ids[0], None, 2);
    assert_eq!(answer, Err(ErrorCode::RebalanceInProgress));
    let mut empty = Sim::new(limits(0, 100));
    assert_eq!(empty.group.offset_commit(now, "", None, -1), Ok(()));
}
