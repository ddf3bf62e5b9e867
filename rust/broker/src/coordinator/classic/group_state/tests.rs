#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::group_records::GroupMetadataValue;
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse,
};
use kafkalite_protocol::messages::leave_group::MemberIdentity;
use kafkalite_protocol::messages::sync_group::{
    SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse,
};

use super::{Action, AppendId, GroupLimits, GroupState, JoinContext, Now, State};
use crate::coordinator::classic::member::Token;

mod joining;
mod properties;
mod sessions;
mod static_members;
mod syncing;

const SESSION_MS: i32 = 10_000;
const REBALANCE_MS: i32 = 60_000;

/// A group, a clock, and everything that came out.
struct Sim {
    group: GroupState,
    now_ms: i64,
    next_token: u64,
    joins: HashMap<Token, JoinGroupResponse>,
    syncs: HashMap<Token, SyncGroupResponse>,
    appends: Vec<(AppendId, GroupMetadataValue)>,
    wake_at: Option<i64>,
    /// Appends are committed at once.
    auto_commit: bool,
}

fn limits(initial_rebalance_delay_ms: i32, max_size: i32) -> GroupLimits {
    GroupLimits { initial_rebalance_delay_ms, max_size }
}

/// A request of a dynamic consumer without an id.
fn consumer() -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".to_owned(),
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        protocol_type: "consumer".to_owned(),
        protocols: protocols(&[("range", b"m")]),
        ..JoinGroupRequest::default()
    }
}

fn protocols(all: &[(&str, &'static [u8])]) -> Vec<JoinGroupRequestProtocol> {
    all.iter()
        .map(|(name, metadata)| JoinGroupRequestProtocol {
            name: (*name).to_owned(),
            metadata: Bytes::from_static(metadata),
        })
        .collect()
}

fn with_id(member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest { member_id: member_id.to_owned(), ..consumer() }
}

fn with_instance(instance_id: &str, member_id: &str) -> JoinGroupRequest {
    JoinGroupRequest { group_instance_id: Some(instance_id.to_owned()), ..with_id(member_id) }
}

impl Sim {
    fn new(limits: GroupLimits) -> Self {
        let now = Now { ms: 0, wall_ms: 1_000_000 };
        Self::of(GroupState::new(Arc::from("g"), limits, now, true))
    }

    fn of(group: GroupState) -> Self {
        Self {
            group,
            now_ms: 0,
            next_token: 0,
            joins: HashMap::new(),
            syncs: HashMap::new(),
            appends: Vec::new(),
            wake_at: None,
            auto_commit: true,
        }
    }

    fn now(&self) -> Now {
        Now { ms: self.now_ms, wall_ms: 1_000_000 + self.now_ms }
    }

    fn token(&mut self) -> Token {
        self.next_token += 1;
        Token(self.next_token)
    }

    fn settle(&mut self) {
        loop {
            let actions = self.group.take_actions();
            if actions.is_empty() {
                return;
            }
            for action in actions {
                match action {
                    Action::AnswerJoin { token, response } => {
                        assert!(self.joins.insert(token, response).is_none(), "answered twice");
                    }
                    Action::AnswerSync { token, response } => {
                        assert!(self.syncs.insert(token, response).is_none(), "answered twice");
                    }
                    Action::Append { id, value } => {
                        self.appends.push((id, value));
                        if self.auto_commit {
                            self.group.append_result(self.now(), id, None);
                        }
                    }
                    Action::WakeAt(at) => self.wake_at = Some(at),
                }
            }
        }
    }

    fn join(&mut self, request: &JoinGroupRequest, version: i16) -> Token {
        let token = self.token();
        let context = JoinContext {
            version,
            client_id: "c".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            uuid: token.0.to_string(),
        };
        self.group.join(self.now(), token, &context, request);
        self.settle();
        token
    }

    /// Moves time on, waking the group whenever it asked for it.
    fn pass(&mut self, ms: i64) {
        let end = self.now_ms + ms;
        while let Some(at) = self.wake_at.filter(|at| *at <= end) {
            self.wake_at = None;
            self.now_ms = self.now_ms.max(at);
            self.group.wake(self.now());
            self.settle();
        }
        self.now_ms = end;
    }

    fn sync(
        &mut self,
        member_id: &str,
        generation: i32,
        assigned: &[(&str, &'static [u8])],
    ) -> Token {
        let token = self.token();
        let request = SyncGroupRequest {
            group_id: "g".to_owned(),
            generation_id: generation,
            member_id: member_id.to_owned(),
            assignments: assigned
                .iter()
                .map(|(member_id, assignment)| SyncGroupRequestAssignment {
                    member_id: (*member_id).to_owned(),
                    assignment: Bytes::from_static(assignment),
                })
                .collect(),
            ..SyncGroupRequest::default()
        };
        self.group.sync(token, &request);
        self.settle();
        token
    }

    fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        let error = self.group.heartbeat(self.now(), member_id, None, generation);
        self.settle();
        error
    }

    fn leave(&mut self, member_id: &str, instance_id: Option<&str>) -> i16 {
        let identity = MemberIdentity {
            member_id: member_id.to_owned(),
            group_instance_id: instance_id.map(str::to_owned),
            ..MemberIdentity::default()
        };
        let answers = self.group.leave(self.now(), &[identity]).unwrap();
        self.settle();
        answers[0].error_code
    }

    fn joined(&self, token: Token) -> &JoinGroupResponse {
        self.joins.get(&token).expect("the join is answered")
    }

    fn synced(&self, token: Token) -> &SyncGroupResponse {
        self.syncs.get(&token).expect("the sync is answered")
    }

    /// `count` members in a stable group, the leader first; their ids.
    fn stable(count: usize) -> (Self, Vec<String>) {
        let mut sim = Self::new(limits(3_000, 100));
        let tokens: Vec<Token> = (0..count).map(|_| sim.join(&consumer(), 3)).collect();
        sim.pass(6_000);
        let mut ids: Vec<String> =
            tokens.iter().map(|token| sim.joined(*token).member_id.clone()).collect();
        let leader = sim.joined(tokens[0]).leader.clone();
        let generation = sim.group.generation();
        ids.sort_by_key(|id| *id != leader);
        for id in ids.iter().rev() {
            sim.sync(id, generation, &[]);
        }
        assert_eq!(sim.group.state(), State::Stable);
        (sim, ids)
    }
}

fn code(error: ErrorCode) -> i16 {
    error as i16
}
