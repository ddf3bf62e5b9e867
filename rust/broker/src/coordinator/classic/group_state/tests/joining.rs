//! Who may come in, and when the answer comes.

use super::*;

#[test]
fn a_new_dynamic_member_gets_its_id_first_from_version_4_on() {
    let mut sim = Sim::new(limits(3_000, 100));
    let first = sim.join(&consumer(), 4);
    assert_eq!(sim.joined(first).error_code, code(ErrorCode::MemberIdRequired));
    assert_eq!(sim.joined(first).member_id, "c-1");
    let again = sim.join(&with_id("c-1"), 4);
    assert!(!sim.joins.contains_key(&again), "the join is parked for the initial delay");
    sim.pass(3_000);
    assert_eq!(sim.joined(again).error_code, 0);
    assert_eq!(sim.joined(again).leader, "c-1");
    assert_eq!(sim.joined(again).members.len(), 1);
    assert_eq!(sim.joined(again).generation_id, 1);
}

#[test]
fn before_version_4_a_new_member_joins_at_once() {
    let mut sim = Sim::new(limits(0, 100));
    let token = sim.join(&consumer(), 3);
    assert_eq!((sim.joined(token).error_code, sim.joined(token).generation_id), (0, 1));
}

#[test]
fn newcomers_prolong_the_initial_delay_up_to_the_rebalance_timeout() {
    let mut sim = Sim::new(limits(3_000, 100));
    let request = JoinGroupRequest { rebalance_timeout_ms: 7_000, ..consumer() };
    let first = sim.join(&request, 3);
    for _ in 0..4 {
        sim.pass(2_000);
        assert!(!sim.joins.contains_key(&first), "not before {}", sim.now_ms);
        sim.join(&request, 3);
        if sim.now_ms == 6_000 {
            break;
        }
    }
    sim.pass(1_000);
    assert_eq!(sim.joined(first).error_code, 0);
    assert_eq!(sim.group.members.len(), 4);
}

#[test]
fn the_metadata_of_all_members_goes_to_the_leader_alone() {
    let mut sim = Sim::new(limits(3_000, 100));
    let tokens = [sim.join(&consumer(), 3), sim.join(&consumer(), 3)];
    sim.pass(6_000);
    let counts = tokens.map(|token| sim.joined(token).members.len());
    assert_eq!(counts, [2, 0]);
    assert_eq!(sim.joined(tokens[1]).leader, sim.joined(tokens[0]).member_id);
}

#[test]
fn what_does_not_fit_in_is_refused() {
    let connect = JoinGroupRequest { protocol_type: "connect".to_owned(), ..consumer() };
    let sticky = JoinGroupRequest { protocols: protocols(&[("sticky", b"")]), ..consumer() };
    let table = [
        (connect, ErrorCode::InconsistentGroupProtocol),
        (sticky, ErrorCode::InconsistentGroupProtocol),
        (with_id("stranger"), ErrorCode::UnknownMemberId),
        (with_instance("i", "stranger"), ErrorCode::UnknownMemberId),
    ];
    for (request, error) in table {
        let (mut sim, _) = Sim::stable(1);
        let token = sim.join(&request, 9);
        assert_eq!(sim.joined(token).error_code, code(error), "{request:?}");
        assert_eq!(sim.group.state(), State::Stable);
    }
}

#[test]
fn an_empty_group_wants_a_protocol_type_and_a_protocol() {
    for request in [
        JoinGroupRequest { protocol_type: String::new(), ..consumer() },
        JoinGroupRequest { protocols: Vec::new(), ..consumer() },
    ] {
        let mut sim = Sim::new(limits(0, 100));
        let token = sim.join(&request, 3);
        assert_eq!(sim.joined(token).error_code, code(ErrorCode::InconsistentGroupProtocol));
    }
}

