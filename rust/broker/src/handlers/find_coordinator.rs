//! FindCoordinator: which broker looks after a group. On one node: this one.
//!
//! The first question makes `__consumer_offsets`, so that the answer can be used at once.
//! Transactions have no coordinator here, and are told TRANSACTIONAL_ID_AUTHORIZATION_FAILED: the
//! one error that ends every client's `init_transactions` at once, where librdkafka would go on
//! asking after any other until its timeout. Share groups: INVALID_REQUEST.
//! Source: Kafka's `KafkaApis.handleFindCoordinatorRequest`, KIP-699.

use super::endpoint::endpoint;
use super::{Call, Rooms};
use crate::request_queue::RequestContext;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// First version with several keys.
const BATCH_VERSION: i16 = 4;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<FindCoordinatorRequest>) {
    let Call { request, reply } = call;
    let found = find(rooms, &reply.context, request.key_type);
    if reply.version < BATCH_VERSION {
        return reply.send(&of_one(found));
    }
    let keys = request.coordinator_keys.into_iter();
    let coordinators = keys.map(|key| Coordinator { key, ..found.clone() });
    reply.send_each(&FindCoordinatorResponse::default(), coordinators);
}

fn find(rooms: &Rooms, context: &RequestContext, key_type: i8) -> Coordinator {
    let nobody = |error: ErrorCode, message: &str| Coordinator {
        node_id: -1,
        port: -1,
        error_code: error.code(),
        error_message: Some(message.to_owned()),
        ..Coordinator::default()
    };
    if key_type == TRANSACTION {
        let message = "This broker does not serve transactions.";
        return nobody(ErrorCode::TransactionalIdAuthorizationFailed, message);
    }
    if key_type != GROUP {
        let message = "No coordinator of this type is served here.";
        return nobody(ErrorCode::InvalidRequest, message);
    }
    if let Err(error) = rooms.groups.ensure_topic() {
        tracing::warn!(?error, "__consumer_offsets is not available");
        return nobody(ErrorCode::CoordinatorNotAvailable, "The coordinator is not available.");
    }
    let image = rooms.controller.image();
    let node_id = rooms.config().node_id;
    let Some(broker) = image.brokers.get(&node_id) else {
        return nobody(ErrorCode::CoordinatorNotAvailable, "The coordinator is not available.");
    };
    let (host, port) = endpoint(rooms, context, broker);
    Coordinator { node_id, host, port, ..Coordinator::default() }
}

/// The answer before version 4, whose message says even that nothing is wrong.
fn of_one(found: Coordinator) -> FindCoordinatorResponse {
    let message = if found.error_code == 0 {
        Some(ErrorCode::None.name().to_owned())
    } else {
        found.error_message
    };
    FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..FindCoordinatorResponse::default()
    }
}
