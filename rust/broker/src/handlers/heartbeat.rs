//! Heartbeat: a member is alive.
//!
//! Source: Kafka's `KafkaApis.handleHeartbeatRequest`.

use super::{Call, Rooms};
use kafkalite_protocol::messages::heartbeat::HeartbeatRequest;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<HeartbeatRequest>) {
    let response = rooms.groups.heartbeat(&call.request);
    call.reply.send(&response);
}
