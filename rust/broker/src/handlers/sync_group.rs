//! SyncGroup: a member gets its assignment. Parked until the leader's is stored.
//!
//! Source: Kafka's `KafkaApis.handleSyncGroupRequest`; KIP-559 for the protocol's type and name.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

/// First version in which a member has to say which protocol it means.
const PROTOCOL_VERSION: i16 = 5;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<SyncGroupRequest>) {
    let Call { request, reply } = call;
    let says_protocol = request.protocol_type.is_some() && request.protocol_name.is_some();
    if reply.version >= PROTOCOL_VERSION && !says_protocol {
        return reply.send(&SyncGroupResponse {
            error_code: ErrorCode::InconsistentGroupProtocol.code(),
            ..SyncGroupResponse::default()
        });
    }
    rooms.groups.sync(request, Box::new(move |response| reply.send(&response)));
}
