//! GetTelemetrySubscriptions: which metrics a client shall push, and how often.
//!
//! Kafka serves it only with a plug-in that receives the metrics. This broker receives them itself.
//! Source: Kafka's `KafkaApis.handleGetTelemetrySubscriptionsRequest`; KIP-714.

use super::{Call, Reply, Rooms};
use crate::client_metrics::Client;
use kafkalite_protocol::compression::Codec;
use kafkalite_protocol::messages::Request;
use kafkalite_protocol::messages::get_telemetry_subscriptions::{
    GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse,
};

/// In Kafka's order: clients take the first one that they have.
const ACCEPTED: [Codec; 4] = [Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Snappy];

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<GetTelemetrySubscriptionsRequest>) {
    let Call { request, reply } = call;
    let image = rooms.controller.image();
    let id = request.client_instance_id;
    let granted = match rooms.client_metrics.subscriptions(&image, id, client_of(&reply)) {
        Ok(granted) => granted,
        Err(error) => {
            let error_code = error.code();
            let refusal = GetTelemetrySubscriptionsResponse { error_code, ..Default::default() };
            return reply.send(&refusal);
        }
    };
    let max_bytes = rooms.config().telemetry_max_bytes;
    reply.send(&GetTelemetrySubscriptionsResponse {
        client_instance_id: granted.instance_id,
        subscription_id: granted.subscription_id,
        accepted_compression_types: ACCEPTED.map(|codec| codec.id().cast_signed()).to_vec(),
        push_interval_ms: i32::try_from(granted.asked.interval_ms).unwrap_or(i32::MAX),
        telemetry_max_bytes: i32::try_from(max_bytes).unwrap_or(i32::MAX),
        delta_temporality: true,
        requested_metrics: granted.asked.metrics.clone(),
        ..Default::default()
    });
}

/// The client that waits for this reply.
pub(super) fn client_of<R: Request>(reply: &Reply<R>) -> Client {
    let context = &reply.context;
    let software = context.client.software();
    Client::new(reply.client_id.as_deref(), software, context.peer, context.connection_id)
}
