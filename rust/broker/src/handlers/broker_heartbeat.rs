//! BrokerHeartbeat: a broker tells the controller that it is alive.
//!
//! Source: Kafka's `ControllerApis.handleBrokerHeartBeatRequest`.

use super::{Call, Rooms};
use kafkalite_protocol::messages::broker_heartbeat::BrokerHeartbeatRequest;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<BrokerHeartbeatRequest>) {
    let Call { request, reply } = call;
    reply.send(&rooms.cluster.heartbeat(&request));
}
