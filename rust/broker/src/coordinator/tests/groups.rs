//! Requests from the outside, through the coordinator.

use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment};

use super::*;
use crate::awaited;

/// A member of a stable group of its own.
pub fn stable(broker: &Broker, group: &str) -> String {
    let joined = taken(&broker.join(group, ""));
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
    let (answer, got) = slot();
    let assignment = SyncGroupRequestAssignment {
        member_id: joined.member_id.clone(),
        assignment: Bytes::from_static(b"share"),
    };
    let request = SyncGroupRequest {
        group_id: group.to_owned(),
        generation_id: 1,
        member_id: joined.member_id.clone(),
        assignments: vec![assignment],
        ..SyncGroupRequest::default()
    };
    broker.groups.sync(request, answer);
    assert_eq!(taken(&got).assignment.as_ref(), b"share");
    joined.member_id
}

pub fn heartbeat(broker: &Broker, group: &str, member: &str, generation: i32) -> i16 {
    let request = HeartbeatRequest {
        group_id: group.to_owned(),
        generation_id: generation,
        member_id: member.to_owned(),
        group_instance_id: None,
    };
    broker.groups.heartbeat(&request).error_code
}

#[test]
fn a_member_joins_syncs_beats_and_leaves() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    assert_eq!(heartbeat(&broker, "g", &member, 1), 0);
    let request = LeaveGroupRequest {
        group_id: "g".to_owned(),
        members: vec![MemberIdentity { member_id: member.clone(), ..Default::default() }],
        ..LeaveGroupRequest::default()
    };
    let leave = || {
        let (answer, got) = slot();
        broker.groups.leave(request.clone(), answer);
        taken(&got).members[0].error_code
    };
    assert_eq!(leave(), 0);
    let unknown = ErrorCode::UnknownMemberId as i16;
    assert_eq!(heartbeat(&broker, "g", &member, 1), unknown);
    assert_eq!(leave(), unknown);
}

#[test]
fn a_session_ends_by_the_timer() {
    let broker = Broker::new();
    let member = stable(&broker, "g");
    for _ in 0..4 {
        broker.pass(5_000);
        assert_eq!(heartbeat(&broker, "g", &member, 1), 0);
    }
    broker.pass(10_000);
    assert_eq!(heartbeat(&broker, "g", &member, 1), ErrorCode::UnknownMemberId as i16);
    assert_eq!(broker.groups.describe("g", 6).group_state, "Empty");
}

#[test]
fn requests_are_refused_before_they_reach_a_group() {
    let broker = Broker::new();
    let base = JoinGroupRequest { session_timeout_ms: 10_000, ..Default::default() };
    let table = [
        (JoinGroupRequest { ..base.clone() }, ErrorCode::InvalidGroupId),
        (
            JoinGroupRequest { group_id: "g".into(), session_timeout_ms: 5_999, ..base.clone() },
            ErrorCode::InvalidSessionTimeout,
        ),
        (
            JoinGroupRequest {
                group_id: "g".into(),
                session_timeout_ms: 1_800_001,
                ..base.clone()
            },
            ErrorCode::InvalidSessionTimeout,
        ),
        (
            JoinGroupRequest { group_id: "g".into(), member_id: "m".into(), ..base },
            ErrorCode::UnknownMemberId,
        ),
    ];
    for (request, error) in table {
        let context = JoinContext {
            version: 9,
            client_id: String::new(),
            client_host: String::new(),
            uuid: String::new(),
        };
        let (answer, got) = slot();
        broker.groups.join(context, request.clone(), answer);
        assert_eq!(taken(&got).error_code, error as i16, "{request:?}");
    }
    assert_eq!(heartbeat(&broker, "", "m", 1), ErrorCode::InvalidGroupId as i16);
    assert_eq!(heartbeat(&broker, "no such group", "m", 1), ErrorCode::UnknownMemberId as i16);
}

#[test]
fn without_the_topic_there_is_no_coordinator_and_then_it_is_made() {
    let broker = Broker::over(MemoryTopic::of(0), 0);
    assert_eq!(heartbeat(&broker, "g", "m", 1), ErrorCode::NotCoordinator as i16);
    assert!(!broker.groups.knows_topic());
    broker.topic.make(Uuid([1; 16]), 5);
    broker.groups.follow();
    assert!(broker.groups.knows_topic());
    stable(&broker, "g");
}

#[test]
fn groups_are_described_and_listed() {
    let broker = Broker::new();
    stable(&broker, "g");
    broker.commit("simple", "t", 1);
    let described = broker.groups.describe("g", 6);
    assert_eq!(
        (described.group_state.as_str(), described.protocol_data.as_str()),
        ("Stable", "range")
    );
    assert_eq!(described.members[0].member_assignment.as_ref(), b"share");
    let missing = broker.groups.describe("nope", 6);
    assert_eq!(missing.error_code, ErrorCode::GroupIdNotFound as i16);
    assert_eq!(
        (missing.group_state.as_str(), broker.groups.describe("nope", 5).error_code),
        ("Dead", 0)
    );
    let names = |states: &[&str], types: &[&str]| -> Vec<String> {
        let own = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let (error, groups) = broker.groups.list(&own(states), &own(types));
        assert_eq!(error, ErrorCode::None);
        groups.into_iter().map(|group| group.group_id).collect()
    };
    assert_eq!(names(&[], &[]), ["g", "simple"]);
    assert_eq!(names(&["stable"], &["Classic"]), ["g"]);
    assert_eq!(names(&["Empty"], &[]), ["simple"]);
    assert_eq!(names(&[], &["consumer"]), Vec::<String>::new());
}

#[test]
fn many_threads_leave_a_group_whole() {
    let broker = Arc::new(Broker::new());
    let threads: Vec<_> = (0..8)
        .map(|number| {
            let broker = Arc::clone(&broker);
            std::thread::spawn(move || {
                for round in 0..200 {
                    let got = broker.commit("g", &format!("t{number}"), round);
                    assert!(got.lock().is_none() || taken(&got) == [ErrorCode::None]);
                }
            })
        })
        .collect();
    let _ends = awaited::within("the threads commit");
    for thread in threads {
        thread.join().unwrap();
    }
    // A thread that ran 256 steps leaves the others to the timer.
    (0..8).for_each(|_| broker.timer.pass(0));
    for number in 0..8 {
        assert_eq!(broker.committed("g", &format!("t{number}")), Some(199));
    }
}
