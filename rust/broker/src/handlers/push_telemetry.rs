//! PushTelemetry: a client reports its metrics.
//!
//! Source: Kafka's `KafkaApis.handlePushTelemetryRequest`; KIP-714.

use super::get_telemetry_subscriptions::client_of;
use super::{Call, Rooms};
use crate::client_metrics::Push;
use kafkalite_protocol::messages::push_telemetry::{PushTelemetryRequest, PushTelemetryResponse};

/// Handles one request.
pub fn handle(rooms: &Rooms, call: Call<PushTelemetryRequest>) {
    let Call { request, reply } = call;
    let image = rooms.controller.image();
    let max_bytes = rooms.config().telemetry_max_bytes;
    let push = Push {
        instance_id: request.client_instance_id,
        subscription_id: request.subscription_id,
        is_terminating: request.terminating,
        compression_type: request.compression_type,
        metrics: request.metrics,
    };
    let error = rooms.client_metrics.push(&image, max_bytes, client_of(&reply), push);
    let error_code = error.code();
    reply.send(&PushTelemetryResponse { error_code, ..PushTelemetryResponse::default() });
}
