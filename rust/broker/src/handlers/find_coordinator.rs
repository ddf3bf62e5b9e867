//! FindCoordinator: which broker looks after a group. On one node: this one.
//!
//! The first request creates `__consumer_offsets`. It is answered when the topic exists, so that
//! the answer can be used at once. Transactions have no coordinator here. They get
//! TRANSACTIONAL_ID_AUTHORIZATION_FAILED, the one error that ends every client's
//! `init_transactions` at once. After any other error librdkafka asks again until its timeout.
//! Share groups: INVALID_REQUEST.
//! Source: Kafka's `KafkaApis.handleFindCoordinatorRequest`, KIP-699.

use super::endpoint::endpoint;
use super::parked_change::park;
use super::{Call, Reply, Rooms};
use crate::coordinator::GroupCoordinator;
use crate::metadata::ApiError;
use crate::metadata::controller::OFFSETS_TOPIC;
use crate::request_queue::RequestContext;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use std::sync::Arc;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
/// First version with several keys.
const BATCH_VERSION: i16 = 4;

/// How long a request waits at most for the topic that it makes; what is made later is there when
/// the client asks again.
const CREATION_TIMEOUT_MS: u64 = 30_000;

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<FindCoordinatorRequest>) {
    let Call { request, reply } = call;
    let found = find(rooms, &reply.context, request.key_type);
    let groups = Arc::clone(&rooms.groups);
    if found.error_code != 0 || groups.knows_topic() {
        return answer(reply, request, &found, &groups);
    }
    // Also if another request makes the topic at this moment: this change comes after that one.
    let config = rooms.config();
    let ask = |done| rooms.controller.create_automatically(&[OFFSETS_TOPIC], &config, done);
    park(rooms, reply.memory_bytes, CREATION_TIMEOUT_MS, ask, move |answers| {
        report(answers);
        answer(reply, request, &found, &groups);
    });
}

/// Tells why the topic is not made.
fn report(answers: Result<Vec<Result<(), ApiError>>, ApiError>) {
    let answers = answers.unwrap_or_else(|error| vec![Err(error)]);
    for error in answers.into_iter().filter_map(Result::err) {
        let (error, topic) = (error.code.name(), OFFSETS_TOPIC);
        tracing::debug!(topic, error, "the topic is not made");
    }
}

/// A partition that this broker does not coordinate costs its own groups and no others.
fn answer(
    reply: Reply<FindCoordinatorRequest>,
    request: FindCoordinatorRequest,
    found: &Coordinator,
    groups: &GroupCoordinator,
) {
    let of = |key: &str| match found.error_code != 0 || groups.coordinates(key) {
        true => found.clone(),
        false => not_available(),
    };
    if reply.version < BATCH_VERSION {
        return reply.send(&of_one(of(&request.key)));
    }
    let keys = request.coordinator_keys.into_iter();
    let coordinators = keys.map(|key| Coordinator { key: key.clone(), ..of(&key) });
    reply.send_each(&FindCoordinatorResponse::default(), coordinators);
}

fn no_coordinator(error: ErrorCode, message: &str) -> Coordinator {
    Coordinator {
        node_id: -1,
        port: -1,
        error_code: error.code(),
        error_message: Some(message.to_owned()),
        ..Coordinator::default()
    }
}

fn not_available() -> Coordinator {
    no_coordinator(ErrorCode::CoordinatorNotAvailable, "The coordinator is not available.")
}

/// Who coordinates every group that can be coordinated.
fn find(rooms: &Rooms, context: &RequestContext, key_type: i8) -> Coordinator {
    if key_type == TRANSACTION {
        let message = "This broker does not serve transactions.";
        return no_coordinator(ErrorCode::TransactionalIdAuthorizationFailed, message);
    }
    if key_type != GROUP {
        let message = "No coordinator of this type is served here.";
        return no_coordinator(ErrorCode::InvalidRequest, message);
    }
    let image = rooms.controller.image();
    let node_id = rooms.config().node_id;
    let Some(broker) = image.brokers.get(&node_id) else { return not_available() };
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
