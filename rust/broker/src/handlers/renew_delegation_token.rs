//! RenewDelegationToken: who has not logged in may not ask.
//!
//! Source: Kafka's `KafkaApis.handleRenewTokenRequest` on a PLAINTEXT listener.

use super::{Call, Rooms};
use kafkalite_protocol::ErrorCode;
use kafkalite_protocol::messages::renew_delegation_token::{
    RenewDelegationTokenRequest, RenewDelegationTokenResponse,
};

/// Handles one request.
pub fn handle(_: &Rooms, call: Call<RenewDelegationTokenRequest>) {
    call.reply.send(&RenewDelegationTokenResponse {
        error_code: ErrorCode::DelegationTokenRequestNotAllowed.code(),
        expiry_timestamp_ms: -1,
        ..RenewDelegationTokenResponse::default()
    });
}