#[test]
fn the_protocol_that_all_members_know_and_most_prefer_wins() {
    let mut sim = Sim::new(limits(3_000, 100));
    let all: [&[(&str, &[u8])]; 3] = [
        &[("old", b""), ("range", b""), ("sticky", b"")],
        &[("sticky", b""), ("range", b"")],
        &[("sticky", b""), ("range", b"")],
    ];
    let tokens = all
        .map(|names| sim.join(&JoinGroupRequest { protocols: protocols(names), ..consumer() }, 3));
    sim.pass(60_000);
    assert_eq!(sim.joined(tokens[0]).protocol_name.as_deref(), Some("sticky"));
}

#[test]
fn a_group_at_its_maximum_size_refuses_new_members() {
    let mut sim = Sim::new(limits(3_000, 2));
    let tokens = [(); 3].map(|()| sim.join(&consumer(), 3));
    sim.pass(60_000);
    let errors = tokens.map(|token| sim.joined(token).error_code);
    assert_eq!(errors, [0, 0, code(ErrorCode::GroupMaxSizeReached)]);
}

#[test]
fn members_that_do_not_come_back_are_left_behind_when_the_rebalance_times_out() {
    let (mut sim, ids) = Sim::stable(2);
    let newcomer = sim.join(&consumer(), 3);
    assert_eq!(sim.heartbeat(&ids[1], 1), ErrorCode::RebalanceInProgress);
    let back = sim.join(&with_id(&ids[0]), 3);
    for _ in 0..20 {
        sim.pass(3_000);
        sim.heartbeat(&ids[1], 1);
    }
    assert_eq!(sim.joined(back).generation_id, 2);
    assert_eq!(sim.joined(newcomer).generation_id, 2);
    assert_eq!(sim.group.members.len(), 2);
    assert_eq!(sim.heartbeat(&ids[1], 2), ErrorCode::UnknownMemberId);
}

#[test]
fn a_follower_that_joins_again_unchanged_gets_the_generation_as_it_is() {
    let (mut sim, ids) = Sim::stable(2);
    let token = sim.join(&with_id(&ids[1]), 3);
    assert_eq!((sim.joined(token).error_code, sim.joined(token).generation_id), (0, 1));
    assert_eq!(sim.group.state(), State::Stable);
}

#[test]
fn a_leader_that_joins_again_or_changed_metadata_start_a_rebalance() {
    let (mut sim, ids) = Sim::stable(2);
    let changed =
        JoinGroupRequest { protocols: protocols(&[("range", b"other")]), ..with_id(&ids[1]) };
    for request in [with_id(&ids[0]), changed] {
        let (mut sim, _) = Sim::stable(2);
        sim.join(&request, 3);
        assert_eq!(sim.group.state(), State::PreparingRebalance, "{request:?}");
    }
    sim.join(&with_id(&ids[0]), 3);
    let last = sim.join(&with_id(&ids[1]), 3);
    assert_eq!(sim.joined(last).generation_id, 2);
}

#[test]
fn a_join_sent_again_over_another_connection_replaces_the_parked_one() {
    let (mut sim, ids) = Sim::stable(2);
    let lost = sim.join(&with_id(&ids[0]), 3);
    let again = sim.join(&with_id(&ids[0]), 3);
    assert_eq!(sim.joined(lost).error_code, code(ErrorCode::RebalanceInProgress));
    sim.join(&with_id(&ids[1]), 3);
    assert_eq!(sim.joined(again).generation_id, 2);
}

#[test]
fn an_id_that_was_given_out_and_not_used_is_forgotten_after_the_session_timeout() {
    let mut sim = Sim::new(limits(0, 100));
    sim.join(&consumer(), 4);
    sim.pass(i64::from(SESSION_MS));
    let late = sim.join(&with_id("c-1"), 4);
    assert_eq!(sim.joined(late).error_code, code(ErrorCode::UnknownMemberId));
}

#[test]
fn the_first_join_of_a_group_stores_an_empty_record() {
    let mut sim = Sim::new(limits(3_000, 100));
    sim.join(&consumer(), 4);
    sim.join(&consumer(), 4);
    assert_eq!(sim.appends.len(), 1);
    let value = &sim.appends[0].1;
    assert_eq!((value.generation, value.protocol_type.as_str(), value.members.len()), (0, "", 0));
}
