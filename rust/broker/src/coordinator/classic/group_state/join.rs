//! JoinGroup: who may come in, and what has to happen before the answer.

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::join_group::{
    JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember,
};

use super::known_protocols::weight_asked_for;
use super::{GroupState, NEW_MEMBER_JOIN_TIMEOUT_MS, Now, PendingAppend, State, UNKNOWN_MEMBER_ID};
use crate::coordinator::classic::group_state::Action;
use crate::coordinator::classic::member::{Member, Protocol, Token, protocols_of, weight_of_texts};

/// What the request's frame tells beside its body.
#[derive(Clone, Debug)]
pub struct JoinContext {
    /// The request's version.
    pub version: i16,
    /// What the client calls itself.
    pub client_id: String,
    /// Its address.
    pub client_host: String,
    /// Random text that makes a new member id unique; not used by who has an id.
    pub uuid: String,
}

impl JoinContext {
    /// From v4 on a dynamic member gets its id first and joins with it (KIP-394).
    fn requires_known_member_id(&self) -> bool {
        self.version >= 4
    }

    /// From v9 on an answer can let the leader keep the assignment as it is (KIP-814).
    pub(super) fn can_skip_assignment(&self) -> bool {
        self.version >= 9
    }
}

/// What a new member's id begins with.
fn id_prefix<'a>(context: &'a JoinContext, request: &'a JoinGroupRequest) -> &'a str {
    request.group_instance_id.as_deref().unwrap_or(&context.client_id)
}

/// About how much memory a member costs that joins so.
pub fn asked_weight(context: &JoinContext, request: &JoinGroupRequest) -> usize {
    let id_len = match request.member_id.len() {
        0 => id_prefix(context, request).len() + 1 + context.uuid.len(),
        own => own,
    };
    let (instance, client) = (request.group_instance_id.as_deref(), &context.client_id);
    weight_asked_for(&request.protocols)
        + weight_of_texts(id_len, instance, client, &context.client_host)
}

/// A refusal.
pub(super) fn refusal(member_id: String, error: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse { member_id, error_code: error as i16, ..JoinGroupResponse::default() }
}

impl GroupState {
    /// A member wants to join, or join again. Answered by an [`Action::AnswerJoin`], now or later.
    pub fn join(
        &mut self,
        now: Now,
        token: Token,
        context: &JoinContext,
        request: &JoinGroupRequest,
    ) {
        let protocols = protocols_of(&request.protocols);
        let member_id = &request.member_id;
        let is_unknown = member_id == UNKNOWN_MEMBER_ID;
        if !self.accepts(member_id) {
            self.remove_member(member_id);
            let answer = refusal(UNKNOWN_MEMBER_ID.to_owned(), ErrorCode::GroupMaxSizeReached);
            self.answer_join(token, answer);
        } else if self.state == State::Dead {
            self.answer_join(token, refusal(member_id.clone(), ErrorCode::CoordinatorNotAvailable));
        } else if !self.supports_protocols(&request.protocol_type, &protocols) {
            let answer = refusal(member_id.clone(), ErrorCode::InconsistentGroupProtocol);
            self.answer_join(token, answer);
        } else if is_unknown {
            self.join_new(now, token, context, request, protocols);
        } else {
            self.join_existing(now, token, context, request, protocols);
        }
        if self.unsaved {
            self.unsaved = false;
            if !self.actions.iter().any(|action| matches!(action, Action::Append { .. })) {
                let value = self.first_record();
                self.append(value, PendingAppend::Empty);
            }
        }
    }

