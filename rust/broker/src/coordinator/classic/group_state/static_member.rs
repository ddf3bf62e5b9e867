//! A static member that comes back without its member id: it takes its old place (KIP-345).
//!
//! In a stable group no other member notices, as long as the group's protocol stays the same.

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};

use super::join::JoinContext;
use super::rebalance::response_error;
use super::{GroupState, Now, PendingAppend, State, UNKNOWN_MEMBER_ID};
use crate::coordinator::classic::member::{Protocol, Token};

/// What is needed to answer, or to take the replacement back, once it is stored or is not.
#[derive(Debug)]
pub(super) struct Replacement {
    token: Token,
    instance_id: String,
    old_id: String,
    new_id: String,
    old_leader: Option<String>,
    old_protocols: Vec<Protocol>,
    old_timeouts: (i32, i32),
    can_skip_assignment: bool,
}

impl GroupState {
    pub(super) fn replace_static_member(
        &mut self,
        now: Now,
        token: Token,
        context: &JoinContext,
        request: &JoinGroupRequest,
        protocols: Vec<Protocol>,
        (old_id, new_id): (String, String),
    ) {
        let instance_id = request.group_instance_id.clone().unwrap_or_default();
        let old_leader = self.leader.clone();
        let Some(old) = self.members.get(&old_id) else { return };
        let replacement = Replacement {
            token,
            instance_id: instance_id.clone(),
            old_id: old_id.clone(),
            new_id: new_id.clone(),
            old_leader,
            old_protocols: old.protocols.clone(),
            old_timeouts: (old.rebalance_timeout_ms, old.session_timeout_ms),
            can_skip_assignment: context.can_skip_assignment(),
        };
        self.rename_static_member(&instance_id, &old_id, &new_id);
        self.restart_session(now, &new_id);
        self.update_member(&new_id, request, protocols, Some(token));
        match self.state {
            State::Stable if self.select_protocol() == self.protocol_name => {
                let value = self.record(|member| member.assignment.clone());
                self.append(value, PendingAppend::StaticMember(replacement));
            }
            // After the join phase the leader may already assign to the old id.
            State::Stable | State::CompletingRebalance => {
                self.prepare_rebalance(now, "a static member came back with other metadata");
            }
            State::Empty | State::PreparingRebalance | State::Dead => {
                self.maybe_complete_join(now);
            }
        }
    }

    /// Puts the member under a new id. Requests that still wait under the old id are fenced.
    fn rename_static_member(&mut self, instance_id: &str, old_id: &str, new_id: &str) {
        self.fail_join(old_id, old_id.to_owned(), ErrorCode::FencedInstanceId);
        self.fail_sync(old_id, ErrorCode::FencedInstanceId);
        let Some(mut member) = self.members.remove(old_id) else { return };
        self.text_bytes -= member.weight_of_texts();
        member.member_id = new_id.to_owned();
        self.text_bytes += member.weight_of_texts();
        member.is_new = false;
        self.members.insert(new_id.to_owned(), member);
        if self.is_leader(old_id) {
            self.leader = Some(new_id.to_owned());
        }
        if self.pending_syncs.remove(old_id) {
            self.pending_syncs.insert(new_id.to_owned());
        }
        self.static_members.insert(instance_id.to_owned(), new_id.to_owned());
    }

    /// The replacement is stored, or could not be.
    pub(super) fn replacement_stored(
        &mut self,
        now: Now,
        replacement: Replacement,
        error: Option<ErrorCode>,
    ) {
        let new_id = &replacement.new_id;
        // Only if that very JoinGroup still waits, and no rebalance has begun that will answer it.
        let waits = self
            .members
            .get(new_id)
            .is_some_and(|member| member.awaiting_join == Some(replacement.token));
        if !waits || self.state != State::Stable {
            return;
        }
        self.take_join(new_id);
        if let Some(error) = error {
            self.take_replacement_back(now, replacement, error);
            return;
        }
        // Its session may have ended without effect while the request was parked.
        self.restart_session(now, new_id);
        let is_leader = self.is_leader(new_id);
        let response = if replacement.can_skip_assignment {
            JoinGroupResponse { skip_assignment: is_leader, ..self.generation_response(new_id) }
        } else {
            // An old client that learns it leads would assign again: it is shown the old leader.
            JoinGroupResponse {
                leader: replacement.old_leader.unwrap_or_default(),
                members: Vec::new(),
                ..self.generation_response(new_id)
            }
        };
        self.answer_join(replacement.token, response);
    }

    fn take_replacement_back(&mut self, now: Now, replacement: Replacement, error: ErrorCode) {
        let Replacement { token, instance_id, old_id, new_id, .. } = replacement;
        self.set_member(&new_id, replacement.old_protocols, replacement.old_timeouts, None);
        self.rename_static_member(&instance_id, &new_id, &old_id);
        self.restart_session(now, &old_id);
        let response = JoinGroupResponse {
            leader: replacement.old_leader.unwrap_or_default(),
            members: Vec::new(),
            error_code: response_error(error) as i16,
            ..self.generation_response(UNKNOWN_MEMBER_ID)
        };
        self.answer_join(token, response);
    }
}
