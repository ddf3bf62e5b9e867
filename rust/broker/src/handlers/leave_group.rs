//! LeaveGroup: members go. Up to version 2 one, whose error is that of the whole answer.
//!
//! Source: Kafka's `KafkaApis.handleLeaveGroupRequest` and `LeaveGroupResponse`, KIP-345.

use super::{Call, Rooms};
use kafkalite_protocol::messages::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberIdentity,
};

/// First version with several members.
const BATCH_VERSION: i16 = 3;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<LeaveGroupRequest>) {
    let Call { mut request, reply } = call;
    if reply.version < BATCH_VERSION {
        let member_id = std::mem::take(&mut request.member_id);
        request.members = vec![MemberIdentity { member_id, ..MemberIdentity::default() }];
    }
    let answer = move |response: LeaveGroupResponse| {
        let response = if reply.version < BATCH_VERSION { of_one(response) } else { response };
        reply.send(&response);
    };
    rooms.groups.leave(request, Box::new(answer));
}

fn of_one(response: LeaveGroupResponse) -> LeaveGroupResponse {
    let error_code = match response.error_code {
        0 => response.members.first().map_or(0, |member| member.error_code),
        error_code => error_code,
    };
    LeaveGroupResponse { error_code, members: Vec::new(), ..response }
}