    /// Whether `group.max.size` leaves room. While members come back it counts those that have.
    fn accepts(&self, member_id: &str) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                member.is_some_and(|member| member.awaiting_join.is_some())
                    || self.awaiting_joins < self.max_size()
            }
            State::CompletingRebalance | State::Stable => {
                member.is_some() || self.members.len() < self.max_size()
            }
        }
    }

    fn join_new(
        &mut self,
        now: Now,
        token: Token,
        context: &JoinContext,
        request: &JoinGroupRequest,
        protocols: Vec<Protocol>,
    ) {
        let member_id = format!("{}-{}", id_prefix(context, request), context.uuid);
        match &request.group_instance_id {
            Some(instance_id) => match self.static_members.get(instance_id).cloned() {
                Some(old_id) => {
                    let ids = (old_id, member_id);
                    self.replace_static_member(now, token, context, request, protocols, ids);
                }
                None => self.add_member(now, token, context, request, protocols, member_id),
            },
            None if context.requires_known_member_id() => {
                let deadline = now.ms + i64::from(request.session_timeout_ms.max(1));
                self.expect_join(member_id.clone(), deadline);
                self.answer_join(token, refusal(member_id, ErrorCode::MemberIdRequired));
            }
            None => self.add_member(now, token, context, request, protocols, member_id),
        }
    }

    fn join_existing(
        &mut self,
        now: Now,
        token: Token,
        context: &JoinContext,
        request: &JoinGroupRequest,
        protocols: Vec<Protocol>,
    ) {
        let member_id = request.member_id.clone();
        let instance_id = request.group_instance_id.as_deref();
        if self.pending_joins.contains_key(&member_id) {
            // An id that was given out belongs to a dynamic member.
            if instance_id.is_some() {
                self.answer_join(token, refusal(member_id, ErrorCode::UnknownMemberId));
                return;
            }
            self.add_member(now, token, context, request, protocols, member_id);
            return;
        }
        if let Err(error) = self.validate_member(&member_id, instance_id) {
            self.answer_join(token, refusal(member_id, error));
            return;
        }
        let is_same =
            self.members.get(&member_id).is_some_and(|member| member.protocols == protocols);
        match self.state {
            // The answer to its first JoinGroup may have been lost: the generation is unchanged.
            State::CompletingRebalance if is_same => self.answer_current(token, &member_id),
            State::Stable if is_same && !self.is_leader(&member_id) => {
                self.answer_current(token, &member_id);
            }
            // A leader that joins again wants a rebalance, even with the same metadata: its topics
            // may have changed.
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                self.update_member(&member_id, request, protocols, Some(token));
                self.prepare_or_complete(now, "a member joined again");
            }
            State::Empty | State::Dead => {
                self.answer_join(token, refusal(member_id, ErrorCode::UnknownMemberId));
            }
        }
    }

    fn add_member(
        &mut self,
        now: Now,
        token: Token,
        context: &JoinContext,
        request: &JoinGroupRequest,
        protocols: Vec<Protocol>,
        member_id: String,
    ) {
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        if self.state == State::PreparingRebalance && self.previous_state == State::Empty {
            self.new_member_added = true;
        }
        self.insert_member(Member {
            member_id: member_id.clone(),
            group_instance_id: request.group_instance_id.clone(),
            client_id: context.client_id.clone(),
            client_host: context.client_host.clone(),
            rebalance_timeout_ms: request.rebalance_timeout_ms,
            session_timeout_ms: request.session_timeout_ms,
            protocols,
            assignment: bytes::Bytes::new(),
            is_new: true,
            awaiting_join: Some(token),
            awaiting_sync: None,
            deadline_ms: None,
        });
        self.set_session(now, &member_id, NEW_MEMBER_JOIN_TIMEOUT_MS);
        self.prepare_or_complete(now, "a member joined");
    }

    /// Takes over what the request says; a JoinGroup that was parked before is sent back.
    pub(super) fn update_member(
        &mut self,
        member_id: &str,
        request: &JoinGroupRequest,
        protocols: Vec<Protocol>,
        token: Option<Token>,
    ) {
        // It came over another connection: the client has given up on the one before.
        self.fail_join(member_id, member_id.to_owned(), ErrorCode::RebalanceInProgress);
        let timeouts = (request.rebalance_timeout_ms, request.session_timeout_ms);
        self.set_member(member_id, protocols, timeouts, token);
    }

    pub(super) fn set_member(
        &mut self,
        member_id: &str,
        protocols: Vec<Protocol>,
        (rebalance_timeout_ms, session_timeout_ms): (i32, i32),
        token: Option<Token>,
    ) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        self.known_protocols.remove(&member.protocols);
        self.known_protocols.add(&protocols);
        member.protocols = protocols;
        member.rebalance_timeout_ms = rebalance_timeout_ms;
        member.session_timeout_ms = session_timeout_ms;
        self.awaiting_joins -= usize::from(member.awaiting_join.is_some());
        self.awaiting_joins += usize::from(token.is_some());
        member.awaiting_join = token;
    }

    /// The generation as it is, for a member of it.
    fn answer_current(&mut self, token: Token, member_id: &str) {
        let response = self.generation_response(member_id);
        self.answer_join(token, response);
    }

    /// Generation, protocol and leader. The leader also gets the metadata of all members.
    pub(super) fn generation_response(&self, member_id: &str) -> JoinGroupResponse {
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: member_id.to_owned(),
            members: if self.is_leader(member_id) { self.members_metadata() } else { Vec::new() },
            ..JoinGroupResponse::default()
        }
    }

    fn members_metadata(&self) -> Vec<JoinGroupResponseMember> {
        let protocol = self.protocol_name.as_deref().unwrap_or_default();
        let member = |member: &Member| JoinGroupResponseMember {
            member_id: member.member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            metadata: member.metadata(protocol),
        };
        self.members.values().map(member).collect()
    }

    pub(super) fn answer_join(&mut self, token: Token, response: JoinGroupResponse) {
        self.actions.push(Action::AnswerJoin { token, response });
    }

    /// Takes a member's parked JoinGroup.
    pub(super) fn take_join(&mut self, member_id: &str) -> Option<Token> {
        let token = self.members.get_mut(member_id)?.awaiting_join.take()?;
        self.awaiting_joins -= 1;
        Some(token)
    }

    /// Refuses a member's JoinGroup, if one is parked.
    pub(super) fn fail_join(&mut self, member_id: &str, answer_id: String, error: ErrorCode) {
        if let Some(token) = self.take_join(member_id) {
            self.answer_join(token, refusal(answer_id, error));
        }
    }
}
