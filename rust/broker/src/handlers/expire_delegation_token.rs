//! ExpireDelegationToken: who has not logged in may not ask.
//!
//! Source: Kafka's `KafkaApis.handleExpireTokenRequest` on a PLAINTEXT listener.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::expire_delegation_token::{
    ExpireDelegationTokenRequest, ExpireDelegationTokenResponse,
};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<ExpireDelegationTokenRequest>) {
    call.reply.send(&ExpireDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        expiry_timestamp_ms: -1,
        ..ExpireDelegationTokenResponse::default()
    });
}
