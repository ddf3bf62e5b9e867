//! What members ask for: to join, to be assigned partitions, to be believed alive, to leave.

use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;
use kafkalite_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use kafkalite_protocol::messages::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberResponse,
};
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::group_state::{JoinContext, asked_weight};
use super::groups::Groups;
use crate::coordinator::runtime::{Answer, Turn};

/// A refusal of a JoinGroup.
pub fn refused_join(member_id: &str, error: ErrorCode) -> JoinGroupResponse {
    JoinGroupResponse {
        member_id: member_id.to_owned(),
        error_code: error.code(),
        ..JoinGroupResponse::default()
    }
}

/// A refusal of a SyncGroup.
pub fn refused_sync(error: ErrorCode) -> SyncGroupResponse {
    SyncGroupResponse { error_code: error.code(), ..SyncGroupResponse::default() }
}

/// A refusal of a LeaveGroup.
pub fn refused_leave(error: ErrorCode) -> LeaveGroupResponse {
    LeaveGroupResponse { error_code: error.code(), ..LeaveGroupResponse::default() }
}

impl Groups {
    /// JoinGroup. `answer` is called once, now or at the end of the join phase.
    pub fn join(
        Turn { state: groups, now, effects }: Turn<'_, Self>,
        context: &JoinContext,
        request: &JoinGroupRequest,
        answer: Answer<JoinGroupResponse>,
    ) {
        let refuse = |error| refused_join(&request.member_id, error);
        let is_new = request.member_id.is_empty();
        if !is_new && !groups.by_id.contains_key(&*request.group_id) {
            // Who has an id belongs to a group that is there.
            let refused = refuse(ErrorCode::UnknownMemberId);
            return effects.run(move || answer(refused));
        }
        // Weighed before a group is made for it, and again beside what the member has already.
        let asked = asked_weight(context, request);
        let too_much = refuse(ErrorCode::GroupMaxSizeReached);
        let shared = groups.shared.clone();
        if is_new && !shared.has_memory_for(asked) {
            return effects.run(move || answer(too_much));
        }
        groups.on_group_or_new(now, &request.group_id, true, effects, |group, effects| {
            let more = asked.saturating_sub(group.state.held_by(&request.member_id));
            if more > 0 && !shared.has_memory_for(more) {
                return effects.run(move || answer(too_much));
            }
            let token = group.park_join(answer);
            group.state.join(now, token, context, request);
        });
    }

    /// SyncGroup. `answer` is called once, now or when the leader's assignment is stored.
    pub fn sync(
        Turn { state: groups, effects, .. }: Turn<'_, Self>,
        request: &SyncGroupRequest,
        answer: Answer<SyncGroupResponse>,
    ) {
        // Kafka refuses assignments that are too large for its log with the same error.
        let asked = request.assignments.iter().map(|one| one.assignment.len()).sum();
        if asked > 0 && !groups.shared.has_memory_for(asked) {
            return effects.run(move || answer(refused_sync(ErrorCode::UnknownServerError)));
        }
        if !groups.by_id.contains_key(&*request.group_id) {
            return effects.run(move || answer(refused_sync(ErrorCode::UnknownMemberId)));
        }
        groups.on_group(&request.group_id, effects, |group, _| {
            let token = group.park_sync(answer);
            group.state.sync(token, request);
        });
    }

    /// Heartbeat. Writes nothing.
    pub fn heartbeat(
        Turn { state: groups, now, effects }: Turn<'_, Self>,
        request: &HeartbeatRequest,
    ) -> ErrorCode {
        let instance_id = request.group_instance_id.as_deref();
        let (member_id, generation) = (&request.member_id, request.generation_id);
        let beat = groups.on_group(&request.group_id, effects, |group, _| {
            group.state.heartbeat(now, member_id, instance_id, generation)
        });
        beat.unwrap_or(ErrorCode::UnknownMemberId)
    }

    /// LeaveGroup, in the form of version 3 and later.
    pub fn leave(
        Turn { state: groups, now, effects }: Turn<'_, Self>,
        request: &LeaveGroupRequest,
        answer: Answer<LeaveGroupResponse>,
    ) {
        let left = groups.on_group(&request.group_id, effects, |group, _| {
            group.state.leave(now, &request.members)
        });
        let unknown = || {
            let unknown = request.members.iter().map(|member| MemberResponse {
                member_id: member.member_id.clone(),
                group_instance_id: member.group_instance_id.clone(),
                error_code: ErrorCode::UnknownMemberId.code(),
            });
            Ok(unknown.collect())
        };
        let response = match left.unwrap_or_else(unknown) {
            Ok(members) => LeaveGroupResponse { members, ..LeaveGroupResponse::default() },
            Err(error) => refused_leave(error),
        };
        effects.run(move || answer(response));
    }
}
