//! FindCoordinator: which broker looks after a group: the leader of the partition that holds it.
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
use crate::coordinator::{GroupCoordinator, partition_of};
use crate::metadata::controller::OFFSETS_TOPIC;
use crate::metadata::{ApiError, Controller};
use crate::request_queue::RequestContext;
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use std::collections::BTreeMap;
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
    let found = Found::new(rooms, &reply.context, request.key_type);
    if found.refusal.is_some() || rooms.groups.knows_topic() {
        return answer(reply, request, &found);
    }
    // Also if another request makes the topic at this moment: this change comes after that one.
    let config = rooms.config();
    let ask = |done| rooms.controller.create_automatically(&[OFFSETS_TOPIC], &config, done);
    park(rooms, reply.memory_bytes, CREATION_TIMEOUT_MS, ask, move |answers| {
        report(answers);
        answer(reply, request, &found);
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

fn answer(reply: Reply<FindCoordinatorRequest>, request: FindCoordinatorRequest, found: &Found) {
    if reply.version < BATCH_VERSION {
        return reply.send(&of_one(found.of(&request.key)));
    }
    let keys = request.coordinator_keys.into_iter();
    let coordinators = keys.map(|key| Coordinator { key: key.clone(), ..found.of(&key) });
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

/// What an answer is made of.
struct Found {
    /// The one answer to every key.
    refusal: Option<Coordinator>,
    local_id: i32,
    /// The brokers, as this client reaches them.
    brokers: BTreeMap<i32, Coordinator>,
    controller: Arc<Controller>,
    groups: Arc<GroupCoordinator>,
}

impl Found {
    fn new(rooms: &Rooms, context: &RequestContext, key_type: i8) -> Self {
        let place = |broker| {
            let (host, port) = endpoint(rooms, context, broker);
            (broker.id, Coordinator { node_id: broker.id, host, port, ..Coordinator::default() })
        };
        Self {
            refusal: refusal(key_type),
            local_id: rooms.config().node_id,
            brokers: rooms.controller.image().brokers.values().map(place).collect(),
            controller: Arc::clone(&rooms.controller),
            groups: Arc::clone(&rooms.groups),
        }
    }

    /// The leader of the partition that holds the group. A partition that this broker should
    /// coordinate and does not costs its own groups and no others.
    fn of(&self, group: &str) -> Coordinator {
        if let Some(refusal) = &self.refusal {
            return refusal.clone();
        }
        let image = self.controller.image();
        let topic = image.topic(OFFSETS_TOPIC);
        let partition =
            topic.and_then(|topic| topic.partition(partition_of(group, topic.partition_count())));
        let leader = partition.map_or(-1, |partition| partition.leader);
        let coordinates = match leader == self.local_id {
            true => self.groups.coordinates(group),
            false => image.is_alive(leader),
        };
        let broker = self.brokers.get(&leader).filter(|_| coordinates);
        broker.cloned().unwrap_or_else(not_available)
    }
}

fn refusal(key_type: i8) -> Option<Coordinator> {
    match key_type {
        GROUP => None,
        TRANSACTION => {
            let message = "This broker does not serve transactions.";
            Some(no_coordinator(ErrorCode::TransactionalIdAuthorizationFailed, message))
        }
        _ => {
            let message = "No coordinator of this type is served here.";
            Some(no_coordinator(ErrorCode::InvalidRequest, message))
        }
    }
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
