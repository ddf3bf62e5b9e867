//! SyncGroup, Heartbeat, and what an offset commit must satisfy.

use std::collections::HashMap;

use bytes::Bytes;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::rebalance::response_error;
use super::{Action, GroupState, Now, PendingAppend, State};
use crate::coordinator::classic::member::{Token, own};

/// A refusal.
fn refusal(error: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code: error as i16, ..SyncGroupResponse::default() }
}

fn contradicts(requested: Option<&str>, actual: Option<&str>) -> bool {
    matches!((requested, actual), (Some(requested), Some(actual)) if requested != actual)
}

impl GroupState {
    /// A member asks for its assignment; the leader brings those of all members. Answered by an
    /// [`Action::AnswerSync`], at the latest when the leader's assignment is stored.
    pub fn sync(&mut self, token: Token, request: &SyncGroupRequest) {
        if let Err(error) = self.validate_sync(request) {
            self.actions.push(Action::AnswerSync { token, response: refusal(error) });
            return;
        }
        let member_id = &request.member_id;
        self.pending_syncs.remove(member_id);
        if self.pending_syncs.is_empty() {
            self.sync_deadline_ms = None;
        }
        if self.state == State::Stable {
            let response = self.assignment_response(member_id);
            self.actions.push(Action::AnswerSync { token, response });
            return;
        }
        // Sent again over another connection: the client has given up on the one before.
        self.fail_sync(member_id, ErrorCode::RebalanceInProgress);
        if let Some(member) = self.members.get_mut(member_id) {
            member.awaiting_sync = Some(token);
        }
        if self.is_leader(member_id) && !self.is_assignment_pending() {
            let assignment: HashMap<String, Bytes> = request
                .assignments
                .iter()
                .map(|one| (one.member_id.clone(), own(&one.assignment)))
                .collect();
            let of = |id: &str| assignment.get(id).cloned().unwrap_or_default();
            let value = self.record(|member| of(&member.member_id));
            let generation = self.generation;
            self.append(value, PendingAppend::Assignment { generation, assignment });
        }
    }

    fn validate_sync(&self, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        match self.state {
            State::Dead => return Err(ErrorCode::CoordinatorNotAvailable),
            State::Empty => return Err(ErrorCode::UnknownMemberId),
            _ => {}
        }
        self.validate_member(&request.member_id, request.group_instance_id.as_deref())?;
        if request.generation_id != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if contradicts(request.protocol_type.as_deref(), self.protocol_type.as_deref())
            || contradicts(request.protocol_name.as_deref(), self.protocol_name.as_deref())
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.state == State::PreparingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }

    /// An assignment of this generation is on its way to the log already: the first one counts.
    fn is_assignment_pending(&self) -> bool {
        let of_this = |pending: &PendingAppend| {
            matches!(pending, PendingAppend::Assignment { generation, .. }
                if *generation == self.generation)
        };
        self.appends.values().any(of_this)
    }

    pub(super) fn assignment_stored(
        &mut self,
        now: Now,
        generation: i32,
        assignment: &HashMap<String, Bytes>,
        error: Option<ErrorCode>,
    ) {
        // Another member may have started a rebalance meanwhile; then no request waits for this
        // one.
        if self.state != State::CompletingRebalance || self.generation != generation {
            return;
        }
        if let Some(error) = error {
            self.reset_assignments(now, response_error(error));
            self.prepare_or_complete(now, "the assignment could not be stored");
            return;
        }
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for member_id in &ids {
            self.assign(member_id, assignment.get(member_id).cloned().unwrap_or_default());
        }
        self.transition(now, State::Stable);
        for member_id in &ids {
            let response = self.assignment_response(member_id);
            self.answer_sync(now, member_id, response);
        }
    }

    fn assignment_response(&self, member_id: &str) -> SyncGroupResponse {
        SyncGroupResponse {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment: self
                .members
                .get(member_id)
                .map_or_else(Bytes::new, |member| member.assignment.clone()),
            ..SyncGroupResponse::default()
        }
    }

    /// Takes every assignment away and sends back who waits for one.
    pub(super) fn reset_assignments(&mut self, now: Now, error: ErrorCode) {
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for member_id in &ids {
            self.assign(member_id, Bytes::new());
            self.answer_sync(now, member_id, refusal(error));
        }
    }

    fn answer_sync(&mut self, now: Now, member_id: &str, response: SyncGroupResponse) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        if let Some(token) = member.awaiting_sync.take() {
            self.actions.push(Action::AnswerSync { token, response });
            // Its session may have ended without effect while the request was parked, so the
            // session starts again.
            self.restart_session(now, member_id);
        }
    }

    /// Refuses a member's SyncGroup, if one is parked.
    pub(super) fn fail_sync(&mut self, member_id: &str, error: ErrorCode) {
        if let Some(member) = self.members.get_mut(member_id)
            && let Some(token) = member.awaiting_sync.take()
        {
            self.actions.push(Action::AnswerSync { token, response: refusal(error) });
        }
    }

    /// A member is alive; the answer tells whether it has to join again.
    pub fn heartbeat(
        &mut self,
        now: Now,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> ErrorCode {
        if self.state == State::Dead {
            return ErrorCode::CoordinatorNotAvailable;
        }
        if let Err(error) = self.validate_member(member_id, instance_id) {
            return error;
        }
        if generation != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        match self.state {
            State::Empty | State::Dead => ErrorCode::UnknownMemberId,
            State::PreparingRebalance => {
                self.restart_session(now, member_id);
                ErrorCode::RebalanceInProgress
            }
            // Heartbeats may come as soon as the member knows its generation.
            State::CompletingRebalance | State::Stable => {
                self.restart_session(now, member_id);
                ErrorCode::None
            }
        }
    }

    /// Whether these ids may commit offsets now. A commit of a member counts as a heartbeat.
    pub fn offset_commit(
        &mut self,
        now: Now,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if generation < 0 && self.state == State::Empty {
            // An admin client, or a consumer that does not use group management.
            return Ok(());
        }
        if generation >= 0 || !member_id.is_empty() || instance_id.is_some() {
            self.validate_member(member_id, instance_id)?;
            if generation != self.generation {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if self.state != State::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        match self.state {
            // The member knows this generation from its JoinGroup; it has to sync first.
            State::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            State::Stable | State::PreparingRebalance => {
                self.restart_session(now, member_id);
                Ok(())
            }
            State::Empty | State::Dead => Ok(()),
        }
    }
}
