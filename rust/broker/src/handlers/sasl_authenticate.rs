//! SaslAuthenticate: no listener asks for a login, so there is nothing to authenticate.
//!
//! Source: Kafka's `KafkaApis.handleSaslAuthenticateRequest`, which is reached only without SASL.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::sasl_authenticate::{
    SaslAuthenticateRequest, SaslAuthenticateResponse,
};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<SaslAuthenticateRequest>) {
    let message = "SaslAuthenticate request received after successful authentication";
    call.reply.send(&SaslAuthenticateResponse {
        error_code: ErrorCode::IllegalSaslState.code(),
        error_message: Some(message.to_owned()),
        ..SaslAuthenticateResponse::default()
    });
}
