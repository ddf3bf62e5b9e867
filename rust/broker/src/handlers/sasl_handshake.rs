//! SaslHandshake: no listener asks for a login, so the answer is ILLEGAL_SASL_STATE.
//!
//! Source: Kafka's `KafkaApis.handleSaslHandshakeRequest`, which is reached only without SASL.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<SaslHandshakeRequest>) {
    let error_code = ErrorCode::IllegalSaslState.code();
    call.reply.send(&SaslHandshakeResponse { error_code, mechanisms: Vec::new() });
}
