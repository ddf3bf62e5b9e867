//! UnregisterBroker: an operator takes a broker out of the cluster.
//!
//! As in Kafka a broker that runs may be unregistered. It leads nothing from then on, and gets no
//! metadata, until it is started again.
//! Source: Kafka's `ControllerApis.handleUnregisterBroker`, KIP-746.

use super::parked_change::{NO_TIMEOUT_MS, park};
use super::{Call, Rooms};
use crate::metadata::controller::OnAnswer;
use kafkalite_protocol::messages::unregister_broker::{
    UnregisterBrokerRequest, UnregisterBrokerResponse,
};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<UnregisterBrokerRequest>) {
    let Call { request, reply } = call;
    let ask = |done: OnAnswer<()>| {
        rooms.controller.unregister(request.broker_id, done);
    };
    park(rooms, reply.memory_bytes, NO_TIMEOUT_MS, ask, move |answer| {
        let error = answer.and_then(|answer| answer).err();
        reply.send(&UnregisterBrokerResponse {
            error_code: error.as_ref().map_or(0, |error| error.code.code()),
            error_message: error.and_then(|error| error.message),
            ..UnregisterBrokerResponse::default()
        });
    });
}
